"""From what a caller has, matrices or batches of matrices, tensors or NumPy arrays, to checked problems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fossil.errors import TransportError
from fossil.transport.problem import FusedProblem

Matrix: TypeAlias = Tensor | np.ndarray[Any, np.dtype[Any]]
"""One matrix or a batch of them, a tensor or a NumPy array."""

_DTYPES = ("float32", "float64")


def feature_problem(cost: Matrix, source_mass: Matrix | None, target_mass: Matrix | None) -> FusedProblem:
    """Build and check problems of features alone, from a matrix or a batch of matrices.

    Raises:
        TransportError: a tensor is malformed.
    """
    [costs] = _batches(cost=cost)
    return _checked(FusedProblem.of_features(costs), source_mass, target_mass, is_single(cost))


def structure_problem(
    source_structure: Matrix, target_structure: Matrix, source_mass: Matrix | None, target_mass: Matrix | None
) -> FusedProblem:
    """Build and check problems of structures alone, from two matrices or two batches of matrices.

    Raises:
        TransportError: a tensor is malformed.
    """
    source, target = _batches(source_structure=source_structure, target_structure=target_structure)
    problem = FusedProblem.of_structures(source, target)
    return _checked(problem, source_mass, target_mass, is_single(source_structure))


def fused_problem(
    feature_cost: Matrix,
    source_structure: Matrix,
    target_structure: Matrix,
    source_mass: Matrix | None,
    target_mass: Matrix | None,
    alpha: float,
) -> FusedProblem:
    """Build and check fused problems, a batch of one for single matrices; masses not given are uniform.

    Raises:
        TransportError: a tensor is malformed.
    """
    costs = _batches(feature_cost=feature_cost, source_structure=source_structure, target_structure=target_structure)
    problem = FusedProblem.uniform(costs[0], costs[1], costs[2], alpha)
    return _checked(problem, source_mass, target_mass, is_single(feature_cost))


def is_single(matrix: Matrix) -> bool:
    """Tell whether this is one matrix, not a batch."""
    return matrix.ndim == 2


def _checked(
    problem: FusedProblem, source_mass: Matrix | None, target_mass: Matrix | None, single: bool
) -> FusedProblem:
    if source_mass is not None:
        given = _as_tensor("source_mass", source_mass)
        problem = replace(problem, source_mass=given[None] if single else given)
    if target_mass is not None:
        given = _as_tensor("target_mass", target_mass)
        problem = replace(problem, target_mass=given[None] if single else given)
    return problem.check()


def _batches(**matrices: Matrix) -> list[Tensor]:
    """Return batches of matrices, of one where a single matrix is given."""
    found = []
    for name, matrix in matrices.items():
        tensor = _as_tensor(name, matrix)
        if tensor.dim() not in (2, 3):
            raise TransportError(
                f"{name} has shape {tuple(tensor.shape)}.", remedy="Give one matrix, or a batch of matrices."
            )
        found.append(tensor)
    single = found[0].dim() == 2
    return [tensor[None] if single else tensor for tensor in found]


def _as_tensor(name: str, values: Matrix) -> Tensor:
    """Return a tensor as it is, a NumPy array as a tensor that shares its memory where it can."""
    if isinstance(values, Tensor | np.ndarray) and str(values.dtype).removeprefix("torch.") not in _DTYPES:
        raise TransportError(f"{name} has type {values.dtype}.", remedy=f"Give {' or '.join(_DTYPES)}.")
    if isinstance(values, Tensor):
        return values
    if not isinstance(values, np.ndarray):
        raise TransportError(f"{name} is a {type(values).__name__}.", remedy="Give a torch tensor or a NumPy array.")
    return torch.from_numpy(np.require(values, requirements=["C_CONTIGUOUS", "WRITEABLE"]))
