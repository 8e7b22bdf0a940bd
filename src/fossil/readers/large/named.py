"""The nodes that edges name, where no table lists them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError
from fossil.graph.blocks import appending, blocks
from fossil.progress import Progress
from fossil.readers.edges import no_header
from fossil.readers.large.cells import as_integers, as_texts, ids, is_integer
from fossil.readers.large.edges import edge_ends
from fossil.readers.large.ids import append_ids
from fossil.readers.large.parts import PartTable, Piece, arrow
from fossil.readers.large.stages import check_room

_IDS_AT_ONCE = 1 << 22


def write_named(table: PartTable, folder: Path, progress: Progress) -> int:
    """Write the ids that edges name, each once and sorted, as those of all nodes; return how many there are.

    Raises:
        GraphError: an id contains the NUL character, with its row, or the header names a node.
    """
    first, second, named = edge_ends(table)
    ends = (first, second)
    integers = all(as_integers(_named(piece, end)) is not None for piece in table.pieces(ends) for end in ends)
    distinct = _distinct_numbers if integers else _distinct_texts
    known, waiting, count = distinct([]), list[Any](), 0
    for piece in table.pieces(ends):
        for end in ends:
            given = _named(piece, end)
            if not integers:
                _refuse_nul(table, piece, end, given)
            waiting.append(distinct([as_integers(given) if integers else given]))
            count += len(waiting[-1])
        if count > max(len(known), _IDS_AT_ONCE):  # so that every id is looked at a few times, and not with every piece
            known, waiting, count = distinct([known, *waiting]), [], 0
        progress(piece.share)
    known = distinct([known, *waiting])
    if len(known) == 0:
        raise GraphError(
            f"{table.where} names no node: columns {ends[0]!r} and {ends[1]!r} are empty.", remedy="Check the file."
        )
    if not named and not integers and _any_of(ends, known):  # see `fossil.readers.tables`
        raise no_header(table.where, ends)
    (folder / "id_order.npy").unlink(missing_ok=True)
    _write(known, folder, integers=integers)
    return len(known)


def _named(piece: Piece, end: str) -> Any:
    """Return the ids at one end of the edges in a piece; an empty cell names no node."""
    given = ids(piece.columns[end])
    return (
        given if is_integer(str(given.type)) else given.filter(np.asarray([bool(text) for text in given.to_pylist()]))
    )


def _refuse_nul(table: PartTable, piece: Piece, end: str, given: Any) -> None:
    if not any("\0" in text for text in as_texts(given)):
        return
    row = next(row for row, text in enumerate(as_texts(ids(piece.columns[end]))) if "\0" in text)
    raise GraphError(
        f"Column {end!r} of {table.where} has an id with the NUL character ({table.places([piece.first + row], 1)}).",
        remedy="Remove it.",
    )


def _distinct_numbers(parts: Sequence[Any]) -> Any:
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))


def _distinct_texts(parts: Sequence[Any]) -> Any:
    """Return texts as an Arrow array, in which a long one makes no other as wide."""
    pyarrow = arrow()
    kind = pyarrow.large_string()
    return pyarrow.chunked_array([part.cast(kind) for part in parts], kind).unique()


def _any_of(texts: Sequence[str], known: Any) -> bool:
    """Tell whether one of a few texts is among those that are known."""
    pyarrow = arrow()
    import pyarrow.compute as pc

    return bool(pc.any(pc.is_in(pyarrow.array(texts, known.type), value_set=known)).as_py())


def _write(known: Any, folder: Path, *, integers: bool) -> None:
    """Write ids in their order: the bytes of UTF-8 have that of the letters."""
    import pyarrow.compute as pc

    width = 0 if integers else int(pc.max(pc.utf8_length(known)).as_py())
    dtype = np.dtype(np.int64 if integers else f"<U{width}")
    wide = "" if integers else f", each as wide as the longest ({width:,} letters),"
    check_room(folder, len(known) * dtype.itemsize, f"The ids{wide}")
    in_order = known if integers else known.take(pc.array_sort_indices(known))
    with appending(folder / "ids.npy", dtype) as out:
        for part in blocks(len(in_order)):
            some = in_order[part]
            append_ids(out, some if integers else as_texts(some), dtype)
