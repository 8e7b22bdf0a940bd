"""Text files that are part of a large table: their head, and their rows in batches, read by pyarrow."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from fossil.errors import GraphError
from fossil.readers.base import split_name
from fossil.readers.csv import DelimitedTables
from fossil.readers.frame import checked_header

_LONGEST_LINE = 1 << 20


class TextHeader(NamedTuple):
    """What the head of a text file says.

    Attributes:
        names: of the columns.
        delimiter: what separates cells.
        lines: how many it takes; a name in quotation marks may go over several.
        is_filled: whether anything follows.
    """

    names: list[str]
    delimiter: str
    lines: int
    is_filled: bool


def text_header(part: Path) -> TextHeader:
    """Return what the head of a text file says.

    Raises:
        GraphError: there is none, or its quotation marks do not end.
    """
    with gzip.open(part, "rb") if part.suffix.lower() == ".gz" else part.open("rb") as binary:
        text = io.TextIOWrapper(binary, "utf-8-sig", newline="")
        first = text.readline(_LONGEST_LINE)
        usual = ";" if first.count(";") > first.count(",") else ","
        delimiter = "\t" if split_name(part, DelimitedTables.suffixes)[1].startswith(".tsv") else usual
        following = iter(lambda: text.readline(_LONGEST_LINE), "")
        rows = csv.reader(chain([first], following), delimiter=delimiter, strict=True)
        try:
            cells = next((row for row in rows if row), [])
        except csv.Error as error:
            raise GraphError(
                f"{part}, line {rows.line_num}: {error}.", remedy="Check the quotation marks around that line."
            ) from error
        is_filled = bool(text.read(1))
    if not cells:
        raise GraphError(f"{part} is empty.", remedy="The first line must name the columns.")
    return TextHeader(checked_header(str(part), cells), delimiter, rows.line_num, is_filled)


def csv_batches(part: Path, columns: list[str], at_once: int, memory: int) -> Iterator[tuple[list[Any], float]]:
    """Yield these columns of a text file as Arrow arrays, in batches, and which share of the file is read with each.

    Raises:
        GraphError: rows have different numbers of cells; pyarrow raises errors of its own for all else.
    """
    import pyarrow
    from pyarrow import csv as pyarrow_csv

    header = text_header(part)
    if not header.is_filled:  # pyarrow takes that for a mistake
        return
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    with pyarrow.OSFile(str(part)) as stream:
        size = max(1, stream.size())
        try:
            reader = pyarrow_csv.open_csv(
                pyarrow.CompressedInputStream(stream, "gzip") if part.suffix.lower() == ".gz" else stream,
                pyarrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=max(1 << 20, min(1 << 26, memory // 64)),
                    column_names=header.names,
                    skip_rows=header.lines,
                ),
                pyarrow_csv.ParseOptions(
                    delimiter=header.delimiter, newlines_in_values=True, invalid_row_handler=remember
                ),
                pyarrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(header.names, pyarrow.string()),
                    strings_can_be_null=False,
                    include_columns=columns,
                ),
            )
            for batch in reader:
                for first in range(0, batch.num_rows, at_once):
                    yield batch.slice(first, at_once).columns, min(1.0, stream.tell() / size)
        except pyarrow.ArrowInvalid as error:
            if not ragged:
                raise
            raise GraphError(
                f"The header of {part} names {ragged[0].expected_columns} columns, and line {ragged[0].number} has "
                f"{ragged[0].actual_columns} cells.",
                remedy="Every row needs one cell a column; quote cells that contain the delimiter.",
            ) from error
