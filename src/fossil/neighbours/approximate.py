"""Neighbours by an index, in a time that hardly grows with the number of vectors.

The index is a navigable graph (HNSW, Malkov and Yashunin 2018) of usearch over unit vectors in float16. It proposes
candidates; these are compared in float32, so that a similarity is exact and only the choice of candidates is not.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fossil.errors import RunError, SettingError
from fossil.graph.graph import Array
from fossil.neighbours.base import Nearest, best, bounded, unit_rows
from fossil.neighbours.exact import ExactNeighbours
from fossil.progress import Progress, silent
from fossil.storage import read_json, sha256, write_atomically, write_json

if TYPE_CHECKING:
    from usearch.index import Index

INDEX, ABOUT = "neighbours.usearch", "neighbours.json"
"""The index, and what it belongs to, in the folder of a run."""

_CONNECTIVITY, _EXPANSION_ADD = 32, 128  # edges of a vector; candidates kept in view while it is added
_EXPANSION_SEARCH = 256  # likewise in a search
_MORE = 4  # times as many candidates are compared in float32 as neighbours are asked for
_CHUNK = 16_384  # vectors added at a time


class ApproximateNeighbours:
    """Finds most of the true neighbours; a search looks at a few hundred vectors.

    Args:
        vectors: N×D; they may lie in a file.
        index: of these vectors, under their row numbers.
    """

    def __init__(self, vectors: Array, index: Index) -> None:
        self._vectors, self._index = vectors, index

    @classmethod
    def build(cls, vectors: Array, progress: Progress = silent) -> ApproximateNeighbours:
        """Make an index of vectors, on all cores; which of two equally good candidates it keeps is up to their race.

        Raises:
            SettingError: usearch is not installed.
        """
        index = _empty_index(vectors.shape[1])
        for start in range(0, len(vectors), _CHUNK):
            block = unit_rows(vectors[start : start + _CHUNK])
            index.add(np.arange(start, start + len(block), dtype=np.uint64), block)
            progress((start + len(block)) / len(vectors))
        return cls(vectors, index)

    @classmethod
    def opened(cls, folder: Path, vectors: Array) -> ApproximateNeighbours | None:
        """Return the index kept in `folder`, mapped from its file; None where there is none of these vectors.

        The file is compared with the SHA-256 that was written down of it before usearch, which trusts what it reads,
        gets to see it.
        """
        try:
            if read_json(folder / ABOUT) != _about(folder / INDEX, vectors):
                return None
        except RunError:  # one of the two is missing or damaged
            return None
        index = _empty_index(vectors.shape[1])
        index.view(str(folder / INDEX))
        return cls(vectors, index)

    def save(self, folder: Path) -> None:
        """Keep the index in `folder`, where `opened` finds it.

        Raises:
            RunError: it cannot be written.
        """
        content = self._index.save()
        assert content is not None  # which it is where it was told of a path
        write_atomically(folder / INDEX, lambda stream: stream.write(content))
        # Written last: an index whose description is of another one counts as none.
        write_json(folder / ABOUT, _about(folder / INDEX, self._vectors))

    def nearest(self, rows: Array, k: int) -> Nearest:
        """Return the k vectors nearest to each of those in `rows`, itself left out; all others where there are fewer.

        Raises:
            SettingError: k is below one.
        """
        rows, count = np.asarray(rows, np.int64), bounded(k, len(self._vectors))
        found = [self._nearest(int(row), count) for row in rows]
        if not found:
            return Nearest(np.empty((0, count), np.int64), np.empty((0, count), np.float32))
        return Nearest(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def _nearest(self, row: int, k: int) -> Nearest:
        query = unit_rows(self._vectors[row : row + 1])
        wanted = min(_MORE * k + 1, len(self._vectors))
        keys = self._index.search(query[0], wanted, threads=1).keys.astype(np.int64)
        rows = np.sort(keys[keys != row])
        if len(rows) < k:  # among very many equal vectors the index loses its way
            return self._exact.nearest(np.array([row]), k)
        return best(rows[None], query @ unit_rows(self._vectors[rows]).T, k)

    @cached_property
    def _exact(self) -> ExactNeighbours:
        return ExactNeighbours(self._vectors)


def _empty_index(width: int) -> Index:
    try:
        from usearch.index import Index
    except ImportError as error:
        raise SettingError(
            "An index of neighbours needs usearch, which is not installed.",
            remedy="pip install 'fossil-gnn[neighbours]', or compare with every vector with --exact.",
        ) from error
    return Index(
        ndim=width,
        metric="cos",
        dtype="f16",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
        enable_key_lookups=False,
    )


def _about(index: Path, vectors: Array) -> dict[str, Any]:
    """Return what tells an index of these vectors from others."""
    digest = hashlib.sha256(str((vectors.dtype.str, vectors.shape)).encode())
    for start in range(0, len(vectors), _CHUNK):
        digest.update(np.ascontiguousarray(vectors[start : start + _CHUNK]).data)
    made = {"connectivity": _CONNECTIVITY, "expansion_add": _EXPANSION_ADD}
    return {"vectors": digest.hexdigest(), "index": sha256(index), "made_with": made}
