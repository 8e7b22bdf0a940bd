"""Finds the loggers by looking into this package and into others that offer some."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import fossil.runs.loggers
from fossil.discovery import discover
from fossil.errors import SettingError, nearest
from fossil.runs.loggers.base import Logger


@cache
def loggers() -> dict[str, type[Logger]]:
    """Return every logger by name."""
    return discover(fossil.runs.loggers, Logger)


def get_loggers(wanted: Iterable[str | Logger]) -> list[Logger]:
    """Return the loggers that are named as `NAME` or `NAME:TARGET`; others are taken as they are.

    Raises:
        SettingError: there is none of that name, or one is named twice.
    """
    found: list[Logger] = []
    for one in [wanted] if isinstance(wanted, str) else wanted:
        found.append(one if isinstance(one, Logger) else _named(one))
        if [each.name for each in found].count(found[-1].name) > 1:
            raise SettingError(f"Logger {found[-1].name!r} is named twice.", remedy="Name it once.")
    return found


def _named(text: str) -> Logger:
    name, _, target = str(text).partition(":")
    if name not in loggers():
        raise SettingError(f"Unknown logger {name!r}.", remedy=nearest(name, loggers()))
    return loggers()[name](target)
