"""NumPy: named arrays in one file, without pickled objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fossil.graph.graph import Array
from fossil.runs.exports.base import Exporter, Subject
from fossil.storage import write_arrays


class NumpyExporter(Exporter):
    """`ids`, `vectors`, what is known of the nodes, and `edges`: two rows of positions, sources above targets."""

    name = "numpy"
    suffix = ".npz"

    @classmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write the arrays; the class of a node that has none is an empty text."""
        arrays: dict[str, Array] = {"ids": subject.found.ids, "vectors": subject.vectors}
        for name, column in subject.columns.items():
            arrays[name] = np.array([text or "" for text in column]) if isinstance(column, list) else column
        if subject.graph is not None:
            arrays["edges"] = np.stack(subject.graph.adjacency.nonzero()).astype(np.int64)
        write_arrays(path, arrays, compress=False)
