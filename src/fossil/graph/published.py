"""Splits that were published with a graph, as they travel with it: one row for each split, one number for each node.

A row of numbers cannot put a node into two parts, follows the nodes wherever they go, and is one array in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from fossil.errors import GraphError

PublishedName: TypeAlias = Literal["public", "geom_gcn"]
PUBLISHED: tuple[PublishedName, ...] = ("public", "geom_gcn")
"""`public` is one split for all; `geom_gcn` are several, ten in the files of that name."""

TRAINING, VALIDATION, TEST, NOWHERE = 0, 1, 2, -1
"""What a node is for in a split."""

Parts: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""S×N: the part of each node in each of S splits."""


def from_masks(training: Parts, validation: Parts, test: Parts) -> Parts:
    """Return the parts that three masks say, each N or S×N.

    Raises:
        ValueError: the masks differ in shape, or put a node into two parts.

    >>> from_masks(np.array([1, 0, 0, 0]), np.array([0, 1, 0, 0]), np.array([0, 0, 1, 0])).tolist()
    [[0, 1, 2, -1]]
    """
    masks = [np.atleast_2d(np.asarray(mask)).astype(bool) for mask in (training, validation, test)]
    if len({mask.shape for mask in masks}) > 1:
        raise ValueError("the masks of a split differ in length")
    if (np.sum(masks, axis=0) > 1).any():
        raise ValueError("a node is in two parts of a split")
    parts = np.full(masks[0].shape, NOWHERE, np.int8)
    for part, mask in zip((TRAINING, VALIDATION, TEST), masks, strict=True):
        parts[mask] = part
    return parts


def checked(splits: Mapping[str, Parts], nodes: int) -> dict[str, Parts]:
    """Return every set of splits as int8.

    Raises:
        GraphError: a name or a number that says nothing, or another number of nodes.
    """
    found: dict[str, Parts] = {}
    for name, given in splits.items():
        parts = np.asarray(given)
        if name not in PUBLISHED:
            raise GraphError(f"Published splits cannot be named {name!r}.", remedy=f"Use {' or '.join(PUBLISHED)}.")
        if parts.ndim != 2 or parts.shape[1] != nodes or not len(parts) or (name == "public" and len(parts) > 1):
            raise GraphError(
                f"The published splits {name!r} have shape {parts.shape} for {nodes} nodes.",
                remedy="Give one row to each split and one column to each node; public is a single split.",
            )
        if not np.isin(parts, (NOWHERE, TRAINING, VALIDATION, TEST)).all():
            raise GraphError(
                f"The published splits {name!r} hold other numbers than 0, 1, 2 and -1.",
                remedy="Write 0 for training, 1 for validation, 2 for test, and -1 for none of them.",
            )
        found[name] = parts.astype(np.int8, copy=False)
    return found


def sizes(parts: Parts) -> tuple[int, int, int]:
    """Return the number of training, validation and test nodes of the first split."""
    training, validation, test = (int((parts[0] == part).sum()) for part in (TRAINING, VALIDATION, TEST))
    return training, validation, test
