"""The options that say how a graph is read: the same in four commands, with the defaults of the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from fossil.cli import data, embed, reading, search
from fossil.graph.findings import Treatment

COMMANDS: dict[str, Callable[..., Any]] = {
    "embed": embed.command, "describe": data.describe, "convert": data.convert, "search": search.command,
}  # fmt: skip


def options_of(command: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return the declaration and the default of every parameter that `reading` declares, by its name."""
    declared = [one for one in vars(reading).values() if hasattr(one, "__metadata__")]
    assert len(declared) == 13
    hints = get_type_hints(inspect.unwrap(command), include_extras=True)
    defaults = inspect.signature(command).parameters
    return {name: (hint, defaults[name].default) for name, hint in hints.items() if hint in declared}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_reads_a_graph_has_all_of_them_with_one_default(name: str) -> None:
    found = options_of(COMMANDS[name])
    assert len(found) == 13 and found == options_of(embed.command)


def test_what_is_done_about_oddities_by_default_is_what_the_library_does() -> None:
    found = {name: default for name, (_, default) in options_of(embed.command).items()}
    usual = Treatment().model_dump()
    assert {name: found[name] for name in usual} == usual


def test_a_search_repeats_all_of_them_in_the_command_that_it_prints() -> None:
    assert set(search._READING) == set(options_of(search.command))
