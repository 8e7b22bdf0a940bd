"""`report.html`: one file that shows a run, or several side by side, without a server and without the network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from fossil.errors import EvaluationError, RunError, SettingError
from fossil.evaluation.evaluate import default_protocol, evaluate
from fossil.evaluation.protocol import Protocol, protocol
from fossil.evaluation.subjects import refuse_repeats, subject_of
from fossil.progress import Progress, silent
from fossil.report.columns import has_classes
from fossil.report.contract import Meta, Scores, plain
from fossil.report.html import page
from fossil.report.run_part import run_part
from fossil.report.score_page import describe_scores
from fossil.runs.run import Run
from fossil.storage import write_text
from fossil.training.devices import environment


def check_report(path: Path, *, force: bool) -> None:
    """Raise, before any work is done, where a report could not be written to `path`.

    Raises:
        SettingError: the suffix is not that of a page.
        RunError: there is a file already, and nobody said that it may be replaced.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"A report cannot be written to {path}.", remedy="Name a file that ends in .html.")
    if path.exists() and not force:
        raise RunError(f"{path} already exists.", remedy="Replace it with --force, or choose another --out.")


def write_report(
    path: Path,
    runs: Sequence[Run],
    *,
    named: str | None = None,
    splits: int | None = None,
    device: str = "auto",
    progress: Progress = silent,
) -> None:
    """Write one page about finished runs; what stands there is replaced.

    Args:
        path: of the page.
        runs: finished runs, of one graph or of several.
        named: the protocol to score by; see `fossil.evaluate`.
        splits: splits per run; see `fossil.evaluate`.
        device: where probes are fitted.
        progress: told which share of the work is done.

    Raises:
        RunError: a run is not finished, or the file cannot be written.
        EvaluationError: a run is given twice, or there is no such protocol.
    """
    for run in runs:
        run.check_finished()
    scores, unscored, rule = _scores(runs, named, splits, device, lambda share: progress(share / 2))
    parts = []
    for number, run in enumerate(runs):
        parts.append(run_part(run, rule, splits, device))
        progress(0.5 + (number + 1) / (2 * len(runs)))
    meta = Meta(
        version=_version(),
        kind="report",
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        runs=[part.meta for part in parts],
        scores=scores,
        unscored=unscored,
    )
    arrays = {f"{number}/{name}": each for number, part in enumerate(parts) for name, each in part.arrays.items()}
    plans = {f"{number}/{pair.a}/{pair.b}": plan for number, part in enumerate(parts) for pair, plan in part.pairs}
    write_text(path, page(plain(meta), arrays, {key: plain(plan) for key, plan in plans.items()}))


def _scores(
    runs: Sequence[Run], named: str | None, splits: int | None, device: str, progress: Progress
) -> tuple[Scores | None, str | None, Protocol | None]:
    """Return the scores, why there are none, and the protocol they follow."""
    subjects = [subject_of(run) for run in runs]
    refuse_repeats(subjects)
    chosen = None if named is None else protocol(named)
    without_classes = next((run for run in runs if not has_classes(run.graph)), None)
    if without_classes is not None:
        return None, f"{without_classes.graph.name} has no classes to score against.", None
    try:
        rule = chosen or default_protocol(subjects)
        rows = evaluate(runs, protocol=rule, splits=splits, features=True, device=device, progress=progress, keep=False)
    except EvaluationError as error:
        return None, f"{error.what} {error.remedy}", None
    return describe_scores(rows), None, rule


def _version() -> str:
    return str(environment(torch.device("cpu"))["versions"]["fossil-gnn"])
