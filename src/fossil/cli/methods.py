"""`fossil methods`: which methods there are, and what can be set in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from fossil.methods.base import Method


def command(
    method: str | None = typer.Option(None, metavar="NAME", help="Show the settings and recipes of this method."),
) -> None:
    """List the methods, or the settings of one."""
    from fossil.cli.show import plain_console
    from fossil.methods.registry import get_method, methods, recipes

    console = plain_console()
    if method is None:
        console.print(_methods_table(methods()), soft_wrap=False)
        console.print("fossil embed INPUT --method NAME trains one; fossil methods --method NAME shows its settings")
        return
    kind = get_method(method)
    console.print(f"{kind.title}: {kind.paper}")
    console.print(f"presets: {', '.join(kind.presets)}, the first by default")
    console.print(f"epochs: {kind.epochs}, unless the recipe of a graph or --epochs says otherwise")
    console.print(f"recipes: {', '.join(recipes(method)) or 'none'}")
    console.print(_settings_table(kind), soft_wrap=False)


def _methods_table(known: dict[str, type[Method[Any]]]) -> Table:
    from rich.table import Table

    table = Table("name", "title", "trains on labels", "paper", title="Methods", title_justify="left")
    for name, kind in sorted(known.items()):
        table.add_row(name, kind.title, "yes" if kind.needs_labels else "no", kind.paper)
    return table


def _settings_table(kind: type[Method[Any]]) -> Table:
    from rich.table import Table

    from fossil.settings import bounds, choices, meaning, spelt

    changed = {name: values for name, values in kind.presets.items() if values}
    table = Table("setting", "default", *changed, "meaning", "accepted", title="Settings", title_justify="left")
    for name, field in kind.Config.model_fields.items():
        by_preset = [spelt(values[name]) if name in values else "" for values in changed.values()]
        accepted = [*map(spelt, choices(field)), *bounds(field)]
        table.add_row(name, spelt(field.default), *by_preset, meaning(kind.Config, name), ", ".join(accepted))
    return table
