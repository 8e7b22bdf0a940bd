"""Parquet tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.guard.budget import check_need
from fossil.readers.base import TableReader
from fossil.readers.cells import Column
from fossil.readers.frame import Frame, checked_header, without_index

_ROWS_AT_ONCE = 1 << 20
_TEXTS = ("string", "large_string", "binary", "large_binary")


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
        except ImportError as error:
            raise GraphError(
                f"Reading {path} needs pyarrow, which is not installed.", remedy="pip install 'fossil-gnn[tables]'"
            ) from error
        try:
            table = _table(pyarrow, path)
            names = table.column_names  # decoded only now
        except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
            raise GraphError(
                f"{path} is not a Parquet file that can be read ({error}).", remedy="Write it again."
            ) from error
        columns: dict[str, Column] = {}
        for name, column in zip(checked_header(str(path), names), table.columns, strict=True):
            columns[name] = _cells(pyarrow.types, column)
        if not columns:
            raise GraphError(f"{path} has no columns.", remedy="A table needs at least an id column.")
        named = [name for name in named_index(table.schema) if name in columns]
        columns, index = without_index({name: columns[name] for name in dict.fromkeys([*named, *columns])})
        return Frame(str(path), columns, range(1, table.num_rows + 1), unit="row", index=index)


def _table(pyarrow: Any, path: Path) -> Any:
    """Read the columns of single values, in parts, once the footer has said how much there is.

    Text is kept once for all the cells that hold it. Metadata of a single column is never asked for: where it is
    damaged, pyarrow ends the process (`ColumnChunkMetaData`, pyarrow 26).
    """
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        stored, fields = file.metadata, list(file.schema_arrow)
        costs = sum(_cell_cost(pyarrow.types, field.type) for field in fields)
        groups = map(stored.row_group, range(stored.num_row_groups))
        check_need(path, stored.num_rows * costs + 2 * sum(group.total_byte_size for group in groups))
        text = [field.name for field in fields if str(field.type) in _TEXTS]
        nested = [field.name for field in fields if pyarrow.types.is_nested(field.type)]
    with parquet.ParquetFile(path, read_dictionary=text) as file:
        flat = [field.name for field in fields if field.name not in nested]
        batches, rows = [], 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=flat):
            batches.append(batch)
            rows += batch.num_rows
            if rows > stored.num_rows:
                raise GraphError(
                    f"{path} has more than the {stored.num_rows:,} rows that it says.", remedy="Write it again."
                )
        table = pyarrow.Table.from_batches(batches, file.schema_arrow if not batches else None)
        # A struct `a` with a part `b` is asked for along with a column `a.b`.
        table = table.select([place for place, name in enumerate(table.column_names) if name not in nested])
        metadata = file.schema_arrow.metadata
    for place, field in enumerate(fields):
        if field.name in nested:  # nobody can use what is in them: that they are there is enough to say so
            table = table.add_column(place, field.name, pyarrow.array([[]] * rows, pyarrow.list_(pyarrow.null())))
    return table.replace_schema_metadata(metadata)


def _cell_cost(types: Any, kind: Any) -> int:
    """Return the bytes that a cell takes, beside text, which is as long as it is in the file."""
    if types.is_integer(kind) or types.is_floating(kind):
        return 16
    return 64 + (kind.byte_width if types.is_fixed_size_binary(kind) else 0)


def _cells(types: Any, column: Any) -> Column:
    if types.is_dictionary(column.type):
        cells: list[object] = []
        for chunk in column.chunks:
            values = [*chunk.dictionary.to_pylist(), None]
            cells += [values[-1 if place is None else place] for place in chunk.indices.to_pylist()]
        return cells
    plain = types.is_integer(column.type) or types.is_floating(column.type)
    return list(column.to_pylist()) if column.null_count or not plain else column.to_numpy()


def named_index(schema: Any) -> list[str]:
    """Return the columns that were the index of a data frame: pandas stores them last, and they come first."""
    try:
        stored = (schema.pandas_metadata or {}).get("index_columns", ())
    except (ValueError, AttributeError):  # metadata that is not what pandas writes
        return []
    return [name for name in stored if isinstance(name, str)]
