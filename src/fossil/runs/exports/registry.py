"""Finds the exports by looking into this package and into others that offer some."""

from __future__ import annotations

from functools import cache

import fossil.runs.exports
from fossil.discovery import discover
from fossil.errors import SettingError, nearest
from fossil.runs.exports.base import Exporter


@cache
def exporters() -> dict[str, type[Exporter]]:
    """Return every export by name."""
    return discover(fossil.runs.exports, Exporter)


def get_exporter(name: str) -> type[Exporter]:
    """Return the export of this name.

    Raises:
        SettingError: there is none, or a package that it needs is not installed.
    """
    if name not in exporters():
        raise SettingError(f"Unknown export {name!r}.", remedy=nearest(name, exporters()))
    found = exporters()[name]
    found.check()
    return found
