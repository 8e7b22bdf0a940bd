"""The fusion layer against its formulas; the GPU kernels interpreted on the CPU, against float64."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.nn.encoders import Branches
from fossil.nn.fusion import FusionGate, fuse, fusion_penalty, gated_fusion

NODES, WIDTH, HIDDEN = 17, 6, 4


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def branches(nodes: int = NODES, requires_grad: bool = False) -> Branches:
    return Branches(
        *(torch.randn(nodes, WIDTH, generator=random(seed)).requires_grad_(requires_grad) for seed in (1, 2))
    )


def gate(drop: float = 0.0, *, centrality: bool = True, nonlinear: bool = False, drop_logit: bool = True) -> FusionGate:
    torch.manual_seed(0)
    return FusionGate(WIDTH, HIDDEN, with_centrality=centrality, drop=drop, nonlinear=nonlinear, drop_logit=drop_logit)


def degrees(nodes: int = NODES) -> Tensor:
    return torch.randint(0, 5, (nodes, 1), generator=random(3)).float()


@pytest.mark.parametrize("nonlinear", [False, True])
@pytest.mark.parametrize("centrality", [False, True])
def test_lambda_is_the_written_formula(nonlinear: bool, centrality: bool) -> None:
    psi, given = gate(centrality=centrality, nonlinear=nonlinear), branches()
    weights = {name: value.double().numpy() for name, value in psi.state_dict().items()}
    assert given.feature is not None
    parts = [
        given.feature.double().numpy() @ weights["of_feature.weight"].T + weights["of_feature.bias"],
        given.structure.double().numpy() @ weights["of_structure.weight"].T + weights["of_structure.bias"],
    ]
    if nonlinear:
        parts = [np.maximum(part, 0) for part in parts]
    if centrality:
        parts.append(degrees().double().numpy())
    logit = np.hstack(parts) @ weights["join.weight"].T + weights["join.bias"]
    found = psi(given, degrees() if centrality else None, None)
    assert found.shape == (NODES, 1)
    np.testing.assert_allclose(found.detach().numpy(), 1 / (1 + np.exp(-logit)), rtol=1e-5)


@pytest.mark.parametrize("random_seed", [None, 0])
def test_lambda_lies_strictly_between_zero_and_one(random_seed: int | None) -> None:
    found = gate(0.3)(branches(500), degrees(500), None if random_seed is None else random(random_seed))
    assert found.min().item() > 0 and found.max().item() < 1


def test_weights_are_xavier_normal_with_gain() -> None:
    torch.manual_seed(0)
    psi = FusionGate(400, 300, with_centrality=True, drop=0, nonlinear=False, drop_logit=True)
    for layer, fans in ((psi.of_feature, 700), (psi.of_structure, 700), (psi.join, 602)):
        assert layer.weight.std().item() == pytest.approx(1.414 * (2 / fans) ** 0.5, rel=0.1)


def test_logit_dropout_sets_lambda_to_one_half_on_its_share_of_nodes() -> None:
    nodes, share = 20_000, 0.3
    given, centrality = branches(nodes), degrees(nodes)
    halves = (gate(share)(given, centrality, random()) == 0.5).double().mean().item()
    assert abs(halves - share) < 5 * (share * (1 - share) / nodes) ** 0.5
    without = gate(share, drop_logit=False)(given, centrality, random())
    assert (without == 0.5).double().mean().item() < 0.001
    still = gate(share)(given, centrality, None)
    assert (still == 0.5).double().mean().item() < 0.001


def test_dropout_follows_its_generator_and_is_off_without_one() -> None:
    psi, given = gate(0.4), branches()
    still = psi(given, degrees(), None)
    assert torch.equal(still, psi.train()(given, degrees(), None))
    assert torch.equal(psi(given, degrees(), random(1)), psi(given, degrees(), random(1)))
    assert not torch.equal(psi(given, degrees(), random(1)), psi(given, degrees(), random(2)))


def test_the_kept_logits_are_rescaled() -> None:
    psi, given = gate(0.25), branches()
    for layer in (psi.of_feature, psi.of_structure):  # leave the logit to the centrality, which is never dropped
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    still, dropped = (torch.logit(psi(given, degrees(), r)) for r in (None, random()))
    kept = dropped != 0
    assert 0 < kept.sum() < NODES
    torch.testing.assert_close(dropped[kept], still[kept] / 0.75, rtol=1e-4, atol=1e-5)


def test_fuse_adds_weighted_structure_or_returns_it_alone() -> None:
    given = branches()
    fusion = torch.rand(NODES, 1, generator=random(4))
    assert given.feature is not None
    for node in range(NODES):
        expected = given.feature[node] + fusion[node, 0] * given.structure[node]
        torch.testing.assert_close(fuse(given, fusion)[node], expected)
    assert torch.equal(fuse(Branches(None, given.structure), None), given.structure)


@pytest.mark.parametrize(("alpha", "l2", "mean"), [(0.5, 1e6, 1.0), (0.0, 10.0, 2.0), (1.0, 0.0, 0.0), (0.3, 1.0, 5.0)])
def test_penalty_is_equation_19(alpha: float, l2: float, mean: float) -> None:
    given = branches()
    fusion = torch.rand(NODES, 1, generator=random(4))
    assert given.feature is not None
    f, s, weight = (t.double().numpy() for t in (given.feature, given.structure, fusion[:, 0]))
    similarity = sum(weight[i] * (f[i] @ s[i]) / (np.linalg.norm(f[i]) * np.linalg.norm(s[i])) for i in range(NODES))
    expected = {
        "fusion_similarity": similarity,
        "fusion_l2": l2 * np.sqrt((weight**2).sum()),
        "fusion_mean": mean * abs(weight.sum() / NODES - (1 - alpha)),
    }
    total, parts = fusion_penalty(fusion, given, alpha=alpha, l2=l2, mean=mean)
    assert list(parts) == list(expected)
    for name, value in expected.items():
        assert parts[name].item() == pytest.approx(value, rel=1e-5, abs=1e-5), name
    assert total.item() == pytest.approx(sum(expected.values()), rel=1e-5, abs=1e-5)


def test_penalty_is_finite_for_nodes_without_structure_or_features() -> None:
    given = branches(requires_grad=True)
    assert given.feature is not None
    mask = torch.ones(NODES, 1)
    mask[:3] = 0
    zeroed = Branches(given.feature * mask, given.structure * mask.flip(0))
    fusion = torch.rand(NODES, 1, generator=random(4)).requires_grad_()
    total, _ = fusion_penalty(fusion, zeroed, alpha=0.5, l2=1.0, mean=1.0)
    total.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(total) and all(
        t.grad is not None and t.grad.isfinite().all() for t in (given.feature, given.structure, fusion)
    )


@pytest.mark.parametrize("seed", [None, 0])
def test_a_gate_trained_apart_is_constant_to_the_branches_and_they_to_it(seed: int | None) -> None:
    psi, given = gate(0.3), branches(requires_grad=True)
    draws = [None if seed is None else random(seed) for _ in range(2)]
    fused, fusion = gated_fusion(psi, given, degrees(), draws[0])
    assert given.feature is not None
    torch.testing.assert_close(fusion, psi(given, degrees(), draws[1]))
    torch.testing.assert_close(fused, given.feature + fusion * given.structure)
    outer = torch.randn(NODES, WIDTH, generator=random(5))
    fused.backward(outer)  # type: ignore[no-untyped-call]
    assert torch.equal(given.feature.grad, outer)  # type: ignore[arg-type]
    torch.testing.assert_close(given.structure.grad, outer * fusion.detach())
    assert all(parameter.grad is None for parameter in psi.parameters())
    before = [torch.clone(each.grad) for each in given[:2]]  # type: ignore[arg-type, union-attr]
    fusion.sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in psi.parameters())
    assert all(torch.equal(each.grad, old) for each, old in zip(given[:2], before, strict=True))  # type: ignore[arg-type, union-attr]


def test_branches_of_one_tensor_get_one_gradient() -> None:
    psi, apart = gate(0.3), branches(requires_grad=True)
    assert apart.feature is not None
    stacked = torch.cat([apart.feature, apart.structure]).detach().requires_grad_()
    outer = torch.randn(NODES, WIDTH, generator=random(5))
    for given in (apart, Branches.of(stacked)):
        gated_fusion(psi, given, degrees(), random(0))[0].backward(outer)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(stacked.grad, torch.cat([apart.feature.grad, apart.structure.grad]))  # type: ignore[list-item]


# Triton decides at its import whether it interprets, so the kernels run in a process of their own.
INTERPRETED = """
import json
import sys
import torch
from fossil.nn import _fusion_kernel, _fusion_penalty_kernel
from fossil.nn.encoders import Branches
from fossil.nn.fusion import FusionGate, fusion_penalty, gated_fusion

