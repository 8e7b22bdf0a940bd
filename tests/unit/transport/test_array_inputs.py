"""NumPy arrays instead of tensors: the same numbers, whatever their memory looks like, or a message with a name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fossil.errors import TransportError
from fossil.transport import (
    NestedGW,
    ProximalPoint,
    Sinkhorn,
    Solution,
    fused_gromov_wasserstein,
    gromov_wasserstein,
    wasserstein,
)

Array = np.ndarray[Any, np.dtype[Any]]


def arrays(batch: int, dtype: str) -> list[Array]:
    """Draw M, C1, C2, mu and nu; C1 and C2 are directed, so that a transposed reading would show."""
    generator = np.random.default_rng(3)
    drawn = [generator.random((batch, *shape)) for shape in ((4, 3), (4, 4), (3, 3), (4,), (3,))]
    masses = [(mass + 0.1) / (mass + 0.1).sum(1, keepdims=True) for mass in drawn[3:]]
    return [array.astype(dtype) for array in (*drawn[:3], *masses)]


def as_they_are(array: Array) -> Array:
    return array


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


def in_other_order(array: Array) -> Array:
    return np.asfortranarray(array)


def every_second(array: Array) -> Array:
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def backwards(array: Array) -> Array:
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def memory_mapped(array: Array) -> Array:
    """Look at the same memory as a subclass that cannot be written, as a memory-mapped file is."""
    view = array.view(np.memmap)
    view.flags.writeable = False
    return view


FORMS = [as_they_are, read_only, in_other_order, every_second, backwards, memory_mapped]


def assert_same(found: Solution, expected: Solution) -> None:
    for name in ("plan", "value", "row_error", "column_error", "iterations", "settled"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert isinstance(ours, torch.Tensor)
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs), name


@pytest.mark.filterwarnings("error")  # PyTorch warns of memory that cannot be written
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_give_the_numbers_that_tensors_give(dtype: str, form: Callable[[Array], Array]) -> None:
    given = arrays(5, dtype)
    tensors = [torch.tensor(array.tolist(), dtype=getattr(torch, dtype)) for array in given]
    formed = [form(array) for array in given]
    cost, source, target, mu, nu = tensors
    assert_same(fused_gromov_wasserstein(*formed, alpha=0.3), fused_gromov_wasserstein(*tensors, alpha=0.3))
    found = gromov_wasserstein(*formed[1:], solver=NestedGW())
    assert_same(found, gromov_wasserstein(source, target, mu, nu, solver=NestedGW()))
    for solver in (None, Sinkhorn(regularization=0.1), ProximalPoint()):
        found = wasserstein(formed[0], formed[3], formed[4], solver=solver)
        assert_same(found, wasserstein(cost, mu, nu, solver=solver))


@pytest.mark.parametrize("form", FORMS)
def test_a_single_pair_of_arrays_is_a_single_problem(form: Callable[[Array], Array]) -> None:
    given = [form(array[0]) for array in arrays(1, "float64")]
    found = fused_gromov_wasserstein(*given, alpha=0.3)
    assert found.plan.shape == (4, 3)
    assert found.value.shape == ()
    tensors = [torch.tensor(array.tolist(), dtype=torch.float64) for array in given]
    assert_same(found, fused_gromov_wasserstein(*tensors, alpha=0.3))


def test_arrays_and_tensors_may_be_mixed() -> None:
    cost, source, target, mu, nu = arrays(5, "float64")
    expected = fused_gromov_wasserstein(cost, source, target, mu, nu)
    found = fused_gromov_wasserstein(torch.tensor(cost), source, torch.tensor(target), mu, torch.tensor(nu))
    assert_same(found, expected)


def test_arrays_are_left_as_they_were() -> None:
    given = arrays(5, "float32")
    before = [array.copy() for array in given]
    fused_gromov_wasserstein(*given)
    assert all(np.array_equal(array, copy) for array, copy in zip(given, before, strict=True))


NAMED = ["feature_cost", "source_structure", "target_structure", "source_mass", "target_mass"]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("made", [list, tuple])
def test_anything_else_is_refused_with_the_name_of_the_argument(name: str, made: type) -> None:
    given: dict[str, Any] = dict(zip(NAMED, (array[0] for array in arrays(1, "float64")), strict=True))
    given[name] = made(given[name].tolist())
    with pytest.raises(TransportError, match=rf"^{name} is a {made.__name__}\. Give a torch tensor or a NumPy array"):
        fused_gromov_wasserstein(**given)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(
    "dtype", ["int64", "int32", "uint8", "bool", "float16", "complex128", "longdouble", "object", ">f8", "<U3"]
)
def test_arrays_of_another_type_are_refused_with_the_type(name: str, dtype: str) -> None:
    given = dict(zip(NAMED, (array[0] for array in arrays(1, "float64")), strict=True))
    given[name] = np.ones(given[name].shape).astype(dtype)
    with pytest.raises(TransportError, match=rf"^{name} has type {given[name].dtype}\. Give float32 or float64"):
        fused_gromov_wasserstein(**given)


def test_whole_numbers_alone_are_refused_too() -> None:
    whole = np.eye(3, dtype=np.int64)
    with pytest.raises(TransportError, match=r"^cost has type int64"):
        wasserstein(whole)
    with pytest.raises(TransportError, match=r"^source_structure has type torch\.int64"):
        gromov_wasserstein(torch.from_numpy(whole), torch.from_numpy(whole))


def test_arrays_of_mixed_precision_are_refused_by_name() -> None:
    given = [array[0] for array in arrays(1, "float64")]
    given[2] = given[2].astype(np.float32)
    with pytest.raises(
        TransportError, match=r"^target_structure is torch\.float32 on cpu, feature_cost is torch\.float64"
    ):
        fused_gromov_wasserstein(*given)
