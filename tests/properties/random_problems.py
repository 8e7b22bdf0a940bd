"""Random transport problems, and the same problem with its nodes in another order."""

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from fossil.transport import FusedProblem


@st.composite
def problems(draw: st.DrawFn) -> FusedProblem:
    batch, n, m = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    scale = draw(st.sampled_from([0.1, 1.0, 3.0]))
    directed = draw(st.booleans())

    def cost(rows: int, columns: int) -> Tensor:
        return scale * torch.rand(batch, rows, columns, generator=generator, dtype=torch.float64)

    def mass(nodes: int) -> Tensor:
        weights = torch.rand(batch, nodes, generator=generator, dtype=torch.float64) + 0.1
        return weights / weights.sum(1, keepdim=True)

    source, target = cost(n, n), cost(m, m)
    if not directed:
        source, target = (source + source.mT) / 2, (target + target.mT) / 2
    alpha = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    return FusedProblem(cost(n, m), source, target, mass(n), mass(m), alpha)


# At steps of one and more the iteration is a smooth map that does not magnify rounding beyond the tolerances below.
steps = st.sampled_from([1.0, 2.0, 5.0])
few = settings(max_examples=30, deadline=None, derandomize=True)


def shuffled(problem: FusedProblem, seed: int) -> tuple[FusedProblem, Tensor, Tensor]:
    """Return the problem with its nodes relabelled, and the new order of the rows and of the columns."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (torch.randperm(size, generator=generator) for size in problem.feature_cost.shape[1:])
    relabelled = FusedProblem(
        problem.feature_cost[:, rows][:, :, columns],
        problem.source_structure[:, rows][:, :, rows],
        problem.target_structure[:, columns][:, :, columns],
        problem.source_mass[:, rows],
        problem.target_mass[:, columns],
        problem.alpha,
    )
    return relabelled, rows, columns
