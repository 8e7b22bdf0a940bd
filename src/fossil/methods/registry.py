"""Finds the methods by looking into this package and into others that offer some, and recipes beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

import fossil.methods
from fossil.discovery import discover
from fossil.errors import SettingError, nearest
from fossil.methods.base import Method

Kind: TypeAlias = type[Method[Any]]


@cache
def methods() -> dict[str, Kind]:
    """Return every method by name."""
    return discover(fossil.methods, Method)


def get_method(method: str | Kind) -> Kind:
    """Return the method called by this name; a class is taken as it is, and known by its name from then on.

    Raises:
        SettingError: there is none of that name, and the nearest is offered; or the class is no method.
    """
    known = methods()
    if isinstance(method, str):
        if method not in known:
            raise SettingError(f"Unknown method {method!r}.", remedy=nearest(method, known))
        return known[method]
    if not (isinstance(method, type) and issubclass(method, Method) and isinstance(getattr(method, "name", None), str)):
        raise SettingError(
            f"{method!r} is no method.", remedy="Give a name, or a class that derives from fossil.methods.base.Method."
        )
    before = known.setdefault(method.name, method)
    if (before.__module__, before.__qualname__) != (method.__module__, method.__qualname__):
        raise SettingError(
            f"Another method is called {method.name!r} already.", remedy="Give the class another `name`."
        )
    known[method.name] = method  # defined anew, as in a notebook
    return method


@dataclass(frozen=True)
class Recipe:
    """Settings for one graph, with the number they are published with.

    Attributes:
        settings: overrides of the method's defaults.
        published: accuracy in percent as printed in the paper, or None.
        interval: the half width printed beside it.
        note: anything a reader should know.
        epochs: training steps, where they differ from the method's own.
    """

    settings: dict[str, Any]
    published: float | None = None
    interval: float | None = None
    note: str = ""
    epochs: int | None = None


@cache
def recipes(method: str) -> dict[str, Recipe]:
    """Return the recipes of a method by graph name; a method without a recipe file has none."""
    path = Path(__file__).parent / "recipes" / f"{method}.yaml"
    if not path.exists():
        return {}
    return {graph: Recipe(**content) for graph, content in yaml.safe_load(path.read_text()).items()}