torch.set_num_threads(1)
calls = []
modules = {"fused": _fusion_kernel, "gradients": _fusion_kernel}
modules |= {"penalty": _fusion_penalty_kernel, "penalty_gradient": _fusion_penalty_kernel}
for name, kernel in modules.items():
    def counted(*given, name=name, original=getattr(kernel, name), **options):
        calls.append(name)
        return original(*given, **options)
    setattr(kernel, name, counted)

def gradients(result, upstream, leaves):
    return torch.autograd.grad(result, leaves, upstream.to(result.dtype), retain_graph=True, allow_unused=True)

def solved(gate, given, degree, seed, outer, pull, weights):
    leaves = [each.detach().clone().requires_grad_() for each in given]
    parameters = list(gate.parameters())
    branches = Branches(*leaves)
    draws = [None if seed is None else torch.Generator().manual_seed(seed) for _ in range(2)]
    fused, fusion = gated_fusion(gate, branches, degree, draws[0])
    alone = gate(branches.detached(), degree, draws[1])
    of_fused = gradients(fused, outer, leaves + parameters)
    of_fusion = gradients(fusion, pull, leaves + parameters)
    separate = [each is None for each in of_fused[2:] + of_fusion[:2]]
    apart = fusion.detach().requires_grad_()
    total, parts = fusion_penalty(apart, branches.detached(), **weights)
    of_penalty = [gradients(each, torch.tensor(1.5), [apart])[0] for each in (total, *parts.values())]
    numbers = [fused, fusion, alone, total, *parts.values(), *of_fused[:2], *of_fusion[2:], *of_penalty]
    attached = fusion_penalty(fusion.detach(), branches, **weights)[0]
    before = len(calls)
    gate(branches, degree, None).sum().backward()
    passed = len(calls) == before and all(leaf.grad is not None for leaf in leaves) and attached.requires_grad
    for parameter in parameters:
        parameter.grad = None
    return [each.detach() for each in numbers], all(separate), passed

