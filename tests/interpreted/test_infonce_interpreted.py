"""The kernels of the node loss in all its precisions and with padding, against a dense float64 version."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fossil.ops.dispatch import triton
from fossil.ops.infonce import node_contrast
from fossil.ops.precision import Products

# nodes, width, count, temperature, products, tile rows, strips of the gradient (tiles for 0), type of the vectors;
# several strips are kept from the forward pass where there is neither a count nor a number of tile rows
CASES: list[tuple[int, int, int | None, float, Products, int | None, int, torch.dtype]] = [
    (70, 16, None, 0.5, "float32", 64, 0, torch.float32),
    (70, 16, 50, 0.2, "float32", 100, 0, torch.float32),
    (70, 24, None, 0.5, "tf32", None, 1, torch.float32),  # three tiles of sums
    (128, 40, None, 0.5, "tf32", None, 1, torch.float32),  # two: the last distance meets each pair twice
    (90, 100, 60, 0.2, "tf32", 70, 2, torch.float32),
    (1, 16, None, 0.5, "tf32", None, 1, torch.float32),
    (170, 64, None, 0.5, "bfloat16", 200, 3, torch.float32),
    (140, 72, 100, 0.5, "bfloat16", 300, 2, torch.float32),
    (90, 64, 200, 0.5, "bfloat16", None, 1, torch.float32),
    (40, 16, 0, 0.5, "bfloat16", None, 1, torch.float32),
    (40, 16, -2, 0.5, "float32", None, 0, torch.float32),
    (60, 32, 50, 0.5, "tf32", None, 1, torch.bfloat16),
    (200, 24, None, 0.5, "tf32", None, 2, torch.float32),  # four tiles
    (300, 16, None, 0.2, "bfloat16", None, 3, torch.float32),  # five
    (170, 20, None, 0.5, "tf32", None, 3, torch.float32),  # rows that are no whole 16 bytes
]
TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "bfloat16": 1e-3}  # kernels round as they do on a GPU


def views(nodes: int, width: int) -> tuple[Tensor, Tensor]:
    """Return two views of the same nodes; the first two have a vector each that is too short to have a direction."""
    random = torch.Generator().manual_seed(0)
    first = torch.randn(nodes, width, generator=random)
    second = first + torch.randn(nodes, width, generator=random)
    if nodes > 1:
        first[0] = 0
        second[1] *= 1e-9
    return first, second


def dense(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The loss as a cross-entropy over all 2N×2N cosines: each row's class is its own pair."""
    vectors = torch.cat([first, second])
    length = vectors.norm(dim=1, keepdim=True)
    unit = vectors / torch.where(length > 1e-6, length, torch.ones_like(length))
    total = len(unit)
    logits = (unit @ unit.T / temperature).masked_fill(torch.eye(total, dtype=torch.bool), -torch.inf)
    return nn.functional.cross_entropy(logits, (torch.arange(total) + total // 2) % total)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is done with the matrix, and in how many strips where it is done in strips."""
    # So that few rows show what happens to several strips.
    monkeypatch.setattr(triton("infonce_strips"), "UNDIVIDED_ROWS", 300)
    tiles, strips = triton("infonce").TileAffinities, triton("infonce_strips").StripAffinities
    made: list[Any] = []

    def count(kind: Any, name: str) -> None:
        original = getattr(kind, name)

        def counted(self: Any, *given: Any) -> Any:
            made.append((name, len(self._strips())) if name.endswith("strips") else name)
            return original(self, *given)

        monkeypatch.setattr(kind, name, counted)

    for name in ("_tile_sums", "_tile_weights"):
        count(tiles, name)
    for name in ("_band_sums", "_computed_strips", "_kept_strips"):
        count(strips, name)
    return made


@pytest.mark.parametrize(
    ("nodes", "width", "count", "temperature", "products", "tile", "strips", "kind"), CASES, ids=repr
)
def test_the_loss_and_its_gradient_are_those_of_float64(
    nodes: int,
    width: int,
    count: int | None,
    temperature: float,
    products: Products,
    tile: int | None,
    strips: int,
    kind: torch.dtype,
    calls: list[Any],
) -> None:
    first, second = views(nodes, width)
    kept = nodes if count is None else min(max(count, 0), nodes)
    exact = [view[:kept].to(kind).double().requires_grad_() for view in (first, second)]
    if count is not None:
        first[count:], second[count:] = torch.nan, torch.inf
    leaves = [view.to(kind).requires_grad_() for view in (first, second)]
    number = None if count is None else torch.tensor(count)
    value = node_contrast(leaves[0], leaves[1], temperature, count=number, products=products, tile_rows=tile)
    gradient = torch.stack(torch.autograd.grad(3 * value, leaves, retain_graph=True))
    if strips:
        how = "_kept_strips" if strips > 1 and count is None and tile is None else "_computed_strips"
        assert calls == ["_band_sums", (how, strips)]
    else:
        assert sorted(set(calls)) == ["_tile_sums", "_tile_weights"]
    again = torch.stack(torch.autograd.grad(3 * value, leaves))
    assert torch.allclose(again, gradient, rtol=0.02, atol=1e-2 * gradient.abs().max().item())
    assert gradient.dtype == kind
    assert not gradient[:, kept:].any()
    if not kept:
        assert value.item() == 0
        return
    wanted = dense(exact[0], exact[1], temperature)
    expected = torch.stack(torch.autograd.grad(3 * wanted, exact))
    tolerance = TOLERANCE[products]
    assert value.item() == pytest.approx(wanted.item(), rel=tolerance / 10, abs=tolerance / 10)
    error = (gradient[:, :kept] - expected).norm()
    if nodes == 1:  # its loss is a constant, so that nothing but rounding errors is left
        assert gradient.abs().max() < 3e-3
    elif kind == torch.bfloat16:  # the gradient itself is cut to 8 bits
        assert error <= 1e-2 * expected.norm()
    else:
        assert error <= tolerance * expected.norm()
