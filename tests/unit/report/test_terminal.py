"""What reaches a terminal, with the widths that it has there."""

from __future__ import annotations

import io
import sys

import pytest
from rich.table import Table

from fossil.report.terminal import PlainConsole


def shown(encoding: str, what: object, monkeypatch: pytest.MonkeyPatch) -> str:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    PlainConsole().print(what, soft_wrap=False)
    sys.stdout.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_a_table_stays_straight_whatever_is_in_its_cells(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("λ\x1b[31m", "name", title="\x07[red]title")
    table.add_row("\x1b]0;x\x07", "Łódź ± 1")
    table.add_row("[/]", "a\nb")
    title, *lines = shown(encoding, table, monkeypatch).splitlines()
    assert len({len(line.rstrip()) for line in lines}) == 1 and len(lines) == 6, lines
    assert title.strip() == "\\x07[red]title" and "[/]" in lines[4] and "a\\nb" in lines[4]


def test_a_text_is_no_markup_and_no_emoji(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown("utf-8", "[red]x[/] :smile: 12 'y'\t", monkeypatch) == "[red]x[/] :smile: 12 'y'\\t\n"
