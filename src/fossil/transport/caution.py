"""Warnings that point at the line outside this package that led to them."""

from __future__ import annotations

import inspect
import warnings

from fossil.errors import FossilWarning


def warn_the_caller(message: str) -> None:
    """Warn at the line outside this package, so that with Python's default filter each such line warns once."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("fossil."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FossilWarning, stacklevel=level)
