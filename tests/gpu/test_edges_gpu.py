"""Edge products, attention, sparse products and activations on a GPU, against float64 on the same device."""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.nn.encoders import DecoupledEncoder
from fossil.nn.generators import GATOnEmbeddings
from fossil.nn.tensors import GraphTensors
from fossil.ops import activation, sparse
from fossil.ops.activation import biased_activation, biased_prelu
from fossil.ops.dispatch import triton
from fossil.ops.edges import edge_attention, edge_products
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cuda()


def graph(rows: int, columns: int, degree: int, hub: int = 0) -> SparseMatrix:
    """Return a random pattern; the first row has `hub` entries, the middle row and the last column none."""
    numbers = np.random.default_rng(rows)
    kept = sp.random_array((rows, columns), density=degree / columns, rng=numbers, format="lil", dtype=np.float32)
    kept[0, numbers.choice(columns, hub, replace=False)] = 1.0
    kept[rows // 2] = 0.0
    kept[:, columns - 1] = 0.0
    matrix = sp.csr_array(kept)
    matrix.eliminate_zeros()
    return SparseMatrix.from_scipy(matrix, "cuda")


SIZES = [(1, 1, 1, 0), (50, 70, 5, 0), (3000, 3000, 40, 2900), (400, 30_000, 10, 20_000)]
WIDTHS = [1, 7, 100, 512]


def solved(function: Callable[..., Tensor], inputs: Sequence[Tensor], upstream: Tensor) -> list[Tensor]:
    """Return a result and its gradients in all inputs."""
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    result = function(*leaves)
    return [result.detach(), *torch.autograd.grad(result, leaves, upstream.to(result.dtype))]


def assert_agrees(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], upstream: Tensor, tolerance: float = 1e-5
) -> None:
    """Assert that the result and all gradients are those of the same function in float64, which takes no kernel."""
    found = solved(function, inputs, upstream)
    wanted = solved(function, [each.double() for each in inputs], upstream)
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.isfinite().all()
        assert (one - other).norm() <= tolerance * other.norm(), place


def used(operation: str, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that a call of a function of an operation's Triton version is written to."""
    calls: list[str] = []
    version = triton(operation)
    original = getattr(version, name)

    def counted(*given: Any) -> Any:
        calls.append(name)
        return original(*given)

    monkeypatch.setattr(version, name, counted)
    return calls


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", SIZES)
def test_edge_products_and_their_gradients(size: tuple[int, int, int, int], width: int) -> None:
    matrix = graph(*size)
    inputs = draw(size[0], width), draw(size[1], width, seed=1)
    assert_agrees(lambda f, s: edge_products(matrix, f, s), inputs, draw(matrix.num_entries, seed=2))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", SIZES)
def test_products_and_their_gradients(size: tuple[int, int, int, int], width: int) -> None:
    matrix = graph(*size)
    inputs = draw(matrix.num_entries), draw(width, size[1], seed=1).T
    assert_agrees(lambda values, dense: matrix.matmul(dense, values), inputs, draw(size[0], width, seed=2))
    assert all(indices.dtype == torch.int32 for indices in matrix.indices)


@pytest.mark.parametrize("size", SIZES)
def test_attention_and_its_gradients(size: tuple[int, int, int, int]) -> None:
    matrix = graph(*size)
    centre, neighbour, upstream = draw(size[0], 2), 3 * draw(size[1], 2, seed=1), draw(matrix.num_entries, seed=2)
    centre[1::4] += 200  # sums whose exponentials overflow
    centre[3::4] -= 1000  # or vanish
    vectors = centre[:, 0], neighbour[:, 0]
    assert_agrees(lambda c, n: edge_attention(matrix, c, n), vectors, upstream, tolerance=1e-4)
    both = centre, neighbour
    assert_agrees(lambda c, n: edge_attention(matrix, c[:, 1], n[:, 1]), both, upstream, tolerance=1e-4)
    assert all(indices.dtype == torch.int32 for indices in matrix.indices)


@needs_triton
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [1, 7, 30, 128, 130, 1024])
@pytest.mark.parametrize("size", SIZES[1:])
def test_planned_products_are_scipys_and_always_the_same(
    size: tuple[int, int, int, int], width: int, kind: torch.dtype
) -> None:
    version = triton("sparse")
    matrix = graph(*size)
    crow, col, order = matrix.transposed
    index = [each.to(kind) for each in (matrix.crow, matrix.col, crow, col, order)]
    exact = sp.csr_array(
        (matrix.values.double().cpu().numpy(), matrix.col.cpu().numpy(), matrix.crow.cpu().numpy()), matrix.shape
    )
    for plan, host in ((version.make_plan(*index[:2]), exact), (version.make_plan(*index[2:]), exact.T)):
        dense = draw(host.shape[1], width)
        found = version.product(plan, matrix.values, dense)
        wanted = torch.from_numpy(host @ dense.double().cpu().numpy())
        assert (found.cpu() - wanted).norm() <= 2e-6 * wanted.norm()
        assert (found.cpu()[np.diff(sp.csr_array(host).indptr) == 0] == 0).all()
        assert torch.equal(found, version.product(plan, matrix.values, dense))
    assert (version.make_plan(*index[:2]).partial_sums > 0) == (size[3] > 0)


