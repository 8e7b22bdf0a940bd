"""Finding what is there: the modules of a package, and what other packages offer under a name (entry points)."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from fossil.errors import FossilWarning


def discover(package: ModuleType, base: type) -> dict[str, Any]:
    """Return all classes that derive from `base` and have a `name` of their own, by that name.

    They are looked for in the modules of a package and in the entry points whose group has the package's name, such as

        [project.entry-points."fossil.methods"]
        tiny = "my_package.tiny:Tiny"

    Warns:
        FossilWarning: an entry point cannot be loaded, is no such class, or takes a name that is taken; it is left out.
    """
    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for candidate in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
            if _is_one(candidate, base):
                found[candidate.name] = candidate
    for point in entry_points(group=package.__name__):
        where = f"{point.value} of {point.dist.name if point.dist else 'another package'}"
        try:
            candidate = point.load()
        except Exception as error:  # whatever another package does when it is imported
            _warn(f"{where} could not be loaded and is left out: {type(error).__name__}: {error}")
            continue
        if not _is_one(candidate, base):
            _warn(f"{where} is no {base.__name__} with a name, and is left out.")
        elif found.setdefault(candidate.name, candidate) is not candidate:
            _warn(f"{where} is called {candidate.name!r}, as another {base.__name__} is, and is left out.")
    return found


def _is_one(candidate: object, base: type) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, base) and isinstance(vars(candidate).get("name"), str)


def _warn(message: str) -> None:
    warnings.warn(message, FossilWarning, stacklevel=4)
