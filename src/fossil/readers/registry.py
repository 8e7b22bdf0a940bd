"""Finds the readers by looking into this package and into others that offer some."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import fossil.readers
from fossil.discovery import discover
from fossil.errors import GraphError
from fossil.readers.base import Reader, TableReader


@cache
def readers() -> dict[str, type[Reader]]:
    """Return every reader by name."""
    return discover(fossil.readers, Reader)


def table_readers() -> dict[str, type[TableReader]]:
    """Return the readers of single tables by suffix."""
    tables = [reader for reader in readers().values() if issubclass(reader, TableReader)]
    return {suffix: reader for reader in tables for suffix in reader.suffixes}


def reader_for(source: Any) -> type[Reader]:
    """Return the reader that takes this path or object.

    Raises:
        GraphError: there is none; what is read is listed.
    """
    found = next((reader for reader in readers().values() if reader.accepts(source)), None)
    if found is not None:
        return found
    if isinstance(source, Path):
        suffixes = sorted({suffix for reader in readers().values() for suffix in reader.suffixes})
        raise GraphError(
            f"{source} has a suffix this package does not read.", remedy=f"Use one of {', '.join(suffixes)}."
        )
    raise GraphError(f"A {type(source).__name__} is not a graph that can be read.", remedy=f"Give {forms()}.")


def forms() -> str:
    """Return in words what can be read."""
    listed = [reader.form for reader in readers().values()]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
