"""The fusion layer as a module, against its formulas."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.nn.encoders import Branches
from fossil.nn.fusion import FusionGate, fuse, structure_share

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


def test_the_share_of_structure_is_by_length_and_zero_where_there_is_nothing() -> None:
    feature = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    structure = torch.tensor([[0.0, 50.0], [6.0, 8.0], [1.0, 0.0], [0.0, 0.0]])
    fusion = torch.tensor([[0.1], [0.0], [0.5], [1.0]])
    share = structure_share(Branches(feature, structure), fusion)
    torch.testing.assert_close(share, torch.tensor([0.5, 0.0, 1.0, 0.0]))


def test_fuse_adds_weighted_structure_or_returns_it_alone() -> None:
    given = branches()
    fusion = torch.rand(NODES, 1, generator=random(4))
    assert given.feature is not None
    for node in range(NODES):
        expected = given.feature[node] + fusion[node, 0] * given.structure[node]
        torch.testing.assert_close(fuse(given, fusion)[node], expected)
    assert torch.equal(fuse(Branches(None, given.structure), None), given.structure)


@pytest.mark.parametrize("seed", [None, 0])
def test_a_gate_trained_apart_is_constant_to_the_branches_and_they_to_it(seed: int | None) -> None:
    psi, given = gate(0.3), branches(requires_grad=True)
    draws = [None if seed is None else random(seed) for _ in range(2)]
    fused, made = psi.mix(given, degrees(), draws[0])
    fusion = made.with_gradient()
    assert given.feature is not None
    assert torch.equal(fusion, made.values) and not made.values.requires_grad
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
        psi.mix(given, degrees(), random(0))[0].backward(outer)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(stacked.grad, torch.cat([apart.feature.grad, apart.structure.grad]))  # type: ignore[list-item]
