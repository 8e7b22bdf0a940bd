"""A second queue changes nothing where there is one queue only."""

import torch

from fossil.accelerate import Beside


def test_work_beside_runs_where_it_stands_on_a_cpu() -> None:
    order: list[str] = []
    beside = Beside(torch.device("cpu"))
    given = torch.ones(2)
    with beside.running(given):
        order.append("beside")
        made = given + 1
    order.append("after")
    beside.join(made)
    assert order == ["beside", "after"] and made.tolist() == [2, 2]
