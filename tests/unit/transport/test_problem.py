"""The problem record: what it accepts, what it refuses, and its objective against the plain quadruple sum."""

import math

import pytest
import torch
from torch import Tensor

from fossil.errors import SettingError, TransportError
from fossil.transport import FusedProblem, to_pot_alpha


def make(batch: int = 3, n: int = 4, m: int = 5, alpha: float = 0.3) -> FusedProblem:
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    return FusedProblem(
        draw(batch, n, m),
        draw(batch, n, n),
        draw(batch, m, m),
        torch.softmax(draw(batch, n), 1),
        torch.softmax(draw(batch, m), 1),
        alpha,
    )


def changed(problem: FusedProblem, **changes: object) -> FusedProblem:
    return FusedProblem(**{**problem.tensors(), "alpha": problem.alpha, **changes})  # type: ignore[arg-type]


def spoiled(tensor: Tensor, problem: int, value: float) -> Tensor:
    copy = tensor.clone()
    copy[problem].view(-1)[1] = value
    return copy


def quadruple_sum(problem: FusedProblem, plan: Tensor) -> Tensor:
    difference = problem.source_structure[:, :, None, :, None] - problem.target_structure[:, None, :, None, :]
    structure = torch.einsum("bijkl,bij,bkl->b", difference.square(), plan, plan)
    return problem.alpha * (problem.feature_cost * plan).sum((1, 2)) + (1 - problem.alpha) * structure


def test_objective_with_actual_marginals_is_the_quadruple_sum_for_any_plan() -> None:
    problem = make()
    plan = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(problem.objective(plan, "actual"), quadruple_sum(problem, plan))


def test_both_objectives_agree_on_a_feasible_plan_and_differ_on_another() -> None:
    problem = make()
    feasible = problem.source_mass[:, :, None] * problem.target_mass[:, None, :]
    torch.testing.assert_close(problem.objective(feasible, "prescribed"), quadruple_sum(problem, feasible))
    infeasible = feasible.flip(1)
    assert not torch.allclose(problem.objective(infeasible, "prescribed"), quadruple_sum(problem, infeasible))


def test_objective_refuses_an_unknown_kind_of_marginals() -> None:
    problem = make()
    with pytest.raises(SettingError, match="'nominal'"):
        problem.objective(problem.feature_cost, "nominal")  # type: ignore[arg-type]


def test_uniform_masses_have_the_type_of_the_cost_and_pass_the_check() -> None:
    problem = make()
    uniform = FusedProblem.uniform(problem.feature_cost, problem.source_structure, problem.target_structure, 0.5)
    assert uniform.check() is uniform
    assert uniform.source_mass.dtype == torch.float64
    assert uniform.source_mass.tolist() == [[0.25] * 4] * 3
    assert uniform.target_mass.tolist() == [[0.2] * 5] * 3


def test_problems_of_one_term_alone_have_the_other_without_a_copy() -> None:
    problem = make()
    features = FusedProblem.of_features(problem.feature_cost).check()
    assert features.alpha == 1
    assert features.source_structure.shape == (3, 4, 4) and features.target_structure.shape == (3, 5, 5)
    structures = FusedProblem.of_structures(problem.source_structure, problem.target_structure).check()
    assert structures.alpha == 0
    assert structures.feature_cost.shape == (3, 4, 5)
    for nothing in (features.source_structure, features.target_structure, structures.feature_cost):
        assert not nothing.any()
        assert nothing.untyped_storage().nbytes() == 8
    plan = torch.full((3, 4, 5), 1 / 20, dtype=torch.float64)
    whole = 0.3 * features.objective(plan) + 0.7 * structures.objective(plan)
    torch.testing.assert_close(whole, changed(problem, alpha=0.3).objective(plan))


def test_pot_weighs_the_other_term() -> None:
    assert [to_pot_alpha(alpha) for alpha in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]


@pytest.mark.parametrize("name", ["feature_cost", "source_structure", "target_structure", "source_mass", "target_mass"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_check_names_the_argument_and_the_first_bad_problem(name: str, value: float) -> None:
    problem = make()
    bad = spoiled(spoiled(problem.tensors()[name], 2, value), 1, value)
    with pytest.raises(TransportError, match=f"{name} of problem 1 "):
        changed(problem, **{name: bad}).check()


@pytest.mark.parametrize("name", ["source_mass", "target_mass"])
def test_check_refuses_masses_that_are_negative_or_do_not_sum_to_one(name: str) -> None:
    problem = make()
    mass = problem.tensors()[name]
    with pytest.raises(TransportError, match=f"{name} of problem 2 has a negative"):
        changed(problem, **{name: spoiled(mass, 2, -0.1)}).check()
    with pytest.raises(TransportError, match=f"{name} of problem 0 does not sum"):
        changed(problem, **{name: mass * 1.001}).check()
    changed(problem, **{name: mass * 1.00005}).check()


@pytest.mark.parametrize("name", ["source_structure", "target_structure", "source_mass", "target_mass"])
def test_check_refuses_shapes_types_and_devices_that_do_not_fit(name: str) -> None:
    problem = make()
    tensor = problem.tensors()[name]
    for bad, message in [
        (tensor[:2], "shape"),
        (tensor[:, :-1], "shape"),
        (tensor.float(), "float32"),
        (tensor.to("meta"), "meta"),
        (tensor.half(), "float16"),
        (tensor.tolist(), "list"),
    ]:
        with pytest.raises(TransportError, match=rf"^{name} .*{message}"):
            changed(problem, **{name: bad}).check()


@pytest.mark.parametrize("shape", [(4, 5), (3, 0, 5), (3, 4, 0), (1, 3, 4, 5)])
def test_check_refuses_a_feature_cost_that_is_not_a_batch_of_matrices(shape: tuple[int, ...]) -> None:
    with pytest.raises(TransportError, match=r"^feature_cost has shape"):
        changed(make(), feature_cost=torch.zeros(shape, dtype=torch.float64)).check()


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, "half"])
def test_check_refuses_alpha_outside_zero_and_one(alpha: object) -> None:
    with pytest.raises(TransportError, match=r"^alpha="):
        changed(make(), alpha=alpha).check()


def test_uniform_refuses_a_single_matrix() -> None:
    with pytest.raises(TransportError, match="feature_cost"):
        FusedProblem.uniform(torch.zeros(3, 3), torch.zeros(3, 3), torch.zeros(3, 3), 0.5)


def test_padding_adds_nodes_that_count_for_nothing() -> None:
    problem = make()
    padded = problem.padded(2, 1).check()
    assert padded.feature_cost.shape == (3, 6, 6)
    plan = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wider = torch.nn.functional.pad(plan, (0, 1, 0, 2))
    torch.testing.assert_close(padded.objective(wider, "prescribed"), problem.objective(plan, "prescribed"))
    assert torch.equal(padded.feature_cost[:, :4, :5], problem.feature_cost)
    assert not padded.source_mass[:, 4:].any()
    assert not padded.target_mass[:, 5:].any()
