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


def test_gradients_meant_for_another_queue_are_the_same_on_a_cpu() -> None:
    given = torch.arange(3.0, requires_grad=True)
    later = Beside(torch.device("cpu"), urgent=False)
    with later.differentiating(given):
        squares = given.square()
    squares.sum().backward()  # type: ignore[no-untyped-call]
    later.join(squares)
    assert given.grad is not None and given.grad.tolist() == [0, 2, 4]
