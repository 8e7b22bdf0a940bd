"""From the ids of nodes to their rows, without a table of all of them in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError
from fossil.graph.blocks import appending, blocks, index_dtype, mapped
from fossil.graph.graph import Array


def as_keys(texts: Sequence[str], dtype: np.dtype[Any]) -> Array:
    """Return ids as they are stored; an object array where some cannot be among ids of that type."""
    if dtype.kind == "U":
        return np.asarray(texts, dtype=np.str_)
    known = [int(text) if _is_plain_integer(text) else None for text in texts]
    return np.asarray(known, dtype=object if None in known else np.int64)


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
        possible = np.asarray([key is not None for key in keys], dtype=bool)
        found = np.full(len(keys), -1, np.int64)
        found[possible] = rows_of(keys[possible].astype(ids.dtype), ids, order)
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
    if all((ids[part][:-1] < ids[part][1:]).all() for part in _overlapping(len(ids))):
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
    found: list[int] = []
    for part in _overlapping(len(ids)):
        values = ids[order[part]]
        found += order[part][1:][values[1:] == values[:-1]].tolist()
    return sorted(found)[:20]


def _overlapping(rows: int) -> Iterable[slice]:
    """Yield slices over all rows, each with the first row of the next."""
    return (slice(part.start, part.stop + 1) for part in blocks(rows))