found = []
for nodes, width, hidden, central, nonlinear, drop_logit, drop, seed, kind, few, programs in json.loads(sys.argv[1]):
    _fusion_kernel.FEW_NODES, _fusion_kernel.PROGRAMS = few, programs
    torch.manual_seed(0)
    gate = FusionGate(width, hidden, with_centrality=central, drop=drop, nonlinear=nonlinear, drop_logit=drop_logit)
    random = torch.Generator().manual_seed(1)
    given = torch.randn(2, nodes, width, generator=random).to(getattr(torch, kind)).unbind()
    for each, start in zip(given, (0, 2)):
        each[start::5] = 0  # so that some have no direction
    degree = torch.randint(0, 5, (nodes, 1), generator=random).float() if central else None
    outer, pull = torch.randn(nodes, width, generator=random), torch.randn(nodes, 1, generator=random)
    weights = {"alpha": 0.9 if nonlinear else 0.1, "l2": 3.0, "mean": 5.0}
    calls.clear()
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
        numbers, separate, passed = solved(gate, given, degree, seed, outer, pull, weights)
    taken = list(calls)
    wide, degree = [each.double() for each in given], None if degree is None else degree.double()
    expected, _, _ = solved(gate.double(), wide, degree, seed, outer, pull, weights)
    found.append({
        "calls": taken,
        "again": len(calls) - len(taken),
        "types": [str(each.dtype) for each in numbers],
        "separate": separate,
        "passed": passed,
        "errors": [((a - b).norm() / b.norm().clamp(min=1e-3)).item() for a, b in zip(numbers, expected, strict=True)],
    })
