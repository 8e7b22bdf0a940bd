"""The gate of the fusion layer and the mixing by it, against their formulas."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.ops.fusion_gate import GateInputs, GateRule, GateWeights, gate, gated_mixture, mixture

NODES, WIDTH, HIDDEN = 17, 6, 4
DROP = 0.25


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(*, centrality: bool = True) -> GateWeights:
    shapes = (HIDDEN, WIDTH), (HIDDEN,), (HIDDEN, WIDTH), (HIDDEN,), (1, 2 * HIDDEN + int(centrality)), (1,)
    return GateWeights(*(draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)))


def inputs(*, centrality: bool = True, uniforms: int = 0) -> GateInputs:
    """Return random branches, and uniform numbers in so many columns, if any."""
    numbers = torch.Generator().manual_seed(12)
    drawn = torch.rand(NODES, uniforms, generator=numbers, dtype=torch.float64) if uniforms else None
    degree = torch.randint(0, 5, (NODES, 1), generator=numbers).double() if centrality else None
    return GateInputs(draw(NODES, WIDTH, seed=10), draw(NODES, WIDTH, seed=11), degree, drawn)


def written(given: GateInputs, made: GateWeights, rule: GateRule) -> np.ndarray[Any, Any]:
    """λ as it is written, N×1, by NumPy."""
    feature, structure, centrality, uniforms = (None if each is None else each.numpy() for each in given)
    own = GateWeights(*(each.detach().numpy() for each in made))
    of_feature = feature @ own.feature_weight.T + own.feature_bias
    of_structure = structure @ own.structure_weight.T + own.structure_bias
    hidden = np.hstack([of_feature, of_structure])
    if rule.nonlinear:
        hidden = np.maximum(hidden, 0)
    if uniforms is not None:
        hidden = np.where(uniforms[:, : 2 * HIDDEN] < rule.drop, 0, hidden / (1 - rule.drop))
    logit = (hidden if centrality is None else np.hstack([hidden, centrality])) @ own.join_weight.T + own.join_bias
    if uniforms is not None and rule.drop_logit:
        logit = np.where(uniforms[:, -1:] < rule.drop, 0, logit / (1 - rule.drop))
    return np.asarray(1 / (1 + np.exp(-logit)))


@pytest.mark.parametrize("drop_logit", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("nonlinear", [False, True])
@pytest.mark.parametrize("centrality", [False, True])
def test_lambda_is_the_written_formula_and_so_is_the_mixture(
    centrality: bool, nonlinear: bool, dropout: bool, drop_logit: bool
) -> None:
    given = inputs(centrality=centrality, uniforms=2 * HIDDEN + int(drop_logit) if dropout else 0)
    made, rule = weights(centrality=centrality), GateRule(DROP, nonlinear, drop_logit)
    expected = written(given, made, rule)
    np.testing.assert_allclose(gate(given, made, rule).detach().numpy(), expected, rtol=1e-12)
    branches = torch.cat([given.feature, given.structure])
    mixed, fusion = gated_mixture(branches, given.centrality, given.uniforms, made, rule)
    np.testing.assert_allclose(fusion.values.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(mixed.numpy(), given.feature.numpy() + expected * given.structure.numpy(), rtol=1e-12)


def test_the_kept_logits_are_rescaled() -> None:
    made, given = weights(), inputs(uniforms=2 * HIDDEN + 1)
    with torch.no_grad():
        for each in made[:4]:  # leave the logit to the centrality, which is never dropped
            each.zero_()
    still, dropped = (
        torch.logit(gate(each, made, GateRule(DROP, False, True))) for each in (given._replace(uniforms=None), given)
    )
    kept = dropped != 0
    assert 0 < kept.sum() < NODES
    torch.testing.assert_close(dropped[kept], still[kept] / (1 - DROP))


def test_a_gate_of_branches_that_learn_passes_their_gradient_on() -> None:
    made, rule, given = weights(), GateRule(DROP, False, True), inputs(uniforms=2 * HIDDEN + 1)
    leaves = [each.requires_grad_() for each in (given.feature, given.structure, *made)]

    def fusion(feature: Tensor, structure: Tensor, *parts: Tensor) -> Tensor:
        return gate(GateInputs(feature, structure, given.centrality, given.uniforms), GateWeights(*parts), rule)

    assert torch.autograd.gradcheck(fusion, leaves)


def test_a_mixture_learns_in_the_branches_alone_and_its_gate_in_the_weights_alone() -> None:
    made, rule, given = weights(), GateRule(DROP, False, True), inputs(uniforms=2 * HIDDEN + 1)
    branches = torch.cat([given.feature, given.structure]).requires_grad_()
    mixed, fusion = gated_mixture(branches, given.centrality, given.uniforms, made, rule)
    outer = draw(NODES, WIDTH, seed=5)
    of_branches, *of_weights = torch.autograd.grad(mixed, [branches, *made], outer, allow_unused=True)
    torch.testing.assert_close(of_branches, torch.cat([outer, fusion.values * outer]), rtol=1e-12, atol=1e-12)
    assert of_weights == [None] * 6
    learnt = fusion.with_gradient()
    assert torch.equal(learnt, fusion.values) and not fusion.values.requires_grad
    of_branches, *of_weights = torch.autograd.grad(learnt.sum(), [branches, *made], allow_unused=True)
    expected = torch.autograd.grad(gate(given, made, rule).sum(), made)
    assert of_branches is None
    torch.testing.assert_close(tuple(of_weights), expected, rtol=1e-12, atol=1e-12)


def test_a_gate_that_learns_nothing_is_its_values() -> None:
    rule, given = GateRule(DROP, False, True), inputs()
    branches = torch.cat([given.feature, given.structure])
    fixed = GateWeights(*(each.detach() for each in weights()))
    _, fusion = gated_mixture(branches, given.centrality, None, fixed, rule)
    assert fusion.learning is None and fusion.with_gradient() is fusion.values
    with torch.no_grad():
        _, fusion = gated_mixture(branches, given.centrality, None, weights(), rule)
    assert fusion.learning is None and fusion.with_gradient() is fusion.values


def test_a_mixture_is_single_precision_at_least_and_its_gradient_as_narrow_as_the_branches() -> None:
    given, made, rule = inputs(), weights(), GateRule(0.0, False, False)
    narrow = torch.cat([given.feature, given.structure]).bfloat16().requires_grad_()
    single = GateWeights(*(each.detach().float().requires_grad_() for each in made))
    assert given.centrality is not None
    with torch.autocast("cpu", torch.bfloat16):
        mixed, fusion = gated_mixture(narrow, given.centrality.float(), None, single, rule)
    assert mixed.dtype == torch.float32
    wide = narrow.detach().float().chunk(2)
    torch.testing.assert_close(mixed, mixture(wide[0], wide[1], fusion.values.float()), rtol=1e-2, atol=1e-2)
    (gradient,) = torch.autograd.grad(mixed.sum(), narrow)
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(gradient[NODES:, 0], fusion.values[:, 0].bfloat16())
