"""A table in one file or in several part files, read in batches of rows by pyarrow."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fossil.errors import GraphError, RunError
from fossil.graph.troubles import listed
from fossil.guard.boundary import check_regular, exists, reason
from fossil.readers.base import split_name
from fossil.readers.csv import DelimitedTables
from fossil.readers.frame import checked_header, without_index
from fossil.readers.large.texts import csv_batches, text_header
from fossil.readers.parquet import ParquetTables, named_index

SUFFIXES = (*DelimitedTables.suffixes, *ParquetTables.suffixes)
_LEAST_ROWS, _MOST_ROWS = 1 << 10, 1 << 19
_BYTES_A_CELL = 512  # of a batch: as Arrow, as Python's object, as number, as entry of the features
_BYTES_A_FEATURE = 20  # of a batch: a column of many categories becomes a matrix that is kept in three types at once


class Piece(NamedTuple):
    """Rows that follow each other in one file.

    Attributes:
        where: the file.
        first: the first of them, counted over all files from 0.
        place: the first of them in its file, counted from 1.
        columns: Arrow arrays by name.
        rows: how many.
        share: of all files that has been read with them.
    """

    where: str
    first: int
    place: int
    columns: Mapping[str, Any]
    rows: int
    share: float


@dataclass(frozen=True)
class PartTable:
    """Part files that are one table: their rows follow each other in the order of the files' names.

    Attributes:
        where: what it is called in messages.
        parts: the files.
        memory: bytes that a batch may take.
    """

    where: str
    parts: tuple[Path, ...]
    memory: int
    _rows: list[int] = field(default_factory=list, compare=False)  # before each part, as far as it is known

    @cached_property
    def header(self) -> Mapping[str, str]:
        """The type of every column, by name, in the order that the reader of small tables gives them.

        Raises:
            GraphError: a file is unreadable, or a part has other columns than the first.
        """
        found = [(part, *_types(part)) for part in self.parts]
        # Where there is no row, nobody knew of what type the cells would have been.
        first = next((each for each in found if each[2]), found[0])
        for part, types, is_filled in found:
            strange = [
                name
                for name in {**first[1], **types}
                if name not in types or name not in first[1] or (is_filled and first[1][name] != types[name])
            ]
            if strange:
                name = strange[0]
                raise GraphError(
                    f"{part} and {first[0]} are parts of one table, and column {name!r} is "
                    f"{types.get(name, 'missing')} in the first and {first[1].get(name, 'missing')} in the second.",
                    remedy="Give every part the same columns of the same types.",
                )
        return first[1]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns without the index that pandas writes."""
        return tuple(without_index(dict.fromkeys(self.header, ()))[0])

    @property
    def has_index(self) -> bool:
        """Whether there is an unnamed column that pandas wrote its index into."""
        return len(self.names) < len(self.header)

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(part.stat().st_size for part in self.parts)

    def pieces(self, columns: Sequence[str], width: int = 0) -> Iterator[Piece]:
        """Yield all rows in order, with these columns.

        Args:
            columns: by name.
            width: features that are made of a row.

        Raises:
            GraphError: a file cannot be read, with its name and where that is known the row.
        """
        first, done, every = 0, 0, max(1, self.bytes)
        a_row = _BYTES_A_CELL * max(1, len(columns)) + _BYTES_A_FEATURE * width
        at_once = min(_MOST_ROWS, max(_LEAST_ROWS, self.memory // a_row))
        for number, part in enumerate(self.parts):
            if len(self._rows) == number:
                self._rows.append(first)
            for batch, place, read in _batches(part, list(columns), at_once, self.memory):
                share = min(1.0, (done + read) / every)
                yield Piece(str(part), first, place, dict(zip(columns, batch, strict=True)), len(batch[0]), share)
                first += len(batch[0])
            done += part.stat().st_size
        if first == 0:
            raise GraphError(f"{self.where} has no rows.", remedy="Check the files.")

    def places(self, rows: Sequence[int], total: int) -> str:
        """Return in words where the first few of `total` rows are: `row 7 of edges/part-2.parquet`."""
        shown = []
        for row in rows:
            number = bisect_right(self._rows, row) - 1
            shown.append(f"row {row - self._rows[number] + 1:,} of {self.parts[number]}")
        return listed(shown, total)


def table_parts(
    source: Path, edges: Path | None, memory: int, *, alone: bool = False
) -> tuple[PartTable | None, PartTable]:
    """Return the node table and the edge table that a folder, or a table, stands for.

    In a folder they are `nodes` and `edges`: files with the suffix of their format, or folders of part files. A file is
    the node table, unless it is the one called `edges`.

    Args:
        source: the folder or the table.
        edges: the edge table, where it is not beside the nodes.
        memory: bytes that a batch may take.
        alone: whether edges will do without a node table, which is None then.

    Raises:
        GraphError: one of them is missing, or no table, or there are several.
    """
    folder = source if source.is_dir() else source.parent
    if not source.is_dir():
        _files(source)  # what is no table is told before what is missing beside it
    edges = edges or _only(folder, "edges")
    if source.is_dir():
        nodes = _only(folder, "nodes")
    else:
        nodes = None if edges is not None and source.resolve() == edges.resolve() else source
    for found, what in ((nodes, "nodes"), (edges, "edges")):
        if found is None and not (alone and what == "nodes"):
            raise GraphError(
                f"{folder} has no table of the {what}.",
                remedy=f"Put {what}.parquet there, another of {', '.join(SUFFIXES)}, or a folder {what} of such files"
                + (", or take the nodes from the edges with --structural-features." if what == "nodes" else "."),
            )
    assert edges is not None
    tables = [None if path is None else PartTable(str(path), _files(path), memory) for path in (nodes, edges)]
    return tables[0], tables[1]  # type: ignore[return-value]


def _only(folder: Path, stem: str) -> Path | None:
    candidates = [folder / stem, *(folder / f"{stem}{suffix}" for suffix in SUFFIXES)]
    found = [path for path in candidates if exists(path)]
    if len(found) > 1:
        raise GraphError(
            f"Folder {folder} has both {' and '.join(path.name for path in found)}.", remedy="Keep one of them."
        )
    return found[0] if found else None


def _files(path: Path) -> tuple[Path, ...]:
    if not exists(path):
        raise GraphError(f"{path} does not exist.", remedy="Check the spelling of the path.")
    files = (
        sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_"))) if path.is_dir() else [path]
    )
    if not files:
        raise GraphError(f"Folder {path} has no part files.", remedy=f"Put files of {', '.join(SUFFIXES)} there.")
    for file in files:
        check_regular(file)
        if split_name(file, SUFFIXES)[1] not in SUFFIXES:
            raise GraphError(f"{file} is no table that can be converted.", remedy=f"Use one of {', '.join(SUFFIXES)}.")
    if len({_is_parquet(file) for file in files}) > 1:
        raise GraphError(f"Folder {path} has Parquet beside text.", remedy="Give all parts in one format.")
    return tuple(files)


def arrow() -> Any:
    """Return pyarrow.

    Raises:
        GraphError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise GraphError(
            "Converting large tables needs pyarrow, which is not installed.", remedy="pip install 'fossil-gnn[large]'"
        ) from error
    return pyarrow


def _batches(part: Path, columns: list[str], at_once: int, memory: int) -> Iterator[tuple[list[Any], int, float]]:
    """Yield the rows of a file in batches, with the number of the first, from 1, and the bytes read with them."""
    place, read = 1, _parquet_batches if _is_parquet(part) else csv_batches
    with _telling(part, lambda: place - 1):
        size = part.stat().st_size
        for batch, share in read(part, columns, at_once, memory):
            yield batch, place, share * size
            place += len(batch[0])


@contextmanager
def _telling(part: Path, rows: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Turn whatever pyarrow says about a file into one message with its name, and behind how many rows it was said.

    A lack of memory, which pyarrow may raise too, says nothing of the file, nor does an error of the system: what was
    converted is kept, and goes on once that is mended.
    """
    pyarrow = arrow()
    try:
        yield
    except MemoryError:
        raise
    except (pyarrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        behind = f" after row {rows():,}" if rows() else ""
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
            raise GraphError(
                f"{part} is not UTF-8{behind} ({reason(error)}).", remedy="Save the file as UTF-8."
            ) from error
        if "straddling object" in str(error):  # a row of megabytes
            raise GraphError(
                f"{part} has a row{behind} that does not end.",
                remedy="Check the quotation marks from there on; or give more --memory, if there are cells as long.",
            ) from error
        if isinstance(error, OSError) and error.errno:
            raise RunError(
                f"{part} cannot be read{behind} ({os.strerror(error.errno)}).",
                remedy="Check the disk, the path and its permissions, and give the same command again: what was "
                "converted so far is kept.",
            ) from error
        raise GraphError(
            f"{part} cannot be read{behind} ({reason(error)}).",
            remedy="Write or copy it again: it is damaged or cut short.",
        ) from error


def _is_parquet(part: Path) -> bool:
    return split_name(part, SUFFIXES)[1] in ParquetTables.suffixes


def _types(part: Path) -> tuple[dict[str, str], bool]:
    """Return the columns of one file and their types, and whether it has rows; text files have texts alone."""
    with _telling(part):
        if not _is_parquet(part):
            header = text_header(part)
            return dict.fromkeys(header.names, "text"), header.is_filled
        from pyarrow import parquet

        with parquet.ParquetFile(part) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
        types = dict(zip(checked_header(str(part), schema.names), map(str, schema.types), strict=True))
        named = [name for name in named_index(schema) if name in types]
        return {name: types[name] for name in dict.fromkeys([*named, *types])}, rows > 0


def _parquet_batches(part: Path, columns: list[str], at_once: int, memory: int) -> Iterator[tuple[list[Any], float]]:
    from pyarrow import parquet

    with parquet.ParquetFile(part, pre_buffer=False, buffer_size=1 << 20) as file:
        stored = dict(zip(checked_header(str(part), file.schema_arrow.names), file.schema_arrow.names, strict=True))
        wanted, rows = [stored[name] for name in columns], 0
        for batch in file.iter_batches(at_once, columns=wanted, use_threads=False):
            if batch.num_rows == 0:  # of columns without a type
                continue
            rows += batch.num_rows
            yield [batch.column(name) for name in wanted], rows / max(1, file.metadata.num_rows)
        if rows != file.metadata.num_rows:
            raise OSError(f"{rows:,} rows, and its footer says {file.metadata.num_rows:,}")
