"""The kernels of the fusion layer and of its loss, against float64, which is left to PyTorch."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.nn.encoders import Branches
from fossil.nn.fusion import FusionGate
from fossil.ops.dispatch import triton
from fossil.ops.fusion_penalty import fusion_penalty

# nodes, width, hidden, centrality, ReLU, dropout of the logit, dropout, seed of the dropout, type of the branches,
# nodes up to which blocks are small, programs the gradient is spread over
CASES: list[tuple[int, int, int, bool, bool, bool, float, int | None, torch.dtype, int, int]] = [
    (37, 20, 30, True, False, True, 0.3, 7, torch.float32, 100, 512),
    (37, 20, 30, True, False, True, 0.3, None, torch.float32, 100, 512),
    (37, 20, 30, False, True, False, 0.3, 7, torch.float32, 100, 512),
    (100, 130, 5, True, True, True, 0.3, 7, torch.float32, 50, 2),  # large blocks, several turns in each program
    (100, 64, 5, False, False, False, 0.3, 7, torch.float32, 50, 3),
    (48, 300, 16, True, True, False, 0.0, 7, torch.float32, 100, 1),
    (33, 7, 33, False, False, True, 0.6, 7, torch.float32, 100, 512),
    (1, 1, 1, True, False, True, 0.0, None, torch.float32, 100, 512),
    (37, 20, 30, True, True, True, 0.3, 7, torch.bfloat16, 100, 512),
]
LAUNCHES = ["gate", "gate", "mixing_gradient", "gradients", "penalty"] + 4 * ["penalty_gradient"]


def gradients(result: Tensor, upstream: Tensor, leaves: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    return torch.autograd.grad(result, leaves, upstream.to(result.dtype), retain_graph=True, allow_unused=True)


def solved(
    gate: FusionGate,
    given: Sequence[Tensor],
    degree: Tensor | None,
    seed: int | None,
    outer: Tensor,
    pull: Tensor,
    penalty: dict[str, float],
) -> list[Tensor]:
    """Return H, λ mixed and alone, the loss and its parts; gradients of both branches, of all weights, and of λ."""
    leaves = [each.detach().clone().requires_grad_() for each in given]
    branches, parameters = Branches(*leaves), list(gate.parameters())
    draws = [None if seed is None else torch.Generator().manual_seed(seed) for _ in range(2)]
    mixed, made = gate.mix(branches, degree, draws[0])
    fusion = made.with_gradient()
    alone = gate(branches.detached(), degree, draws[1])
    of_mixed = gradients(mixed, outer, [*leaves, *parameters])
    of_fusion = gradients(fusion, pull, [*leaves, *parameters])
    # What the gate reads and says are constants to the encoder.
    assert all(each is None for each in of_mixed[2:] + of_fusion[:2])
    apart = fusion.detach().requires_grad_()
    losses = fusion_penalty(apart, leaves[0].detach(), leaves[1].detach(), **penalty)
    of_losses = [gradients(each, torch.tensor(1.5), [apart])[0] for each in losses]
    numbers = [mixed, fusion, alone, *losses, *of_mixed[:2], *of_fusion[2:], *of_losses]
    return [each.detach() for each in numbers if each is not None]


def check_that_branches_with_a_gradient_are_left_to_pytorch(
    gate: FusionGate, given: Sequence[Tensor], degree: Tensor | None, penalty: dict[str, float], calls: list[str]
) -> None:
    leaves = [each.detach().clone().requires_grad_() for each in given]
    before = len(calls)
    fusion = gate(Branches(*leaves), degree, None)
    assert all(each is not None for each in gradients(fusion.sum(), torch.tensor(1.0), leaves))
    assert fusion_penalty(fusion.detach(), leaves[0], leaves[1], **penalty).total.requires_grad
    assert len(calls) == before


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_results_and_gradients_are_those_of_float64(
    case: Any, counted: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, width, hidden, central, nonlinear, drop_logit, drop, seed, kind, few, programs = case
    monkeypatch.setattr(triton("fusion_gate"), "FEW_NODES", few)
    monkeypatch.setattr(triton("fusion_gate"), "PROGRAMS", programs)
    counted("fusion_gate", "gate", "mixing_gradient", "gradients")
    calls = counted("fusion_penalty", "penalty", "penalty_gradient")
    torch.manual_seed(0)
    gate = FusionGate(width, hidden, with_centrality=central, drop=drop, nonlinear=nonlinear, drop_logit=drop_logit)
    random = torch.Generator().manual_seed(1)
    given = torch.randn(2, nodes, width, generator=random).to(kind).unbind()
    for each, start in zip(given, (0, 2), strict=True):
        each[start::5] = 0  # so that some have no direction
    degree = torch.randint(0, 5, (nodes, 1), generator=random).float() if central else None
    outer, pull = torch.randn(nodes, width, generator=random), torch.randn(nodes, 1, generator=random)
    penalty = {"alpha": 0.9 if nonlinear else 0.1, "l2": 3.0, "mean": 5.0}
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == torch.bfloat16):
        found = solved(gate, given, degree, seed, outer, pull, penalty)
        check_that_branches_with_a_gradient_are_left_to_pytorch(gate, given, degree, penalty, calls)
    assert calls == LAUNCHES
    wide, degree = [each.double() for each in given], None if degree is None else degree.double()
    expected = solved(gate.double(), wide, degree, seed, outer, pull, penalty)
    assert calls == LAUNCHES  # float64 is left to PyTorch
    # H, λ twice, the loss and its three parts; gradients of both branches, of six parameters, and four of λ
    assert [each.dtype for each in found] == [torch.float32] * 7 + [kind] * 2 + [torch.float32] * 10
    errors = [((a - b).norm() / b.norm().clamp(min=1e-3)).item() for a, b in zip(found, expected, strict=True)]
    close, of_branches = (1e-5, 1e-5) if kind == torch.float32 else (1e-3, 4e-3)  # products in TF32, gradients narrow
    tolerances = [close] * 7 + [of_branches] * 2 + [close] * 10
    assert all(error < most for error, most in zip(errors, tolerances, strict=True)), errors


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # a quotient that the kernel then leaves out
def test_the_penalty_of_zero_has_the_gradient_of_pytorch(counted: Callable[..., list[str]]) -> None:
    calls = counted("fusion_penalty", "penalty", "penalty_gradient")
    zero = torch.zeros(4, 1, requires_grad=True)
    total = fusion_penalty(zero, torch.eye(4), torch.eye(4), alpha=0.5, l2=1e6, mean=2.0).total
    total.backward()  # type: ignore[no-untyped-call]
    assert calls == ["penalty", "penalty_gradient"]
    assert zero.grad is not None and zero.grad.flatten().tolist() == pytest.approx([1.0 - 2.0 / 4] * 4)
