"""The plain iteration against a direct transcription of Algorithm 1, and its behaviour at the edges of its range."""

import itertools

import pytest
import torch
from torch import Tensor

import fossil.ops.bapg as module
from fossil.ops.bapg import BapgRule, Scored, bapg, bapg_iterations
from fossil.ops.iteration import Outcome
from fossil.transport import FusedProblem


def make(
    batch: int = 4, n: int = 5, m: int = 6, *, seed: int = 0, directed: bool = False, alpha: float = 0.4
) -> FusedProblem:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    source, target = draw(batch, n, n), draw(batch, m, m)
    if not directed:
        source, target = source + source.mT, target + target.mT
    masses = torch.softmax(draw(batch, n), 1), torch.softmax(draw(batch, m), 1)
    return FusedProblem(draw(batch, n, m), source, target, *masses, alpha)


def single(problem: FusedProblem) -> FusedProblem:
    return FusedProblem(**{name: tensor.float() for name, tensor in problem.tensors().items()}, alpha=problem.alpha)


def run(
    problem: FusedProblem,
    step: float,
    iterations: int = 20,
    tolerance: float | None = None,
    *,
    constant_terms: bool = True,
    symmetric: bool = True,
) -> Outcome:
    return bapg_iterations(problem, BapgRule(step, iterations, constant_terms, symmetric), tolerance)


def plain_algorithm(
    problem: FusedProblem, step: float, iterations: int, constant_terms: bool, directed: bool
) -> Tensor:
    """Transcribe Algorithm 1: multiplicative, with the four-index sum over the plan's true marginals as gradient."""
    mu, nu = problem.source_mass[:, :, None], problem.target_mass[:, None, :]
    source, target = problem.source_structure, problem.target_structure
    loss = (source[:, :, None, :, None] - target[:, None, :, None, :]).square()
    if not constant_terms:
        loss = -2 * source[:, :, None, :, None] * target[:, None, :, None, :]

    def gradient(plan: Tensor) -> Tensor:
        structure = torch.einsum("bijkl,bkl->bij", loss, plan)
        other = torch.einsum("bijkl,bij->bkl", loss, plan) if directed else structure
        return problem.alpha * problem.feature_cost + (1 - problem.alpha) * (structure + other)

    plan = mu * nu
    for _ in range(iterations):
        plan = plan * torch.exp(-gradient(plan) / step)
        plan = plan * (mu / plan.sum(2, keepdim=True))
        plan = plan * torch.exp(-gradient(plan) / step)
        plan = plan * (nu / plan.sum(1, keepdim=True))
    return plan


@pytest.mark.parametrize("constant_terms", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("step", [0.1, 1.0])
def test_plan_is_that_of_the_direct_formula_with_true_marginals(
    constant_terms: bool, directed: bool, step: float
) -> None:
    problem = make(directed=directed)
    expected = plain_algorithm(problem, step, 10, constant_terms, directed)
    found = run(problem, step, 10, constant_terms=constant_terms, symmetric=not directed)
    torch.testing.assert_close(found.plan, expected, rtol=0, atol=1e-9)


def test_dropping_the_constant_terms_gives_another_plan() -> None:
    problem = make()
    plans = [run(problem, 0.5, constant_terms=flag).plan for flag in (True, False)]
    assert (plans[0] - plans[1]).abs().max() > 1e-3


def test_symmetric_true_takes_one_orientation_of_directed_structures() -> None:
    problem = make(directed=True)
    found = run(problem, 0.5, 10, constant_terms=False).plan
    torch.testing.assert_close(found, plain_algorithm(problem, 0.5, 10, False, False), rtol=0, atol=1e-9)
    assert not torch.allclose(found, plain_algorithm(problem, 0.5, 10, False, True), atol=1e-4)


def test_with_features_alone_the_structures_are_not_read() -> None:
    problem = make(alpha=1.0)
    nothing = problem.source_structure.new_zeros(())
    bare = FusedProblem(
        problem.feature_cost,
        nothing.expand_as(problem.source_structure),
        nothing.expand_as(problem.target_structure),
        problem.source_mass,
        problem.target_mass,
        1.0,
    )
    assert torch.equal(run(problem, 0.5).plan, run(bare, 0.5).plan)


def padded(problem: FusedProblem, rows: int, columns: int) -> FusedProblem:
    def pad(tensor: Tensor, right: int, below: int, value: float) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, right, 0, below), value=value)

    return FusedProblem(
        pad(problem.feature_cost, columns, rows, -3.0),
        pad(problem.source_structure, rows, rows, 9.0),
        pad(problem.target_structure, columns, columns, 11.0),
        torch.nn.functional.pad(problem.source_mass, (0, rows)),
        torch.nn.functional.pad(problem.target_mass, (0, columns)),
        problem.alpha,
    )