zero = torch.zeros(4, 1, requires_grad=True)
total, _ = fusion_penalty(zero, Branches(torch.eye(4), torch.eye(4)), alpha=0.5, l2=1e6, mean=2.0)
total.backward()
print(json.dumps([found, zero.grad.flatten().tolist()]))
"""

# nodes, width, hidden, centrality, ReLU, dropout of the logit, dropout, seed of the dropout, type of the branches,
# nodes up to which blocks are small, programs the gradient is spread over
CASES: list[tuple[int, int, int, bool, bool, bool, float, int | None, str, int, int]] = [
    (37, 20, 30, True, False, True, 0.3, 7, "float32", 100, 512),
    (37, 20, 30, True, False, True, 0.3, None, "float32", 100, 512),
    (37, 20, 30, False, True, False, 0.3, 7, "float32", 100, 512),
    (100, 130, 5, True, True, True, 0.3, 7, "float32", 50, 2),  # large blocks, and several turns in each program
    (100, 64, 5, False, False, False, 0.3, 7, "float32", 50, 3),
    (48, 300, 16, True, True, False, 0.0, 7, "float32", 100, 1),
    (33, 7, 33, False, False, True, 0.6, 7, "float32", 100, 512),
    (1, 1, 1, True, False, True, 0.0, None, "float32", 100, 512),
    (37, 20, 30, True, True, True, 0.3, 7, "bfloat16", 100, 512),
]


@pytest.fixture(scope="module")
def interpreted(interpret: Callable[[str, Any], Any]) -> tuple[list[dict[str, Any]], list[float]]:
    found: list[dict[str, Any]]
    found, zero = interpret(INTERPRETED, CASES)
    return found, zero


needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
@pytest.mark.parametrize("index", range(len(CASES)), ids=[repr(case) for case in CASES])
def test_interpreted_kernels_give_the_float64_results_and_gradients(
    interpreted: tuple[list[dict[str, Any]], list[float]], index: int
) -> None:
    found, kind = interpreted[0][index], CASES[index][8]
    assert found["calls"] == ["fused", "fused", "gradients", "penalty"] + 4 * ["penalty_gradient"]
    assert found["again"] == 0  # float64 is left to PyTorch
    assert found["separate"] and found["passed"]  # and so are branches with a gradient
    # H, λ twice, the loss and its three parts; gradients of both branches, of six parameters, and four of λ
    assert found["types"] == ["torch.float32"] * 7 + [f"torch.{kind}"] * 2 + ["torch.float32"] * 10
    close, of_branches = (1e-5, 1e-5) if kind == "float32" else (1e-3, 4e-3)  # products in TF32, gradients narrow
    tolerances = [close] * 7 + [of_branches] * 2 + [close] * 10
    assert all(error < most for error, most in zip(found["errors"], tolerances, strict=True)), found["errors"]


@needs_triton
def test_interpreted_penalty_of_zero_has_the_gradient_of_pytorch(
    interpreted: tuple[list[dict[str, Any]], list[float]],
) -> None:
    assert interpreted[1] == pytest.approx([1.0 - 2.0 / 4] * 4)
