"""What a shell offers after TAB: names, looked up when they are asked for, since methods load PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fossil.methods import DEFAULT_METHOD

if TYPE_CHECKING:
    from fossil.methods.registry import Kind


def graphs() -> list[str]:
    """Return the catalogue's names; where none fits, the shell offers files."""
    from fossil.datasets.catalog import names

    return list(names())


def methods() -> list[str]:
    """Return the names of the methods."""
    from fossil.methods.registry import methods

    return sorted(methods())


def presets(context: typer.Context) -> list[str]:
    """Return the presets of the method that the line names so far."""
    kind = _method(context)
    return list(kind.presets) if kind else []


def settings(context: typer.Context) -> list[str]:
    """Return the settings of that method, each ready for its value."""
    kind = _method(context)
    return [f"{name}=" for name in kind.Config.model_fields] if kind else []


def protocols() -> list[str]:
    """Return the names of the protocols."""
    from fossil.evaluation.protocol import PROTOCOLS

    return list(PROTOCOLS)


def exports() -> list[str]:
    """Return the names of the exports."""
    from fossil.runs.exports.registry import exporters

    return sorted(exporters())


def loggers() -> list[str]:
    """Return the names of the loggers."""
    from fossil.runs.loggers.registry import loggers

    return sorted(loggers())


def _method(context: typer.Context) -> Kind | None:
    from fossil.methods.registry import methods

    return methods().get(context.params.get("method") or DEFAULT_METHOD)