@needs_triton
def test_a_recorded_product_follows_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = used("sparse", "product", monkeypatch)
    matrix = graph(3000, 3000, 40, hub=2900)
    values, dense, upstream = draw(matrix.num_entries), draw(3000, 512, seed=1), draw(3000, 512, seed=2)
    leaves = [values.requires_grad_(), dense.requires_grad_()]

    def step() -> list[Tensor]:
        product = matrix.matmul(dense, values)
        return [product.detach(), *torch.autograd.grad(product, leaves, upstream)]

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        recorded = step()
    with torch.no_grad():
        values.copy_(draw(matrix.num_entries, seed=3))
    recording.replay()
    for found, wanted in zip(recorded, step(), strict=True):
        assert torch.equal(found, wanted)
    assert len(launched) == 6  # forward and backward of three steps


@needs_triton
def test_the_kernels_are_used_for_float32_and_not_for_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = used("edges", "edge_products", monkeypatch)
    rows = used("edges", "attention", monkeypatch)
    multiplied = used("sparse", "product", monkeypatch)
    activated = used("activation", "activate", monkeypatch)
    matrix, vectors = graph(50, 70, 5), (draw(50, 8), draw(70, 8))
    for kind in (torch.float64, torch.float32):
        assert not edges and not rows and not multiplied and not activated
        edge_products(matrix, *(each.to(kind) for each in vectors))
        edge_attention(matrix, draw(50).to(kind), draw(70).to(kind))
        matrix.matmul(vectors[1].to(kind), draw(matrix.num_entries).to(kind))
        biased_prelu(vectors[0].to(kind), draw(8).to(kind), [draw(1).to(kind)])
    assert len(edges) == len(rows) == len(multiplied) == len(activated) == 1


def test_everything_works_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sparse, activation):
        monkeypatch.setattr(module, "triton_runs_on", lambda device: False)
    matrix = graph(50, 70, 5)
    upstream = draw(matrix.num_entries, seed=1)
    assert_agrees(lambda c, n: edge_attention(matrix, c, n), (draw(50), draw(70, seed=2)), upstream)
    assert_agrees(lambda f, s: edge_products(matrix, f, s), (draw(50, 8), draw(70, 8)), upstream)
    pair = draw(matrix.num_entries), draw(70, 8)
    assert_agrees(lambda values, dense: matrix.matmul(dense, values), pair, draw(50, 8, seed=1))
    inputs = draw(50, 8), draw(8, seed=1), draw(1, seed=2)
    assert_agrees(lambda values, bias, slope: biased_prelu(values, bias, [slope]), inputs, draw(50, 8, seed=3))


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (37, 100), (5201, 1024), (20_000, 512), (7, 2000)])
@pytest.mark.parametrize("kinds", ["p", "pp", "pr", "r", "rp"])
def test_activations_and_their_gradients(rows: int, width: int, kinds: str) -> None:
    # With a positive slope a ReLU would leave nothing to its gradient.
    numbers = (-0.25, 0.4) if kinds == "pr" else (0.25, -0.4)
    learnt = [torch.tensor([number], device="cuda") for number in numbers[: kinds.count("p")]]

    def function(values: Tensor, bias: Tensor, *slopes: Tensor) -> Tensor:
        left = iter(slopes)
        return biased_prelu(values, bias, [next(left) if kind == "p" else None for kind in kinds])

    inputs = draw(rows, width) + 0.1, draw(width, seed=1), *learnt
    # A slope's gradient is a sum of about as many positive as negative terms, so an upstream gradient of one sign.
    assert_agrees(function, inputs, draw(rows, width, seed=2).abs() + 0.1)


