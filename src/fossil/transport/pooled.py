"""The cheapest comparison of two sets of embeddings: the angle between their means."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.errors import TransportError


def pooled_cosine(
    first: Tensor, second: Tensor, first_mass: Tensor | None = None, second_mass: Tensor | None = None
) -> Tensor:
    """Return the cosine between the means of paired sets of embeddings, differentiably.

    Args:
        first: B×n×D embeddings.
        second: B×m×D embeddings.
        first_mass: B×n weights of the first mean; equal when not given. Their sum does not matter.
        second_mass: B×m weights of the second.

    Returns:
        B cosines; a mean of exactly zero has no direction and gives zero, with zero gradient.

    Raises:
        TransportError: the tensors do not fit together.

    >>> first = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> second = torch.tensor([[[2.0, 2.0]]])
    >>> round(float(pooled_cosine(first, second)), 6)
    1.0
    """
    _check(first, second, first_mass, second_mass)
    return (_direction(_mean(first, first_mass)) * _direction(_mean(second, second_mass))).sum(1)


def _mean(embeddings: Tensor, mass: Tensor | None) -> Tensor:
    if mass is None:
        return embeddings.mean(1)
    return (mass.unsqueeze(2) * embeddings).sum(1)


def _direction(vectors: Tensor) -> Tensor:
    """Return B×D vectors of length one, or zero for zero."""
    # Lengths of tiny and huge vectors leave the range of the numbers, those of vectors with largest entry one do not.
    largest = vectors.detach().abs().amax(1, keepdim=True)
    scaled = vectors / torch.where(largest > 0, largest, 1)
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return torch.where(largest > 0, scaled / torch.where(largest > 0, length, 1), 0)


def _check(first: Tensor, second: Tensor, first_mass: Tensor | None, second_mass: Tensor | None) -> None:
    for name, tensor in {"first": first, "second": second}.items():
        if not (isinstance(tensor, Tensor) and tensor.dim() == 3 and 0 not in tensor.shape[1:]):
            raise TransportError(
                f"{name} is {_described(tensor)}.",
                remedy="Give a tensor of shape (batch, nodes, dimensions), none empty.",
            )
        if not tensor.is_floating_point():
            raise TransportError(f"{name} is {tensor.dtype}.", remedy="Give floating-point numbers.")
    expected = {
        "second": (second, (first.shape[0], second.shape[1], first.shape[2])),
        "first_mass": (first_mass, tuple(first.shape[:2])),
        "second_mass": (second_mass, tuple(second.shape[:2])),
    }
    for name, (given, shape) in expected.items():
        if given is None:
            continue
        if not (isinstance(given, Tensor) and given.shape == shape):
            raise TransportError(f"{name} is {_described(given)}.", remedy=f"Its shape must be {shape}.")
        if given.dtype != first.dtype or given.device != first.device:
            raise TransportError(
                f"{name} is {given.dtype} on {given.device}, first is {first.dtype} on {first.device}.",
                remedy="Give all tensors one type and one device.",
            )


def _described(thing: object) -> str:
    return f"of shape {tuple(thing.shape)}" if isinstance(thing, Tensor) else f"a {type(thing).__name__}"
