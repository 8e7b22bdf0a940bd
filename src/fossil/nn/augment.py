"""Random changes of a graph that make views of it: masked feature columns, dropped edges, shuffled nodes.

All of them keep the shapes and patterns they are given: what is dropped is multiplied by zero. So a step that uses them
always runs the same operations, and probability zero leaves everything as it was.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix


def mask_columns(features: FeatureMatrix, probability: float, random: torch.Generator) -> FeatureMatrix:
    """Return X (N×F) with each column set to zero with `probability`, the same columns for all nodes."""
    if probability == 0:
        return features
    data = features.data
    kept = (_draw(data.shape[1], random) >= probability).float()
    if isinstance(data, Tensor):
        return FeatureMatrix(data * kept)
    return FeatureMatrix(data.with_values(data.values * kept[data.col]))


def with_self_loops(adjacency: sp.csr_array, device: torch.device | str = "cpu") -> SparseMatrix:
    """Return A + I (N×N) on `device`: what `drop_edges` starts from."""
    loops = sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr")
    return SparseMatrix.from_scipy(sp.csr_array(adjacency + loops), device)


def drop_edges(looped: SparseMatrix, probability: float, random: torch.Generator) -> SparseMatrix:
    """Return the GCN matrix D^-1/2 (A + I) D^-1/2 after each edge was dropped with `probability`.

    The two directions of an edge are dropped independently, self-loops never; D are the row sums of what is left.

    Args:
        looped: A + I, N×N.
        probability: of an edge to be dropped; zero gives the GCN matrix of the whole graph.
        random: where to draw from.
    """
    if probability == 0:
        return symmetric_scaled(looped)
    kept = (_draw(looped.num_entries, random) >= probability) | (looped.row == looped.col)
    return symmetric_scaled(looped.with_values(looped.values * kept))


def symmetric_scaled(matrix: SparseMatrix) -> SparseMatrix:
    """Return D^-1/2 M D^-1/2 with D the row sums of M (N×N); rows of sum zero become zero."""
    degree = matrix.values.new_zeros(matrix.shape[0]).index_add(0, matrix.row, matrix.values)
    scale = torch.where(degree > 0, degree, torch.inf).rsqrt()
    return matrix.with_values(scale[matrix.row] * matrix.values * scale[matrix.col])


def shuffled(count: int, random: torch.Generator) -> Tensor:
    """Return a random order of `count` things."""
    return _draw(count, random).argsort()


def _draw(count: int, random: torch.Generator) -> Tensor:
    return torch.rand(count, generator=random, device=random.device)
