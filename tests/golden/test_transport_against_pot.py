"""Plans and values against POT's own BAPG, which handles one problem at a time and weighs the terms the other way."""

import ot
import pytest
import torch
from torch import Tensor

from fossil.transport import BAPG, FusedProblem, to_pot_alpha

ITERATIONS = 25


def make(alpha: float, directed: bool) -> FusedProblem:
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    source, target = draw(3, 7, 7), draw(3, 9, 9)
    if not directed:
        source, target = (source + source.mT) / 2, (target + target.mT) / 2
    return FusedProblem(
        draw(3, 7, 9), source, target, torch.softmax(draw(3, 7), 1), torch.softmax(draw(3, 9), 1), alpha
    )


@pytest.mark.parametrize("constant_terms", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("step", [0.1, 0.5, 2.0])
def test_plan_and_value_are_those_of_pot(constant_terms: bool, directed: bool, alpha: float, step: float) -> None:
    problem = make(alpha, directed)
    solver = BAPG(
        step=step,
        iterations=ITERATIONS,
        tolerance=None,
        constant_terms=constant_terms,
        marginals="prescribed",
        gradient="none",
    )
    ours = solver(problem)
    for index in range(problem.batch):
        arrays = {name: tensor[index].numpy() for name, tensor in problem.tensors().items()}
        plan, log = ot.gromov.BAPG_fused_gromov_wasserstein(
            arrays["feature_cost"],
            arrays["source_structure"],
            arrays["target_structure"],
            arrays["source_mass"],
            arrays["target_mass"],
            "square_loss",
            epsilon=step,
            alpha=to_pot_alpha(alpha),
            marginal_loss=constant_terms,
            max_iter=ITERATIONS,
            tol=0,
            log=True,
        )
        torch.testing.assert_close(ours.plan[index], torch.from_numpy(plan), rtol=0, atol=1e-6)
        assert ours.value[index].item() == pytest.approx(log["fgw_dist"], abs=1e-6)


def test_value_of_a_given_plan_is_that_of_pot_with_either_marginals() -> None:
    problem = make(0.3, directed=False)
    plan = problem.source_mass[:, :, None] * problem.target_mass[:, None, :]
    for index in range(problem.batch):
        source, target = problem.source_structure[index].numpy(), problem.target_structure[index].numpy()
        masses = problem.source_mass[index].numpy(), problem.target_mass[index].numpy()
        structure = ot.gromov.gwloss(
            *ot.gromov.init_matrix(source, target, *masses, "square_loss"), plan[index].numpy()
        )
        expected = 0.3 * float((problem.feature_cost[index] * plan[index]).sum()) + 0.7 * float(structure)
        assert problem.objective(plan, "prescribed")[index].item() == pytest.approx(expected, abs=1e-12)
        assert problem.objective(plan, "actual")[index].item() == pytest.approx(expected, abs=1e-12)
