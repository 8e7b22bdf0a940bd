"""The workload of `transport.py` and the solvers it compares, each behind the same call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fossil.transport import BAPG, ConditionalGradient, FusedProblem, to_pot_alpha

ALPHA = 0.5
INNER_ITERATIONS = 20


def training_pairs(
    batch: int, nodes: int, *, temperature: float, seed: int, device: str, scale: float = 1.0, dimensions: int = 512
) -> FusedProblem:
    """Make the pairs of one training step: a third each of positives and two kinds of negatives.

    Positives compare the adjacency of a subgraph with its own cosine graph, negatives with another's adjacency or
    cosine graph; the three kinds take turns. Subgraphs are random recursive trees with 8 % of the other pairs of nodes
    joined too.
    """
    generator = torch.Generator().manual_seed(seed)
    subgraphs = -(-batch // 3)
    joined = torch.zeros(subgraphs, nodes, nodes)
    for node in range(1, nodes):
        parent = torch.randint(node, (subgraphs,), generator=generator)
        joined[torch.arange(subgraphs), node, parent] = 1
    joined = torch.maximum(joined, (torch.rand(joined.shape, generator=generator) < 0.08).float().tril(-1))
    topic = torch.randn(subgraphs, 1, dimensions, generator=generator)
    closeness = 2 * torch.rand(subgraphs, nodes, 1, generator=generator)
    noise = torch.randn(2, subgraphs, nodes, dimensions, generator=generator)
    vectors = torch.nn.functional.normalize(closeness * topic + noise[0], dim=-1)
    generated = torch.nn.functional.normalize(vectors + 0.5 * noise[1] / dimensions**0.5, dim=-1)

    adjacency = torch.exp(-(joined + joined.mT) / temperature)
    cosine = torch.exp(-(generated @ generated.mT) / temperature)
    cosine = (cosine + cosine.mT) / 2
    near, far = torch.arange(subgraphs).roll(1), torch.arange(subgraphs).roll(2)
    target = torch.cat([cosine, adjacency[near], cosine[far]])
    features = torch.cat([vectors @ generated.mT, vectors @ vectors[near].mT, vectors @ generated[far].mT])
    in_turn = torch.arange(3 * subgraphs).reshape(3, subgraphs).T.flatten()[:batch]
    cost, source, target = (
        (scale * matrices[in_turn]).to(device)
        for matrices in (torch.exp(-features / temperature), adjacency.repeat(3, 1, 1), target)
    )
    return FusedProblem.uniform(cost, source, target, ALPHA)


@dataclass(frozen=True)
class Contender:
    """One solver.

    Attributes:
        name: what the table calls it.
        run: returns values and plans for problems, a step, a number of iterations and whether gradients are wanted.
        single: whether it treats one pair at a time, so that a few pairs are timed and the time is scaled.
    """

    name: str
    run: Callable[[FusedProblem, float, int, bool], tuple[Tensor, Tensor]]
    single: bool = False


def ours(problem: FusedProblem, step: float, iterations: int, backward: bool) -> tuple[Tensor, Tensor]:
    """Solve with this package as training calls it."""
    gradient: Any = "envelope" if backward else "none"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small steps are measured on purpose
        solver = BAPG(step=step, iterations=iterations, tolerance=None, gradient=gradient, symmetric=True)
        found = solver(problem, check=False)
    return found.value, found.plan


def plain_torch(problem: FusedProblem, step: float, iterations: int, backward: bool) -> tuple[Tensor, Tensor]:
    """Solve like a straightforward batched implementation: log domain, the whole gradient in each half-step."""
    cost, source, target = problem.feature_cost, problem.source_structure, problem.target_structure
    log_mu, log_nu = problem.source_mass.log().unsqueeze(2), problem.target_mass.log().unsqueeze(1)
    with torch.no_grad():
        constant = source.square() @ log_mu.exp() + (target.square() @ log_nu.exp().mT).mT

        def descend(log_plan: Tensor) -> Tensor:
            structure = constant - 2 * source @ log_plan.exp() @ target.mT
            return log_plan - (ALPHA * cost + 2 * (1 - ALPHA) * structure) / step

        log_plan = log_mu + log_nu
        for _ in range(iterations):
            log_plan = descend(log_plan)
            log_plan = log_plan + log_mu - log_plan.logsumexp(2, keepdim=True)
            log_plan = descend(log_plan)
            log_plan = log_plan + log_nu - log_plan.logsumexp(1, keepdim=True)
        plan = log_plan.exp()
    with torch.set_grad_enabled(backward):
        return problem.objective(plan), plan


def pot_batch(problem: FusedProblem, step: float, iterations: int, backward: bool) -> tuple[Tensor, Tensor]:
    """Solve with POT's batched proximal gradient, with the inner settings its documentation recommends."""
    import ot

    found = ot.batch.solve_gromov_batch(
        problem.source_structure,
        problem.target_structure,
        reg=step,
        a=problem.source_mass,
        b=problem.target_mass,
        M=problem.feature_cost,
        alpha=to_pot_alpha(ALPHA),
        symmetric=True,
        max_iter=iterations,
        max_iter_inner=INNER_ITERATIONS,
        tol_inner=1e-2,
        grad="envelope" if backward else "detach",
    )
    return found.value, found.plan


def pot_loop(problem: FusedProblem, step: float, iterations: int, backward: bool) -> tuple[Tensor, Tensor]:
    """Solve pair by pair with POT's BAPG, the same algorithm; its gradient is the unrolled one."""
    import ot

    values, plans = [], []
    with warnings.catch_warnings(), torch.set_grad_enabled(backward):
        warnings.simplefilter("ignore")  # about iterations that did not converge or are not finite
        for index in range(problem.batch):
            pair = {name: tensor[index] for name, tensor in problem.tensors().items()}
            value, log = ot.gromov.BAPG_fused_gromov_wasserstein2(
                *pair.values(),
                epsilon=step,
                alpha=to_pot_alpha(ALPHA),
                symmetric=True,
                marginal_loss=True,
                max_iter=iterations,
                tol=0,
                log=True,
            )
            values.append(value)
            plans.append(log["T"])
    return torch.stack(values), torch.stack(plans)


def single_pair_solvers() -> dict[str, Callable[[FusedProblem, float, int], Tensor]]:
    """Return what compares one pair of large graphs: two algorithms, each by this package and by POT. They give plans.

    The conditional gradients go on until they stand still, whatever the step and the iterations.
    """
    import ot

    def pot_bapg(problem: FusedProblem, step: float, iterations: int) -> Tensor:
        return pot_loop(problem, step, iterations, False)[1]

    def pot_conditional(problem: FusedProblem, step: float, iterations: int) -> Tensor:
        pair = [tensor[0] for tensor in problem.tensors().values()]
        plan: Tensor = ot.gromov.fused_gromov_wasserstein(*pair, alpha=to_pot_alpha(ALPHA))
        return plan[None]

    def our_conditional(problem: FusedProblem, step: float, iterations: int) -> Tensor:
        return ConditionalGradient(gradient="none")(problem, check=False).plan

    return {
        "ours, BAPG": lambda problem, step, iterations: ours(problem, step, iterations, False)[1],
        "POT, BAPG": pot_bapg,
        "ours, conditional gradient": our_conditional,
        "POT, conditional gradient": pot_conditional,
    }


OURS = Contender("ours", ours)
PEERS = (
    Contender("plain batched torch", plain_torch),
    Contender("POT ot.batch", pot_batch),
    Contender("POT BAPG in a loop", pot_loop, single=True),
)
