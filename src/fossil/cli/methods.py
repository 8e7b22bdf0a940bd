"""`fossil methods`: which methods there are, and what can be set in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from fossil.cli import complete
from fossil.cli.show import Form, plain_console, show_table
from fossil.report.tables import Format, Table

if TYPE_CHECKING:
    from fossil.methods.base import Method


def command(
    method: str | None = typer.Option(
        None, metavar="NAME", autocompletion=complete.methods, help="Show the settings and recipes of this method."
    ),
    form: Form = Format.TABLE,
) -> None:
    """List the methods, or the settings of one."""
    from fossil.methods.registry import get_method, methods

    show_table(plain_console(), _methods(methods()) if method is None else _settings(get_method(method)), form)


def _methods(known: dict[str, type[Method[Any]]]) -> Table:
    listed = sorted(known.items())
    return Table(
        "Methods",
        ("name", "title", "trains on labels", "paper"),
        [(name, kind.title, "yes" if kind.needs_labels else "no", kind.paper) for name, kind in listed],
        [
            {"name": name, "title": kind.title, "trains_on_labels": kind.needs_labels, "paper": kind.paper}
            for name, kind in listed
        ],
        ["fossil embed INPUT --method NAME trains one; fossil methods --method NAME shows its settings"],
    )


def _settings(kind: type[Method[Any]]) -> Table:
    from fossil.methods.registry import recipes
    from fossil.settings import bounds, choices, meaning, spelt

    changed = {name: values for name, values in kind.presets.items() if values}
    header, rows = ("setting", "default", *changed, "meaning", "accepted"), []
    for name, field in kind.Config.model_fields.items():
        by_preset = [spelt(values[name]) if name in values else "" for values in changed.values()]
        accepted = ", ".join([*map(spelt, choices(field)), *bounds(field)])
        rows.append((name, spelt(field.default), *by_preset, meaning(kind.Config, name), accepted))
    notes = [
        f"{kind.title}: {kind.paper}",
        f"presets: {', '.join(kind.presets)}, the first by default",
        f"epochs: {kind.epochs_in_words()} unless the recipe of a graph or --epochs says otherwise"
        if kind.trained
        else "epochs: none, nothing is trained",
        f"recipes: {', '.join(recipes(kind.name)) or 'none'}",
    ]
    return Table("Settings", header, rows, [dict(zip(header, row, strict=True)) for row in rows], notes)
