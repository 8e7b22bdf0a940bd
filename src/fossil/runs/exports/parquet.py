"""Parquet: a row a node, typed and compressed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fossil.errors import SettingError
from fossil.runs.exports.base import Exporter, Subject


class ParquetExporter(Exporter):
    """A table with columns `id`, what is known of the node, and `v0`, `v1`, ...; an unknown class is null."""

    name = "parquet"
    suffix = ".parquet"

    @classmethod
    def check(cls) -> None:
        """Raise SettingError where pyarrow is not installed."""
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "Parquet needs pyarrow, which is not installed.", remedy="pip install 'fossil-gnn[tables]'"
            ) from error

    @classmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write the table; ids keep their type."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        vectors = {f"v{i}": np.ascontiguousarray(column) for i, column in enumerate(subject.vectors.T)}
        pq.write_table(pa.table({"id": subject.found.ids, **subject.columns, **vectors}), path)
