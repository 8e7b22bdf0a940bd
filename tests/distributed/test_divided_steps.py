"""Two and four processes compute what one computes: values, gradients, and whole trainings, in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from divided_steps import CONTRASTS, SAMPLED, TRAININGS
from launch import start, wait
from torch import Tensor

SCRIPT = Path(__file__).with_name("divided_steps.py")
TOLERANCE = 1e-10
CASES = [f"contrast/{case}" for case in CONTRASTS] + [f"training/{case}" for case in TRAININGS] + ["tiles"]
CASES += [f"sampled/{case}" for case in SAMPLED]


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Tensor]]:
    """What one, two and four processes found, by their number."""
    folder = tmp_path_factory.mktemp("divided")
    found = {}
    for world in (1, 2, 4):
        output = folder / f"{world}.txt"
        ended = wait(start([(SCRIPT, folder / f"{world}.pt")] * world, output), output)
        assert ended.statuses == [0] * world, ended.said
        found[world] = torch.load(folder / f"{world}.pt", weights_only=True)
    return found


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_several_processes_find_what_one_finds(computed: dict[int, dict[str, Tensor]], case: str, world: int) -> None:
    expected = {name: value for name, value in computed[1].items() if name.startswith(f"{case}/")}
    assert expected
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item())
        torch.testing.assert_close(computed[world][name], value, rtol=0, atol=TOLERANCE * scale, msg=name)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_shares_are_joined_with_their_gradient(computed: dict[int, dict[str, Tensor]], world: int) -> None:
    found = computed[world]
    assert found["shares/whole"].flatten().tolist() == [4.0, 9.0, 25.0]
    # Of w₁² + 10 w₂² + 100 w₃², though all ranks compute the same sum.
    assert found["shares/gradient"].flatten().tolist() == pytest.approx([4.0, 60.0, 1000.0], rel=1e-12)
