"""Comma-, semicolon- and tab-separated tables."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path

from fossil.errors import GraphError
from fossil.graph.troubles import listed
from fossil.guard.budget import check_need
from fossil.readers.base import TableReader, split_name
from fossil.readers.frame import Frame, checked_header, without_index

_TEXT_COST = 20  # bytes that a byte of text takes as cells, most of them short


class DelimitedTables(TableReader):
    """CSV with commas or semicolons, TSV with tabs, plain or gzip; UTF-8, the first line names the columns."""

    name = "csv"
    form = "a node table (.csv or .tsv, also with .gz)"
    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

    @classmethod
    def read_frame(cls, path: Path) -> Frame:
        """Read one table.

        Raises:
            GraphError: the file is unreadable, empty or malformed.
        """
        text = _decode(path)
        first = text.partition("\n")[0]
        usual = ";" if first.count(";") > first.count(",") else ","
        delimiter = "\t" if split_name(path, cls.suffixes)[1].startswith(".tsv") else usual
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        rows: list[list[str]] = []
        lines: list[int] = []
        try:
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
        except csv.Error as error:
            raise GraphError(
                f"{path}, line {reader.line_num}: {error}.", remedy="Check the quotation marks around that line."
            ) from error
        if not rows:
            raise GraphError(f"{path} is empty.", remedy="The first line must name the columns.")
        header = checked_header(str(path), rows[0])
        ragged = [(line, len(row)) for row, line in zip(rows, lines, strict=True) if len(row) != len(header)]
        if ragged:
            shown = listed((f"line {line} has {cells}" for line, cells in ragged), len(ragged))
            raise GraphError(
                f"The header of {path} names {len(header)} columns, and {len(ragged):,} "
                f"row{'s have' if len(ragged) > 1 else ' has'} another number of cells: {shown}.",
                remedy="Every row needs one cell a column; quote cells that contain the delimiter.",
            )
        cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
        columns, index = without_index(dict(zip(header, cells, strict=True)))
        return Frame(str(path), columns, lines[1:], index=index)


def _decode(path: Path) -> str:
    try:
        check_need(path, _TEXT_COST * path.stat().st_size)
        content = _inflated(path) if path.suffix.lower() == ".gz" else path.read_bytes()
        return content.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise GraphError(f"{path} is not a whole gzip file ({error}).", remedy="Copy or compress it again.") from error
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{path} is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start:,}.",
            remedy="Save the file as UTF-8.",
        ) from error
    except OSError as error:
        raise GraphError(
            f"{path} cannot be read: {error.strerror}.", remedy="Check the path and its permissions."
        ) from error


def _inflated(path: Path) -> bytes:
    """Return what a gzip file holds, as long as that may be read."""
    content = io.BytesIO()
    with gzip.open(path) as stream:
        while block := stream.read(1 << 20):
            content.write(block)
            check_need(path, _TEXT_COST * content.tell(), "The text")
    return content.getvalue()
