"""Compile the kernels for an H200 (sm_90) and print what they take; needs Triton, but no GPU.

    python benchmarks/kernel_resources.py > benchmarks/results/transport-kernels-sm90.md
    python benchmarks/kernel_resources.py node_loss > benchmarks/results/infonce-kernels-sm90.md

`issued` is what matters while programs fill the schedulers: instructions of one iteration times warps. `programs` is
how many share a multiprocessor, by registers and shared memory; an H200 has 132 of them. `local` counts the loads
and stores of spilled registers inside the iteration; those outside it run once and only show in `stack`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from fossil.ops.triton import infonce, infonce_kernels, infonce_pairs, infonce_strips
from fossil.ops.triton.bapg import SOLVER_LAUNCHES, bapg_kernel
from fossil.ops.triton.envelope import GRADIENT_LAUNCHES, envelope_kernel, scoring_precision
from fossil.ops.triton.tiles import Launch, Precision

TARGET = GPUTarget("cuda", 90, 32)
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
REGISTERS, SHARED, WARPS = 65_536, 227 * 1024, 64  # of a multiprocessor

# What was weighed against the launches in use.
OTHER_SOLVERS: list[tuple[int, Precision, Launch]] = [
    (16, "ieee", Launch(2, 144)),
    (32, "ieee", Launch(4, 168)),
    (32, "ieee", Launch(4, 128)),
    (32, "ieee", Launch(8, 255)),
    (32, "ieee", Launch(8, 128)),
    (32, "tf32x3", Launch(2, 144)),
    (32, "tf32x3", Launch(2, 255)),
    (32, "tf32x3", Launch(2, 168)),
    (32, "tf32x3", Launch(4, 255)),
    (32, "tf32", Launch(2, 255)),
    (64, "ieee", Launch(16, 128)),
    (64, "tf32x3", Launch(8, 255)),
]
OTHER_GRADIENTS: list[tuple[int, Precision, Launch]] = [
    (16, "ieee", Launch(4, 255)),
    (32, "ieee", Launch(4, 255)),
    (32, "tf32x3", Launch(4, 255)),
    (64, "ieee", Launch(16, 128)),
    (64, "tf32x3", Launch(8, 255)),
]


NOTES = """## What follows from it

- Tile 16: one warp needs the fewest instructions, and 900 programs fit on the GPU at once with up to 288 registers.
- Tile 32, `ieee`: with eight warps one program fills a multiprocessor, and all its warps wait at the same barriers.
  Four warps issue an eighth less and leave room for two programs; what they spill, they spill outside the iteration.
- Tile 32, tensor cores: one warp issues least, and eight programs of 255 registers share a multiprocessor, so that 900
  stay on the GPU at once. What it spills inside the iteration (135 local accesses) costs less than what two warps
  repeat. `tf32x3` issues less than half of what `ieee` does.
- Tile 64, `ieee`: spills with 8 and with 16 warps, because a product wants whole rows and columns in registers. A
  variant with the plan in memory and products in slices of 32 was compiled, not run (8 warps: 6,554 instructions of
  which 7 local and 192 global, 52,432 issued; 16 warps: 58,480 issued). It spills nothing that counts, but issues
  hardly less, so it was not kept. `tf32x3` issues a fifth.
