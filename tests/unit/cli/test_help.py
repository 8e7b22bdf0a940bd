"""The help of every command fits a terminal of 80 columns: nothing in it is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from fossil.cli.main import app


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*words, name))


@pytest.mark.parametrize("words", [*commands(typer.main.get_command(app))], ids=" ".join)
def test_no_help_is_cut_off_at_80_columns(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    app([*words, "--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "Usage: " in shown and "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert not [line for line in shown.splitlines() if "|latex|" in line], "accepted words break in the middle"