@pytest.mark.parametrize("after", [nn.Identity(), nn.ReLU(), nn.PReLU()], ids=lambda module: type(module).__name__)
def test_results_and_types_are_those_of_pytorchs_modules_also_inside_autocast(after: nn.Module) -> None:
    own, after = nn.PReLU().cuda(), after.cuda()
    values, bias = draw(300, 200), draw(200, seed=1)
    assert torch.equal(biased_activation(values, bias, own, after), after(own(values + bias)))
    with torch.autocast("cuda", torch.bfloat16):
        found, expected = biased_activation(values.bfloat16(), bias, own, after), after(own(values.bfloat16() + bias))
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_products_are_float32_inside_autocast() -> None:
    matrix = graph(300, 300, 10)
    values, dense, upstream = draw(matrix.num_entries), draw(300, 64).bfloat16(), draw(300, 64, seed=1)
    with torch.autocast("cuda", torch.bfloat16):
        product, for_values, for_dense = solved(lambda v, d: matrix.matmul(d, v), (values, dense), upstream)
    wanted = solved(lambda v, d: matrix.matmul(d, v), (values.double(), dense.double()), upstream)
    assert [each.dtype for each in (product, for_values, for_dense)] == [torch.float32, torch.float32, torch.bfloat16]
    assert (product - wanted[0]).norm() <= 1e-5 * wanted[0].norm()
    assert (for_values - wanted[1]).norm() <= 1e-5 * wanted[1].norm()
    assert (for_dense - wanted[2]).norm() <= 1e-2 * wanted[2].norm()


def test_full_features_become_dense_and_thin_ones_stay_sparse() -> None:
    weight = draw(50, 8)
    for density, kind in ((0.2, Tensor), (0.01, SparseMatrix)):
        host = sp.random_array((200, 50), density=density, rng=np.random.default_rng(0), dtype=np.float32)
        features = FeatureMatrix.from_host(host, "cuda")
        assert isinstance(features.data, kind)
        torch.testing.assert_close(features.project(weight).cpu(), torch.from_numpy(host.toarray()) @ weight.cpu())


def step_of_encoder_and_generator() -> Callable[[], list[Tensor]]:
    """Return a step that runs both and gives a loss and all gradients."""
    torch.manual_seed(0)
    activated = nn.PReLU()
    encoder = DecoupledEncoder(40, 96, 64, activated, 0.0).cuda()
    generator = GATOnEmbeddings(64, activated).cuda()
    adjacency = graph(600, 600, 12, hub=500)
    tensors = GraphTensors(FeatureMatrix(draw(600, 40)), adjacency, adjacency, None)
    parameters = list(dict.fromkeys([*encoder.parameters(), *generator.parameters()]))

    def step() -> list[Tensor]:
        branches = generator(encoder(tensors.features, adjacency), tensors, None)
        loss = branches.feature.square().mean() + branches.structure.square().mean()
        return [loss.detach(), *torch.autograd.grad(loss, parameters)]

    return step


def test_the_host_never_waits() -> None:
    step = step_of_encoder_and_generator()
    step()
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_recorded_step_gives_the_same() -> None:
    step = step_of_encoder_and_generator()
    expected = step()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        recorded = step()
    recording.replay()
    for found, wanted in zip(recorded, expected, strict=True):
        assert (found - wanted).norm() <= 1e-4 * wanted.norm()