"""


@dataclass(frozen=True)
class Resources:
    """What a compiled kernel takes.

    Attributes:
        registers: registers of a thread.
        stack: bytes of spilled registers of a thread.
        shared: bytes of shared memory of a program.
        operations: how often each machine instruction occurs in the iteration, or in all of a kernel without one.
    """

    registers: int
    stack: int
    shared: int
    operations: Counter[str]

    def programs(self, warps: int) -> int:
        """Return how many programs of so many warps share a multiprocessor."""
        by_registers = REGISTERS // (-(-self.registers // 8) * 8 * 32 * warps)
        by_shared = SHARED // (self.shared + 1024)  # the system keeps 1 KB of each
        return min(by_registers, by_shared, WARPS // warps)


def compile_kernel(
    kernel: Any, constants: dict[str, Any], options: dict[str, Any], types: dict[str, str] | None = None
) -> Resources:
    """Compile a kernel, with `types` of what is no pointer to float32, and read its machine code."""
    kinds = {"pointer": "*fp32"} | dict.fromkeys(("alpha", "unit", "shortest", "factor", "exponent"), "fp32")
    signature = {name: kinds.get(name.rsplit("_", 1)[-1], "i32") for name in kernel.arg_names}
    signature |= (types or {}) | dict.fromkeys(constants, "constexpr")
    places = [place for place, name in enumerate(kernel.arg_names) if name.endswith("_pointer")]
    aligned = {(place,): [["tt.divisibility", 16]] for place in places}  # as PyTorch allocates
    options = options | {"enable_fp_fusion": True}  # as every launch has it
    compiled = triton.compile(ASTSource(kernel, signature, constants, aligned), target=TARGET, options=options)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(compiled.asm["cubin"])
        usage, code = (_dump(option, binary) for option in ("-res-usage", "-sass"))
    registers, stack = (int(found[1]) for name in ("REG", "STACK") if (found := re.search(rf"{name}:(\d+)", usage)))
    return Resources(registers, stack, compiled.metadata.shared, _count(code))


def _dump(option: str, binary: Path) -> str:
    return subprocess.run([TOOLS / "cuobjdump", option, binary], capture_output=True, text=True, check=True).stdout


def _count(code: str) -> Counter[str]:
    """Count the instructions of the longest loop, or of all the code where there is none."""
    lines = [(int(place, 16), text) for place, text in re.findall(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);", code)]
    jumps = [
        (int(found[1], 16), place) for place, text in lines if (found := re.search(r"\bBRA\b.*?0x([0-9a-f]+)", text))
    ]
    loops = [(first, last) for first, last in jumps if first < last]
    first, last = max(loops, key=lambda loop: loop[1] - loop[0], default=(0, lines[-1][0]))
    return Counter(_operation(text) for place, text in lines if first <= place <= last)


def _operation(text: str) -> str:
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].split(".")[0]


def row(name: str, tile: int, precision: Precision, launch: Launch, found: Resources) -> str:
    """Return a line of the table."""
    count = found.operations
    cells = [
        name,
        tile,
        precision,
        launch.warps,
        launch.registers,
        found.registers,
        found.stack,
        f"{found.shared / 1024:g} KB",
        found.programs(launch.warps),
        count.total(),
        count["FFMA"],
        count["HMMA"] + count["HGMMA"],
        count["LDL"] + count["STL"],
        count.total() * launch.warps,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _constants(kernel: Any, tile: int, precision: Precision) -> dict[str, Any]:
    constants: dict[str, Any] = {
        "ITERATIONS": 20,
        "PRECISION": precision,
        "SCORE_PRECISION": scoring_precision(precision),
        "TILE": tile,
    }
    switches = ("STRUCTURED", "CONSTANT_TERMS", "FEATURE", "SOURCE", "TARGET", "ACTUAL")
    constants |= dict.fromkeys(switches, True)
    return {name: value for name, value in constants.items() if name in kernel.arg_names}


def node_loss_kernels() -> Iterator[tuple[str, int, Any, dict[str, Any], dict[str, Any], dict[str, str]]]:
    """Yield products, D, kernel, constants, options and types of pointers for each kernel of the node loss."""
    block = f"tensordesc<fp16[{infonce_strips.BAND_TILE}, {infonce_strips.BAND_DEPTH}]>"
    count, half = {"count_pointer": "*i64"}, {"vectors": block}
    for width in (64, 512):
        strips = {"WIDTH": width, "TILE": infonce_strips.BAND_TILE, "DEPTH": infonce_strips.BAND_DEPTH}
        strips["DESCRIBED"] = True
        options, kept = infonce_strips.BAND_LAUNCH, {"kept_pointer": "*bf16"}
        for switches in ({"COUNTED": True, "KEPT": False}, {"COUNTED": False, "KEPT": True}):
            yield "float16", width, infonce_kernels.band_sums_kernel, strips | switches, options, half | count | kept
        weights = {"weights_pointer": "*bf16"}
        yield "float16", width, infonce_kernels.strip_weights_kernel, strips, options, half | weights
    tile, warps = {"TILE": infonce_strips.KEPT_TILE}, {"num_warps": infonce_strips.KEPT_WARPS}
    yield "any", 0, infonce_kernels.kept_weights_kernel, tile, warps, {"kept_pointer": "*bf16"}
    for width in (64, 512):
        launch = infonce_pairs.row_launch(width)
        constants = {"WIDTH": width, "COUNTED": True, "BLOCK": launch.pop("BLOCK")}
        yield "any", width, infonce_pairs.pair_gradient_kernel, constants, launch, count
        narrow = {"half_pointer": "*fp16", "narrow_pointer": "*bf16"}
        yield "float16", width, infonce_pairs.unit_pairs_kernel, constants | {"NARROW": True}, launch, count | narrow
    losses = {"COUNTED": True, "BLOCK": infonce.LOSSES}
    yield "any", 0, infonce_kernels.pair_losses_kernel, losses, {"num_warps": 4}, count
    rows, columns = infonce.WEIGHT_PART
    parts = {"ROWS": rows, "COLUMNS": columns}
    yield "float32", 0, infonce_kernels.tile_weights_kernel, parts, {"num_warps": 4}, {}
    sums = {"COUNTED": True, "TILE": infonce.TILE_PART}
    yield "float32", 0, infonce_kernels.tile_sums_kernel, sums, {"num_warps": 8}, count


def print_node_loss() -> None:
    """Print the table of the kernels of the node loss; instructions are those of the longest loop."""
    print(f"# Node loss kernels compiled for sm_90 by Triton {triton.__version__}\n")
    titles = ["kernel", "products", "D", "warps", "stages", "registers", "stack", "shared", "programs"]
    titles += ["instructions", "tensor", "local"]
    print(f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
    for products, width, kernel, constants, options, types in node_loss_kernels():
        found = compile_kernel(kernel, constants, options, types)
        count = found.operations
        cells = [kernel.__name__, products, width or "any", options["num_warps"], options.get("num_stages", "–")]
        cells += [found.registers, found.stack, f"{found.shared / 1024:g} KB", found.programs(options["num_warps"])]
        cells += [count.total(), count["HMMA"] + count["HGMMA"], count["LDL"] + count["STL"]]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_transport() -> None:
    """Print the tables of the solver and of the gradient, the launches in use first in each tile."""
    print(f"# Transport kernels compiled for sm_90 by Triton {triton.__version__}\n")
    titles = ["use", "tile", "precision", "warps", "limit", "registers", "stack", "shared", "programs"]
    titles += ["instructions", "FFMA", "tensor", "local", "issued"]
    for title, kernel, chosen, others in (
        ("Solver, one iteration", bapg_kernel, SOLVER_LAUNCHES, OTHER_SOLVERS),
        ("Gradient, all of it", envelope_kernel, GRADIENT_LAUNCHES, OTHER_GRADIENTS),
    ):
        print(f"## {title}\n\n| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
        choices = [("in use", *key, launch) for key, launch in chosen.items()] + [("", *other) for other in others]
        for name, tile, precision, launch in sorted(choices, key=lambda choice: choice[1]):
            constants = _constants(kernel, tile, precision)
            print(row(name, tile, precision, launch, compile_kernel(kernel, constants, launch.options())), flush=True)
        print()
    print(NOTES, end="")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="?", default="transport", choices=["transport", "node_loss"])
    if parser.parse_args().kernels == "node_loss":
        print_node_loss()
    else:
        print_transport()


if __name__ == "__main__":
    main()
