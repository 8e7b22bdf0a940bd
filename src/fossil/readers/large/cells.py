"""Cells of Arrow columns in the form that the readers of small tables know."""

from __future__ import annotations

from typing import Any

import numpy as np

from fossil.graph.graph import Array
from fossil.readers.cells import Column
from fossil.readers.frame import id_texts
from fossil.readers.large.parts import arrow


def is_number(kind: str) -> bool:
    """Tell whether an Arrow type, by its name, is one of numbers.

    >>> is_number("int32"), is_number("uint8"), is_number("halffloat"), is_number("double"), is_number("string")
    (True, True, True, True, False)
    """
    return is_integer(kind) or kind in ("halffloat", "float", "double")


def is_integer(kind: str) -> bool:
    """Tell whether an Arrow type, by its name, is one of integers."""
    return kind.removeprefix("u").startswith("int") and kind.removeprefix("u")[3:].isdigit()


def is_nested(kind: str) -> bool:
    """Tell whether an Arrow type, by its name, has cells of several values."""
    return kind.startswith(("list", "large_list", "fixed_size_list", "struct", "map", "list_view"))


def cells(column: Any, *, as_numbers: bool) -> Column:
    """Return the cells of an Arrow array.

    Args:
        column: one batch of a column.
        as_numbers: whether they are read as numbers, so that an empty cell may as well be NaN.
    """
    if is_number(str(column.type)):
        if as_numbers or not column.null_count:
            return np.asarray(column.to_numpy(zero_copy_only=False))
    elif as_numbers:
        numbers = _parsed(column)
        if numbers is not None:
            return numbers
    plain: list[object] = column.to_pylist()
    return plain


def _parsed(column: Any) -> Array | None:
    """Return texts as doubles, NaN where they are empty; None where one of them is something else.

    Arrow rounds as Python does, several times faster, and knows fewer ways to write a number.
    """
    pyarrow = arrow()
    import pyarrow.compute as pc

    if not pyarrow.types.is_string(column.type):
        return None
    try:
        filled = pc.if_else(pc.equal(column, ""), pyarrow.scalar(None, column.type), column)
        return np.asarray(pc.cast(filled, pyarrow.float64()).to_numpy(zero_copy_only=False))
    except pyarrow.ArrowInvalid:
        return None


def ids(column: Any) -> Any:
    """Return ids as an Arrow array: int64 where Arrow has integers without gaps, else their texts."""
    pyarrow = arrow()
    if is_integer(str(column.type)) and not column.null_count:
        try:
            return column.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid:  # beyond int64
            pass
    if pyarrow.types.is_string(column.type) and not column.null_count:
        return column
    return pyarrow.array(id_texts(column.to_pylist()), pyarrow.string())


def as_integers(texts: Any) -> Array | None:
    """Return an Arrow array of ids as int64; None unless every one is an integer written the usual way."""
    pyarrow = arrow()
    import pyarrow.compute as pc

    if is_integer(str(texts.type)):
        return np.asarray(texts.to_numpy(zero_copy_only=False))
    try:
        numbers = pc.cast(texts, pyarrow.int64())
    except pyarrow.ArrowInvalid:
        return None
    same = pc.all(pc.equal(pc.cast(numbers, pyarrow.string()), texts)).as_py()
    return np.asarray(numbers.to_numpy(zero_copy_only=False)) if same is not False else None


def as_texts(given: Any) -> list[str]:
    """Return an Arrow array of ids as texts."""
    return [value if isinstance(value, str) else str(value) for value in given.to_pylist()]
