"""Where the records of a study are kept: one file a training, written by many processes without a server.

store.json            which version wrote it, and for which study files
cells/KEY.json        the record of one training with its scores; whole or absent
claims/KEY.lock       who is at it now; the operating system lets go of it when that process ends, however it ends
kept/KEY.npz          its vectors, where they are kept; `kept/KEY/` is the run folder
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from fossil.errors import FossilError, RunError
from fossil.runs.lock import HeldError, holding, signature_of
from fossil.settings import Settings, setting
from fossil.storage import read_json, write_json
from fossil.studies.file import read_study
from fossil.studies.plan import Cell, Scoring

FORMAT = 1


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

    protocol: str
    seeds: tuple[int, ...] = ()
    accuracies: tuple[float, ...] = ()
    validation_accuracies: tuple[float, ...] = ()
    macro_f1s: tuple[float, ...] = ()
    test_maxima: tuple[float, ...] = ()
    majority: float | None = None
    test_nodes: int | None = None
    seconds: float | None = None
    supervised: bool = False
    failed: str = ""

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
    memory: float | None = None
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

    @property
    def has_failed(self) -> bool:
        """Whether the training failed, or a scoring."""
        return bool(self.failed) or any(scores.failed for scores in self.scores.values())

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
    def from_dict(cls, values: Mapping[str, Any], where: str) -> Record:
        """Read what `to_dict` wrote.

        Raises:
            RunError: it is something else.
        """
        try:
            given = dict(values)
            if given.pop("format") != FORMAT:
                raise ValueError("another format")
            given["warnings"] = tuple(given["warnings"])
            given["scores"] = {key: _scores(one) for key, one in given["scores"].items()}
            return cls(**given)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"{where} is no record that this version reads ({error}).",
                remedy="Move it away, and run the study again to have it made anew.",
            ) from error


def _scores(values: Mapping[str, Any]) -> Scores:
    lists: dict[str, Any] = {name: tuple(it) if isinstance(it, list) else it for name, it in values.items()}
    return Scores(**lists)


class _Card(Settings):
    """What `store.json` says."""

    format: int = setting(FORMAT, "version of the layout")
    studies: dict[str, str] = setting({}, "the file of each study that keeps records here, by its name")


class Store:
    """The folder of records.

    Args:
        root: where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cells, self.claims, self.kept = root / "cells", root / "claims", root / "kept"

    @classmethod
    def open(cls, root: Path, name: str, file: Path, *, create: bool = False) -> Store:
        """Open the store of a study; without `create` one that does not exist is empty, and stays away.

        Raises:
            RunError: another version wrote it, or another study of the same name keeps its records there.
        """
        store, card = cls(root), root / "store.json"
        # In this order: another command may be making the store, and what describes it is there before all else.
        is_free = not root.exists() or _is_empty(root)
        if not card.exists():
            if not is_free:
                raise RunError(
                    f"{root} holds something else than records.", remedy="Name another folder with store: DIR."
                )
            found = _Card()
        else:
            found = store._read_card(card)
        # Paths are kept as seen from the store, so that both can be moved together.
        mine = os.path.relpath(file.resolve(), root.resolve())
        other = found.studies.get(name, mine)
        if other != mine and (root / other).resolve().exists() and _names(root / other) == name:
            raise RunError(
                f"{(root / other).resolve()} is a study called {name!r} too, and keeps its records in {root}.",
                remedy="Give one of the two another name.",
            )
        if create and (other != mine or name not in found.studies):
            write_json(card, {"format": FORMAT, "studies": {**found.studies, name: mine}})
        if create:
            store._make_folders()
        return store

    def _make_folders(self) -> None:
        try:
            for folder in (self.cells, self.claims):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self.root, error) from error

    def _read_card(self, card: Path) -> _Card:
        values = read_json(card)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            version = values.get("format") if isinstance(values, dict) else None
            raise RunError(
                f"{self.root} was written in format {version!r}; this version reads format {FORMAT}.",
                remedy="Use the version that wrote it, or name another folder with store: DIR; nothing was changed.",
            )
        return _Card.build(values)

    def path_of(self, key: str) -> Path:
        """Return the file of a record."""
        return self.cells / f"{key}.json"

    def read(self, key: str) -> Record | None:
        """Return a record, None where there is none.

        Raises:
            RunError: the file is damaged.
        """
        path = self.path_of(key)
        try:
            text = path.read_text(encoding="utf-8")
            values = json.loads(text)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(
                f"{path} is damaged ({error}).", remedy="Move it away, and run the study again to have it made anew."
            ) from error
        return Record.from_dict(values, str(path))

    def write(self, record: Record) -> None:
        """Write a record, whole or not at all.

        Raises:
            RunError: the operating system refused (disk full, no permission).
        """
        write_json(self.path_of(record.key), record.to_dict())

    @contextmanager
    def claim(self, key: str, what: str = "") -> Iterator[bool]:
        """Yield whether this process alone may work at a cell until the end of the block.

        The claim is a lock of the operating system on a file, so that no crash leaves one behind.
        """
        with ExitStack() as held:
            try:
                held.enter_context(holding(self._claim_of(key), what))
            except HeldError:
                mine = False
            else:
                mine = True
            yield mine

    def _claim_of(self, key: str) -> Path:
        return self.claims / f"{key}.lock"

    def running(self) -> dict[str, dict[str, Any]]:
        """Return what is being worked at now, by key: process, machine, since when, and what."""
        found = {}
        for path in sorted(self.claims.glob("*.lock")):
            with suppress(RunError), self.claim(path.stem) as nobody:  # a store of others may not be written to
                if not nobody:
                    found[path.stem] = signature_of(path)
        return found


def _is_empty(root: Path) -> bool:
    """Tell whether a folder has nothing in it but what a process left that was killed while it wrote the first file."""
    return root.is_dir() and all(path.name.endswith(".part") for path in root.iterdir())


def _names(file: Path) -> str | None:
    """Return the name of the study in a file, None where it is none."""
    try:
        return read_study(file.resolve()).name
    except FossilError:
        return None


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"Could not write {path}: {error.strerror or error}.",
        remedy="Make room there, or name another folder with store: DIR; whatever stood there before is untouched.",
    )
