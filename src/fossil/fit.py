"""Fit a method to a graph, in memory or into a run folder that can be continued."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from fossil.errors import FossilWarning, GraphError, RunError, SettingError
from fossil.graph.catalog import known_name
from fossil.graph.findings import Treatment
from fossil.graph.graph import Array, Graph
from fossil.graph.read import LoadedGraph
from fossil.methods.base import Encoding, Method
from fossil.methods.registry import get_method, recipes
from fossil.nn.contrast import effective_rank
from fossil.run import Run, RunConfig, check_intent, claim_folder, withdraw_results, write_embeddings, write_inputs
from fossil.settings import Settings, check_seed
from fossil.storage import write_json
from fossil.training.checkpoint import load_tensors, save_tensors
from fossil.training.history import History
from fossil.training.progress import Reporter, Silent
from fossil.training.runtime import Record, environment, free_memory, lack_of_memory_as, resolve_device
from fossil.training.trainer import Trainer, TrainingSettings

# How many epochs a GPU may run ahead of the history; a CPU has nothing to wait for.
_FLUSH_EVERY = {"cpu": 1, "cuda": 20}
_COLLAPSED = 1.5


class TrainingInterruptedError(RunError):
    """Ctrl-C: the state was saved."""

    exit_status = 130


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The result of a fit.

    Attributes:
        ids: N node ids.
        vectors: N×D float32.
        fusion: λ per node (N), where the method has it.
        graph: what was embedded.
        method: the trained method.
        history: one record an epoch.
        path: the run folder, if there is one.
    """

    ids: Array
    vectors: Array
    fusion: Array | None
    graph: Graph
    method: Method[Any]
    history: list[dict[str, float]]
    path: Path | None = None

    def __getitem__(self, key: object) -> Array:
        """Return the vector of one node, by its id."""
        vector: Array = self.vectors[self.graph.rows([key])[0]]
        return vector

    def __len__(self) -> int:
        return len(self.ids)


def resolve_settings(
    method: str, preset: str | None, graph: str, settings: Mapping[str, Any], use_recipe: bool = True
) -> tuple[str, Any]:
    """Return the preset's name and the settings: preset, then the graph's recipe, then what was said explicitly.

    `graph` is a catalogue name, or empty for a graph of the user's own.

    A recipe was tuned for the default preset. Under another preset it does not touch the switches that preset sets.
    """
    kind = get_method(method)
    chosen = preset or next(iter(kind.presets))
    recipe = recipes(method).get(graph) if use_recipe else None
    tuned = dict(recipe.settings) if recipe else {}
    config = kind.configure(chosen, tuned, kind.presets.get(chosen, {}), settings)
    return chosen, config


def resolve_epochs(method: str, graph: str, epochs: int | None, use_recipe: bool = True) -> int:
    """Return how many epochs to train: those asked for, else those of the graph's recipe, else the method's own."""
    recipe = recipes(method).get(graph) if use_recipe else None
    return epochs or (recipe and recipe.epochs) or get_method(method).epochs


def _settings_of_run(config: Settings, graph: Graph, seed: int) -> Settings:
    """Return `config` with what a method that trains on labels leaves open: its split follows the run's own seed."""
    known = {"num_classes": graph.num_classes, "split_seed": seed}
    return config.updated({name: value for name, value in known.items() if getattr(config, name, value) is None})


def _fingerprint(graph: Graph, with_labels: bool) -> str:
    """Return what tells this graph from others; its labels count where they are trained on."""
    if graph.labels is None or not with_labels:
        return graph.fingerprint
    return hashlib.sha256(graph.fingerprint.encode() + graph.labels.astype(np.int64).tobytes()).hexdigest()[:16]