@pytest.mark.parametrize(("rows", "columns"), [(2, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize("step", [0.02, 1.0])
def test_padding_with_zero_mass_gets_nothing_and_changes_nothing(rows: int, columns: int, step: float) -> None:
    problem = make()
    bare = run(problem, step).plan
    plan = run(padded(problem, rows, columns), step).plan
    assert not plan[:, 5:].any()
    assert not plan[:, :, 6:].any()
    torch.testing.assert_close(plan[:, :5, :6], bare, rtol=0, atol=1e-9)


def test_a_problem_that_met_the_tolerance_is_left_as_it_was() -> None:
    problem = make(batch=6)
    found = run(problem, 2.0, 400, 1e-4)
    assert found.settled.all()
    assert len(set(found.iterations.tolist())) > 1
    for index, made in enumerate(found.iterations.tolist()):
        alone = problem.part(index, index + 1)
        plans = [run(alone, 2.0, count).plan for count in (made - 2, made - 1, made)]
        torch.testing.assert_close(found.plan[index], plans[2][0], rtol=0, atol=1e-12)
        assert (plans[2] - plans[1]).norm() <= 1e-4 < (plans[1] - plans[0]).norm()


def test_the_limit_of_iterations_is_reported_as_not_settled() -> None:
    found = run(make(), 2.0, 3, 1e-12)
    assert found.iterations.tolist() == [3] * 4
    assert not found.settled.any()


def test_without_a_tolerance_every_iteration_is_made_and_nothing_is_claimed() -> None:
    found = run(make(), 2.0, 7)
    assert found.iterations.tolist() == [7] * 4
    assert not found.settled.any()


@pytest.mark.parametrize("tolerance", [None, 1e-3])
def test_chunks_give_what_the_whole_batch_gives(monkeypatch: pytest.MonkeyPatch, tolerance: float | None) -> None:
    problem = make(batch=7)
    whole = run(problem, 0.5, tolerance=tolerance)
    monkeypatch.setattr(module, "_CHUNK_BYTES", 3 * 5 * 6 * 8)
    chunked = run(problem, 0.5, tolerance=tolerance)
    torch.testing.assert_close(chunked.plan, whole.plan, rtol=0, atol=1e-12)
    assert torch.equal(chunked.iterations, whole.iterations)
    assert torch.equal(chunked.settled, whole.settled)


def test_an_empty_batch_gives_an_empty_plan() -> None:
    assert run(make().part(0, 0), 0.5).plan.shape == (0, 5, 6)


STEPS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
TEMPERATURES = (0.05, 0.2, 0.5, 1.0, 3.0)
SCALES = (1.0, 1e2, 1e4)


def training_like(temperature: float, scale: float) -> FusedProblem:
    generator = torch.Generator().manual_seed(3)
    rows = torch.nn.functional.normalize(torch.randn(2, 6, 12, 8, generator=generator), dim=-1)
    edges = torch.triu((torch.rand(2, 6, 12, 12, generator=generator) < 0.3).float(), 1)
    structure = torch.exp(-(edges + edges.mT) / temperature) * scale
    # exp(1 / 0.05) is 5e8: larger costs than the range promised, so the cost is capped like the others.
    cost = torch.exp(-rows[0] @ rows[1].mT / temperature).clamp_max(1e4) * scale
    return FusedProblem.uniform(cost.clamp_max(1e4), structure[0], structure[1], 0.5)


@pytest.mark.parametrize("constant_terms", [True, False])
def test_float32_plans_are_finite_normal_and_have_exact_columns_over_the_whole_grid(constant_terms: bool) -> None:
    smallest = torch.finfo(torch.float32).tiny
    for step, temperature, scale in itertools.product(STEPS, TEMPERATURES, SCALES):
        problem = training_like(temperature, scale)
        plan = run(problem, step, constant_terms=constant_terms).plan
        assert plan.isfinite().all(), (step, temperature, scale)
        assert ((plan == 0) | (plan >= smallest)).all(), (step, temperature, scale)
        torch.testing.assert_close(plan.sum(1), problem.target_mass, rtol=1e-5, atol=0)
        assert problem.objective(plan).isfinite().all(), (step, temperature, scale)


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_float32_follows_float64_from_a_step_of_a_tenth(step: float) -> None:
    problem = make(batch=8)
    found, expected = run(single(problem), step).plan, run(problem, step).plan
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize(("n", "m"), [(3, 4), (4, 4), (6, 9)])
def test_sizes_that_suit_the_processor_do_not_show_in_the_plan(batch: int, n: int, m: int) -> None:
    problem = make(batch, n, m)
    plan = run(problem, 0.5).plan
    assert plan.shape == (batch, n, m)
    assert plan.is_contiguous()
    torch.testing.assert_close(plan, plain_algorithm(problem, 0.5, 20, True, False), rtol=0, atol=1e-9)


def test_the_same_problem_gives_the_same_bits_again() -> None:
    problem = training_like(0.5, 1.0)
    assert torch.equal(run(problem, 0.1, 50).plan, run(problem, 0.1, 50).plan)


def test_the_problem_is_left_as_it_was() -> None:
    problem = make(n=4, m=8)
    before = {name: tensor.clone() for name, tensor in problem.tensors().items()}
    run(problem, 0.5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in problem.tensors().items())


def test_plans_with_and_without_a_recorded_gradient_agree() -> None:
    problem = make(directed=True)
    held = run(problem, 0.5, symmetric=False).plan
    problem.feature_cost.requires_grad_()
    recorded = run(problem, 0.5, symmetric=False).plan
    assert recorded.requires_grad
    torch.testing.assert_close(recorded.detach(), held, rtol=0, atol=1e-12)


def test_scores_are_those_of_the_plan_that_the_iterations_give() -> None:
    problem = make(directed=True)
    rule = BapgRule(0.5, 12, symmetric=False, marginals="prescribed")
    scored = bapg(problem, rule)
    assert isinstance(scored, Scored)
    assert torch.equal(scored.plan, bapg_iterations(problem, rule).plan)
    torch.testing.assert_close(scored.value, problem.objective(scored.plan, "prescribed"), rtol=0, atol=1e-14)
    row_error = (scored.plan.sum(2) - problem.source_mass).abs().sum(1)
    torch.testing.assert_close(scored.row_error, row_error, rtol=0, atol=1e-14)
    assert (scored.row_error > 1e-6).all()
    assert (scored.column_error < 1e-12).all()
