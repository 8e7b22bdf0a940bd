"""Tables in every form they are asked for in: for the eyes, for a paper, and for another program."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from fossil.printable import printable

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
    "↔": r"$\leftrightarrow$",
    "←": r"$\leftarrow$",
    "†": r"$\dagger$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"{{{sign}}}" for sign in "[*"},  # first in a row, they would be arguments of the line end before it
}
# What has a meaning in Markdown and HTML; an underscore within a word has none.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_CODE = re.compile(r"((?<!`)`[\w .=/-]+`(?!`))")  # in a note: a command, or the name of something


class Format(StrEnum):
    """In which form a table is printed; the last two have raw numbers in full precision."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


class Emphasis(StrEnum):
    """What the first word of a cell, its number, is set apart as: the best of its kind, or the second best."""

    BEST = "best"
    SECOND = "second"


# How each form sets a word apart: what stands before it, and what after it.
_MARKDOWN_EMPHASIS = {Emphasis.BEST: ("**", "**"), Emphasis.SECOND: ("<u>", "</u>")}
_LATEX_EMPHASIS = {Emphasis.BEST: (r"\textbf{", "}"), Emphasis.SECOND: (r"\underline{", "}")}
_TERMINAL_EMPHASIS = {Emphasis.BEST: "bold", Emphasis.SECOND: "underline"}


@dataclass(frozen=True)
class Table:
    """A table for people and for programs.

    Attributes:
        title: what it is a table of.
        header: titles of the columns that people see.
        rows: the cells that people see.
        records: the same content as plain values by name, all with the same names, and more of it.
        notes: what people must be told beside it.
        emphasis: which cells are the best and the second best, by row and column; not for programs.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    records: Sequence[Mapping[str, Value]]
    notes: Sequence[str] = ()
    emphasis: Mapping[tuple[int, int], Emphasis] = field(default_factory=dict)


def as_rich(table: Table, room: int) -> rich.table.Table:
    """Return the cells for a terminal with `room` columns of signs."""
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(title=table.title, title_justify="left")
    for name, width in zip(table.header, _widths(table, room), strict=True):
        made.add_column(name, overflow="fold", width=width)  # a narrow terminal breaks long words and loses nothing
    for i, row in enumerate(table.rows):
        cells: list[str | Text] = list(row)  # texts are made printable by the console
        for j, cell in enumerate(row):
            if (i, j) in table.emphasis:
                word, space, rest = printable(cell).partition(" ")
                cells[j] = Text.assemble((word, _TERMINAL_EMPHASIS[table.emphasis[i, j]]), space + rest)
        made.add_row(*cells)
    return made


def _widths(table: Table, room: int) -> Sequence[int | None]:
    """Return widths of columns at which no word is broken; None, Rich's choice, where lines fit, or words do not."""
    from rich.cells import cell_len

    columns = [[printable(cell) for cell in column] for column in zip(table.header, *table.rows, strict=True)]
    lines = [max(map(cell_len, column)) for column in columns]
    words = [max(cell_len(word) for cell in column for word in [*cell.split(), ""]) for column in columns]
    spare = room - 3 * len(columns) - 1 - sum(words)  # a line and two spaces for each column, and a line at the end
    if spare < 0 or sum(lines) - sum(words) <= spare:
        return [None] * len(columns)
    for _ in range(spare):  # to the column that lacks most
        lacking = [line - word for line, word in zip(lines, words, strict=True)]
        words[lacking.index(max(lacking))] += 1
    return words


def _emphasized(table: Table, row: int, cells: Sequence[str], signs: Mapping[Emphasis, tuple[str, str]]) -> list[str]:
    """Return the cells of a row with the first word of the best and the second best between signs."""
    found = list(cells)
    for column, cell in enumerate(cells):
        if (row, column) in table.emphasis:
            before, after = signs[table.emphasis[row, column]]
            word, space, rest = cell.partition(" ")
            found[column] = f"{before}{word}{after}{space}{rest}"
    return found


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
            return json.dumps(table.records, indent=2, allow_nan=False)  # in ASCII, whatever is in a name
        case Format.TABLE:
            raise ValueError("A terminal's table depends on its width: print as_rich(table).")


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    written = [[_in_markdown(cell) for cell in row] for row in table.rows]
    rows = [_emphasized(table, number, row, _MARKDOWN_EMPHASIS) for number, row in enumerate(written)]
    lines = [line([_in_markdown(cell) for cell in table.header]), "|" + "---|" * len(table.header), *map(line, rows)]
    return "\n".join(lines) + "".join(f"\n\n{_prose_in_markdown(note)}" for note in table.notes)


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", printable(text))


def _prose_in_markdown(text: str) -> str:
    """Return a note, in which commands and settings stay set apart as code."""
    parts = _CODE.split(text)  # every other one is code
    return "".join(printable(part) if i % 2 else _in_markdown(part) for i, part in enumerate(parts))


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join(cells) + r" \\"

    written = [[_in_latex(cell) for cell in row] for row in table.rows]
    rows = [_emphasized(table, number, row, _LATEX_EMPHASIS) for number, row in enumerate(written)]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            *(f"% {printable(note)}" for note in table.notes),
            rf"\begin{{tabular}}{{{'l' * len(table.header)}}}",
            r"  \toprule",
            line([_in_latex(cell) for cell in table.header]),
            r"  \midrule",
            *map(line, rows),
            r"  \bottomrule",
            r"\end{tabular}",
        ]
    )


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in printable(text))


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
