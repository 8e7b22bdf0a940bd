"""One cell: train what is asked for, score it, and say what it was and what it took."""

from __future__ import annotations

import hashlib
import time
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import replace
from statistics import mean

import numpy as np
import torch

from fossil.datasets.catalog import known_name
from fossil.errors import FossilError, FossilWarning, RunError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.graph.graph import Array
from fossil.ops.memory import clear_peak, peak_bytes
from fossil.runs.embeddings import FitResult
from fossil.runs.fit import fit
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.runs.plan import Plan
from fossil.runs.run import Run
from fossil.storage import read_arrays, write_arrays
from fossil.studies.entries import Keep
from fossil.studies.plan import Cell, Graphs, Scoring, StudyPlan, plan_cell, training_key
from fossil.studies.record import ANEW, Record, Scores
from fossil.studies.store import Store
from fossil.training.devices import describe_device, resolve_device


def do_cell(plan: StudyPlan, graphs: Graphs, store: Store, cell: Cell, device: str) -> Record:
    """Train a cell or take its kept vectors, score what is missing, and return its record, which is not yet written.

    Whatever goes wrong in the training or the scoring is the result of the cell, with its reason.

    Raises:
        RunError: something could not be written, which is nobody's result; or the graph has changed under way.
        TrainingInterruptedError: somebody pressed Ctrl-C.
    """
    keep, where = plan.study.keep, resolve_device(device)
    out = store.kept / cell.key if keep == "run" else None
    options = {"training": {"device": device}, "out": out, "resume": out is not None}
    made = plan_cell(plan, graphs, cell.row, cell.column, cell.seed, **options)
    if training_key(made.config) != cell.key:
        raise RunError(
            f"{plan.name_of(cell)} is no longer what was planned: the graph, or the code, changed under way.",
            remedy="Run the study again.",
        )
    before = store.read(cell.key)
    vectors = kept_vectors(store, cell.key)
    if before is None or before.failed or vectors is None:
        record, vectors = _train(made, graphs.study.graphs[cell.column].input, where, store, keep)
        if vectors is None:
            return record if before is None else before.after_failure(record, cell)
        missing = list(cell.scorings)
        if before is not None:
            # Scores under other protocols are of the same training, if not, on a GPU, of the same bits.
            record = replace(record.with_scores(before.scores), imported=before.imported)
    else:
        record, missing = before, before.missing(cell)
    scores = {one.key: _score(vectors, made, one, str(where)) for one in missing}
    return replace(record.with_scores(scores), finished=time.time())


def kept_vectors(store: Store, key: str) -> Array | None:
    """Return the vectors that a store has kept of a training; None where it has none.

    Raises:
        RunError: they are damaged.
    """
    file, folder = store.kept / f"{key}.npz", store.kept / key
    try:
        if file.exists():
            return read_arrays(file)["vectors"]
        if (folder / "summary.json").exists():
            return Run.open(folder).embeddings.vectors
    except KeyError as error:
        raise RunError(f"{file} holds no vectors.", remedy=ANEW) from error
    except RunError as error:
        raise RunError(error.what, remedy=ANEW) from error
    return None


def _train(made: Plan, source: str, device: torch.device, store: Store, keep: Keep) -> tuple[Record, Array | None]:
    """Return the record of a training without its scores, and its vectors, None where it failed."""
    started = begin(made, source, device)
    clear_peak(device)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FossilWarning)
        try:
            result = fit(made)
        except TrainingInterruptedError:
            raise
        except Exception as error:
            return _failed(started, error, began, device), None
    record = replace(
        started,
        seconds=round(time.perf_counter() - began, 3),
        epoch_seconds=_epoch_seconds(result),
        memory=peak_bytes(device),
        effective_rank=_of_last(result, "effective_rank"),
        lambda_mean=None if result.fusion is None else float(result.fusion.mean()),
        digest=_digest(result.vectors),
        warnings=tuple(dict.fromkeys(_told(caught))),
        finished=time.time(),
    )
    if keep == "vectors":
        write_arrays(store.kept / f"{record.key}.npz", {"vectors": result.vectors}, compress=False)
    return record, result.vectors


