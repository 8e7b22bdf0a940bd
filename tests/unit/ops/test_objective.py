"""The closed-form gradient against finite differences and against automatic differentiation of the objective."""

import pytest
import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.ops.objective import Marginals, envelope_value, evaluate
from fossil.transport import FusedProblem

BOTH: list[Marginals] = ["actual", "prescribed"]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(alpha: float = 0.3, *, directed: bool = True) -> FusedProblem:
    source, target = draw(3, 4, 4, seed=1), draw(3, 5, 5, seed=2)
    if not directed:
        source, target = source + source.mT, target + target.mT
    masses = torch.softmax(draw(3, 4, seed=3), 1), torch.softmax(draw(3, 5, seed=4), 1)
    costs = (cost.requires_grad_() for cost in (draw(3, 4, 5, seed=5), source, target))
    cost, source, target = costs
    return FusedProblem(cost, source, target, *masses, alpha)


def costs_of(problem: FusedProblem) -> tuple[Tensor, Tensor, Tensor]:
    return problem.feature_cost, problem.source_structure, problem.target_structure


# Row and column sums are not the masses, so that the two kinds of marginals differ.
PLAN = draw(3, 4, 5, seed=6) / 10


@pytest.mark.parametrize("marginals", BOTH)
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_first_and_second_derivatives_pass_finite_differences(marginals: Marginals, alpha: float) -> None:
    problem = make(alpha)

    def value(cost: Tensor, source: Tensor, target: Tensor) -> Tensor:
        held = FusedProblem(cost, source, target, problem.source_mass, problem.target_mass, alpha)
        return envelope_value(held, PLAN, marginals)

    assert torch.autograd.gradcheck(value, costs_of(problem))
    assert torch.autograd.gradgradcheck(value, costs_of(problem))


@pytest.mark.parametrize("marginals", BOTH)
@pytest.mark.parametrize("directed", [True, False])
def test_value_and_weighted_gradients_are_those_of_the_objective(marginals: Marginals, directed: bool) -> None:
    problem = make(directed=directed)
    weights = torch.tensor([1.0, -0.5, 3.0], dtype=torch.float64)
    found, expected = envelope_value(problem, PLAN, marginals), problem.objective(PLAN, marginals)
    assert torch.equal(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad((weights * found).sum(), costs_of(problem)),
        torch.autograd.grad((weights * expected).sum(), costs_of(problem)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_the_products_kept_for_the_gradients_are_those_of_the_plan() -> None:
    problem = make()
    found = evaluate(problem, PLAN, "actual")
    assert found.source_product is not None and found.target_product is not None
    assert torch.equal(found.value, problem.objective(PLAN))
    torch.testing.assert_close(found.source_product, problem.source_structure @ PLAN)
    torch.testing.assert_close(found.target_product, PLAN @ problem.target_structure)
    assert evaluate(make(alpha=1.0), PLAN, "actual")[1:] == (None, None)


def test_the_two_kinds_of_marginals_have_different_gradients() -> None:
    problem = make()
    gradients = [
        torch.autograd.grad(envelope_value(problem, PLAN, kind).sum(), problem.source_structure)[0] for kind in BOTH
    ]
    assert not torch.allclose(gradients[0], gradients[1], atol=1e-3)


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_a_cost_alone_gets_the_gradient_it_gets_among_others(wanted: int) -> None:
    problem = make()
    expected = torch.autograd.grad(envelope_value(problem, PLAN).sum(), costs_of(problem))[wanted]
    for index, cost in enumerate(costs_of(problem)):
        cost.requires_grad_(index == wanted)
    alone = costs_of(problem)[wanted]
    assert torch.equal(torch.autograd.grad(envelope_value(problem, PLAN).sum(), alone)[0], expected)


def test_only_what_a_gradient_needs_is_kept() -> None:
    def kept(learnt: int) -> list[int]:
        problem = make()
        for index, cost in enumerate(costs_of(problem)):
            cost.requires_grad_(index == learnt)
        given = {tensor.data_ptr() for tensor in (*problem.tensors().values(), PLAN)}
        sizes: list[int] = []

        def pack(tensor: Tensor) -> Tensor:
            if tensor.data_ptr() not in given:
                sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            envelope_value(problem, PLAN)
        return sizes

    assert [kept(learnt) for learnt in range(3)] == [[], [60], [60]]


def test_plan_and_masses_are_constants() -> None:
    problem = make()
    plan = PLAN.clone().requires_grad_()
    masses = [mass.clone().requires_grad_() for mass in (problem.source_mass, problem.target_mass)]
    held = FusedProblem(*costs_of(problem), masses[0], masses[1], 0.3)
    value = envelope_value(held, plan, "prescribed").sum()
    assert torch.autograd.grad(value, [plan, *masses], allow_unused=True) == (None, None, None)


def test_with_features_alone_the_value_does_not_depend_on_the_structures() -> None:
    problem = make(alpha=1.0)
    problem.feature_cost.requires_grad_(False)
    assert not envelope_value(problem, PLAN).requires_grad
    problem.feature_cost.requires_grad_()
    assert torch.equal(torch.autograd.grad(envelope_value(problem, PLAN).sum(), problem.feature_cost)[0], PLAN)


def test_an_unknown_kind_of_marginals_is_named() -> None:
    with pytest.raises(SettingError, match="'nominal'"):
        envelope_value(make(), PLAN, "nominal")  # type: ignore[arg-type]