def fit(
    loaded: LoadedGraph,
    *,
    method: str = "fossil",
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    training: TrainingSettings | None = None,
    seed: int = 0,
    out: Path | None = None,
    resume: bool = False,
    force: bool = False,
    source: str = "",
    treatment: Treatment | None = None,
    use_recipe: bool = True,
    reporter: Reporter | None = None,
) -> Embeddings:
    """Train a method on a graph and embed its nodes.

    Args:
        loaded: the graph and its encoding plan.
        method: name of the method.
        preset: named set of switches of that method; its first one when None.
        settings: overrides of single settings.
        training: epochs, device, precision.
        seed: everything random is derived from it; 0 to 2³² - 1.
        out: run folder to write; nothing is written when None.
        resume: go on with the run in `out` if there is one.
        force: replace the run in `out` if there is one.
        source: how the caller named the graph, for the record.
        treatment: how the graph was treated, for the record.
        use_recipe: apply the settings published for this graph, if any.
        reporter: told about every epoch.

    Raises:
        GraphError: the method cannot treat the graph.
        SettingError: a setting is unknown or impossible, takes more memory than there is, or contradicts another.
        RunError: the folder cannot be used, training diverged, or it was interrupted (the state is saved).
    """
    seed = check_seed(seed)
    check_intent(resume=resume, force=force)
    graph, training, reporter = loaded.graph, training or TrainingSettings(), reporter or Silent()
    epochs = resolve_epochs(method, known_name(graph), training.epochs, use_recipe)
    training = training.updated({"epochs": epochs})
    chosen, config = resolve_settings(method, preset, known_name(graph), settings or {}, use_recipe)
    kind = get_method(method)
    if kind.needs_labels:
        if graph.num_classes == 0:
            raise GraphError(
                f"{kind.title} trains on labels, and {graph.name} has none.",
                remedy="Name a label column (--label COLUMN).",
            )
        config = _settings_of_run(config, graph, seed)
    fingerprint = _fingerprint(graph, with_labels=kind.needs_labels)
    run = RunConfig(method, chosen, config, training, seed, graph.name, fingerprint, source, treatment or Treatment())
    device = resolve_device(training.device)
    too_large = _too_large(kind, config, graph)
    with lack_of_memory_as(too_large):
        model = kind.build(config, graph.num_features, seed).to(device)
        prepared = model.prepare(graph, device)
        model.check_trainable(prepared)
    _check_memory(model, prepared, graph, device)
    trainer = Trainer(model, prepared, seed, device, training.precision, replay=training.replay)

    advice = f"Lower the learning rates or train fewer epochs{_or_released(kind, chosen)}"
    history = History(None if out is None else out / "history.jsonl", advice)
    if out is not None:
        if claim_folder(out, resume=resume, force=force):
            _continue(Run.open(out), run, trainer, history)
            if trainer.epoch < epochs:
                withdraw_results(out)
        write_inputs(out, run, environment(device), graph, loaded.plan)

    _train(trainer, epochs, training.checkpoint_seconds, history, reporter, run, out)
    with lack_of_memory_as(too_large):
        trainer.close()
        encoded = model.eval().encode(prepared)
    result = Embeddings(graph.ids, *_on_host(encoded), graph, model, history.records, out)
    summary = _summarize(result, encoded, epochs, chosen)
    if out is not None:
        write_embeddings(out, result.ids, result.vectors, result.fusion)
        about = {"num_features": graph.num_features, "method": method}
        save_tensors(out / "weights.safetensors", model.state_dict(), about)
        write_json(out / "summary.json", summary)
    return result


def _too_large(kind: type[Method[Any]], config: Settings, graph: Graph) -> SettingError:
    """Return what to say where memory runs out before or after training."""
    sizes = sorted(config.sizes().items(), key=lambda size: -size[1])[:3]
    return SettingError(
        f"{kind.title} on {graph.name} ({graph.num_nodes:,} nodes, {graph.num_features:,} features) does not fit in "
        f"memory with {', '.join(f'{name}={value}' for name, value in sizes) or 'these settings'}.",
        remedy="Lower the largest of these settings, or use a device with more memory.",
    )


def _or_released(kind: type[Method[Any]], preset: str) -> str:
    """Return the advice to use the released preset, where the method has one and another is in use."""
    return ", or use the released preset" if "released" in kind.presets and preset != "released" else ""


def _check_memory(model: Method[Any], prepared: Any, graph: Graph, device: torch.device) -> None:
    """Raise GraphError if training would surely run out of memory; the estimate may be wrong by a third."""
    needed, free = model.memory(prepared), free_memory(device)
    if needed is None or free is None or needed <= 1.3 * free:
        return
    raise GraphError(
        f"Training {model.title} on {graph.name} ({graph.num_nodes:,} nodes) needs about {needed / 2**30:,.1f} GiB on "
        f"{device}, and {free / 2**30:,.1f} GiB are free.",
        remedy=f"Make hidden and width {needed / free:.1f} times smaller, or use a device with more memory.",
    )


def _continue(existing: Run, wanted: RunConfig, trainer: Trainer, history: History) -> None:
    """Load the checkpoint of `existing`, if it has one and it belongs to what is wanted."""
    before = existing.config
    if before.fingerprint != wanted.fingerprint:
        raise RunError(
            f"{existing.path} was trained on another graph ({before.graph}, fingerprint {before.fingerprint}; "
            f"this one is {wanted.graph}, {wanted.fingerprint}).",
            remedy="Give the same input, or choose another --out.",
        )
    if before.identity != wanted.identity:
        old, new = _flat(before), _flat(wanted)
        changed = [f"{key} was {old[key]!r}, is {new[key]!r}" for key in old if key in new and old[key] != new[key]]
        raise RunError(
            f"{existing.path} was started with other settings: {'; '.join(changed)}.",
            remedy="Resume with the same settings, or choose another --out.",
        )
    path = existing.path / "checkpoint.safetensors"
    if path.exists():
        checkpoint = load_tensors(path)
        if checkpoint.about.get("identity") != wanted.identity:
            raise RunError(
                f"{path} belongs to another graph or other settings.", remedy="Put the right file back, or use --force."
            )
        trainer.load_state(checkpoint.tensors, checkpoint.about["epoch"])
    epochs = wanted.training.epochs or 0
    if trainer.epoch > epochs:
        raise RunError(
            f"{existing.path} is trained for {trainer.epoch} epochs, more than the {epochs} asked for.",
            remedy=f"Ask for {trainer.epoch} epochs or more, or choose another --out.",
        )
    history.restore(trainer.epoch)  # without a checkpoint everything starts again, the history too


