"""The options that say how a graph is read: alike in all commands that read one, with the defaults of the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fossil.cli import data, embed, evaluate, search
from fossil.cli.reading import NAMES, Reading, reads_a_graph
from fossil.errors import SettingError
from fossil.graph.findings import Treatment

COMMANDS: dict[str, Callable[..., Any]] = {
    "embed": embed.command, "describe": data.describe, "convert": data.convert, "search": search.command,
    "evaluate": evaluate.command,
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_reads_a_graph_has_all_of_them(name: str) -> None:
    assert set(NAMES) <= set(inspect.signature(COMMANDS[name]).parameters)
    assert len(NAMES) == 13


def test_what_is_done_about_oddities_by_default_is_what_the_library_does() -> None:
    assert Reading().options()["treatment"] == Treatment().model_dump()


def given(*words: str) -> tuple[int, Reading]:
    """Return what a command with an option of its own is told by some words: its own option, and how to read."""
    told: list[tuple[int, Reading]] = []

    def command(own: int = typer.Option(1), *, reading: Reading) -> None:
        told.append((own, reading))

    app = typer.Typer()
    app.command()(reads_a_graph(command))
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 0, found.output
    return told[0]


def test_a_command_is_told_what_was_said_and_the_defaults_of_the_rest() -> None:
    assert given() == (1, Reading())
    own, reading = given(
        "--own", "2", "--edges", "e.csv", "--column", "a=drop", "--column", "b=date", "--missing-indicator",
        "--direction", "reverse",
    )  # fmt: skip
    assert own == 2
    assert reading == replace(
        Reading(), edges=Path("e.csv"), columns=["a=drop", "b=date"], missing_indicator=True, direction="reverse"
    )
    options = reading.options()
    assert options["roles"] == {"a": "drop", "b": "date"} and options["edges"] == Path("e.csv")
    assert options["treatment"] == Treatment(missing_indicator=True, direction="reverse").model_dump()


def test_one_command_does_not_change_what_another_is_told() -> None:
    given("--column", "a=drop")
    assert given()[1].columns == []


def test_a_role_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError) as refused:
        Reading(columns=["a:drop"]).options()
    assert refused.value.what == "--column 'a:drop' is not of the form NAME=ROLE."
