import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.ops.edges import edge_attention, edge_products
from fossil.ops.features import FeatureMatrix, dense_is_faster, dropout
from fossil.ops.sparse import SparseMatrix, gathered_sum, multiply, multiply_transposed


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


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_sum_over_rows_of_any_type_is_float32_at_least(kind: torch.dtype) -> None:
    matrix = pattern(9, 13)
    dense, values = torch.randn(13, 4, generator=random(3)).to(kind), matrix.values.float()
    found = gathered_sum(matrix.crow, matrix.col.int(), values, dense)
    assert found.dtype == torch.promote_types(kind, torch.float32)
    torch.testing.assert_close(found, filled(matrix, values).to(found.dtype) @ dense.to(found.dtype))


def test_a_sum_widens_no_row_that_it_does_not_ask_for() -> None:
    """As many rows as no memory has, all of them one and the same."""
    dense = torch.ones(1, 4, dtype=torch.float16).expand(1 << 42, 4)
    crow, col = torch.tensor([0, 2, 2, 3]), torch.tensor([7, (1 << 42) - 1, 7])
    found = gathered_sum(crow, col, torch.tensor([1.0, 2.0, 4.0]), dense)
    assert found.tolist() == [[3.0] * 4, [0.0] * 4, [4.0] * 4]


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
    assert doubled.transposed is matrix.transposed and doubled.indices is matrix.indices


def test_a_transposed_product_takes_values_in_the_order_of_the_transpose() -> None:
    matrix = pattern(6, 8)
    crow, col, order = matrix.transposed
    transpose = SparseMatrix(crow, col, matrix.values[order], (8, 6))
    torch.testing.assert_close(filled(transpose, transpose.values), filled(matrix, matrix.values).T)


def test_products_without_a_gradient_are_written_where_they_are_wanted_and_added_to_what_is_given() -> None:
    matrix = pattern(6, 8)
    dense, other = (torch.randn(size, 3, generator=random(size), dtype=torch.float64) for size in (8, 6))
    exact = filled(matrix, matrix.values)
    room = torch.full((9, 3), torch.nan, dtype=torch.float64)
    product = multiply(matrix, matrix.values, dense, out=room[3:])
    torch.testing.assert_close(room[3:], exact @ dense, rtol=1e-12, atol=1e-12)
    assert product.data_ptr() == room[3:].data_ptr() and room[:3].isnan().all()
    before = dense.clone()
    found = multiply_transposed(matrix, matrix.values, other, plus=dense)
    torch.testing.assert_close(found, dense + exact.T @ other, rtol=1e-12, atol=1e-12)
    assert torch.equal(dense, before)


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
    torch.testing.assert_close(edge_products(matrix, first, second), expected, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda f, s: edge_products(matrix, f, s), (first, second))


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
    for function in (edge_attention, dense_attention):
        leaves = [each.clone().requires_grad_() for each in inputs]
        weights = function(matrix, *leaves)
        results.append([weights.detach(), *torch.autograd.grad(weights, leaves, upstream)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(
        lambda c, n: edge_attention(matrix, c, n), [each.requires_grad_() for each in inputs]
    )


def test_attention_at_the_kink_takes_the_slope_for_negative_numbers() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array(np.ones((1, 2), np.float32)))
    centre, neighbour = torch.tensor([2.0], requires_grad=True), torch.tensor([-2.0, -2.0], requires_grad=True)
    first, _ = edge_attention(matrix, centre, neighbour)
    first.backward()
    assert neighbour.grad is not None
    torch.testing.assert_close(neighbour.grad, torch.tensor([0.05, -0.05]))


def test_attention_of_large_scores_does_not_overflow() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array(np.ones((2, 2), np.float32)))
    found = edge_attention(matrix, torch.tensor([1e4, -1.5e5]), torch.tensor([0.0, 1.0]))  # scores 1e4 and -3e4
    expected = torch.softmax(torch.tensor([[0, 1.0], [0, 0.2]]), 1).flatten()
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=0)  # float32 numbers near 3e4 are 0.002 apart


def test_attention_takes_columns_of_a_matrix() -> None:
    matrix = pattern(9, 9)
    both = torch.randn(9, 2, generator=random(7), dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(matrix.num_entries, generator=random(8), dtype=torch.float64)
    weights, expected = edge_attention(matrix, *both.unbind(1)), dense_attention(matrix, both[:, 0], both[:, 1])
    torch.testing.assert_close(weights, expected)
    gradients = [torch.autograd.grad(each, both, upstream) for each in (weights, expected)]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_attention_of_narrow_inputs_is_float32_inside_autocast() -> None:
    matrix = pattern(6, 8)
    inputs = [torch.randn(size, generator=random(7)).bfloat16().requires_grad_() for size in matrix.shape]
    with torch.autocast("cpu", torch.bfloat16):
        weights = edge_attention(matrix, *inputs)
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
    weights = edge_attention(matrix, *vectors)
    assert weights.shape == (0,)
    weights.sum().backward()  # type: ignore[no-untyped-call]
    assert all(each.grad is not None and not each.grad.any() for each in vectors)
    assert edge_products(matrix, torch.ones(4, 2), torch.ones(5, 2)).shape == (0,)


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
