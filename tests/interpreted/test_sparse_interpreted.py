"""The kernels of sparse products, edge products and attention, against float64, which is left to PyTorch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.ops.dispatch import triton
from fossil.ops.edges import edge_attention, edge_products
from fossil.ops.sparse import Indices, SparseMatrix

# rows, columns, width, density
CASES = [
    (4, 3, 1, 0.5),
    (12, 30, 7, 0.3),
    (9, 300, 128, 0.05),
    (7, 700, 130, 0.02),
    (6, 257, 300, 0.0),
    (15, 20, 30, 0.2),
]
ATTENTION = ["attention", "attention_gradient"]
PRODUCTS = ["edge_products", "product", "product"]


class Task(NamedTuple):
    """A function, what it is given, the gradient in its result, and which launches it and its gradient take."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    upstream: Tensor
    launches: list[str]


def tasks(rows: int, columns: int, width: int, density: float) -> dict[str, Task]:
    """Return all that is computed with one random pattern."""
    random = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    kept = torch.rand(rows, columns, generator=random) < density
    kept[0] = True  # a hub
    kept[rows // 2] = kept[1:, 1] = False  # a row without entries, and a column of the hub alone
    matrix = SparseMatrix.from_scipy(sp.csr_array(kept.numpy().astype(np.float32)))
    short = matrix.with_values(matrix.values)
    vars(short).update(indices=Indices(*(each.int() for each in matrix.indices)))
    centre, neighbour = 2 * draw(rows, 3), 2 * draw(columns, 2)
    centre[1::4] += 300  # sums whose exponentials overflow
    centre[3::4] -= 1500  # or vanish
    centre[0], neighbour[0], neighbour[1] = 1.0, -1.0, -torch.inf  # a sum of exactly zero, and a weight of zero
    for_edges, values = draw(matrix.num_entries), draw(matrix.num_entries)
    first, second = draw(rows, width), draw(width, columns).T
    for_product, for_below = draw(rows, width), draw(2 * rows, width)
    for_twice, for_narrow = draw(rows + columns, width), draw(rows, width)
    return {
        "attention": Task(
            lambda c, n: edge_attention(matrix, c, n), (centre[:, 0], neighbour[:, 0]), for_edges, ATTENTION
        ),
        "columns": Task(
            lambda c, n: edge_attention(short, c[:, 1], n[:, 1]), (centre, neighbour), for_edges, ATTENTION
        ),
        "edge products": Task(lambda f, s: edge_products(matrix, f, s), (first, second), for_edges, PRODUCTS),
        "product": Task(lambda v, d: matrix.matmul(d, v), (values, second), for_product, PRODUCTS),
        "below": Task(lambda a, v, d: matrix.matmul_below(a, d, v), (first, values, second), for_below, PRODUCTS),
        "twice": Task(lambda v, d: matrix.matmul_below(d, d, v), (values, second), for_twice, PRODUCTS),
        "narrow": Task(lambda v, d: matrix.matmul(d, v), (values, second.bfloat16()), for_narrow, PRODUCTS),
    }


def solved(task: Task, inputs: list[Tensor]) -> list[Tensor]:
    """Return the result and the gradients of all inputs."""
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    result = task.function(*leaves)
    return [result.detach(), *torch.autograd.grad(result, leaves, task.upstream.to(result.dtype))]


@pytest.mark.parametrize("name", ["attention", "columns", "edge products", "product", "below", "twice", "narrow"])
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_results_and_gradients_are_those_of_float64(
    case: tuple[int, int, int, float], name: str, counted: Callable[..., list[str]]
) -> None:
    counted("edges", "edge_products", "attention", "attention_gradient")
    calls = counted("sparse", "product")
    task = tasks(*case)[name]
    found = solved(task, list(task.inputs))
    assert sorted(calls) == task.launches
    wanted = solved(task, [each.double() for each in task.inputs])
    assert sorted(calls) == task.launches  # float64 is left to PyTorch
    last = torch.bfloat16 if name == "narrow" else torch.float32
    assert [each.dtype for each in found] == [torch.float32] * (len(found) - 1) + [last]
    tolerance = 3e-5 if task.launches == ATTENTION else 2e-6
    rounded = 4e-3 if name == "narrow" else tolerance  # the gradient of a bfloat16 matrix is one too
    errors = [((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(found, wanted, strict=True)]
    assert all(error < tolerance for error in errors[:-1]), errors
    assert errors[-1] < rounded


# The kernel by itself: both kinds of indices, rows of one, several and no pieces, and values in another order.
# Indices, rows, columns, width, density, entries of a piece.
PLANS = [
    (torch.int32, 9, 60, 7, 0.1, 16),
    (torch.int64, 40, 12, 30, 0.2, 5),
    (torch.int32, 6, 450, 1, 0.05, 192),
    (torch.int64, 5, 21, 130, 0.3, 64),
    (torch.int32, 70, 9, 256, 0.3, 8),
]


@pytest.mark.parametrize(("kind", "rows", "columns", "width", "density", "piece"), PLANS, ids=repr)
def test_products_are_scipys_whatever_the_indices_pieces_and_order(
    kind: torch.dtype,
    rows: int,
    columns: int,
    width: int,
    density: float,
    piece: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version = triton("sparse")
    monkeypatch.setattr(version, "PIECE", piece)
    random = np.random.default_rng(0)
    kept = random.random((rows, columns)) < density
    kept[0] = kept[:, columns - 1] = True  # a hub of each
    kept[rows // 2] = kept[-1] = kept[:, columns // 2] = False
    host = sp.csr_array(np.where(kept, random.standard_normal(kept.shape), 0.0))
    matrix = SparseMatrix.from_scipy(host)
    host = sp.csr_array(host.astype(np.float32), dtype=np.float64)
    crow, col, order = matrix.transposed
    index = [each.to(kind) for each in (matrix.crow, matrix.col, crow, col, order)]
    for plan, exact in ((version.make_plan(*index[:2]), host), (version.make_plan(*index[2:]), sp.csr_array(host.T))):
        dense = torch.from_numpy(random.standard_normal((exact.shape[1], width)).astype(np.float32))
        product = version.product(plan, matrix.values, dense)
        wanted = torch.from_numpy(exact @ dense.double().numpy())
        assert (product - wanted).abs().max() < 1e-6 * wanted.abs().max()
        entries = np.diff(exact.indptr)
        empty = torch.from_numpy(entries == 0)
        assert empty.any() and not product[empty].any()
        # What one row reads does not reach rows without it, though their programs read it beside theirs.
        column = int(plan.col[0])
        poisoned = dense.clone()
        poisoned[column] = torch.nan
        reached = torch.from_numpy(exact[:, [column]].toarray().ravel() != 0)
        touched = version.product(plan, matrix.values, poisoned)
        assert torch.equal(touched[~reached], product[~reached]) and touched[reached].isnan().all()
        lengths, shares = plan.pieces[1].tolist(), plan.cut[1].tolist()
        assert lengths == sorted(lengths, reverse=True) and lengths[0] <= piece
        assert sum(lengths) == matrix.num_entries
        assert sum(shares) == plan.partial_sums
        assert max(shares, default=1) == -(-int(entries.max()) // piece)


def test_plans_are_handed_on() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array(np.eye(3)))
    assert "plans" in vars(matrix.with_values(2 * matrix.values))
    assert matrix.with_values(2 * matrix.values).plans is matrix.plans
    empty = SparseMatrix.from_scipy(sp.csr_array((3, 4)))
    assert not empty.with_values(empty.values).matmul(empty.values.new_ones(4, 2)).any()
