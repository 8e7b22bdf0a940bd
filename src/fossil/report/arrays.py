"""Arrays as text inside a page: base64 of compressed bytes, as `frontend/DATA.md` says."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fossil.graph.graph import Array

_LEVEL = 6


def packed(array: Array, **about: float) -> dict[str, Any]:
    """Return an array of unsigned numbers for the page: its type, its length, and its bytes plane after plane.

    The planes of high bytes are nearly constant, which is where most of the compression comes from.
    """
    flat = np.ascontiguousarray(array).ravel()
    little = flat.astype(flat.dtype.newbyteorder("<"))
    planes = little.view(np.uint8).reshape(len(flat), flat.dtype.itemsize).T if len(flat) else np.empty(0, np.uint8)
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), _LEVEL)).decode()
    return {"dtype": f"u{8 * flat.dtype.itemsize}", "length": len(flat), **about, "data": data}


def packed_texts(texts: Sequence[str]) -> tuple[Array, Array]:
    """Return the UTF-8 of all texts, one after the other, and the number of bytes of each."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    lengths = np.array([len(each) for each in encoded], np.uint32)
    return np.frombuffer(b"".join(encoded), np.uint8), lengths


def in_square(positions: Array) -> Array:
    """Return positions moved and scaled by one factor to fill the square from -1 to 1: N×2."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    reach = float((high - low).max()) / 2 or 1.0
    found: Array = (positions - (low + high) / 2) / reach
    return found


def places(positions: Array) -> tuple[Array, Array]:
    """Return x and y in 65,535 steps from -1 to 1, of positions that fill that square."""
    steps = np.round((np.clip(in_square(positions), -1, 1) + 1) / 2 * 65535).astype(np.uint16)
    return steps[:, 0], steps[:, 1]


def category_codes(codes: Array, count: int) -> Array:
    """Return categories in the smallest type, whose greatest value stands for none."""
    kind = _smallest(count)
    return np.where(codes < 0, np.iinfo(kind).max, codes).astype(kind)


def number_steps(values: Array, low: float, high: float) -> tuple[Array, float]:
    """Return numbers as steps from `low` to `high`, and how long a step is: one for whole numbers, which are exact.

    The greatest value of the type stands for none.
    """
    known = np.isfinite(values)
    # Halves, because the whole of two numbers at the ends of what a double holds is beyond it.
    whole = bool((values[known] == np.round(values[known])).all()) and high / 2 - low / 2 < np.iinfo(np.uint16).max / 2
    kind = _smallest(int(high - low) + 1) if whole else np.uint16
    top = np.iinfo(kind).max - 1
    step = 1.0 if whole else (high / top - low / top) or 1.0
    steps = np.round(np.where(known, values, low) / step - low / step)
    return np.where(known, np.clip(steps, 0, top), np.iinfo(kind).max).astype(kind), step


def _smallest(count: int) -> type[np.unsignedinteger[Any]]:
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if count < np.iinfo(kind).max)