def _flat(config: RunConfig) -> dict[str, Any]:
    named = {"method": config.method, "seed": config.seed, "precision": config.training.precision}
    return named | config.settings.model_dump()


def _train(
    trainer: Trainer,
    epochs: int,
    checkpoint_seconds: float,
    history: History,
    reporter: Reporter,
    run: RunConfig,
    out: Path | None,
) -> None:
    """Run the loop, keeping history and checkpoints, until it is done or somebody presses Ctrl-C."""
    flush_every = _FLUSH_EVERY[trainer.random.device.type]
    saved_at, reported = time.monotonic(), len(history.records)

    def flush() -> None:
        nonlocal reported
        history.flush()
        for record in history.records[reported:]:
            reporter.update(int(record["epoch"]), record)
        reported = len(history.records)

    def save() -> None:
        nonlocal saved_at
        if out is not None:
            about = {"epoch": trainer.epoch, "identity": run.identity}
            save_tensors(out / "checkpoint.safetensors", trainer.state(), about)
        saved_at = time.monotonic()

    with _noticing_interrupts() as interrupted:

        def after_epoch(epoch: int, record: Record) -> bool:
            history.add(epoch, record)
            due = out is not None and time.monotonic() - saved_at >= checkpoint_seconds
            if epoch % flush_every == 0 or due or interrupted.is_set():
                flush()
            if due:
                save()
            return interrupted.is_set()

        reporter.start(trainer.epoch, epochs)
        try:
            trainer.run(epochs, after_epoch)
            flush()
            save()
        finally:
            reporter.finish()
    if trainer.epoch < epochs:
        raise TrainingInterruptedError(
            f"Stopped after epoch {trainer.epoch} of {epochs}.",
            remedy="Everything is saved: go on with the same command and --resume." if out else "Nothing was saved.",
        )


@contextmanager
def _noticing_interrupts() -> Iterator[threading.Event]:
    """Turn Ctrl-C into an event, so that it is heard between two steps and never in the middle of one."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # signals reach the main thread alone
        return

    def notice(_: int, __: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt  # the second time, the user means now
        event.set()

    before = signal.signal(signal.SIGINT, notice)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


def _on_host(encoded: Encoding) -> tuple[Array, Array | None]:
    vectors: Array = encoded.vectors.float().cpu().numpy()
    return vectors, None if encoded.fusion is None else encoded.fusion.float().cpu().numpy()


def _warn_of_collapse(result: Embeddings, rank: float, preset: str) -> None:
    """Warn about vectors that all lie on a line, with what there is to do about it."""
    graph = result.graph
    odd = [str(finding) for finding in graph.findings if "feature" in finding.kind or "in column" in finding.kind]
    warnings.warn(
        f"The embeddings of {graph.name} collapsed: their effective rank is {rank:.2f}. "
        f"Check that the features differ between nodes{f' ({odd[0]})' if odd else ''}, try a lower learning rate or "
        f"another number of epochs{_or_released(type(result.method), preset)}.",
        FossilWarning,
        stacklevel=4,
    )


def _summarize(result: Embeddings, encoded: Encoding, epochs: int, preset: str) -> dict[str, Any]:
    """Return what was learnt in numbers, and warn about a collapse."""
    rank = float(effective_rank(encoded.vectors))
    if rank < _COLLAPSED and not result.method.needs_labels:  # the scores of two classes do lie on a line
        _warn_of_collapse(result, rank, preset)
    last = result.history[-1] if result.history else {}
    summary: dict[str, Any] = {
        "epochs": epochs,
        "seconds": last.get("seconds", 0.0),
        "nodes": len(result.ids),
        "width": int(result.vectors.shape[1]),
        "effective_rank": round(rank, 3),
        "last": last,
    }
    if torch.cuda.is_available() and encoded.vectors.is_cuda:
        summary["peak_memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 3)
    if result.fusion is not None:
        quartiles = np.percentile(result.fusion, [25, 50, 75])
        summary["lambda"] = {
            "mean": float(result.fusion.mean()),
            "median": float(quartiles[1]),
            "quartiles": [float(quartiles[0]), float(quartiles[2])],
            "std": float(result.fusion.std()),
        }
    return summary
