"""What stands under a table of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fossil.evaluation.protocol import protocol
from fossil.studies.entries import Quantity, TableEntry
from fossil.studies.groups import NOTE
from fossil.studies.places import NOT_ABOVE, Grid, Place
from fossil.studies.results import SCORED, Results

_CAPTIONS: Mapping[Quantity, str] = {
    "accuracy": "Accuracy", "macro_f1": "Macro F1", "test_maximum": "Test maximum",
    "seconds": "Seconds of a training", "epoch_seconds": "Seconds of an epoch", "memory": "Most memory in GB",
    "lambda_mean": "Mean of λ, the weight of structure", "effective_rank": "Effective rank of the vectors",
}  # fmt: skip


def notes_of(results: Results, entry: TableEntry, grid: Grid) -> list[str]:
    """Return how to read a table, what its marks mean, and why places are empty."""
    assert entry.protocol is not None
    study, places = results.plan.study, [place for line in grid for place in line]
    wanted = len(study.seeds)
    notes = [study.note] if study.note else []
    if entry.value in SCORED:
        percent = f"{100 * protocol(entry.protocol).confidence:g} %"
        # A graph may come with fewer splits than the study asks for.
        splits = max((len(by_split) for place in places for by_split in place.values.values()), default=study.splits)
        notes.append(
            f"{_CAPTIONS[entry.value]} in percent under `{entry.protocol}`, ± half its {percent} interval over "
            f"encoders, each with its mean over {_plural(splits, 'split')}; {_plural(wanted, 'encoder')}, or as "
            "many as stand in parentheses."
        )
    else:
        devices = sorted({record.device for record in results.records.values() if record.device})
        notes.append(f"{_CAPTIONS[entry.value]}, median over encoders, on {' and '.join(devices) or 'nothing yet'}.")
    if entry.value == "test_maximum":
        notes.append(
            "A test maximum is chosen by looking at test labels: it is for comparison with printed ones alone."
        )
    if any(place.rank for place in places):
        notes.append("The best and the second best of a graph are set apart, among those that train without labels.")
    if any(place.beats_untrained is False for place in places):
        notes.append(
            f"{NOT_ABOVE} is not above the better of features and propagated features, for which nothing is trained."
        )
    if any(mark.isalpha() for place in places for mark in place.marks):
        notes.append(NOTE)
    if results.plan.searched is not None:
        notes.append(results.plan.searched.note())
    if any(place.published for place in places):
        notes.append("In brackets: what is printed elsewhere.")
    return notes + _reasons(results, places)


def _reasons(results: Results, places: Sequence[Place]) -> list[str]:
    """Return why places are empty, each reason once with all it is about."""
    about: dict[str, list[str]] = {}
    plan = results.plan
    for place in places:
        for reason in place.reasons:
            graph = plan.columns[place.column]
            of_graph = place.column in plan.unreadable or reason in plan.unscorable.values()
            about.setdefault(reason, []).append(graph if of_graph else f"{plan.rows[place.row].title} on {graph}")
    return [f"{', '.join(dict.fromkeys(titles))}: {reason}" for reason, titles in about.items()]


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
