"""Finds the methods by looking into this package, and their recipes by looking beside them."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import fossil.methods
from fossil.errors import SettingError, nearest
from fossil.methods.base import Method


@cache
def methods() -> dict[str, type[Method[Any]]]:
    """Return every method by name."""
    found: dict[str, type[Method[Any]]] = {}
    for module in pkgutil.iter_modules(fossil.methods.__path__):
        content = vars(importlib.import_module(f"fossil.methods.{module.name}"))
        for candidate in content.values():
            if isinstance(candidate, type) and issubclass(candidate, Method) and "name" in vars(candidate):
                found[candidate.name] = candidate
    return found


def get_method(name: str) -> type[Method[Any]]:
    """Return the method called `name`.

    Raises:
        SettingError: there is none; the nearest name is offered.
    """
    known = methods()
    if name not in known:
        raise SettingError(f"Unknown method {name!r}.", remedy=nearest(name, known))
    return known[name]


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
