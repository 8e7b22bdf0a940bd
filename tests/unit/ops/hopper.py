"""Kernels compiled for a Hopper GPU where there is none, and what they would take there."""

import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


class Compiled(NamedTuple):
    """A kernel for an H200.

    Attributes:
        ptx: the program, before it was assembled.
        usage: what is said of its registers and its stack, empty where nothing can say it.
        shared: bytes of shared memory of a program.
    """

    ptx: str
    usage: str
    shared: int


def compile_for_hopper(kernel: Any, constants: dict[str, Any], options: dict[str, Any], folder: Path) -> Compiled:
    """Compile a kernel whose pointers are to float32; `folder` is empty, for the binary and for Triton's cache."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from fossil.ops.triton.jit import INTERPRETED

    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    if INTERPRETED or not (tools / "ptxas").exists():
        pytest.skip("Triton interprets, or has no assembler for NVIDIA GPUs here")
    kinds = {"pointer": "*fp32", "alpha": "fp32", "unit": "fp32"}
    signature = {name: kinds.get(name.rsplit("_", 1)[-1], "i32") for name in kernel.arg_names}
    source = ASTSource(kernel, signature | dict.fromkeys(constants, "constexpr"), constants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
        options = options | {"enable_fp_fusion": True}  # as every launch has it
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    binary, tool = folder / "kernel.cubin", tools / "cuobjdump"
    binary.write_bytes(compiled.asm["cubin"])
    usage = ""
    if tool.exists():
        usage = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True, check=True).stdout
    lines = (line.strip() for line in usage.splitlines())
    return Compiled(compiled.asm["ptx"], next((line for line in lines if "REG:" in line), ""), compiled.metadata.shared)
