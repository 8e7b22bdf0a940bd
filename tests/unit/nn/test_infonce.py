"""The node loss in all its precisions and with padding, against a dense float64 version; its kernels, interpreted."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fossil.errors import SettingError
from fossil.nn import _affinities
from fossil.nn._affinities import Affinities
from fossil.nn.infonce import node_contrast, node_contrast_memory
from fossil.nn.precision import Products, products_in

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

TOLERANCE = {"float32": 1e-5, "tf32": 1e-5, "bfloat16": 1e-3}  # without a GPU, tf32 is float32


@pytest.fixture(autouse=True)
def _not_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def views(nodes: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    first = torch.randn(nodes, width, generator=random)
    return first, first + torch.randn(nodes, width, generator=random)


def dense(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The loss as a cross-entropy over all 2N×2N cosines: each row's class is its own pair."""
    vectors = torch.cat([first, second])
    length = vectors.norm(dim=1, keepdim=True)
    unit = vectors / torch.where(length > 1e-6, length, torch.ones_like(length))
    total = len(unit)
    logits = (unit @ unit.T / temperature).masked_fill(torch.eye(total, dtype=torch.bool), -torch.inf)
    return nn.functional.cross_entropy(logits, (torch.arange(total) + total // 2) % total)


def solved(loss: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return a loss and its gradient in both views, one below the other."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    value = loss(*leaves)
    value.backward()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    assert len(gradients) == 2
    return value.detach(), torch.cat(gradients)


def assert_agrees(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], tolerance: float) -> None:
    assert found[0].item() == pytest.approx(expected[0].item(), rel=tolerance, abs=tolerance)
    assert (found[1] - expected[1]).norm() <= tolerance * expected[1].norm()


@pytest.mark.parametrize("products", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("temperature", [0.2, 0.8])
@pytest.mark.parametrize("tile", [None, 37])
def test_value_and_gradient_are_those_of_float64(products: Products, temperature: float, tile: int | None) -> None:
    first, second = views(90, 24)
    found = solved(lambda u, v: node_contrast(u, v, temperature, products=products, tile_rows=tile), first, second)
    expected = solved(lambda u, v: dense(u, v, temperature), first.double(), second.double())
    assert found[0].dtype == found[1].dtype == torch.float32
    assert_agrees(found, expected, TOLERANCE[products])


@pytest.mark.parametrize("products", ["float32", "bfloat16"])
def test_tiles_are_kept_only_where_they_are_few_and_then_change_nothing(
    products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_affinities, "_tile_rows", lambda unit: 16)
    first, second = (tensor.requires_grad_() for tensor in views(90, 24))
    computed, numbers = [], []
    multiply = _affinities.multiply

    def counted(left: Tensor, right: Tensor, out: Tensor, **given: float) -> None:
        computed.append(left.shape)
        multiply(left, right, out, **given)

    monkeypatch.setattr(_affinities, "multiply", counted)
    gradients = []
    half = 180 * 180 * 4 // 2
    for most in (half, half - 1):
        monkeypatch.setattr(_affinities, "_KEPT_BYTES", most)
        computed.clear()
        loss = node_contrast(first, second, 0.5, products=products)
        gradients.append(torch.cat(torch.autograd.grad(loss, (first, second), retain_graph=True)))
        gradients.append(torch.cat(torch.autograd.grad(loss, (first, second))))
        numbers.append(len(computed))
    for other in gradients[1:]:
        assert torch.equal(gradients[0], other)
    assert numbers[1] - numbers[0] == 2 * 12 * 13 // 2  # each of two backward passes computed the 78 tiles once more


def test_what_is_kept_takes_about_as_much_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_affinities, "_tile_rows", lambda unit: 16)
    unit, kept = nn.functional.normalize(torch.cat(views(90, 24)), dim=1), list[Tensor]()
    _affinities.Affinities(unit, None, 0.5, "float32", None, kept).row_sums()
    taken = sum(tile.nbytes for tile in kept)
    assert 0.75 * taken < node_contrast_memory(90, torch.device("cpu")) < 1.25 * taken
    assert node_contrast_memory(6000, torch.device("cpu")) == 0 == node_contrast_memory(9000, torch.device("cuda"))
    assert node_contrast_memory(7600, torch.device("cuda")) == pytest.approx(0.3e9, rel=0.1)


@pytest.mark.parametrize("count", [1, 7, 20])
@pytest.mark.parametrize("padding", [3.0, float("nan")])
def test_only_the_first_rows_take_part(count: int, padding: float) -> None:
    first, second = views(20, 6)
    expected = solved(lambda u, v: dense(u, v, 0.5), first[:count].double(), second[:count].double())
    first[count:] = second[count:] = padding
    value, gradient = solved(lambda u, v: node_contrast(u, v, 0.5, count=torch.tensor(count)), first, second)
    padded = gradient.view(2, 20, 6)
    assert not padded[:, count:].any()
    assert value.item() == pytest.approx(expected[0].item(), rel=1e-5, abs=1e-6)
    torch.testing.assert_close(padded[:, :count].reshape(-1, 6), expected[1].float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [0, -3])
def test_no_rows_at_all_lose_nothing(count: int) -> None:
    first, second = views(5, 4)
    value, gradient = solved(lambda u, v: node_contrast(u, v, 0.5, count=torch.tensor(count)), first, second)
    assert value.item() == 0
    assert gradient.shape == (10, 4)
    assert not gradient.any()


def test_tiles_masked_on_the_device_sum_the_rows_that_a_cut_leaves() -> None:
    unit = nn.functional.normalize(torch.cat(views(11, 5)), dim=1)
    kept = torch.cat([torch.arange(6), torch.arange(11, 17)])
    padded = torch.zeros_like(unit)
    padded[kept] = unit[kept]
    found = Affinities(padded, torch.tensor(6), 0.3, "float32", 4).row_sums()[kept]
    torch.testing.assert_close(found, Affinities(unit[kept], None, 0.3, "float32", 5).row_sums())


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the most entries of any tensor that an operation returned."""

    entries = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self.entries = max(self.entries, tensor.numel())
        return result


def test_no_tensor_grows_with_the_square_of_the_nodes() -> None:
    largest = {}
    for name, loss in (("ours", node_contrast), ("dense", dense)):
        with LargestTensor() as seen:  # type: ignore[no-untyped-call]
            solved(lambda u, v, loss=loss: loss(u, v, 0.5), *views(1200, 4))
        largest[name] = seen.entries
    assert largest["dense"] == 2400**2
    assert largest["ours"] == 800**2  # one tile


def test_autocast_to_bfloat16_selects_bfloat16_products() -> None:
    inputs = views(40, 16)

    def ambient(first: Tensor, second: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return node_contrast(first, second, 0.5)

    found, full = (solved(loss, *inputs) for loss in (ambient, lambda u, v: node_contrast(u, v, 0.5)))
    expected = solved(lambda u, v: node_contrast(u, v, 0.5, products="bfloat16"), *inputs)
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    assert not torch.equal(found[1], full[1])


def test_a_precision_that_was_asked_for_holds_inside_autocast() -> None:
    inputs = views(40, 16)
    expected = solved(lambda u, v: node_contrast(u, v, 0.5), *inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # the backward pass too
        found = solved(lambda u, v: node_contrast(u, v, 0.5, products="float32"), *inputs)
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


def test_bfloat16_vectors_are_summed_in_float32() -> None:
    first, second = (tensor.bfloat16() for tensor in views(40, 16))
    value, gradient = solved(lambda u, v: node_contrast(u, v, 0.5), first, second)
    expected = solved(lambda u, v: dense(u, v, 0.5), first.double(), second.double())
    assert value.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    assert value.item() == pytest.approx(expected[0].item(), rel=1e-5)


@pytest.fixture
def _tf32_as_before() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.usefixtures("_tf32_as_before")
@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("products", ["float32", "tf32", "bfloat16"])
def test_tf32_is_allowed_inside_the_block_alone(products: Products, allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    with products_in(products, torch.device("cuda")):
        assert torch.backends.cuda.matmul.allow_tf32 == (products == "tf32")
    assert torch.backends.cuda.matmul.allow_tf32 == allowed


def test_a_second_derivative_is_refused() -> None:
    first, second = (tensor.requires_grad_() for tensor in views(5, 4))
    (gradient,) = torch.autograd.grad(node_contrast(first, second, 0.5).square(), first, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()  # type: ignore[no-untyped-call]


def test_unknown_products_and_unequal_views_are_refused() -> None:
    first, second = views(5, 4)
    with pytest.raises(SettingError, match="float8"):
        node_contrast(first, second, 0.5, products="float8")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"\(5, 4\) and \(4, 4\)"):
        node_contrast(first, second[:4], 0.5)


# Triton decides at its import whether it interprets, so this has a process of its own.
INTERPRETED = """
import json
import sys
import torch
from fossil.nn import _infonce_strips
from fossil.nn._infonce_launches import TileAffinities
from fossil.nn._infonce_strips import StripAffinities
from fossil.nn.infonce import node_contrast

torch.set_num_threads(1)
_infonce_strips.UNDIVIDED_ROWS = 300  # so that few rows show what happens to several strips
calls = []
for kind, name in (
    (TileAffinities, "_tile_sums"),
    (TileAffinities, "_tile_weights"),
    (StripAffinities, "_band_sums"),
    (StripAffinities, "_computed_strips"),
    (StripAffinities, "_kept_strips"),
):
    def counted(self, *given, original=getattr(kind, name), name=name):
        calls.append([name, len(self._strips())] if name.endswith("strips") else name)
        return original(self, *given)
    setattr(kind, name, counted)

found = []
for nodes, width, count, temperature, products, tile, _, dtype in json.loads(sys.argv[1]):
    random = torch.Generator().manual_seed(0)
    first = torch.randn(nodes, width, generator=random)
    second = first + torch.randn(nodes, width, generator=random)
    if nodes > 1:
        first[0] = 0
        second[1] *= 1e-9
    if count is not None:
        first[count:], second[count:] = torch.nan, torch.inf
    leaves = [tensor.to(getattr(torch, dtype)).requires_grad_() for tensor in (first, second)]
    number = None if count is None else torch.tensor(count)
    calls.clear()
    value = node_contrast(*leaves, temperature, count=number, products=products, tile_rows=tile)
    gradient = torch.stack(torch.autograd.grad(3 * value, leaves, retain_graph=True))
    made = calls.copy()
    again = torch.stack(torch.autograd.grad(3 * value, leaves))
    assert torch.allclose(again, gradient, rtol=0.02, atol=1e-2 * gradient.abs().max().item())
    assert gradient.dtype == leaves[0].dtype
    found.append({"value": value.item(), "gradient": gradient.tolist(), "calls": made})
print(json.dumps(found))
"""

# nodes, width, count, temperature, products, tile rows, strips of the gradient (tiles for 0), type of the vectors;
# several strips are kept from the forward pass where there is neither a count nor a number of tile rows
CASES: list[tuple[int, int, int | None, float, Products, int | None, int, str]] = [
    (70, 16, None, 0.5, "float32", 64, 0, "float32"),
    (70, 16, 50, 0.2, "float32", 100, 0, "float32"),
    (70, 24, None, 0.5, "tf32", None, 1, "float32"),  # three tiles of sums
    (128, 40, None, 0.5, "tf32", None, 1, "float32"),  # two: the last distance meets each pair twice
    (90, 100, 60, 0.2, "tf32", 70, 2, "float32"),
    (1, 16, None, 0.5, "tf32", None, 1, "float32"),
    (170, 64, None, 0.5, "bfloat16", 200, 3, "float32"),
    (140, 72, 100, 0.5, "bfloat16", 300, 2, "float32"),
    (90, 64, 200, 0.5, "bfloat16", None, 1, "float32"),
    (40, 16, 0, 0.5, "bfloat16", None, 1, "float32"),
    (40, 16, -2, 0.5, "float32", None, 0, "float32"),
    (60, 32, 50, 0.5, "tf32", None, 1, "bfloat16"),
    (200, 24, None, 0.5, "tf32", None, 2, "float32"),  # four tiles
    (300, 16, None, 0.2, "bfloat16", None, 3, "float32"),  # five
    (170, 20, None, 0.5, "tf32", None, 3, "float32"),  # rows that are no whole 16 bytes
]
INTERPRETED_TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "bfloat16": 1e-3}  # kernels round as they do on a GPU


@pytest.fixture(scope="module")
def interpreted(interpret: Callable[[str, Any], Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = interpret(INTERPRETED, CASES)
    return found


@needs_triton
@pytest.mark.parametrize("index", range(len(CASES)), ids=[repr(case) for case in CASES])
def test_interpreted_kernels_give_the_float64_loss(interpreted: list[dict[str, Any]], index: int) -> None:
    nodes, width, count, temperature, products, tile, strips, dtype = CASES[index]
    found = interpreted[index]
    if strips:
        how = "_kept_strips" if strips > 1 and count is None and tile is None else "_computed_strips"
        assert found["calls"] == ["_band_sums", [how, strips]]
    else:
        assert sorted(set(found["calls"])) == ["_tile_sums", "_tile_weights"]
    gradient = torch.tensor(found["gradient"])
    kept = nodes if count is None else min(max(count, 0), nodes)
    assert not gradient[:, kept:].any()
    if not kept:
        assert found["value"] == 0
        return
    first, second = views(nodes, width)
    if nodes > 1:  # too short to have a direction
        first[0] = 0
        second[1] *= 1e-9
    first, second = (tensor[:kept].to(getattr(torch, dtype)).double().requires_grad_() for tensor in (first, second))
    wanted = dense(first, second, temperature)
    expected = torch.cat(torch.autograd.grad(3 * wanted, (first, second)))
    tolerance = INTERPRETED_TOLERANCE[products]
    assert found["value"] == pytest.approx(wanted.item(), rel=tolerance / 10, abs=tolerance / 10)
    if nodes == 1:  # its loss is a constant, so that nothing but rounding errors is left
        assert gradient.abs().max() < 3e-3
    elif dtype == "bfloat16":  # the gradient itself is cut to 8 bits
        assert (gradient[:, :kept].flatten(0, 1) - expected).norm() <= 1e-2 * expected.norm()
    else:
        assert (gradient[:, :kept].flatten(0, 1) - expected).norm() <= tolerance * expected.norm()


@needs_triton
@pytest.mark.parametrize("tile", [None, 50, 1000, 2048, 9000])
@pytest.mark.parametrize("total", [2, 128, 3000, 5416, 15_200, 39_434, 340_000])
def test_strips_are_equal_and_whole_tiles(total: int, tile: int | None) -> None:
    height = importlib.import_module("fossil.nn._infonce_strips").strip_rows(total, tile)
    strips = -(-total // height)
    assert height % 128 == 0
    assert height <= max(min(tile or 4096, 4096), 128)
    assert strips * height - total < strips * 128
    assert strips == 1 if total <= 128 else strips >= 3 or total <= 3000


NO_ASSEMBLER = 77

COMPILED = """
import json
import re
import subprocess
import sys
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fossil.nn import _infonce_launches as launches, _infonce_strips as strips

tools = Path(triton.__file__).parent / "backends/nvidia/bin"
if not (tools / "cuobjdump").exists() or not (tools / "ptxas").exists():
    sys.exit(77)
name, pointer, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
strip = {"WIDTH": 512, "TILE": 128, "DEPTH": strips.BAND_DEPTH, "DESCRIBED": pointer.startswith("tensordesc")}
sums = {**strip, "COUNTED": True, "KEPT": False}
kept = {**strip, "COUNTED": False, "KEPT": True}
pairs = {"WIDTH": 512, "COUNTED": True, **launches.row_launch(512)}
warps = {"num_warps": pairs.pop("num_warps")}
kernel, constants, options = {
    "sums": (strips.band_sums_kernel, sums, strips.BAND_LAUNCH),
    "kept sums": (strips.band_sums_kernel, kept, strips.BAND_LAUNCH),
    "kept weights": (strips.kept_weights_kernel, {"TILE": strips.KEPT_TILE}, {"num_warps": strips.KEPT_WARPS}),
    "strip": (strips.strip_weights_kernel, strip, strips.BAND_LAUNCH),
    "pairs": (launches.unit_pairs_kernel, {**pairs, "NARROW": True}, warps),
    "gradient": (launches.pair_gradient_kernel, pairs, warps),
    "losses": (launches.pair_losses_kernel, {"COUNTED": True, "BLOCK": launches.LOSSES}, {}),
}[name]
kinds = {"vectors": pointer, "count_pointer": "*i64"} | dict.fromkeys(("unit", "factor", "exponent"), "fp32")
kinds |= dict.fromkeys(("weights_pointer", "kept_pointer", "narrow_pointer"), "*bf16")
kinds |= {"half_pointer": "*fp16", "shortest": "fp32"}
signature = {
    name: kinds.get(name, "*fp32" if name.endswith("pointer") else "i32") for name in kernel.arg_names
} | dict.fromkeys(constants, "constexpr")
aligned = {
    (place,): [["tt.divisibility", 16]]
    for place, name in enumerate(kernel.arg_names)
    if "pointer" in name or name in ("whole", "height") or (name == "vectors" and pointer.startswith("*"))
}
source = ASTSource(kernel, signature, constants, aligned)
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={**options, "enable_fp_fusion": True})
binary = folder / "kernel.cubin"
binary.write_bytes(compiled.asm["cubin"])
usage = subprocess.run([tools / "cuobjdump", "-res-usage", binary], capture_output=True, text=True).stdout
stack = int(re.search(r"STACK:(\\d+)", usage)[1])
print(json.dumps({"ptx": compiled.asm["ptx"], "stack": stack, "shared": compiled.metadata.shared}))
"""


@needs_triton
@pytest.mark.parametrize(
    ("kernel", "vectors", "products"),
    [
        *product(("sums", "kept sums", "strip"), ("*fp16", "tensordesc<fp16[128, 64]>"), ("f16",)),
        *product(("kept weights", "pairs", "gradient", "losses"), ("*fp32",), (None,)),
    ],
)
def test_kernels_compile_for_a_hopper_gpu_with_its_products(
    kernel: str, vectors: str, products: str | None, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", COMPILED, kernel, vectors, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == NO_ASSEMBLER:
        pytest.skip("Triton has no assembler for NVIDIA GPUs here")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    multiplied = [line for line in found["ptx"].splitlines() if "wgmma.mma_async" in line]
    assert any(f".f32.{products}.{products}" in line for line in multiplied) == (products is not None)
    assert ("cp.async.bulk.tensor" in found["ptx"]) == vectors.startswith("tensordesc")
    assert found["stack"] <= 64  # bytes of a thread: next to nothing is spilled
    assert found["shared"] <= 227 * 1024
