"""The node loss on a GPU, against a dense float64 version on the same device."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fossil.ops import affinities, infonce
from fossil.ops.infonce import node_contrast
from fossil.ops.precision import Products

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

PRECISIONS: list[Products] = ["float32", "tf32", "bfloat16"]
TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "bfloat16": 1e-3}


def views(nodes: int, width: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(nodes)
    first = torch.randn(nodes, width, generator=random)
    return first.cuda(), (first + torch.randn(nodes, width, generator=random)).cuda()


def dense(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The loss as a cross-entropy over all 2N×2N cosines: each row's class is its own pair."""
    vectors = torch.cat([first, second])
    length = vectors.norm(dim=1, keepdim=True)
    unit = vectors / torch.where(length > 1e-6, length, torch.ones_like(length))
    total = len(unit)
    logits = unit @ unit.T / temperature
    logits = logits.masked_fill(torch.eye(total, dtype=torch.bool, device=unit.device), -torch.inf)
    return nn.functional.cross_entropy(logits, (torch.arange(total, device=unit.device) + total // 2) % total)


def solved(loss: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return a loss and its gradient in both views, 2×N×D."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    value = loss(*leaves)
    value.backward()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return value.detach(), torch.stack(gradients)


def assert_agrees(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], tolerance: float) -> None:
    assert found[0].item() == pytest.approx(expected[0].item(), rel=tolerance, abs=tolerance)
    assert (found[1] - expected[1]).norm() <= tolerance * expected[1].norm()


@pytest.mark.parametrize("products", PRECISIONS)
@pytest.mark.parametrize(
    ("nodes", "width", "tile"),
    [(2, 16, None), (64, 64, None), (100, 40, 50), (1000, 512, None), (1500, 512, 1000), (2708, 100, None)],
)
def test_value_and_gradient_are_those_of_float64(nodes: int, width: int, tile: int | None, products: Products) -> None:
    inputs = views(nodes, width)
    found = solved(lambda u, v: node_contrast(u, v, 0.5, products=products, tile_rows=tile), *inputs)
    expected = solved(lambda u, v: dense(u, v, 0.5), *(tensor.double() for tensor in inputs))
    assert_agrees(found, expected, max(TOLERANCE[products], 5e-3 if nodes == 2 and products != "float32" else 0))


@pytest.mark.parametrize("products", PRECISIONS)
def test_it_works_without_triton(products: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infonce, "triton_runs_on", lambda device: False)
    first, second = views(700, 64)
    count = torch.tensor(500, device="cuda")
    found = solved(lambda u, v: node_contrast(u, v, 0.5, count=count, products=products, tile_rows=600), first, second)
    expected = solved(lambda u, v: dense(u, v, 0.5), first[:500].double(), second[:500].double())
    assert not found[1][:, 500:].any()
    assert_agrees((found[0], found[1][:, :500]), expected, TOLERANCE[products])


def test_bfloat16_products_are_added_in_float32_without_a_call_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinities, "_adds_narrow_products", lambda device: False)
    inputs = views(700, 64)
    found = solved(lambda u, v: node_contrast(u, v, 0.5, products="bfloat16", tile_rows=600), *inputs)
    expected = solved(lambda u, v: dense(u, v, 0.5), *(tensor.double() for tensor in inputs))
    assert_agrees(found, expected, TOLERANCE["bfloat16"])


@pytest.mark.parametrize("products", ["tf32", "bfloat16"])
@pytest.mark.parametrize("tile", [128, 700, None])
@pytest.mark.parametrize(("nodes", "width"), [(130, 64), (2708, 512), (3001, 100)])
def test_strips_of_any_height_give_the_float64_gradient(
    nodes: int, width: int, tile: int | None, products: Products
) -> None:
    inputs = views(nodes, width)
    found = solved(lambda u, v: node_contrast(u, v, 0.2, products=products, tile_rows=tile), *inputs)
    expected = solved(lambda u, v: dense(u, v, 0.2), *(tensor.double() for tensor in inputs))
    assert_agrees(found, expected, 1e-3)


@pytest.mark.parametrize("products", PRECISIONS)
def test_vectors_without_a_direction_have_the_float64_gradient(products: Products) -> None:
    first, second = views(700, 96)
    first[3] = 0
    second[5] *= 1e-9
    found = solved(lambda u, v: 7 * node_contrast(u, v, 0.5, products=products), first, second)
    expected = solved(lambda u, v: 7 * dense(u, v, 0.5), first.double(), second.double())
    assert_agrees(found, expected, TOLERANCE[products])


@pytest.mark.parametrize("products", PRECISIONS)
def test_bfloat16_vectors_are_summed_in_float32(products: Products) -> None:
    first, second = (tensor.bfloat16() for tensor in views(1000, 128))
    value, gradient = solved(lambda u, v: node_contrast(u, v, 0.5, products=products), first, second)
    expected = solved(lambda u, v: dense(u, v, 0.5), first.double(), second.double())
    assert (value.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)
    assert_agrees((value, gradient), expected, 3e-3)  # the gradient itself is rounded to 8 bits


@pytest.mark.parametrize("products", PRECISIONS)
def test_many_nodes_have_the_float64_loss_and_gradient(products: Products) -> None:
    nodes, temperature = 20_000, 0.5
    inputs = views(nodes, 128)
    value, gradient = solved(lambda u, v: node_contrast(u, v, temperature, products=products), *inputs)
    vectors = torch.cat(inputs).double()
    length = vectors.norm(dim=1, keepdim=True)
    unit = vectors / length

    def affinities_of(rows: Tensor) -> Tensor:
        return torch.exp(unit[rows] @ unit.T / temperature).scatter(1, rows[:, None], 0)

    totals = torch.cat([affinities_of(rows).sum(1) for rows in torch.arange(2 * nodes, device="cuda").view(-1, 2000)])
    cosines = (unit[:nodes] * unit[nodes:]).sum(1)
    assert value.item() == pytest.approx((totals.log().mean() - cosines.mean() / temperature).item(), rel=1e-4)

    sample = torch.arange(0, 2 * nodes, 97, device="cuda")
    share = totals.reciprocal()
    pull = (affinities_of(sample) * (share[sample, None] + share)) @ unit
    outer = (pull - 2 * unit.roll(nodes, 0)[sample]) / (2 * temperature * nodes)
    expected = (outer - unit[sample] * (unit[sample] * outer).sum(1, keepdim=True)) / length[sample]
    assert (gradient.flatten(0, 1)[sample] - expected).norm() <= TOLERANCE[products] * expected.norm()


@pytest.mark.parametrize("products", PRECISIONS)
@pytest.mark.parametrize("count", [1, 3, 400, 1000, 2000])
def test_only_the_first_rows_take_part(count: int, products: Products) -> None:
    first, second = views(1000, 128)
    kept = min(count, 1000)
    expected = solved(lambda u, v: dense(u, v, 0.5), first[:kept].double(), second[:kept].double())
    first[kept:] = second[kept:] = torch.nan
    number = torch.tensor(count, device="cuda")
    value, gradient = solved(lambda u, v: node_contrast(u, v, 0.5, count=number, products=products), first, second)
    assert not gradient[:, kept:].any()
    tolerance = TOLERANCE[products] if kept > 3 else 1e-2
    assert value.item() == pytest.approx(expected[0].item(), rel=tolerance, abs=tolerance)
    residue = 1e-5 if products == "float32" else 1e-3  # of a gradient that is exactly zero where one row takes part
    assert (gradient[:, :kept] - expected[1]).norm() <= tolerance * expected[1].norm() + residue


@pytest.mark.parametrize("products", PRECISIONS)
def test_no_rows_at_all_lose_nothing(products: Products) -> None:
    count = torch.tensor(0, device="cuda")
    value, gradient = solved(lambda u, v: node_contrast(u, v, 0.5, count=count, products=products), *views(300, 32))
    assert value.item() == 0
    assert not gradient.any()


@pytest.mark.parametrize("products", PRECISIONS)
def test_the_host_never_waits(products: Products) -> None:
    inputs = views(3000, 128)
    count = torch.tensor(2500, device="cuda")
    solved(lambda u, v: node_contrast(u, v, 0.5, count=count, products=products), *inputs)
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        solved(lambda u, v: node_contrast(u, v, 0.5, count=count, products=products), *inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("products", PRECISIONS)
def test_a_recorded_graph_gives_the_same_and_follows_the_count(products: Products) -> None:
    first, second = (tensor.requires_grad_() for tensor in views(3000, 128))
    count = torch.tensor(3000, device="cuda")

    def step() -> tuple[Tensor, ...]:
        value = node_contrast(first, second, 0.5, count=count, products=products)
        return value, *torch.autograd.grad(value, (first, second))

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    for number in (3000, 1234):
        count.fill_(number)
        graph.replay()
        torch.cuda.synchronize()
        for found, expected in zip(recorded, step(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("products", ["tf32", "bfloat16"])
def test_the_same_numbers_come_out_again(products: Products) -> None:
    inputs = views(3000, 128)
    first, second = (solved(lambda u, v: node_contrast(u, v, 0.5, products=products), *inputs) for _ in range(2))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


@pytest.mark.parametrize("products", PRECISIONS)
def test_memory_grows_with_the_nodes_and_not_with_their_square(products: Products) -> None:
    first, second = (tensor.requires_grad_() for tensor in views(20_000, 512))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    node_contrast(first, second, 0.5, products=products).backward()  # type: ignore[no-untyped-call]
    assert torch.cuda.max_memory_allocated() - before < 1e9  # all cosines alone would be 6.4e9


def test_autocast_selects_bfloat16_and_allowed_tf32_selects_it() -> None:
    inputs = views(500, 64)

    def ambient(first: Tensor, second: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return node_contrast(first, second, 0.5)

    found = solved(ambient, *inputs)
    assert torch.equal(found[0], solved(lambda u, v: node_contrast(u, v, 0.5, products="bfloat16"), *inputs)[0])
    expected = [solved(lambda u, v, p=p: node_contrast(u, v, 0.5, products=p), *inputs)[0] for p in PRECISIONS]
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for allowed in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            assert torch.equal(solved(lambda u, v: node_contrast(u, v, 0.5), *inputs)[0], expected[allowed])
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
