"""The contract of an export: one form in which vectors leave, a file each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np

from fossil.graph.graph import Array, Graph
from fossil.runs.embeddings import Embeddings
from fossil.runs.folder import CHANNEL

Column: TypeAlias = Array | list[str | None]
"""A number per node, or a text per node, None where it is unknown."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is exported: vectors, and the graph of exactly these nodes where it is known.

    Attributes:
        found: vectors of N nodes.
        graph: of the same N nodes in the same order, or None.
        name: what to call them.
    """

    found: Embeddings
    graph: Graph | None
    name: str

    @property
    def vectors(self) -> Array:
        """N×D float32."""
        return self.found.vectors

    @cached_property
    def ids(self) -> list[str]:
        """The ids as text."""
        return list(map(str, self.found.ids.tolist()))

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What is known of each node beside its vector: its class or tasks, λ, and its trust in channels."""
        known: dict[str, Column] = dict(_labels(self.graph))
        if self.found.fusion is not None:
            known["fusion"] = self.found.fusion
        return known | {f"{CHANNEL}{name}": shares for name, shares in (self.found.channels or {}).items()}

    @property
    def texts(self) -> Iterator[str]:
        """The ids, the names of columns, and the classes."""
        yield from (*self.ids, *self.columns)
        for column in self.columns.values():
            if isinstance(column, list):
                yield from (text for text in column if text is not None)


class Exporter(ABC):
    """One form in which vectors leave.

    An exporter is found by being in this package, or by an entry point of another package in the group
    `fossil.runs.exports`.

    Class attributes:
        name: what to call it, as in `--to csv`.
        suffix: of the file, or what the name of the folder ends in.
        is_folder: whether a folder is written.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]
    is_folder: ClassVar[bool] = False

    @classmethod
    def check(cls) -> None:
        """Raise SettingError where a package is missing, before anything is read."""
        return

    @classmethod
    def wrote(cls, folder: Path) -> bool:
        """Tell whether a folder is one that this export made, and may be replaced by another."""
        return False

    @classmethod
    @abstractmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write to `path`, a name under which nothing stands yet, and which is moved to its own afterwards.

        Args:
            subject: what to write.
            path: file to write, or folder to make.
            suffix: what the final name ends in.
        """


def decimal(vectors: Array) -> Iterator[list[str]]:
    """Yield, row by row, the shortest decimals that read back as the same float32.

    >>> list(decimal(np.float32([[0.1, 1 / 3]])))
    [['0.1', '0.33333334']]
    """
    for row in vectors.astype(np.float32, copy=False):
        yield list(map(str, row))


def _labels(graph: Graph | None) -> dict[str, Column]:
    """Return the classes by name, or zeros and ones for each task."""
    if graph is None or graph.labels is None:
        return {}
    if graph.labels.ndim == 2:
        names = graph.label_names or range(graph.labels.shape[1])
        return {f"task_{name}": column for name, column in zip(names, graph.labels.T, strict=True)}
    names = graph.label_names or tuple(map(str, range(graph.num_classes)))
    return {"label": [names[number] if number >= 0 else None for number in graph.labels.tolist()]}
