"""How a graph of one's own is read: the options that every command has which reads one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from fossil.errors import SettingError

_own_file = partial(typer.Option, rich_help_panel="Your own files")
_oddity = partial(typer.Option, rich_help_panel="What is done about oddities")


@dataclass(frozen=True)
class Reading:
    """What the options say; a field each, called as the option is."""

    edges: Annotated[Path | None, _own_file("--edges", help="Edge table, when INPUT is a node table.")] = None
    label: Annotated[
        str | None,
        _own_file(
            "--label", help="Column of classes; only fs_gcn and fs_mlp train on it, all other methods never see it."
        ),
    ] = None
    columns: Annotated[
        list[str],
        _own_file(
            "--column",
            metavar="NAME=ROLE",
            help="What a column is: numeric, boolean, categorical, date, calendar, drop, label or id. numeric:zero "
            "says in addition how its empty cells are filled. May be repeated.",
        ),
    ] = field(default_factory=list)
    structural_features: Annotated[
        bool,
        _own_file("--structural-features", help="Make features from the edges; INPUT may then be an edge table alone."),
    ] = False
    missing: Annotated[
        str,
        _own_file(
            "--missing",
            help="Empty cells of numeric, boolean and date columns: refuse, or fill with the mean, median, "
            "most_frequent value or zero of the column.",
        ),
    ] = "refuse"
    missing_indicator: Annotated[
        bool,
        _own_file(
            "--missing-indicator", help="One more feature for every column with empty cells: 1 where the cell is empty."
        ),
    ] = False
    direction: Annotated[
        str,
        _oddity(
            "--direction", help="keep, symmetrize (add the reverse of each edge) or reverse (turn every edge round)."
        ),
    ] = "keep"
    unknown_edges: Annotated[
        str,
        _oddity("--unknown-edges", help="Edges that name a node missing from the node table: refuse or drop."),
    ] = "refuse"
    edge_weights: Annotated[
        str,
        _oddity("--edge-weights", help="Numbers that differ between edges, which no method uses: refuse or ignore."),
    ] = "refuse"
    self_loops: Annotated[str, _oddity("--self-loops", help="remove, keep or refuse.")] = "remove"
    duplicates: Annotated[str, _oddity("--duplicates", help="Repeated edges: merge or refuse.")] = "merge"
    isolated: Annotated[str, _oddity("--isolated", help="Nodes without edges: keep, drop or refuse.")] = "keep"
    zero_features: Annotated[
        str,
        _oddity("--zero-features", help="Nodes with all-zero features: keep, drop or refuse."),
    ] = "keep"

    def options(self) -> dict[str, Any]:
        """Return it as `open_graph` and `convert` take it."""
        from fossil.graph.findings import Treatment

        return {
            "edges": self.edges,
            "label": self.label,
            "roles": parse_roles(self.columns),
            "structural_features": self.structural_features,
            "treatment": {name: getattr(self, name) for name in Treatment.model_fields},
        }


NAMES = tuple(each.name for each in fields(Reading))
"""Of the options, as parameters are called."""


def reads_a_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options, which it takes as one keyword, `reading`."""
    own = inspect.signature(command, eval_str=True)
    hints = get_type_hints(Reading, include_extras=True)
    usual = Reading()
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(usual, name), annotation=hints[name])
        for name in NAMES
    ]
    others = [each for each in own.parameters.values() if each.name != "reading"]

    @wraps(command)
    def run(*arguments: Any, **values: Any) -> None:
        reading = Reading(**{name: values.pop(name) for name in NAMES})
        command(*arguments, **values, reading=reading)

    # Typer takes names and defaults from the signature, types from the annotations.
    run.__signature__ = own.replace(parameters=[*others, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in [*others, *options]}
    return run


def given(context: typer.Context) -> list[str]:
    """Return those of these options that the user gave, as they are spelt."""
    sources = {
        each.opts[0]: context.get_parameter_source(each.name or "")
        for each in context.command.params
        if each.name in NAMES
    }
    return [flag for flag, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def parse_roles(columns: list[str]) -> dict[str, str]:
    """Read `NAME=ROLE` strings.

    >>> parse_roles(["city=categorical", "a=b=numeric"])
    {'city': 'categorical', 'a=b': 'numeric'}
    """
    roles = {}
    for assignment in columns:
        name, equals, role = assignment.rpartition("=")
        if not equals:
            raise SettingError(
                f"--column {assignment!r} is not of the form NAME=ROLE.", remedy="Example: city=categorical"
            )
        roles[name] = role
    return roles
