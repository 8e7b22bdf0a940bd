"""`fossil.embed`, `fossil.load` and `fossil.evaluate`: a graph goes in, vectors come out, and are scored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fossil.errors import SettingError
from fossil.evaluation.evaluate import evaluate
from fossil.graph.findings import Treatment
from fossil.methods import DEFAULT_METHOD
from fossil.methods.registry import Kind
from fossil.report.terminal import PlainConsole
from fossil.runs.embeddings import FitResult
from fossil.runs.fit import fit
from fossil.runs.loggers.base import Logger
from fossil.runs.loggers.registry import get_loggers
from fossil.runs.plan import plan_run
from fossil.runs.run import Run
from fossil.training.progress import LiveReporter, Silent

__all__ = ["embed", "evaluate", "load"]


def embed(
    source: Any,
    *,
    out: str | Path | None = None,
    method: str | Kind = DEFAULT_METHOD,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "auto",
    precision: str = "float32",
    replay: bool = True,
    sampled: bool | None = None,
    fan_out: int = 5,
    batch_nodes: int = 2000,
    checkpoint_seconds: float = 15.0,
    label: str | None = None,
    roles: Mapping[str, str] | None = None,
    treatment: Treatment | Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    use_recipe: bool = True,
    progress: bool = False,
    loggers: Iterable[str | Logger] = (),
    **reading: Any,
) -> FitResult:
    """Learn a vector for every node of a graph.

    Args:
        source: a catalogue name (`"cora"`, `"digits"`), a path (a folder with `nodes.csv` and `edges.csv`, an `.npz` or
            `.graphml` file), a `Graph`, NetworkX graph, PyG `Data`, SciPy matrix, or a pair (adjacency, features) or
            (nodes, edges) of data frames.
        out: run folder to write.
        method: name of the method, or its class; `fossil_channels_v2` is for large graphs, `fossil` is the paper's.
        preset: named set of switches; the method's first when None.
        settings: single settings of the method, for example `{"alpha": 0.3}`.
        seed: everything random is derived from it, 0 to 2³² - 1; the same seed on the same number of threads gives the
            same bits on a CPU.
        epochs: training steps; by default those of the graph's recipe, or of the method.
        device: `auto`, `cpu`, `cuda`.
        precision: of products outside the transport solver, `float32`, `tf32` or `bfloat16`.
        replay: on a GPU, capture the training step once as a CUDA graph and replay it.
        sampled: take steps on the surroundings of the sampled nodes (True), on the whole graph (False), or, when None,
            on the former where the latter does not fit and the method can.
        fan_out: neighbours of a node that a sampled step reads at most; 0 for all.
        batch_nodes: nodes whose loss a sampled step takes, where the method's own settings do not say how many.
        checkpoint_seconds: least time between two checkpoints.
        label: the column of classes; `label`, `class`, `target` or `y` when nothing is said. Training never sees it,
            unless the method needs labels.
        roles: what other columns are (`numeric`, `boolean`, `categorical`, `drop`, `id`), by name; the rest is
            inferred.
        treatment: what is done about self loops, direction and other oddities.
        resume: go on with the run in `out`.
        force: replace the run in `out`.
        use_recipe: apply the settings published for this graph, if any.
        progress: show a progress bar.
        loggers: other programs that show how training goes: `"tensorboard"`, `"mlflow"` or `"wandb"`, with a place
            behind a colon (`"tensorboard:curves"`), or a `fossil.runs.loggers.base.Logger` of the caller's own.
        **reading: further arguments of `fossil.open_graph`, such as `edges` or `structural_features`.

    Returns:
        Vectors keyed by the caller's own node ids.

    >>> result = embed("digits", epochs=2, settings={"hidden": 32, "width": 16})
    >>> result["digit-0042"].shape
    (400,)
    """
    if out is None and (resume or force):
        raise SettingError(
            f"{'--resume' if resume else '--force'} has no effect without --out.",
            remedy="Name the run folder: --out DIR",
        )
    training = {
        "epochs": epochs,
        "device": device,
        "precision": precision,
        "replay": replay,
        "sampled": {None: "auto", True: "always", False: "never"}.get(sampled, sampled),
        "fan_out": fan_out,
        "batch_nodes": batch_nodes,
        "checkpoint_seconds": checkpoint_seconds,
    }
    plan = plan_run(
        source,
        method=method,
        preset=preset,
        settings=settings,
        training=training,
        seed=seed,
        out=out,
        resume=resume,
        force=force,
        treatment=treatment,
        use_recipe=use_recipe,
        label=label,
        roles=roles,
        **reading,
    )
    reporter = LiveReporter(PlainConsole(stderr=True)) if progress else Silent()
    return fit(plan, reporter, get_loggers(loggers))


def load(path: str | Path) -> Run:
    """Open a run folder: its configuration, vectors and trained method, without executing anything in it.

    `Run.embeddings` has the vectors, `Run.embed` makes those of other nodes.

    Raises:
        RunError: there is no run in that folder.
    """
    return Run.open(path)
