"""`fossil.embed`: a graph goes in, vectors come out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from fossil.fit import Embeddings, fit
from fossil.graph.findings import Treatment
from fossil.graph.source import open_graph
from fossil.run import check_intent
from fossil.settings import check_seed
from fossil.training.progress import LiveReporter, Silent
from fossil.training.trainer import TrainingSettings


def embed(
    source: Any,
    *,
    out: str | Path | None = None,
    method: str = "fossil",
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "auto",
    precision: str = "float32",
    checkpoint_seconds: float = 15.0,
    treatment: Treatment | Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    use_recipe: bool = True,
    progress: bool = False,
    **reading: Any,
) -> Embeddings:
    """Learn a vector for every node of a graph.

    Args:
        source: a catalogue name (`"cora"`, `"digits"`), a path (a folder with `nodes.csv` and `edges.csv`, an `.npz` or
            `.graphml` file), a `Graph`, NetworkX graph, PyG `Data`, SciPy matrix, or a pair (adjacency, features) or
            (nodes, edges) of data frames.
        out: run folder to write.
        method: name of the method; `fossil_v2` is the one for large graphs.
        preset: named set of switches; the method's first when None (`released` for FOSSIL).
        settings: single settings of the method, for example `{"alpha": 0.3}`.
        seed: everything random is derived from it, 0 to 2³² - 1; the same seed gives the same bits on a CPU.
        epochs: training steps; by default those of the graph's recipe, or of the method.
        device: `auto`, `cpu`, `cuda`.
        precision: of products outside the transport solver, `float32`, `tf32` or `bfloat16`.
        checkpoint_seconds: least time between two checkpoints.
        treatment: what is done about self loops, direction and other oddities.
        resume: go on with the run in `out`.
        force: replace the run in `out`.
        use_recipe: apply the settings published for this graph, if any.
        progress: show a progress bar.
        **reading: further arguments of `fossil.graph.read.read_graph`, such as `label` or `roles`.

    Returns:
        Vectors keyed by the caller's own node ids.

    >>> result = embed("digits", epochs=2, settings={"hidden": 32, "width": 16})
    >>> result["digit-0042"].shape
    (16,)
    """
    seed = check_seed(seed)
    check_intent(resume=resume, force=force)
    if treatment is not None and not isinstance(treatment, Treatment):
        treatment = Treatment.build(treatment)
    training = TrainingSettings.build(
        {"epochs": epochs, "device": device, "precision": precision, "checkpoint_seconds": checkpoint_seconds}
    )
    return fit(
        open_graph(source, treatment=treatment, **reading),
        method=method,
        preset=preset,
        settings=settings,
        training=training,
        seed=seed,
        out=None if out is None else Path(out),
        resume=resume,
        force=force,
        source=str(source) if isinstance(source, str | Path) else type(source).__name__,
        treatment=treatment,
        use_recipe=use_recipe,
        reporter=LiveReporter(Console(stderr=True)) if progress else Silent(),
    )
