"""Rows and columns with their masses, against plain exponentials."""

import pytest
import torch

from fossil.ops import scaling


@pytest.mark.parametrize("dim", [1, 2])
def test_rescaled_plans_are_those_of_plain_arithmetic(dim: int) -> None:
    log_plan = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    size = log_plan.shape[3 - dim]
    mass = torch.softmax(torch.arange(float(size), dtype=torch.float64), 0).expand(3, size)
    mass = mass.unsqueeze(2) if dim == 2 else mass.unsqueeze(1)
    found = scaling.rescale(log_plan, mass, scaling.log_mass(mass), dim)
    plain = log_plan.exp()
    factor = mass / plain.sum(dim, keepdim=True)
    torch.testing.assert_close(found.plan, plain * factor)
    torch.testing.assert_close(found.log_plan, (plain * factor).log())
    torch.testing.assert_close(found.log_factor, factor.log())


def test_a_mass_of_zero_gives_exactly_nothing_and_stays_finite() -> None:
    mass = torch.tensor([[[0.0], [1.0]]])
    found = scaling.rescale(torch.zeros(1, 2, 3), mass, scaling.log_mass(mass), 2)
    assert found.plan[0, 0].tolist() == [0.0, 0.0, 0.0]
    assert found.log_plan.isfinite().all()
    assert scaling.log_support(mass)[0, 1, 0] == 0 and scaling.log_support(mass)[0, 0, 0] < -1e29


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 12, 30, 63, 64, 65])
@pytest.mark.parametrize("dim", [1, 2])
def test_largest_entries_are_those_of_the_plain_reduction(size: int, dim: int) -> None:
    values = torch.randn(3, size, size, generator=torch.Generator().manual_seed(size))
    values[1, 0, 0], values[2, -1, -1] = -torch.inf, torch.nan
    found, expected = scaling._largest(values, dim), values.amax(dim, keepdim=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
