"""Whether arrays that anybody may have written are those of one graph: every number is looked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fossil.errors import GraphError
from fossil.graph.blocks import blocks
from fossil.graph.csr import Csr
from fossil.graph.graph import Array, class_numbers

_FACTORS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


def check_content(
    folder: Path, arrays: Mapping[str, Array], feature_names: Sequence[str], label_names: Sequence[str]
) -> None:
    """Look at every number of the arrays of a graph, whose shapes fit together; 8 bytes a node are in memory.

    Args:
        folder: of the arrays, for messages.
        arrays: by name.
        feature_names: of each column of the features.
        label_names: of each class.

    Raises:
        GraphError: offsets that fall, nodes that are none or out of order, directions that are not each other's
            reverse, ids of another type, labels that are no class numbers, or features that are not finite.
    """
    ids = arrays["ids"]
    if ids.dtype.kind not in "iU":
        raise GraphError(f"{folder}/ids.npy holds {ids.dtype}.", remedy="Write ids as whole numbers or as text.")
    ways = {}
    for way in ("out", "in"):
        if f"{way}_indptr" in arrays:
            ways[way] = Csr(arrays[f"{way}_indptr"], arrays[f"{way}_indices"])
            _check_offsets(folder, way, ways[way].indptr)
            _check_lists(folder, way, ways[way])
    _check_reverse(folder, ways)
    if "labels" in arrays:
        labels = arrays["labels"]
        if labels.dtype.kind != "i":
            raise GraphError(
                f"{folder}/labels.npy holds {labels.dtype}.", remedy="Write class numbers, -1 for unknown."
            )
        class_numbers(labels, len(label_names))
    _check_features(folder, arrays["features"], ids, feature_names)


def _check_offsets(folder: Path, way: str, indptr: Array) -> None:
    if indptr.dtype.kind != "i" or int(indptr[0]) != 0:
        raise GraphError(
            f"{folder}/{way}_indptr.npy begins with {indptr[0]}, of {indptr.dtype}.",
            remedy="Its N+1 whole numbers say where the list of each row begins, from 0 on.",
        )
    for part in blocks(len(indptr) - 1):
        falls = np.flatnonzero(indptr[part.start + 1 : part.stop + 1] < indptr[part])
        if len(falls):
            raise GraphError(
                f"{folder}/{way}_indptr.npy falls after row {part.start + int(falls[0]):,}.",
                remedy="The list of each row begins where that of the row before ends.",
            )


def _check_lists(folder: Path, way: str, csr: Csr) -> None:
    nodes, where = len(csr.indptr) - 1, f"{folder}/{way}_indices.npy"
    if csr.indices.dtype.kind != "i":
        raise GraphError(f"{where} holds {csr.indices.dtype}.", remedy="Write the numbers of nodes.")
    for row, listed in csr.pairs():
        strange = np.flatnonzero((listed < 0) | (listed >= nodes))
        if len(strange):
            raise GraphError(
                f"Row {row[strange[0]]:,} of {where} lists node {listed[strange[0]]:,}; there are {nodes:,} nodes.",
                remedy="Nodes are numbered by their rows, from 0 on.",
            )
        behind = np.flatnonzero((listed[1:] <= listed[:-1]) & (row[1:] == row[:-1]))
        if len(behind):
            raise GraphError(
                f"Row {row[behind[0]]:,} of {where} lists node {listed[behind[0] + 1]:,} after {listed[behind[0]]:,}.",
                remedy="List the nodes of a row in rising order, each once.",
            )


def _check_reverse(folder: Path, ways: Mapping[str, Csr]) -> None:
    """Compare the edges with those of the other direction, turned round: a sum over mixed numbers tells sets apart."""
    forward, backward = ways["out"], ways.get("in", ways["out"])
    nodes, found = len(forward.indptr) - 1, np.zeros(2, np.uint64)
    for place, pairs in enumerate((forward.pairs(), backward.reversed_pairs())):
        for source, target in pairs:
            keys = source.astype(np.uint64) * np.uint64(nodes) + target.astype(np.uint64)
            found[place : place + 1] += _mixed(keys).sum()  # of arrays, which go round without a warning
    if found[0] != found[1]:
        alone = "in_indices.npy lists others" if "in" in ways else "there is no in_indices.npy"
        raise GraphError(
            f"{folder}/out_indices.npy has edges without their reverse, and {alone}.",
            remedy="Write in_indptr and in_indices: row i lists the nodes that point to i.",
        )


def _mixed(numbers: Array) -> Array:
    """Return for each number another of 64 bits, which looks random; for no two of them the same."""
    for factor in _FACTORS:
        numbers = numbers * factor
        numbers ^= numbers >> _HALF
    return numbers


def _check_features(folder: Path, features: Array, ids: Array, names: Sequence[str]) -> None:
    width = features.shape[1]
    for part in blocks(len(features), max(1, (1 << 24) // max(1, width))):
        finite = np.isfinite(features[part])
        if not finite.all():
            row, column = divmod(int(np.argmin(finite)), width)
            label = names[column] if names else f"number {column}"
            raise GraphError(
                f"Feature {label} of node {str(ids[part.start + row])!r} is NaN or infinite "
                f"({folder}/features.npy, row {part.start + row:,}).",
                remedy="Fill or drop missing values before writing them, and scale those too large for their type.",
            )
