"""Chunks of rows for what a CPU does in several steps, so short that each finds the last one's work in the cache."""

from __future__ import annotations

ELEMENTS = 1 << 18
"""Numbers in a chunk: 1 MiB of float32."""


def row_chunks(rows: int, width: int) -> list[slice]:
    """Return slices of whole rows, at least one each."""
    step = max(1, ELEMENTS // max(1, width))
    return [slice(start, start + step) for start in range(0, rows, step)]
