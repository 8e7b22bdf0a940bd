"""The fusion layer and its loss on a GPU, against the plain version in float64 on the same device."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.nn.encoders import Branches
from fossil.nn.fusion import FusionGate
from fossil.ops import fusion_gate, fusion_penalty
from fossil.ops.dispatch import triton
from fossil.ops.precision import arithmetic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]

SIZES = [(1, 1, 1), (37, 20, 30), (2708, 512, 30), (9001, 100, 5), (600, 96, 64)]
PENALTY = {"alpha": 0.5, "l2": 10.0, "mean": 3.0}


class Problem:
    """A gate, branches of which some rows are zero, and gradients in H and λ."""

    def __init__(self, nodes: int, width: int, hidden: int, *, drop: float = 0.3, full: bool = True) -> None:
        torch.manual_seed(0)
        random = torch.Generator().manual_seed(1)
        self.gate = FusionGate(width, hidden, with_centrality=full, drop=drop, nonlinear=full, drop_logit=full).cuda()
        given = torch.randn(2, nodes, width, generator=random)
        for each, start in zip(given, (0, 2), strict=True):
            each[start::5] = 0
        self.given = given.cuda().unbind()
        self.degree = torch.randint(0, 5, (nodes, 1), generator=random).float().cuda() if full else None
        self.outer = torch.randn(nodes, width, generator=random).cuda()

    def solved(self, kind: torch.dtype, seed: int | None) -> list[Tensor]:
        """Return H, λ, the loss and its parts, gradients of the branches in H and of the parameters in the loss."""
        # Float64 throughout, or float32 parameters and narrower branches.
        wide = torch.promote_types(kind, torch.float32)
        gate, degree = self.gate.to(wide), None if self.degree is None else self.degree.to(wide)
        feature, structure = (each.detach().to(kind).requires_grad_() for each in self.given)
        random = None if seed is None else torch.Generator("cuda").manual_seed(seed)
        fused, made = gate.mix(Branches(feature, structure), degree, random)
        fusion = made.with_gradient()
        of_branches = torch.autograd.grad(fused, [feature, structure], self.outer.to(wide))
        losses = fusion_penalty.fusion_penalty(fusion, feature.detach(), structure.detach(), **PENALTY)
        of_gate = torch.autograd.grad(losses.total, list(gate.parameters()))
        return [each.detach() for each in (fused, fusion, *losses, *of_branches, *of_gate)]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.isfinite().all()
        assert (one - other).norm() <= tolerance * other.norm().clamp(min=1e-2), place


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("drop", "seed"), [(0.3, 5), (0.0, 5), (0.3, None)])
@pytest.mark.parametrize("size", SIZES)
def test_results_and_gradients_are_those_of_float64(
    size: tuple[int, int, int], drop: float, seed: int | None, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[str] = []

    def counted(name: str) -> Any:
        launched.append(name)
        return triton(name)

    for module in (fusion_gate, fusion_penalty):
        monkeypatch.setattr(module, "triton", counted)
    problem = Problem(*size, drop=drop, full=full)
    found = problem.solved(torch.float32, seed)
    # H and λ, the gradient of H, the loss, and its gradient back to the weights.
    assert launched == ["fusion_gate", "fusion_gate", "fusion_penalty", "fusion_penalty", "fusion_gate"]
    wanted = problem.solved(torch.float64, seed)
    assert_close(found[:-6], wanted[:-6], 1e-4)
    # Of the parameters' gradients a whole term can hang on the side of a ReLU that rounding puts a number on.
    assert_close(found[-6:], wanted[-6:], 1e-2 if full else 1e-4)
    assert len(launched) == 5  # float64 is left to PyTorch


@pytest.mark.parametrize("size", SIZES)
def test_tf32_products_are_nearly_the_same(size: tuple[int, int, int]) -> None:
    problem = Problem(*size, full=False)
    wanted = problem.solved(torch.float64, 5)
    with arithmetic("tf32", torch.device("cuda")):
        found = problem.solved(torch.float32, 5)
    assert_close(found, wanted, 5e-3)


def test_narrow_branches_give_single_precision_results() -> None:
    problem = Problem(700, 96, 30, full=False)
    problem.given = tuple(each.bfloat16().float() for each in problem.given)
    with torch.autocast("cuda", torch.bfloat16):
        found = problem.solved(torch.bfloat16, 5)
    of_branches = slice(6, 8)
    assert [each.dtype for each in found[of_branches]] == [torch.bfloat16] * 2
    assert all(each.dtype == torch.float32 for each in found[:6] + found[8:])
    wanted = problem.solved(torch.float64, 5)
    assert_close(found[of_branches], wanted[of_branches], 4e-3)
    assert_close(found[:6] + found[8:], wanted[:6] + wanted[8:], 1e-3)  # products are in TF32 there


def test_the_gate_alone_says_the_same() -> None:
    problem = Problem(700, 96, 30)
    branches = Branches(*problem.given)
    draws = [torch.Generator("cuda").manual_seed(5) for _ in range(2)]
    _, made = problem.gate.mix(branches, problem.degree, draws[0])
    assert torch.equal(problem.gate(branches, problem.degree, draws[1]), made.values)


def test_many_nodes_are_summed_exactly_enough() -> None:
    fusion = torch.rand(1_000_003, 1, device="cuda", requires_grad=True)
    feature, structure = torch.randn(2, 1_000_003, 3, device="cuda")
    found = fusion_penalty.fusion_penalty(fusion, feature, structure, **PENALTY)
    exact = fusion.detach().double().requires_grad_()
    wanted = fusion_penalty.fusion_penalty(exact, feature.double(), structure.double(), **PENALTY)
    assert_close([*found], [*wanted], 1e-4)
    assert_close([*torch.autograd.grad(found.total, [fusion])], [*torch.autograd.grad(wanted.total, [exact])], 1e-5)


def step(problem: Problem) -> Callable[[], list[Tensor]]:
    return lambda: problem.solved(torch.float32, None)


def test_the_host_never_waits() -> None:
    run = step(Problem(700, 96, 30))
    run()
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_recorded_step_gives_the_same_and_draws_anew() -> None:
    problem = Problem(700, 96, 30)
    expected = problem.solved(torch.float32, None)
    random = torch.Generator("cuda").manual_seed(0)
    run = step(problem)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
            problem.gate(Branches(*problem.given), problem.degree, random)
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    recording.register_generator_state(random)
    with torch.cuda.graph(recording):
        recorded = run()
        dropped = problem.gate(Branches(*problem.given), problem.degree, random)
    recording.replay()
    assert_close(recorded, expected, 1e-4)
    before = dropped.detach().clone()
    recording.replay()
    assert not torch.equal(dropped, before)