def begin(made: Plan, source: str, device: torch.device | None) -> Record:
    """Return the record of a training of which nothing is known yet but what it is to be."""
    config, graph = made.config, made.graph
    return Record(
        key=training_key(config),
        graph=graph.name,
        input=source,
        method=config.method,
        version=made.kind.version,
        preset=config.preset,
        settings=config.settings.model_dump(mode="json"),
        treatment=config.treatment.model_dump(mode="json"),
        epochs=config.training.epochs,
        precision=config.training.precision,
        seed=config.seed,
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        device="" if device is None else describe_device(device),
        torch=torch.__version__,
    )


def given_up(
    plan: StudyPlan, graphs: Graphs, before: Record | None, cell: Cell, device: str, deaths: int, how: str
) -> Record:
    """Return the record of a cell that ends whatever process works at it.

    Args:
        plan: the study.
        graphs: reads its graphs.
        before: what is known of it.
        cell: which one it is.
        device: what it was to run on, by name.
        deaths: how many processes it has cost.
        how: they ended, in a few words.
    """
    made = plan_cell(plan, graphs, cell.row, cell.column, cell.seed)
    why = f"Its process was ended {deaths} times ({how}); often that is the system, short of memory."
    started = begin(made, graphs.study.graphs[cell.column].input, None)
    failed = replace(started, failed=why, device=device, finished=time.time())
    return failed if before is None else before.after_failure(failed, cell)


def _failed(started: Record, error: Exception, began: float, device: torch.device) -> Record:
    """Return the record of a training that failed.

    Raises:
        RunError: it failed because something could not be written: no result of the method's.
    """
    if isinstance(error, RunError) and isinstance(error.__cause__, OSError):
        raise error
    return replace(
        started,
        failed=_reason(error),
        traceback="" if isinstance(error, FossilError) else "".join(traceback.format_exception(error)),
        seconds=round(time.perf_counter() - began, 3),
        memory=peak_bytes(device),
        finished=time.time(),
    )


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, FossilError) else f"{type(error).__name__}: {error}"


def _score(vectors: Array, made: Plan, scoring: Scoring, device: str) -> Scores:
    """Score vectors under one protocol; that it cannot be had is a result too."""
    graph, task, began = made.graph, NodeClassification(protocol(scoring.protocol)), time.perf_counter()
    trained_on = made.kind.training_split(made.config.settings, known_name(graph))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FossilWarning)
            found = task.score(vectors, graph, scoring.seeds, trained_on=trained_on, device=device)
            majority = task.baseline(graph, [one.seed for one in found])
    except Exception as error:  # a probe, too, may need more memory than there is
        return Scores(scoring.protocol, failed=_reason(error))
    maxima = [one.test_maximum for one in found if one.test_maximum is not None]
    return Scores(
        protocol=scoring.protocol,
        seeds=tuple(one.seed for one in found),  # of a method that was trained on labels, that of its own split
        accuracies=tuple(one.accuracy for one in found),
        validation_accuracies=tuple(one.validation_accuracy for one in found),
        macro_f1s=tuple(one.macro_f1 for one in found),
        test_maxima=tuple(maxima),
        majority=mean(one.accuracy for one in majority),
        test_nodes=found[0].test_nodes,
        seconds=round(time.perf_counter() - began, 3),
        supervised=trained_on is not None,
    )


def _told(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in caught if issubclass(one.category, FossilWarning)]


def _of_last(result: FitResult, name: str) -> float | None:
    value = result.history[-1].get(name) if result.history else None
    return None if value is None else float(value)


def _epoch_seconds(result: FitResult) -> float | None:
    """Return the time of an epoch; the first, in which things are compiled and allocated, does not count."""
    history = result.history
    if len(history) < 2:
        return None
    return float((history[-1]["seconds"] - history[0]["seconds"]) / (len(history) - 1))


def _digest(vectors: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(vectors).tobytes()).hexdigest()[:24]
