"""From the ids of nodes to their rows, without a table of all of them in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError
from fossil.graph.blocks import appending, blocks, index_dtype, mapped, rows_at_once
from fossil.graph.graph import Array
from fossil.storage import writing


def as_keys(texts: Sequence[str], dtype: np.dtype[Any]) -> Array:
    """Return ids as they are stored; an object array where some cannot be among ids of that type.

    >>> as_keys(["7", "x"], np.dtype(np.int64)), as_keys(["7", "x"], np.dtype("<U9"))
    (array([7, None], dtype=object), array(['7', 'x'], dtype='<U1'))
    """
    if dtype.kind == "U":
        # A text longer than every id would make all keys as wide; the NUL at the end of one is left out of an array, in
        # which it would then be found as another.
        width = dtype.itemsize // 4
        known: list[Any] = [text if len(text) <= width and text[-1:] != "\0" else None for text in texts]
    else:
        known = [int(text) if _is_plain_integer(text) else None for text in texts]
    return np.asarray(known, dtype=object if None in known else _kind(dtype))


def possible(keys: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return which of the keys that `as_keys` made can be among ids of that type, and those as they are stored."""
    can = np.asarray([key is not None for key in keys.tolist()], dtype=bool)
    return can, keys[can].astype(_kind(dtype))


def _kind(dtype: np.dtype[Any]) -> Any:
    """Return the type of keys for ids of a type; texts are no wider than they need to be."""
    return np.str_ if dtype.kind == "U" else np.int64


def _is_plain_integer(text: str) -> bool:
    """Tell whether this is an int64 written the usual way."""
    try:
        return str(int(text)) == text and -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def rows_of(keys: Array, ids: Array, order: Array | None) -> Array:
    """Return the row of each key (K), -1 where no node has it.

    Args:
        keys: of the type of the ids, or objects with None for what cannot be one of them.
        ids: N.
        order: rows in the order of their ids; None where they are in it.
    """
    if keys.dtype == object:
        found, (can, known) = np.full(len(keys), -1, np.int64), possible(keys, ids.dtype)
        found[can] = rows_of(known, ids, order)
        return found
    if len(ids) == 0 or len(keys) == 0:
        return np.full(len(keys), -1, np.int64)
    low, high = np.zeros(len(keys), np.int64), np.full(len(keys), len(ids), np.int64)
    while (low < high).any():  # every key at once, so that NumPy does the comparing
        middle = np.minimum((low + high) // 2, len(ids) - 1)
        less = (ids[middle if order is None else order[middle]] < keys) & (low < high)
        low, high = np.where(less, middle + 1, low), np.where(less | (low >= high), high, middle)
    place = np.minimum(low, len(ids) - 1)
    row = place if order is None else order[place].astype(np.int64)
    return np.where(ids[row] == keys, row, -1)


def write_order(folder: Path) -> None:
    """Write the order of the ids where it is not that of the rows.

    Raises:
        GraphError: two nodes have one id.
    """
    ids = mapped(folder / "ids.npy")
    with writing(folder / "id_order.npy"):
        (folder / "id_order.npy").unlink(missing_ok=True)
    if all((ids[part][:-1] < ids[part][1:]).all() for part in _overlapping(ids)):
        return
    order = np.argsort(ids, kind="stable")
    repeated = repeated_ids(ids, order)
    if repeated:
        raise GraphError(f"Node id {str(ids[repeated[0]])!r} occurs more than once.", remedy="Ids must be distinct.")
    with appending(folder / "id_order.npy", index_dtype(len(ids))) as out:
        for part in blocks(len(ids)):
            out.append(order[part])


def repeated_ids(ids: Array, order: Array) -> list[int]:
    """Return the first twenty rows whose id an earlier row has, where `order` sorts the ids and keeps equal ones."""
    found = np.empty(0, np.int64)
    for part in _overlapping(ids):
        values = ids[order[part]]
        again = order[part][1:][values[1:] == values[:-1]]
        found = np.sort(np.concatenate([found, again]))[:20]  # where the column is not of ids, nearly all rows repeat
    rows: list[int] = found.tolist()
    return rows


def _overlapping(ids: Array) -> Iterable[slice]:
    """Yield slices over all rows, each with the first row of the next."""
    return (slice(part.start, part.stop + 1) for part in blocks(len(ids), rows_at_once(ids.itemsize)))
