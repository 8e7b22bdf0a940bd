"""Tables in every form they are asked for in: for the eyes, for a paper, and for another program."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import rich.table

Value: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[int] | Sequence[float] | None

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "λ": r"$\lambda$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "τ": r"$\tau$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\to$",
}


class Format(StrEnum):
    """In which form a table is printed; the last two have raw numbers in full precision."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True)
class Table:
    """A table for people and for programs.

    Attributes:
        title: what it is a table of.
        header: titles of the columns that people see.
        rows: the cells that people see.
        records: the same content as plain values by name, all with the same names, and more of it.
        notes: what people must be told beside it.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    records: Sequence[Mapping[str, Value]]
    notes: Sequence[str] = ()


def as_rich(table: Table) -> rich.table.Table:
    """Return the cells for a terminal."""
    from rich.table import Table as RichTable

    made = RichTable(title=table.title, title_justify="left")
    for name in table.header:
        made.add_column(name, overflow="fold")  # a narrow terminal breaks long words and loses nothing
    for row in table.rows:
        made.add_row(*row)
    return made


def render(table: Table, form: Format) -> str:
    """Return the table as text in a form that has no width.

    >>> print(render(Table("Sums", ["a", "b"], [["1", "2 %"]], [{"a": 1, "b": 0.02}]), Format.MARKDOWN))
    | a | b |
    |---|---|
    | 1 | 2 % |
    """
    match form:
        case Format.MARKDOWN:
            return _markdown(table)
        case Format.LATEX:
            return _latex(table)
        case Format.CSV:
            return _csv(table)
        case Format.JSON:
            return json.dumps(table.records, indent=2, ensure_ascii=False, allow_nan=False)
        case Format.TABLE:
            raise ValueError("A terminal's table depends on its width: print as_rich(table).")


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    lines = [line(table.header), "|" + "---|" * len(table.header), *map(line, table.rows)]
    return "\n".join(lines) + "".join(f"\n\n{note}" for note in table.notes)


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join("".join(_LATEX.get(sign, sign) for sign in cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            *(f"% {part}" for note in table.notes for part in note.splitlines()),
            rf"\begin{{tabular}}{{{'l' * len(table.header)}}}",
            r"  \toprule",
            line(table.header),
            r"  \midrule",
            *map(line, table.rows),
            r"  \bottomrule",
            r"\end{tabular}",
        ]
    )


def _csv(table: Table) -> str:
    stream = io.StringIO()
    if table.records:
        writer = csv.DictWriter(stream, list(table.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in record.items()} for record in table.records)
    return stream.getvalue().removesuffix("\n")


def _cell(value: Value) -> Value:
    """Return what a CSV file has for a value: nothing for None, JSON's words for booleans, spaces in sequences."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, str | int | float):
        return value
    return " ".join(map(str, value))
