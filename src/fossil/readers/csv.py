"""Comma-, semicolon- and tab-separated tables."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from fossil.errors import GraphError
from fossil.readers.base import TableReader
from fossil.readers.tables import Frame, checked_header


class DelimitedTables(TableReader):
    """CSV with commas or semicolons, TSV with tabs; UTF-8, the first line names the columns."""

    name = "csv"
    form = "a node table (.csv or .tsv)"
    suffixes = (".csv", ".tsv")

    @classmethod
    def read_frame(cls, path: Path) -> Frame:
        """Read one table.

        Raises:
            GraphError: the file is unreadable, empty or malformed.
        """
        text = _decode(path)
        first = text.partition("\n")[0]
        usual = ";" if first.count(";") > first.count(",") else ","
        delimiter = "\t" if path.suffix.lower() == ".tsv" else usual
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
        for row, line in zip(rows[1:], lines[1:], strict=True):
            if len(row) != len(header):
                raise GraphError(
                    f"{path}, line {line} has {len(row)} cells, but the header names {len(header)} columns.",
                    remedy="Every row needs one cell a column; quote cells that contain the delimiter.",
                )
        columns = list(zip(*rows[1:], strict=True)) or [()] * len(header)
        return Frame(str(path), dict(zip(header, columns, strict=True)), lines[1:])


def _decode(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{path} is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start:,}.",
            remedy="Save the file as UTF-8.",
        ) from error
    except OSError as error:
        raise GraphError(
            f"{path} cannot be read: {error.strerror}.", remedy="Check the path and its permissions."
        ) from error
