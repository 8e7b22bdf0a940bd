"""Work for a second stream is a plain call where there is one queue only."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from fossil.ops import streams
from fossil.ops.streams import Fork, forked, side

CPU = torch.device("cpu")


class Pair(NamedTuple):
    first: Tensor
    second: Tensor | None


@dataclass(frozen=True)
class Record:
    name: str
    values: Any


class Graph:
    """No record: what it holds is constant."""

    def __init__(self, values: Tensor) -> None:
        self.values = values


@pytest.mark.parametrize("urgent", [True, False])
def test_work_beside_runs_where_it_stands_on_a_cpu(urgent: bool) -> None:
    order: list[str] = []

    def work(given: Tensor, more: int) -> Tensor:
        order.append("beside")
        return given + more

    given = torch.ones(2)
    made = side(work, given, 1, urgent=urgent)
    order.append("after")
    assert order == ["beside", "after"] and made.tolist() == [2, 2]


def test_what_a_function_returns_is_handed_on_as_it_is() -> None:
    made = object()
    assert side(lambda: made) is made
    given = {"values": torch.ones(2)}
    assert side(lambda each: each, given) is given


def test_gradients_of_work_beside_are_the_same_on_a_cpu() -> None:
    given = torch.arange(3.0, requires_grad=True)
    with forked(CPU):
        squares = side(torch.square, given, urgent=False)
    squares.sum().backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None and given.grad.tolist() == [0, 2, 4]


def test_what_a_function_raises_reaches_the_caller() -> None:
    def failing(given: Tensor) -> Tensor:
        raise ValueError("beside")

    with pytest.raises(ValueError, match="beside"):
        side(failing, torch.ones(2))


def test_tensors_are_found_in_tuples_lists_mappings_and_records() -> None:
    a, b, c, d, e, f = (torch.tensor(number) for number in range(6))
    value = (
        a,
        [b, "text", None, 3],
        {"first": c, "deeper": {"second": [Pair(d, None)]}},
        Record("name", (Record("inner", e), Graph(torch.tensor(7)))),
        Record,  # the class itself, which holds none
        Pair(f, f),
    )
    assert [int(each) for each in streams._tensors(value)] == [0, 1, 2, 3, 4, 5, 5]
    assert next(streams._tensors(a)) is a
    assert not list(streams._tensors(("text", 3, None, Graph(a))))


@pytest.mark.parametrize(
    ("values", "device"),
    [
        ((), "cpu"),
        ((3, "text", {"deep": [torch.ones(1, device="meta")]}), "meta"),
        ((torch.Generator(), torch.ones(1, device="meta")), "cpu"),
    ],
)
def test_the_device_is_that_of_the_first_tensor_or_generator(values: tuple[Any, ...], device: str) -> None:
    assert streams._device_of(values) == torch.device(device)


def test_a_step_ends_with_the_state_it_began_with_also_when_it_fails() -> None:
    assert streams._forked.get() is None
    with forked(CPU) as outer:
        assert streams._forked.get() is outer
        with pytest.raises(ValueError, match="step"), forked(CPU) as inner:
            assert streams._forked.get() is inner
            raise ValueError("step")
        assert streams._forked.get() is outer
    assert streams._forked.get() is None


def test_other_streams_are_waited_for_also_when_a_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[Fork] = []
    monkeypatch.setattr(Fork, "join", lambda fork: joined.append(fork))
    with pytest.raises(ValueError, match="step"), forked(CPU) as fork:
        raise ValueError("step")
    assert joined == [fork]


def test_work_that_goes_last_returns_its_result_and_raises_its_error_on_a_cpu() -> None:
    def failing() -> None:
        raise ValueError("afterwards")

    with forked(CPU) as fork:
        fork.mark()
        made = fork.afterwards(lambda: torch.ones(2) + 1)
        with pytest.raises(ValueError, match="afterwards"):
            fork.afterwards(failing)
    assert made.tolist() == [2, 2] and fork.others == []
