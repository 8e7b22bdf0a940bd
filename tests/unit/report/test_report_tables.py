"""One table in five forms: what people see, and what pandas and the json module read back."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fossil.report.tables import Format, Table, as_rich, render

VALUE = 0.1 + 0.2  # has no short decimal form
TABLE = Table(
    "Scores",
    ("method", "50 % & more"),
    [("a|b_c", "30.00 ± 1 λ"), ("[bold]", "")],
    [
        {"method": "a|b_c", "mean": VALUE, "low": None, "values": [1.5, VALUE], "supervised": True},
        {"method": "[bold]", "mean": 1.0, "low": -0.25, "values": [], "supervised": False},
    ],
    ("One note.", "Another."),
)


def test_csv_is_read_back_by_pandas_to_the_last_bit() -> None:
    frame = pd.read_csv(io.StringIO(render(TABLE, Format.CSV)), dtype={"mean": str})
    assert list(frame.columns) == ["method", "mean", "low", "values", "supervised"]
    assert frame["method"].tolist() == ["a|b_c", "[bold]"] and frame["supervised"].tolist() == [True, False]
    assert frame["mean"].map(float).tolist() == [VALUE, 1.0]
    assert np.isnan(frame["low"][0]) and frame["low"][1] == -0.25
    assert [float(part) for part in frame["values"][0].split()] == [1.5, VALUE]


def test_json_is_the_records_and_pandas_reads_it() -> None:
    text = render(TABLE, Format.JSON)
    assert json.loads(text) == TABLE.records
    assert pd.read_json(io.StringIO(text), precise_float=True)["low"].tolist()[1] == -0.25


def test_markdown_keeps_cells_apart_and_notes_below() -> None:
    head, rule, *rows = render(TABLE, Format.MARKDOWN).splitlines()
    assert head == "| method | 50 % & more |" and rule == "|---|---|"
    assert rows == [r"| a\|b_c | 30.00 ± 1 λ |", r"| \[bold\] |  |", "", "One note.", "", "Another."]


def test_no_cell_of_latex_is_an_argument_of_the_line_end_before_it() -> None:
    rows = [("first",), ("[2pt]",), ("*",)]
    lines = render(Table("x", ("a",), rows, []), Format.LATEX).splitlines()
    assert [line.strip() for line in lines[5:8]] == [r"first \\", r"{[}2pt] \\", r"{*} \\"]


def test_latex_escapes_what_has_a_meaning_there() -> None:
    lines = render(TABLE, Format.LATEX).splitlines()
    assert lines[1:3] == ["% One note.", "% Another."]
    assert r"  method & 50 \% \& more \\" in lines and r"  a\textbar{}b\_c & 30.00 $\pm$ 1 $\lambda$ \\" in lines
    assert lines[3] == r"\begin{tabular}{ll}" and lines[-1] == r"\end{tabular}"
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize("form", [Format.CSV, Format.JSON])
def test_an_empty_table_has_a_form_too(form: Format) -> None:
    empty = Table("Nothing", ("a",), [], [])
    assert render(empty, form) == {"csv": "", "json": "[]"}[form]


def test_a_terminal_shows_every_cell_as_it_is() -> None:
    stream = io.StringIO()
    Console(file=stream, width=200, markup=False).print(as_rich(TABLE, 200))
    assert all(cell in stream.getvalue() for row in TABLE.rows for cell in row)


LONG = Table(
    "Methods",
    ("name", "title", "trains on labels", "paper"),
    [
        ("fossil_channels_v2", "FOSSIL channels v2", "no", "this library, after Sangare et al., TMLR 2025"),
        ("fs_gcn", "FS-GCN", "yes", "Kipf and Welling, ICLR 2017, arXiv 1609.02907"),
    ],
    [],
)


@pytest.mark.parametrize("width", [55, 56, 80, 100, 112, 113])
def test_no_word_is_broken_where_all_words_fit(width: int) -> None:
    stream = io.StringIO()
    Console(file=stream, width=width, markup=False).print(as_rich(LONG, width))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert set(stream.getvalue().split()) >= {word for row in LONG.rows for cell in row for word in cell.split()}


@pytest.mark.parametrize("width", [20, 40, 54])
def test_a_terminal_narrower_than_its_words_loses_nothing(width: int) -> None:
    stream = io.StringIO()
    Console(file=stream, width=width, markup=False).print(as_rich(LONG, width))
    cells = [[part.strip() for part in line.split("│")[1:-1]] for line in stream.getvalue().splitlines()]
    names = "".join(row[0] for row in cells if row)
    assert names == "fossil_channels_v2fs_gcn" and max(map(len, stream.getvalue().splitlines())) <= width


HOSTILE = "\x1b[2J\x9b\r\n\u2028[x](http://y) <b>&lt; `c` *d* _e_ f_g ~h~ \\end{tabular} $^_|\ud800"
HOSTILE_TABLE = Table(HOSTILE, (HOSTILE,), [(HOSTILE,)], [{"name": HOSTILE}], (HOSTILE,))


def acting(text: str) -> set[str]:
    return {sign for sign in text if not sign.isprintable() and sign != "\n"}


def test_no_name_leaves_its_cell_or_acts_on_a_terminal() -> None:
    for form, lines in ((Format.MARKDOWN, 5), (Format.LATEX, 9), (Format.JSON, 5)):
        text = render(HOSTILE_TABLE, form)
        assert not acting(text) and len(text.splitlines()) == lines, form
    markdown, latex = render(HOSTILE_TABLE, Format.MARKDOWN), render(HOSTILE_TABLE, Format.LATEX).splitlines()
    escaped = r"\[x\](http://y) \<b\>\&lt; \`c\` \*d\* \_e\_ f_g \~h\~ \\end{tabular} $^\_\|\\ud800"
    code_escaped = r"\`c\`"
    assert markdown.count(escaped) == 2  # header and cell
    assert markdown.endswith(escaped.replace(code_escaped, "`c`"))  # a note sets code apart
    assert [line for line in latex if "end{tabular}" in line] == [latex[1], latex[-1]] and latex[1].startswith("% ")
    assert r"\textbackslash{}end\{tabular\} \$\textasciicircum{}\_\textbar{}\textbackslash{}ud800" in latex[4]


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ("Under `geom_gcn`, by `fossil study run a.yaml`.", "Under `geom_gcn`, by `fossil study run a.yaml`."),
        ("`a *b* c` of *d*", r"\`a \*b\* c\` of \*d\*"),
        ("`a` [b](c) ` d", r"`a` \[b\](c) \` d"),
        ("``x``", r"\`\`x\`\`"),
    ],
)
def test_a_note_keeps_only_the_marks_of_plain_code(note: str, written: str) -> None:
    table = Table("Sums", ["a"], [["1"]], [{"a": 1}], [note])
    assert render(table, Format.MARKDOWN).endswith(f"|\n\n{written}")


def test_programs_get_every_sign() -> None:
    assert json.loads(render(HOSTILE_TABLE, Format.JSON)) == HOSTILE_TABLE.records
    [record] = csv.DictReader(io.StringIO(render(HOSTILE_TABLE, Format.CSV), newline=""))
    assert record == {"name": HOSTILE}
