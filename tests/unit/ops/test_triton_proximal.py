"""The GPU version of proximal points where there is no GPU: compiled for one, and kept away from tensors on the CPU."""

from pathlib import Path

import pytest
import torch
from hopper import compile_for_hopper, needs_triton

import fossil.ops.proximal as operation
from fossil.ops.dispatch import triton
from fossil.transport import ProximalPoint, wasserstein


def test_tensors_on_the_cpu_stay_with_the_plain_version_without_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(operation, "triton", refuse)
    assert wasserstein(torch.eye(3), solver=ProximalPoint()).plan.isfinite().all()


@needs_triton
@pytest.mark.parametrize("tile", [16, 32, 64])
def test_the_kernel_compiles_for_a_hopper_gpu_and_spills_nothing_of_small_tiles(tile: int, tmp_path: Path) -> None:
    version = triton("proximal")
    assert list(version.LAUNCHES) == [16, 32, 64]
    constants = {"ITERATIONS": 20, "TILE": tile}
    found = compile_for_hopper(version.proximal_kernel, constants, version.LAUNCHES[tile].options(), tmp_path)
    if not found.usage:
        pytest.skip("Triton cannot say here what a kernel takes")
    assert "STACK:0" in found.usage or tile == 64
