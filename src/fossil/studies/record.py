"""The record of one training: what it was, what it took, what it scored under each protocol, or why it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter

from fossil.errors import RunError
from fossil.studies.plain import STRICT, rebuilt
from fossil.studies.plan import Cell, Scoring

FORMAT = 1
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
ANEW = "Move it away, and run the study again to have it made anew."


@dataclass(frozen=True)
class Scores:
    """What one training scored under one protocol, split by split.

    Attributes:
        protocol: its name, for readers.
        seeds: of the splits.
        accuracies: on test nodes.
        validation_accuracies: on validation nodes; empty where they are not known.
        macro_f1s: on test nodes; empty where they are not known.
        test_maxima: best over all candidates, where the protocol has it; not a fair score.
        majority: mean accuracy of the most frequent training class.
        test_nodes: how many were counted.
        seconds: that scoring took.
        supervised: whether the method was trained on labels, and is scored on the one split they come from.
        failed: why there are none.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    protocol: str
    seeds: tuple[int, ...] = ()
    accuracies: tuple[Share, ...] = ()
    validation_accuracies: tuple[Share, ...] = ()
    macro_f1s: tuple[Share, ...] = ()
    test_maxima: tuple[Share, ...] = ()
    majority: Share | None = None
    test_nodes: int | None = None
    seconds: float | None = None
    supervised: bool = False
    failed: str = ""

    def __post_init__(self) -> None:
        for name in ("accuracies", "validation_accuracies", "macro_f1s", "test_maxima"):
            count = len(getattr(self, name))
            if count != len(self.seeds) and (count or name == "accuracies"):
                raise ValueError(f"{count} {name} of {len(self.seeds)} splits")

    def on(self, seeds: tuple[int, ...], name: str) -> list[float]:
        """Return the values of one list on these splits, or on all that there are of a method trained on labels."""
        values: tuple[float, ...] = getattr(self, name)
        by_seed = dict(zip(self.seeds, values, strict=False))
        return [by_seed[seed] for seed in seeds if seed in by_seed]


@dataclass(frozen=True)
class Record:
    """One training: what it was, what it took, what it scored, or why it failed.

    Attributes:
        key: hash of what it was.
        graph: name of the graph.
        input: what the graph was read from.
        method: name of the method.
        version: of the method.
        preset: name of the preset.
        settings: every setting.
        treatment: what was done about oddities of the graph.
        epochs: training steps; None where nothing is trained.
        precision: of products.
        seed: of everything random.
        scores: by the hash of how they were made.
        failed: why there are no vectors.
        traceback: where that happened, if it was no error that was foreseen.
        nodes: N.
        edges: E.
        seconds: of the training, with all set-up.
        epoch_seconds: of an epoch, the first one left out.
        memory: most bytes in use, on a GPU those of the device, else those of the process.
        effective_rank: of the vectors.
        lambda_mean: mean weight of structure, where there is one.
        digest: hash of the vectors.
        device: what it ran on.
        torch: version of PyTorch.
        warnings: what was warned of.
        finished: seconds since 1970.
        imported: the file that it was taken from, if it was not made here.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    key: str
    graph: str
    input: str
    method: str
    version: int
    preset: str
    settings: Mapping[str, Any]
    treatment: Mapping[str, Any]
    epochs: int | None
    precision: str
    seed: int
    scores: Mapping[str, Scores] = field(default_factory=dict)
    failed: str = ""
    traceback: str = ""
    nodes: int | None = None
    edges: int | None = None
    seconds: float | None = None
    epoch_seconds: float | None = None
    memory: int | float | None = None
    effective_rank: float | None = None
    lambda_mean: float | None = None
    digest: str = ""
    device: str = ""
    torch: str = ""
    warnings: tuple[str, ...] = ()
    finished: float = 0.0
    imported: str = ""

    def score_of(self, scoring: Scoring) -> Scores | None:
        """Return the scores that serve: made alike, and on all splits that are wanted; None where there are none.

        A method that was trained on labels is scored on the one split they come from, whatever is wanted.
        """
        found = self.scores.get(scoring.key)
        if found is None:
            return None
        if found.seeds and (found.supervised or set(scoring.seeds) <= set(found.seeds)):
            return replace(found, failed="")  # what failed then were further splits
        return found if found.failed else None

    def serves(self, cell: Cell) -> bool:
        """Tell whether nothing of a cell is missing: it failed, or has every score that is wanted."""
        return bool(self.failed) or all(self.score_of(scoring) is not None for scoring in cell.scorings)

    def missing(self, cell: Cell) -> list[Scoring]:
        """Return which scores that are wanted of a cell are not there, those that failed included."""
        found = {one: self.score_of(one) for one in cell.scorings}
        return [one for one, scores in found.items() if scores is None or scores.failed]

    def reasons(self, cell: Cell) -> list[str]:
        """Return why the training failed, or scores that are wanted of a cell; others may have failed for others."""
        scores = [self.score_of(scoring) for scoring in cell.scorings]
        return [reason for reason in (self.failed, *(one.failed for one in scores if one is not None)) if reason]

    def with_scores(self, scores: Mapping[str, Scores]) -> Self:
        """Return the record with further scores; one that failed takes no values away."""
        known = {
            key: replace(self.scores[key], failed=one.failed) if one.failed and key in self.scores else one
            for key, one in scores.items()
        }
        return replace(self, scores={**self.scores, **known})

    def after_failure(self, failed: Record, cell: Cell) -> Record:
        """Return the record when the same training, done again for what is missing of a cell, has failed."""
        if self.failed:
            return failed
        scores = {one.key: Scores(one.protocol, failed=failed.failed) for one in self.missing(cell)}
        return replace(self.with_scores(scores), traceback=failed.traceback, finished=failed.finished)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str, remedy: str = ANEW) -> Record:
        """Read what `to_dict` wrote.

        Args:
            values: the plain values.
            where: they stand, for the message.
            remedy: where they are something else.

        Raises:
            RunError: it is something else.
        """
        given = dict(values) if isinstance(values, Mapping) else {}
        try:
            if given.pop("format", None) != FORMAT:
                raise ValueError("another format")
            return rebuilt(_RECORD, given)
        except ValueError as error:
            raise RunError(f"{where} is no record that this version reads ({error}).", remedy=remedy) from error


_RECORD = TypeAdapter(Record)
