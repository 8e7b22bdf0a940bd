"""How a graph of one's own is read: the options that `fossil embed` and `fossil data describe` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from fossil.errors import SettingError

_FILES = "Your own files"
_ODDITIES = "What is done about oddities"

Edges: TypeAlias = Annotated[
    Path | None, typer.Option("--edges", help="Edge table, when INPUT is a node table.", rich_help_panel=_FILES)
]
Label: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="Column of classes; only fs_gcn and fs_mlp train on it, all other methods never see it.",
        rich_help_panel=_FILES,
    ),
]
Columns: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--column",
        metavar="NAME=ROLE",
        help="What a column is: numeric, boolean, categorical, date, calendar, drop, label or id. numeric:zero says in "
        "addition how its empty cells are filled. May be repeated.",
        rich_help_panel=_FILES,
    ),
]
StructuralFeatures: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--structural-features",
        help="Make features from the edges; INPUT may then be an edge table alone.",
        rich_help_panel=_FILES,
    ),
]
Missing: TypeAlias = Annotated[
    str,
    typer.Option(
        "--missing",
        help="Empty cells of numeric, boolean and date columns: refuse, or fill with the mean, median, most_frequent "
        "value or zero of the column.",
        rich_help_panel=_FILES,
    ),
]
MissingIndicator: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--missing-indicator",
        help="One more feature for every column with empty cells: 1 where the cell is empty.",
        rich_help_panel=_FILES,
    ),
]
Direction: TypeAlias = Annotated[
    str,
    typer.Option(
        "--direction",
        help="keep, symmetrize (add the reverse of each edge) or reverse (turn every edge round).",
        rich_help_panel=_ODDITIES,
    ),
]
UnknownEdges: TypeAlias = Annotated[
    str,
    typer.Option(
        "--unknown-edges",
        help="Edges that name a node which the node table has not: refuse or drop.",
        rich_help_panel=_ODDITIES,
    ),
]
EdgeWeights: TypeAlias = Annotated[
    str,
    typer.Option(
        "--edge-weights",
        help="Numbers that differ between edges, which no method uses: refuse or ignore.",
        rich_help_panel=_ODDITIES,
    ),
]
SelfLoops: TypeAlias = Annotated[
    str, typer.Option("--self-loops", help="remove, keep or refuse.", rich_help_panel=_ODDITIES)
]
Duplicates: TypeAlias = Annotated[
    str, typer.Option("--duplicates", help="Repeated edges: merge or refuse.", rich_help_panel=_ODDITIES)
]
Isolated: TypeAlias = Annotated[
    str, typer.Option("--isolated", help="Nodes without edges: keep, drop or refuse.", rich_help_panel=_ODDITIES)
]
ZeroFeatures: TypeAlias = Annotated[
    str,
    typer.Option(
        "--zero-features", help="Nodes with all-zero features: keep, drop or refuse.", rich_help_panel=_ODDITIES
    ),
]


def treatment(context: typer.Context) -> dict[str, Any]:
    """Return what is done about oddities: the options of a command that are called like settings of `Treatment`."""
    from fossil.graph.findings import Treatment

    return {name: context.params[name] for name in Treatment.model_fields}


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
