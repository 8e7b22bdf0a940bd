"""Exponential, logarithm and folds of sixteen numbers at once, against NumPy in float64."""

import numpy as np
import pytest

pytest.importorskip("numba")

from fossil.ops.numba.compiling import Array, inner
from fossil.ops.numba.lanes import LANES, exp2, larger, largest, load, log2, store, total


@inner
def _exponentials(out: Array, numbers: Array) -> None:
    for row in range(numbers.shape[0]):
        store(out, row, 0, exp2(load(numbers, row, 0)))


@inner
def _logarithms(out: Array, numbers: Array) -> None:
    for row in range(numbers.shape[0]):
        store(out, row, 0, log2(load(numbers, row, 0)))


@inner
def _folds(out: Array, numbers: Array) -> None:
    out[0] = total(load(numbers, 0, 0))
    out[1] = largest(load(numbers, 0, 0))
    out[2] = total((load(numbers, 0, 0) + load(numbers, 1, 0)) * load(numbers, 1, 0) - load(numbers, 0, 0))
    out[3] = total(load(numbers, 0, 0) / load(numbers, 1, 0))
    out[4] = total(larger(load(numbers, 0, 0), load(numbers, 1, 0)))


def rows(numbers: np.ndarray) -> Array:
    return np.ascontiguousarray(numbers.astype(np.float32).reshape(-1, LANES))


def test_powers_of_two_are_right_to_the_last_bits_down_to_the_floor() -> None:
    exponents = rows(np.linspace(-86.5, 0, 16 * 5000))
    found = np.empty_like(exponents)
    _exponentials(found, exponents)
    np.testing.assert_allclose(found, np.exp2(exponents.astype(np.float64)), rtol=2e-7)
    whole = rows(-np.arange(80.0))
    found = np.empty_like(whole)
    _exponentials(found, whole)
    np.testing.assert_allclose(found, np.exp2(whole), rtol=6e-8)


def test_powers_below_the_floor_are_zero_and_none_of_nothing_is_nothing() -> None:
    exponents = rows(np.array([-86.57, -200.0, -1e9, -1e30, -np.inf, np.nan] + 10 * [0.0]))
    found = np.empty_like(exponents)
    _exponentials(found, exponents)
    assert not found[0, :5].any()
    assert np.isnan(found[0, 5])
    assert (found[0, 6:] == 1).all()


def test_logarithms_are_right_to_the_last_bits() -> None:
    numbers = rows(np.concatenate([np.linspace(1, 200, 16 * 4000), np.geomspace(1e-30, 1e30, 16 * 1000)]))
    found = np.empty_like(numbers)
    _logarithms(found, numbers)
    np.testing.assert_allclose(found, np.log2(numbers.astype(np.float64)), rtol=2e-7, atol=1e-7)


def test_operators_and_folds_treat_every_lane() -> None:
    numbers = rows(np.random.default_rng(0).normal(size=2 * LANES))
    found = np.empty(5, np.float32)
    _folds(found, numbers)
    first, second = numbers.astype(np.float64)
    expected = [
        first.sum(),
        first.max(),
        ((first + second) * second - first).sum(),
        (first / second).sum(),
        np.maximum(first, second).sum(),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
