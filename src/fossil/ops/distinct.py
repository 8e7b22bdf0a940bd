"""Choosing distinct numbers at random, in fixed shapes and without waiting for a device.

Every number gets a pseudo-random priority that depends on itself and on the seed of its row alone. Equal numbers have
equal priorities, so that sorting brings them together, and the first few distinct ones are a uniform choice.
"""

from __future__ import annotations

import torch
from torch import Tensor

NONE = -1
"""Stands where there is no number."""

_WORST = torch.iinfo(torch.int64).max
# A key holds 23 bits of priority, 32 of a number and 8 of its tag. Numbers of equal priority keep their own order.
_LOW = 0xFFFFFFFF
_TAG_BITS = 8


def mixed(numbers: Tensor, seeds: Tensor) -> Tensor:
    """Return 63 pseudo-random bits of each number under its seed, as a non-negative integer.

    The finalizer of SplitMix64, a bijection of 64-bit words that lets every bit depend on all others.
    """
    word = numbers * -0x61C8864680B583EB + seeds
    word = (word ^ _shifted(word, 30)) * -0x40A7B892E31B1A47
    word = (word ^ _shifted(word, 27)) * -0x6B2FB644ECCEEE15
    return _shifted(word ^ _shifted(word, 31), 1)


def first_distinct(numbers: Tensor, seeds: Tensor, width: int, tags: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Put the distinct numbers of each row into random order and return the first of them.

    How often a row holds a number makes no difference.

    Args:
        numbers: R×M numbers from 0 to 2³² - 1, or `NONE`.
        seeds: R×1 seeds.
        width: how many to return.
        tags: R×M small numbers, below 2⁸; zeros when None.

    Returns:
        R×width numbers, `NONE` after the last, and the lowest tag of each.
    """
    keys = ((mixed(numbers, seeds) >> 40 << 32) | numbers) << _TAG_BITS
    keys = torch.where(numbers == NONE, _WORST, keys if tags is None else keys | tags).sort(1).values
    fresh = keys != _WORST
    fresh[:, 1:] &= (keys[:, 1:] >> _TAG_BITS) != (keys[:, :-1] >> _TAG_BITS)
    chosen = packed(keys, fresh, width)
    return torch.where(chosen == NONE, NONE, (chosen >> _TAG_BITS) & _LOW), chosen & ((1 << _TAG_BITS) - 1)


def packed(numbers: Tensor, wanted: Tensor, width: int) -> Tensor:
    """Return the first `width` wanted numbers of each row in their order, `NONE` after the last: R×width.

    Args:
        numbers: R×M.
        wanted: R×M answers.
        width: columns of the result.
    """
    rank = wanted.cumsum(1) - 1
    place = torch.where(wanted & (rank < width), rank, width)  # one more column takes the rest
    return numbers.new_full((len(numbers), width + 1), NONE).scatter_(1, place, numbers)[:, :width]


def without(numbers: Tensor, excluded: Tensor) -> Tensor:
    """Return `numbers` (R×M) with those in the same row of `excluded` (R×L) replaced by `NONE`."""
    in_order = excluded.sort(1).values
    place = torch.searchsorted(in_order, numbers).clamp_max(excluded.shape[1] - 1)
    return numbers.masked_fill(in_order.gather(1, place) == numbers, NONE)


def _shifted(word: Tensor, bits: int) -> Tensor:
    """Shift right, filling with zeros."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)
