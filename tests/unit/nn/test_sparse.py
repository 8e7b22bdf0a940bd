import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.nn.sparse import FeatureMatrix, SparseMatrix, dense_is_faster, dropout


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pattern(rows: int, columns: int, density: float = 0.3, seed: int = 0) -> SparseMatrix:
    """A matrix with empty rows and columns, and values in float64."""
    dense = torch.rand(rows, columns, generator=random(seed)) < density
    dense[rows // 2] = dense[:, columns // 3] = False
    matrix = SparseMatrix.from_scipy(sp.csr_array(dense.numpy().astype(np.float32)))
    return matrix.with_values(torch.randn(matrix.num_entries, generator=random(seed + 1), dtype=torch.float64))


def filled(matrix: SparseMatrix, values: Tensor) -> Tensor:
    """The dense form, differentiable in the values."""
    dense = values.new_zeros(matrix.shape)
    return dense.index_put((matrix.row, matrix.col), values)


def test_from_scipy_keeps_values_and_sorts_columns() -> None:
    unsorted = sp.csr_array((np.array([1.0, 2, 3]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    matrix = SparseMatrix.from_scipy(unsorted)
    assert matrix.crow.tolist() == [0, 2, 3] and matrix.col.tolist() == [0, 2, 1] and matrix.row.tolist() == [0, 0, 1]
    assert matrix.values.tolist() == [2, 1, 3] and matrix.values.dtype == torch.float32
    assert unsorted.indices.tolist() == [2, 0, 1]  # the caller's matrix stays as it was


@pytest.mark.parametrize("shape", [(7, 7), (5, 11), (11, 5)])
def test_product_and_both_gradients_are_those_of_the_dense_product(shape: tuple[int, int]) -> None:
    matrix = pattern(*shape)
    upstream = torch.randn(shape[0], 4, generator=random(5), dtype=torch.float64)
    gradients, products = [], []
    for sparse in (True, False):
        values = matrix.values.clone().requires_grad_()
        dense = torch.randn(shape[1], 4, generator=random(3), dtype=torch.float64).requires_grad_()
        product = matrix.matmul(dense, values) if sparse else filled(matrix, values) @ dense
        product.backward(upstream)  # type: ignore[no-untyped-call]
        products.append(product.detach())
        gradients.append((values.grad, dense.grad))
    torch.testing.assert_close(products[0], products[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)


def test_product_passes_finite_differences_in_values_and_dense() -> None:
    matrix = pattern(6, 8)
    dense = torch.randn(8, 3, generator=random(3), dtype=torch.float64).requires_grad_()
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, d: matrix.matmul(d, v), (values, dense))


def test_product_takes_strided_inputs_and_float32() -> None:
    matrix = pattern(6, 8)
    single = matrix.with_values(matrix.values.float())
    dense = torch.randn(3, 8, generator=random(3)).T
    expected = filled(matrix, matrix.values) @ dense.double()
    torch.testing.assert_close(single.matmul(dense).double(), expected, rtol=1e-5, atol=1e-6)


def test_other_values_share_the_pattern_and_leave_the_first_alone() -> None:
    matrix = pattern(6, 8)
    doubled = matrix.with_values(2 * matrix.values)
    dense = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(doubled.matmul(dense), 2 * matrix.matmul(dense))
    assert doubled.transposed is matrix.transposed and doubled._product_indices is matrix._product_indices


def test_a_transposed_product_takes_values_in_the_order_of_the_transpose() -> None:
    matrix = pattern(6, 8)
    crow, col, order = matrix.transposed
    transpose = SparseMatrix(crow, col, matrix.values[order], (8, 6))
    torch.testing.assert_close(filled(transpose, transpose.values), filled(matrix, matrix.values).T)


def test_a_product_below_other_rows_is_both_and_passes_both_gradients() -> None:
    matrix = pattern(6, 8)
    values = matrix.values.clone().requires_grad_()
    above = torch.randn(4, 3, generator=random(1), dtype=torch.float64).requires_grad_()
    dense = torch.randn(8, 3, generator=random(2), dtype=torch.float64).requires_grad_()
    expected = torch.cat([above, filled(matrix, values) @ dense])
    torch.testing.assert_close(matrix.matmul_below(above, dense, values), expected, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(matrix.matmul_below, (above, dense, values))
    same = torch.randn(8, 3, generator=random(3), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: matrix.matmul_below(x, x), same)


def test_a_product_below_bfloat16_rows_is_float32_and_their_gradient_bfloat16() -> None:
    double = pattern(6, 8)
    matrix = double.with_values(double.values.float())
    given = torch.randn(8, 3, generator=random(3)).bfloat16().requires_grad_()
    upstream = torch.randn(14, 3, generator=random(4))
    with torch.autocast("cpu", torch.bfloat16):
        found = matrix.matmul_below(given, given)
    found.backward(upstream)  # type: ignore[no-untyped-call]
    exact = filled(matrix, matrix.values).double()
    assert found.dtype == torch.float32 and given.grad is not None and given.grad.dtype == torch.bfloat16
    torch.testing.assert_close(found[:8], given.float())
    torch.testing.assert_close(found[8:].double(), exact @ given.double())
    wanted = upstream[:8].double() + exact.T @ upstream[8:].double()
    torch.testing.assert_close(given.grad.double(), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16])
def test_products_are_float32_inside_autocast_forward_and_backward(wide: torch.dtype) -> None:
    double = pattern(6, 8)
    matrix = double.with_values(double.values.float())
    values = matrix.values.clone().requires_grad_()
    dense = torch.randn(8, 3, generator=random(3)).to(wide).requires_grad_()
    upstream = torch.randn(6, 3, generator=random(4))
    with torch.autocast("cpu", torch.bfloat16):
        product = matrix.matmul(dense, values)
        product.backward(upstream)  # type: ignore[no-untyped-call]
    reference = [each.detach().double().requires_grad_() for each in (values, dense)]
    expected = filled(matrix, reference[0]) @ reference[1]
    expected.backward(upstream.double())  # type: ignore[no-untyped-call]
    assert product.dtype == torch.float32
    torch.testing.assert_close(product.double(), expected)
    assert values.grad is not None and dense.grad is not None
    assert values.grad.dtype == torch.float32 and dense.grad.dtype == wide
    torch.testing.assert_close(values.grad.double(), reference[0].grad)
    tolerance = 1e-5 if wide == torch.float32 else 1e-2
    torch.testing.assert_close(dense.grad.double(), reference[1].grad, rtol=tolerance, atol=tolerance)


def test_edge_products_are_entries_of_the_dense_product() -> None:
    matrix = pattern(5, 7)
    first = torch.randn(5, 4, generator=random(1), dtype=torch.float64).requires_grad_()
    second = torch.randn(7, 4, generator=random(2), dtype=torch.float64).requires_grad_()
    expected = (first @ second.T)[matrix.row, matrix.col]
    torch.testing.assert_close(matrix.edge_products(first, second), expected, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(matrix.edge_products, (first, second))


def dense_attention(matrix: SparseMatrix, centre: Tensor, neighbour: Tensor) -> Tensor:
    """The softmax over whole rows, minus infinity where there is no entry; rows without any are left out."""
    scores = torch.nn.functional.leaky_relu(centre[:, None] + neighbour, 0.2)
    scores = torch.where(filled(matrix, torch.ones_like(matrix.values)) == 1, scores, -torch.inf)
    taken, place = matrix.row.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    return torch.softmax(scores[taken], 1)[place, matrix.col]


@pytest.mark.parametrize("shape", [(9, 9), (6, 15), (15, 6)])
def test_attention_and_its_gradients_are_those_of_a_masked_dense_softmax(shape: tuple[int, int]) -> None:
    matrix = pattern(*shape)
    assert (matrix.crow.diff() == 0).any() and len(matrix.col.unique()) < shape[1]  # type: ignore[no-untyped-call]
    inputs = [3 * torch.randn(size, generator=random(7), dtype=torch.float64) for size in shape]
    sums = inputs[0][matrix.row] + inputs[1][matrix.col]
    assert 0.25 < (sums < 0).double().mean() < 0.75
    upstream = torch.randn(matrix.num_entries, generator=random(8), dtype=torch.float64)
    results = []
    for function in (matrix.attention, lambda *vectors: dense_attention(matrix, *vectors)):
        leaves = [each.clone().requires_grad_() for each in inputs]
        weights = function(*leaves)
        results.append([weights.detach(), *torch.autograd.grad(weights, leaves, upstream)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(matrix.attention, [each.requires_grad_() for each in inputs])


def test_attention_at_the_kink_takes_the_slope_for_negative_numbers() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array(np.ones((1, 2), np.float32)))
    centre, neighbour = torch.tensor([2.0], requires_grad=True), torch.tensor([-2.0, -2.0], requires_grad=True)
    first, _ = matrix.attention(centre, neighbour)
    first.backward()
    assert neighbour.grad is not None
    torch.testing.assert_close(neighbour.grad, torch.tensor([0.05, -0.05]))


def test_attention_of_large_scores_does_not_overflow() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array(np.ones((2, 2), np.float32)))
    found = matrix.attention(torch.tensor([1e4, -1.5e5]), torch.tensor([0.0, 1.0]))  # scores 1e4 and -3e4
    expected = torch.softmax(torch.tensor([[0, 1.0], [0, 0.2]]), 1).flatten()
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=0)  # float32 numbers near 3e4 are 0.002 apart


def test_attention_takes_columns_of_a_matrix() -> None:
    matrix = pattern(9, 9)
    both = torch.randn(9, 2, generator=random(7), dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(matrix.num_entries, generator=random(8), dtype=torch.float64)
    weights, expected = matrix.attention(*both.unbind(1)), dense_attention(matrix, both[:, 0], both[:, 1])
    torch.testing.assert_close(weights, expected)
    gradients = [torch.autograd.grad(each, both, upstream) for each in (weights, expected)]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_attention_of_narrow_inputs_is_float32_inside_autocast() -> None:
    matrix = pattern(6, 8)
    inputs = [torch.randn(size, generator=random(7)).bfloat16().requires_grad_() for size in matrix.shape]
    with torch.autocast("cpu", torch.bfloat16):
        weights = matrix.attention(*inputs)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.double(), dense_attention(matrix, *(each.double() for each in inputs)))
    weights.square().sum().backward()  # type: ignore[no-untyped-call]
    assert all(each.grad is not None and each.grad.dtype == torch.bfloat16 for each in inputs)


def test_a_matrix_without_entries_gives_zeros_and_zero_gradients() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array((4, 5), dtype=np.float32))
    dense = torch.randn(5, 3, generator=random(), requires_grad=True)
    values = torch.zeros(0, requires_grad=True)
    product = matrix.matmul(dense, values)
    product.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(product, torch.zeros(4, 3))
    assert dense.grad is not None and torch.equal(dense.grad, torch.zeros(5, 3))
    assert values.grad is not None and values.grad.shape == (0,)
    vectors = [torch.ones(size, requires_grad=True) for size in (4, 5)]
    weights = matrix.attention(*vectors)
    assert weights.shape == (0,)
    weights.sum().backward()  # type: ignore[no-untyped-call]
    assert all(each.grad is not None and not each.grad.any() for each in vectors)
    assert matrix.edge_products(torch.ones(4, 2), torch.ones(5, 2)).shape == (0,)


def test_dense_and_sparse_features_project_alike() -> None:
    features = sp.random_array((12, 7), density=0.4, rng=np.random.default_rng(0), dtype=np.float32)
    weight = torch.randn(7, 3, generator=random())
    upstream = torch.randn(12, 3, generator=random(1))
    results = []
    for host in (features.toarray(), sp.csr_array(features), sp.coo_array(features)):
        parameter = weight.clone().requires_grad_()
        product = FeatureMatrix.from_host(host).project(parameter)
        product.backward(upstream)  # type: ignore[no-untyped-call]
        results.append((product.detach(), parameter.grad))
    expected = torch.from_numpy(features.toarray())
    for result in results:
        torch.testing.assert_close(result, (expected @ weight, expected.T @ upstream))


def test_features_keep_their_layout() -> None:
    assert isinstance(FeatureMatrix.from_host(np.eye(3)).data, Tensor)
    assert isinstance(FeatureMatrix.from_host(sp.csr_array(np.eye(3))).data, SparseMatrix)


@pytest.mark.parametrize(
    ("shape", "entries", "device", "expected"),
    [
        ((19_717, 500), 988_031, "cuda", True),  # PubMed, 10 %
        ((19_717, 500), 988_031, "cpu", False),
        ((100, 20), 100, "cuda:1", True),
        ((100, 20), 99, "cuda", False),
        ((1 << 17, 1 << 10), 1 << 24, "cuda", True),  # 512 MiB
        (((1 << 17) + 1, 1 << 10), 1 << 24, "cuda", False),
    ],
)
def test_a_gpu_takes_features_as_dense_when_they_are_full_enough_and_fit(
    shape: tuple[int, int], entries: int, device: str, expected: bool
) -> None:
    indptr = np.zeros(shape[0] + 1, np.int64)
    indptr[-1] = entries
    features = sp.csr_array((np.ones(entries, np.float32), np.zeros(entries, np.int64), indptr), shape=shape)
    assert dense_is_faster(features, torch.device(device)) is expected


@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_copied_so_that_read_only_arrays_stay_untouched(sparse: bool) -> None:
    host = np.eye(3, dtype=np.float32)
    matrix = sp.csr_array(host)
    stored = matrix.data if sparse else host
    stored.flags.writeable = False
    data = FeatureMatrix.from_host(matrix if sparse else host).data
    (data if isinstance(data, Tensor) else data.values).zero_()
    np.testing.assert_array_equal(stored, np.ones(3) if sparse else np.eye(3))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.8])
def test_dropout_zeroes_the_share_and_rescales_the_rest(probability: float) -> None:
    count = 100_000
    dropped = dropout(torch.full((count,), 3.0), probability, random())
    share = (dropped == 0).double().mean().item()
    assert abs(share - probability) < 5 * (probability * (1 - probability) / count) ** 0.5
    torch.testing.assert_close(dropped[dropped != 0].unique(), torch.tensor([3 / (1 - probability)]))  # type: ignore[no-untyped-call]


def test_dropout_follows_its_generator_alone() -> None:
    values = torch.rand(50, 4, generator=random())
    first = dropout(values, 0.5, random(1))
    torch.rand(7)  # ambient draws do not matter
    assert torch.equal(first, dropout(values, 0.5, random(1)))
    assert not torch.equal(first, dropout(values, 0.5, random(2)))


def test_dropout_without_generator_or_probability_changes_nothing() -> None:
    values = torch.rand(5, 4, generator=random())
    features = FeatureMatrix(values)
    assert dropout(values, 0.5, None) is values and dropout(values, 0.0, random()) is values
    assert features.dropout(0.5, None) is features and features.dropout(0.0, random()) is features


def test_dropout_passes_the_gradient_of_what_it_kept() -> None:
    values = torch.rand(100, generator=random(), requires_grad=True)
    dropped = dropout(values, 0.25, random(1))
    dropped.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    torch.testing.assert_close(values.grad, (dropped != 0).float() / 0.75)


@pytest.mark.parametrize("sparse", [False, True])
def test_feature_dropout_rescales_entries_and_leaves_the_features_alone(sparse: bool) -> None:
    host = np.random.default_rng(0).random((400, 50), dtype=np.float32) + 1
    host[::2] = 0
    features = FeatureMatrix.from_host(sp.csr_array(host) if sparse else host)
    before = features.project(torch.eye(50))
    dropped = features.dropout(0.3, random()).project(torch.eye(50))
    ratio = (dropped / before)[1::2]
    assert torch.equal(features.project(torch.eye(50)), before)
    assert torch.equal(dropped[::2], torch.zeros(200, 50))
    assert abs((ratio == 0).float().mean().item() - 0.3) < 5 * (0.21 / 10_000) ** 0.5
    torch.testing.assert_close(ratio[ratio != 0], torch.full_like(ratio[ratio != 0], 1 / 0.7))


# Triton decides at its import whether it interprets, so the kernels run in a process of their own.
INTERPRETED = """
import json
import sys
import numpy as np
import scipy.sparse as sp
import torch
from fossil.nn import _edge_kernel, _sparse_kernel
from fossil.nn.sparse import SparseMatrix

torch.set_num_threads(1)
calls = []
launches = {"edge_products": _edge_kernel, "attention": _edge_kernel, "attention_gradient": _edge_kernel}
for name, kernel in (launches | {"product": _sparse_kernel}).items():
    def counted(*given, name=name, original=getattr(kernel, name)):
        calls.append(name)
        return original(*given)
    setattr(kernel, name, counted)

def solved(function, *inputs, upstream):
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    result = function(*leaves)
    result.backward(upstream.to(result.dtype))
    return [result.detach(), *(leaf.grad for leaf in leaves)]

def compared(function, *inputs, upstream):
    calls.clear()
    found = solved(function, *inputs, upstream=upstream)
    taken = sorted(calls)
    wanted = solved(function, *(each.double() for each in inputs), upstream=upstream)
    errors = [((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(found, wanted)]
    return {"calls": taken, "again": sorted(calls), "errors": errors, "types": [str(each.dtype) for each in found]}

found = []
for rows, columns, width, density in json.loads(sys.argv[1]):
    random = torch.Generator().manual_seed(0)
    kept = torch.rand(rows, columns, generator=random) < density
    kept[0] = True  # a hub
    kept[rows // 2] = kept[1:, 1] = False  # a row without entries, and a column of the hub alone
    matrix = SparseMatrix.from_scipy(sp.csr_array(kept.numpy().astype(np.float32)))
    short = matrix.with_values(matrix.values)
    vars(short).update(_product_indices=[each.int() for each in matrix._product_indices])
    draw = lambda *shape: torch.randn(*shape, generator=random)
    centre, neighbour = 2 * draw(rows, 3), 2 * draw(columns, 2)
    centre[1::4] += 300  # sums whose exponentials overflow
    centre[3::4] -= 1500  # or vanish
    centre[0], neighbour[0], neighbour[1] = 1.0, -1.0, -torch.inf  # a sum of exactly zero, and a weight of zero
    upstream, values = draw(matrix.num_entries), draw(matrix.num_entries)
    first, second = draw(rows, width), draw(width, columns).T
    found.append({
        "attention": compared(matrix.attention, centre[:, 0], neighbour[:, 0], upstream=upstream),
        "columns": compared(lambda c, n: short.attention(c[:, 1], n[:, 1]), centre, neighbour, upstream=upstream),
        "edge products": compared(matrix.edge_products, first, second, upstream=upstream),
        "product": compared(lambda v, d: matrix.matmul(d, v), values, second, upstream=draw(rows, width)),
        "below": compared(lambda a, v, d: matrix.matmul_below(a, d, v), first, values, second,
                          upstream=draw(2 * rows, width)),
        "twice": compared(lambda v, d: matrix.matmul_below(d, d, v), values, second,
                          upstream=draw(rows + columns, width)),
        "narrow": compared(lambda v, d: matrix.matmul(d, v), values, second.bfloat16(), upstream=draw(rows, width)),
    })
print(json.dumps(found))
"""

# rows, columns, width, density
CASES = [
    (4, 3, 1, 0.5),
    (12, 30, 7, 0.3),
    (9, 300, 128, 0.05),
    (7, 700, 130, 0.02),
    (6, 257, 300, 0.0),
    (15, 20, 30, 0.2),
]


@pytest.fixture(scope="module")
def interpreted(interpret: Callable[[str, Any], Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = interpret(INTERPRETED, CASES)
    return found


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("index", range(len(CASES)), ids=[repr(case) for case in CASES])
def test_interpreted_kernels_give_the_float64_results_and_gradients(
    interpreted: list[dict[str, Any]], index: int
) -> None:
    calls = {
        "attention": ["attention", "attention_gradient"],
        "columns": ["attention", "attention_gradient"],
        "edge products": ["edge_products", "product", "product"],
        "product": ["edge_products", "product", "product"],
        "below": ["edge_products", "product", "product"],
        "twice": ["edge_products", "product", "product"],
        "narrow": ["edge_products", "product", "product"],
    }
    for name, found in interpreted[index].items():
        assert found["calls"] == calls[name] == found["again"], name  # float64 is left to PyTorch
        last = "torch.bfloat16" if name == "narrow" else "torch.float32"
        assert {*found["types"][:-1]} == {"torch.float32"} and found["types"][-1] == last, name
        tolerance = 3e-5 if name in {"attention", "columns"} else 2e-6
        rounded = 4e-3 if name == "narrow" else tolerance  # the gradient of a bfloat16 matrix is one too
        assert all(error < tolerance for error in found["errors"][:-1]), (name, found["errors"])
        assert found["errors"][-1] < rounded, (name, found["errors"])


# The kernel by itself: both kinds of indices, rows of one, several and no pieces, and values in another order.
PLANNED = """
import json
import sys
import numpy as np
import scipy.sparse as sp
import torch
from fossil.nn import _sparse_kernel as kernel
from fossil.nn.sparse import SparseMatrix

torch.set_num_threads(1)
found = []
for kind, rows, columns, width, density, piece in json.loads(sys.argv[1]):
    kernel.PIECE = piece
    random = np.random.default_rng(0)
    kept = random.random((rows, columns)) < density
    kept[0] = kept[:, columns - 1] = True  # a hub of each
    kept[rows // 2] = kept[-1] = kept[:, columns // 2] = False
    host = sp.csr_array(np.where(kept, random.standard_normal(kept.shape), 0.0))
    matrix = SparseMatrix.from_scipy(host)
    host = sp.csr_array(host.astype(np.float32), dtype=np.float64)
    crow, col, order = matrix.transposed
    index = [each.to(getattr(torch, kind)) for each in (matrix.crow, matrix.col, crow, col, order)]
    for plan, exact in ((kernel.make_plan(*index[:2]), host), (kernel.make_plan(*index[2:]), host.T)):
        dense = random.standard_normal((exact.shape[1], width)).astype(np.float32)
        product = kernel.product(plan, matrix.values, torch.from_numpy(dense))
        wanted = exact @ dense.astype(np.float64)
        # What one row reads does not reach rows without it, though their programs read it beside theirs.
        poisoned = torch.from_numpy(dense).clone()
        poisoned[plan.col[0]] = torch.nan
        reached = torch.from_numpy(exact[:, [int(plan.col[0])]].toarray().ravel() != 0)
        touched = kernel.product(plan, matrix.values, poisoned)
        empty = torch.from_numpy(np.diff(sp.csr_array(exact).indptr) == 0)
        found.append({
            "error": float(np.abs(product.numpy() - wanted).max() / np.abs(wanted).max()),
            "empty": int(empty.sum()),
            "zeros": bool((product[empty] == 0).all()),
            "same elsewhere": torch.equal(touched[~reached], product[~reached]),
            "not a number": bool(touched[reached].isnan().all()),
            "lengths": plan.pieces[1].tolist(),
            "cut": plan.cut[1].tolist(),
            "partial sums": plan.partial_sums,
            "entries": matrix.num_entries,
            "longest": int(np.diff(sp.csr_array(exact).indptr).max()),
        })
print(json.dumps(found))
"""

# indices, rows, columns, width, density, entries of a piece
PLANS = [
    ("int32", 9, 60, 7, 0.1, 16),
    ("int64", 40, 12, 30, 0.2, 5),
    ("int32", 6, 450, 1, 0.05, 192),
    ("int64", 5, 21, 130, 0.3, 64),
    ("int32", 70, 9, 256, 0.3, 8),
]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_interpreted_products_are_scipys_whatever_the_indices_pieces_and_order(
    interpret: Callable[[str, Any], Any],
) -> None:
    plans = [plan for plan in PLANS for _ in range(2)]  # and that of the transpose
    for (*_, piece), found in zip(plans, interpret(PLANNED, PLANS), strict=True):
        assert found["error"] < 1e-6
        assert found["empty"] and found["zeros"] and found["same elsewhere"] and found["not a number"]
        assert found["lengths"] == sorted(found["lengths"], reverse=True) and found["lengths"][0] <= piece
        assert sum(found["lengths"]) == found["entries"]
        assert sum(found["cut"]) == found["partial sums"]
        assert max(found["cut"], default=1) == -(-found["longest"] // piece)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_interpreted_plans_are_handed_on() -> None:
    code = """
import numpy as np
import scipy.sparse as sp
from fossil.nn.sparse import SparseMatrix
matrix = SparseMatrix.from_scipy(sp.csr_array(np.eye(3)))
assert "_plans" in vars(matrix.with_values(2 * matrix.values))
assert matrix.with_values(2 * matrix.values)._plans is matrix._plans
empty = SparseMatrix.from_scipy(sp.csr_array((3, 4)))
assert not empty.with_values(empty.values).matmul(empty.values.new_ones(4, 2)).any()
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
