"""`fossil methods`: which methods there are, and what can be set in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import typer

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from rich.table import Table

    from fossil.methods.base import Method


def command(
    method: str | None = typer.Option(None, metavar="NAME", help="Show the settings and recipes of this method."),
) -> None:
    """List the methods, or the settings of one."""
    from fossil.cli.terminal import plain_console
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

    changed = {name: values for name, values in kind.presets.items() if values}
    table = Table("setting", "default", *changed, "meaning", "accepted", title="Settings", title_justify="left")
    for name, field in kind.Config.model_fields.items():
        by_preset = [spelt(values[name]) if name in values else "" for values in changed.values()]
        accepted = [*map(spelt, choices(field)), *bounds(field)]
        table.add_row(name, spelt(field.default), *by_preset, field.description, ", ".join(accepted))
    return table


def choices(field: FieldInfo) -> list[Any]:
    """Return the values that a setting can have, where they can be listed."""
    if field.annotation is bool:
        return [True, False]
    return list(get_args(field.annotation)) if get_origin(field.annotation) is Literal else []


def bounds(field: FieldInfo) -> list[str]:
    """Return the bounds of a setting, such as `≥ 1`."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return [
        f"{sign} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, sign in signs.items()
        if getattr(bound, name, None) is not None
    ]


def spelt(value: object) -> str:
    """Return a value as `--set` reads it.

    >>> spelt(None), spelt(True), spelt(5e-4), spelt("gcn")
    ('null', 'true', '0.0005', 'gcn')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
