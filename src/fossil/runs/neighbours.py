"""Neighbours of a node among the vectors of a run: which search is used, and where its index is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fossil.errors import RunError, warn_the_caller
from fossil.graph.graph import Array
from fossil.neighbours.approximate import ApproximateNeighbours
from fossil.neighbours.base import Neighbours
from fossil.neighbours.exact import ExactNeighbours
from fossil.progress import Progress, silent
from fossil.runs.lock import locked

EXACT_BELOW = 20_000
"""Among fewer vectors than these, comparing with each takes less time than an index is worth."""


class Neighbour(NamedTuple):
    """A node near another one.

    Attributes:
        id: as the caller wrote it.
        similarity: the cosine of both vectors.
    """

    id: Any
    similarity: float


class Searches:
    """The exact search and the approximate one among the same vectors, each made when it is first asked for.

    Args:
        vectors: N×D.
        folder: of the run they belong to, which keeps the index; None where it is not kept.
    """

    def __init__(self, vectors: Array, folder: Path | None = None) -> None:
        self._vectors, self._folder = vectors, folder
        self._made: dict[bool, Neighbours] = {}

    def choose(self, exact: bool | None = None, progress: Progress = silent) -> Neighbours:
        """Return the search that is wanted; when None, the exact one below 20,000 vectors.

        Args:
            exact: compare with every vector, instead of using an index.
            progress: is told which share of an index is built.

        Raises:
            SettingError: an index is wanted, and usearch is not installed.

        Warns:
            FossilWarning: the folder cannot be written to, so that the next process has to build the index again.
        """
        wanted = len(self._vectors) < EXACT_BELOW if exact is None else exact
        if wanted not in self._made:
            self._made[wanted] = ExactNeighbours(self._vectors) if wanted else self._index(progress)
        return self._made[wanted]

    def _index(self, progress: Progress) -> Neighbours:
        if self._folder is None:
            return ApproximateNeighbours.build(self._vectors, progress)
        kept = ApproximateNeighbours.opened(self._folder, self._vectors)
        if kept is not None:
            return kept
        made = ApproximateNeighbours.build(self._vectors, progress)
        try:
            with locked(self._folder):
                made.save(self._folder)
        except RunError as error:
            warn_the_caller(f"The index of neighbours is not kept: {error.what}")
            return made
        # As the next process has it: mapped from its file, which takes no memory that the system could not have back.
        return ApproximateNeighbours.opened(self._folder, self._vectors) or made
