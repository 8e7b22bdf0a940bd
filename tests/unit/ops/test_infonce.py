"""The node loss in all its precisions and with padding, against a dense float64 version; its kernels, compiled."""

import importlib
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fossil.errors import SettingError
from fossil.ops import affinities
from fossil.ops.affinities import Affinities
from fossil.ops.dispatch import triton
from fossil.ops.infonce import node_contrast, node_contrast_memory
from fossil.ops.precision import Products, products_in

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
    monkeypatch.setattr(affinities, "_tile_rows", lambda unit: 16)
    first, second = (tensor.requires_grad_() for tensor in views(90, 24))
    computed, numbers = [], []
    multiply = affinities.multiply

    def counted(left: Tensor, right: Tensor, out: Tensor, **given: float) -> None:
        computed.append(left.shape)
        multiply(left, right, out, **given)

    monkeypatch.setattr(affinities, "multiply", counted)
    gradients = []
    half = 180 * 180 * 4 // 2
    for most in (half, half - 1):
        monkeypatch.setattr(affinities, "_KEPT_BYTES", most)
        computed.clear()
        loss = node_contrast(first, second, 0.5, products=products)
        gradients.append(torch.cat(torch.autograd.grad(loss, (first, second), retain_graph=True)))
        gradients.append(torch.cat(torch.autograd.grad(loss, (first, second))))
        numbers.append(len(computed))
    for other in gradients[1:]:
        assert torch.equal(gradients[0], other)
    assert numbers[1] - numbers[0] == 2 * 12 * 13 // 2  # each of two backward passes computed the 78 tiles once more


def test_what_is_kept_takes_about_as_much_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinities, "_tile_rows", lambda unit: 16)
    unit, kept = nn.functional.normalize(torch.cat(views(90, 24)), dim=1), list[Tensor]()
    Affinities(unit, None, 0.5, "float32", None, kept).row_sums()
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


@needs_triton
@pytest.mark.parametrize("tile", [None, 50, 1000, 2048, 9000])
@pytest.mark.parametrize("total", [2, 128, 3000, 5416, 15_200, 39_434, 340_000])
def test_strips_are_equal_and_whole_tiles(total: int, tile: int | None) -> None:
    height = triton("infonce_strips").strip_rows(total, tile)
    strips = -(-total // height)
    assert height % 128 == 0
    assert height <= max(min(tile or 4096, 4096), 128)
    assert strips * height - total < strips * 128
    assert strips == 1 if total <= 128 else strips >= 3 or total <= 3000


def kernel_and_constants(name: str, described: bool) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a kernel, what is compiled into it for vectors of 512 numbers, and how it is launched."""
    strips, pairs = triton("infonce_strips"), triton("infonce_pairs")
    strip = {"WIDTH": 512, "TILE": strips.BAND_TILE, "DEPTH": strips.BAND_DEPTH, "DESCRIBED": described}
    row = {"WIDTH": 512, "COUNTED": True, **pairs.row_launch(512)}
    warps = {"num_warps": row.pop("num_warps")}
    losses = {"COUNTED": True, "BLOCK": triton("infonce").LOSSES}
    known: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "sums": (strips.band_sums_kernel, {**strip, "COUNTED": True, "KEPT": False}, strips.BAND_LAUNCH),
        "kept sums": (strips.band_sums_kernel, {**strip, "COUNTED": False, "KEPT": True}, strips.BAND_LAUNCH),
        "kept weights": (strips.kept_weights_kernel, {"TILE": strips.KEPT_TILE}, {"num_warps": strips.KEPT_WARPS}),
        "strip": (strips.strip_weights_kernel, strip, strips.BAND_LAUNCH),
        "pairs": (pairs.unit_pairs_kernel, {**row, "NARROW": True}, warps),
        "gradient": (pairs.pair_gradient_kernel, row, warps),
        "losses": (triton("infonce_kernels").pair_losses_kernel, losses, {}),
    }
    return known[name]


def compiled_for_hopper(name: str, vectors: str) -> Any:
    """Compile a kernel as a launch would, for a GPU that need not be here; `vectors` is the type of Z."""
    compiler, backends = (importlib.import_module(f"triton.{each}") for each in ("compiler", "backends.compiler"))
    kernel, constants, options = kernel_and_constants(name, described=vectors.startswith("tensordesc"))
    kinds = {"vectors": vectors, "count_pointer": "*i64", "half_pointer": "*fp16"}
    kinds |= dict.fromkeys(("unit", "factor", "exponent", "shortest"), "fp32")
    kinds |= dict.fromkeys(("weights_pointer", "kept_pointer", "narrow_pointer"), "*bf16")
    signature = {each: kinds.get(each, "*fp32" if each.endswith("pointer") else "i32") for each in kernel.arg_names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, each in enumerate(kernel.arg_names)
        if "pointer" in each or each in ("whole", "height") or (each == "vectors" and vectors.startswith("*"))
    }
    source = compiler.ASTSource(kernel, signature | dict.fromkeys(constants, "constexpr"), constants, aligned)
    target = backends.GPUTarget("cuda", 90, 32)
    return compiler.compile(source, target=target, options={**options, "enable_fp_fusion": True})


@needs_triton
@pytest.mark.parametrize(
    ("kernel", "vectors", "products"),
    [
        *product(("sums", "kept sums", "strip"), ("*fp16", "tensordesc<fp16[128, 64]>"), ("f16",)),
        *product(("kept weights", "pairs", "gradient", "losses"), ("*fp32",), (None,)),
    ],
)
def test_kernels_compile_for_a_hopper_gpu_with_its_products(
    kernel: str, vectors: str, products: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = importlib.import_module("triton")
    if triton("jit").INTERPRETED:
        pytest.skip("this process interprets kernels")
    tools = Path(package.__file__).parent / "backends/nvidia/bin"
    if not (tools / "cuobjdump").exists() or not (tools / "ptxas").exists():
        pytest.skip("Triton has no assembler for NVIDIA GPUs here")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))  # so that it is compiled now
    compiled = compiled_for_hopper(kernel, vectors)
    code = compiled.asm["ptx"]
    multiplied = [line for line in code.splitlines() if "wgmma.mma_async" in line]
    assert any(f".f32.{products}.{products}" in line for line in multiplied) == (products is not None)
    assert ("cp.async.bulk.tensor" in code) == vectors.startswith("tensordesc")
    binary = tmp_path / "kernel.cubin"
    binary.write_bytes(compiled.asm["cubin"])
    usage = subprocess.run([tools / "cuobjdump", "-res-usage", binary], capture_output=True, text=True, check=True)
    stack = re.search(r"STACK:(\d+)", usage.stdout)
    assert stack is not None and int(stack[1]) <= 96  # bytes of a thread: next to nothing is spilled
    assert compiled.metadata.shared <= 227 * 1024
