"""From pairs of rows in files to CSR, within a bound of memory.

The pairs are read as often as parts of them are needed to fit: a part is a range of rows, whose pairs are gathered and
sorted in memory. For 1.6 billion edges and 8 GB that is some ten times, from end to end, which a disk does well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fossil.graph.blocks import appending, blocks, index_dtype, mapped
from fossil.graph.csr import EDGES_AT_ONCE, Csr, both_ways, ranges, union
from fossil.graph.graph import Array
from fossil.progress import Progress, silent

BYTES_A_PAIR = 32  # a key, what sorting and comparing it takes, and its two parts

Pairs = Callable[[], Iterator[tuple[Array, Array]]]


class Noticed(NamedTuple):
    """How many pairs are odd in some way, and the rows of the first of them."""

    total: int
    rows: list[int]


def pairs_in(source: Path, target: Path) -> Pairs:
    """Return what reads pairs from two files, block by block."""
    sources, targets = mapped(source), mapped(target)

    def read() -> Iterator[tuple[Array, Array]]:
        for part in blocks(len(sources), EDGES_AT_ONCE):
            yield sources[part].astype(np.int64), targets[part]

    return read


def write_sorted(pairs: Pairs, nodes: int, folder: Path, way: str, memory: int, progress: Progress) -> Noticed:
    """Write pairs as CSR, every row sorted, each pair once; return which came more than once.

    Args:
        pairs: reads them, rows first; is called once for each part that fits.
        nodes: N.
        folder: to write to.
        way: what the arrays are called.
        memory: bytes to use.
        progress: is told which share is done.
    """
    counts = np.zeros(nodes + 1, np.int64)
    for row, _ in pairs():
        np.add.at(counts, row + 1, 1)
    before = np.cumsum(counts)
    degrees, repeated, first_repeated = counts[1:], 0, list[int]()
    with appending(folder / f"{way}_indices.npy", index_dtype(nodes)) as out:
        for first, last in ranges(before, max(EDGES_AT_ONCE, memory // BYTES_A_PAIR)):
            keys = _keys_of(pairs, first, last, nodes, int(before[last] - before[first]))
            keys.sort()
            again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
            if len(again):
                repeated += len(again)
                first_repeated += (first + keys[again[: 20 - len(first_repeated)]] // nodes).tolist()
                np.subtract.at(degrees, first + keys[again] // nodes, 1)
                keys = np.delete(keys, again)
            for part in blocks(len(keys)):
                out.append(keys[part] % nodes)
            progress(float(before[last] / max(1, before[-1])))
    write_indptr(folder, way, degrees)
    return Noticed(repeated, first_repeated)


def write_indptr(folder: Path, way: str, degrees: Array) -> None:
    """Write where every row begins."""
    with appending(folder / f"{way}_indptr.npy", index_dtype(int(degrees.sum()))) as out:
        out.append(np.zeros(1, np.int64))
        total = 0
        for part in blocks(len(degrees)):
            ends = total + np.cumsum(degrees[part])
            out.append(ends)
            total = int(ends[-1])


def _keys_of(pairs: Pairs, first: int, last: int, nodes: int, count: int) -> Array:
    """Return the pairs of a range of rows, each as one number."""
    keys, filled = np.empty(count, np.int64), 0
    for row, listed in pairs():
        inside = (row >= first) & (row < last)
        chosen = (row[inside] - first) * nodes + listed[inside]
        keys[filled : filled + len(chosen)] = chosen
        filled += len(chosen)
    return keys


def one_way(forward: Csr, backward: Csr, progress: Progress) -> Noticed:
    """Return the edges without their reverse, and tell which share has been looked at."""
    count, first, seen = 0, list[int](), 0
    for out, into, nodes in both_ways(forward, backward):
        seen += len(out)
        progress(seen / max(1, len(forward.indices)))
        alone = out[~np.isin(out, into, assume_unique=True)]
        count += len(alone)
        first += (alone[: 20 - len(first)] // nodes).tolist()
    return Noticed(count, first)


def write_union(
    forward: Csr,
    backward: Csr,
    folder: Path,
    way: str,
    *,
    loops: bool = True,
    progress: Progress = silent,
) -> None:
    """Write the edges of both directions together as CSR, self loops among them or not; tell which share is done."""
    nodes = len(forward.indptr) - 1
    degrees = np.zeros(nodes, np.int64)
    with appending(folder / f"{way}_indices.npy", index_dtype(nodes)) as out:
        for row, listed in union(forward, backward, loops=loops):
            out.append(listed)
            if len(row):
                degrees[row[0] : row[-1] + 1] += np.bincount(row - row[0])
                progress((int(row[-1]) + 1) / nodes)
    write_indptr(folder, way, degrees)
