"""Parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.readers.base import TableReader
from fossil.readers.cells import Column
from fossil.readers.frame import Frame, checked_header, without_index


class ParquetTables(TableReader):
    """Parquet, read by pyarrow."""

    name = "parquet"
    form = "a node table (.parquet)"
    suffixes = (".parquet",)

    @classmethod
    def read_frame(cls, path: Path) -> Frame:
        """Read one table.

        Raises:
            GraphError: the file is unreadable, or pyarrow is not installed.
        """
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise GraphError(
                f"Reading {path} needs pyarrow, which is not installed.", remedy="pip install 'fossil-gnn[tables]'"
            ) from error
        try:
            table = parquet.read_table(path)
            names = table.column_names  # decoded only now
        except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
            raise GraphError(
                f"{path} is not a Parquet file that can be read ({error}).", remedy="Write it again."
            ) from error
        columns: dict[str, Column] = {}
        for name, column in zip(checked_header(str(path), names), table.columns, strict=True):
            kind = column.type
            plain = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
            columns[name] = column.to_numpy() if plain and not column.null_count else column.to_pylist()
        if not columns:
            raise GraphError(f"{path} has no columns.", remedy="A table needs at least an id column.")
        named = [name for name in _named_index(table.schema) if name in columns]
        columns, index = without_index({name: columns[name] for name in dict.fromkeys([*named, *columns])})
        return Frame(str(path), columns, range(1, table.num_rows + 1), unit="row", index=index)


def _named_index(schema: Any) -> list[str]:
    """Return the columns that were the index of a data frame: pandas stores them last, and they come first."""
    try:
        stored = (schema.pandas_metadata or {}).get("index_columns", ())
    except (ValueError, AttributeError):  # metadata that is not what pandas writes
        return []
    return [name for name in stored if isinstance(name, str)]
