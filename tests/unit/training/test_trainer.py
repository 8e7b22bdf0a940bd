from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.errors import FossilWarning, RunError
from fossil.graph.graph import Graph
from fossil.methods.base import Method, NodeVectors, Objective, ParameterGroup, Phase, Record
from fossil.methods.registry import get_method
from fossil.seeding import derive
from fossil.settings import Settings
from fossil.training.checkpoint import load_tensors, save_tensors
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
EPOCHS = 5


def never(number: int, record: Record) -> bool:
    return False


class Toy(Method[Tensor]):
    """Two numbers, two objectives; notes what it saw."""

    name = "toy"
    title = "Toy"
    Config = Settings

    def __init__(self) -> None:
        super().__init__(Settings(), 1)
        self.left, self.right = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(-3.0))
        self.seen: list[Any] = []

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        return {"left": ParameterGroup([self.left], 0.1, 0.0), "right": ParameterGroup([self.right], 0.01, 0.5)}

    def prepare(self, graph: Graph, device: torch.device) -> Tensor:
        return torch.ones(3)

    def step(self, prepared: Tensor, random: torch.Generator) -> Iterator[Objective]:
        self.seen.append(("draw", torch.rand(1, generator=random).item(), self.training))
        terms = {"left": self.left.square(), "right": self.right.square()}
        yield Objective(terms, ("left",), lambda: {"constant": 1.0})
        self.seen.append(("left after first", self.left.item(), self.right.item()))
        yield Objective({"second": self.left * self.right}, ("right",))

    def encode(self, prepared: Tensor) -> NodeVectors:
        return NodeVectors(prepared[:, None])


def test_a_step_optimises_each_objective_in_turn_with_its_own_groups() -> None:
    method = Toy()
    record = Trainer(method, torch.ones(3), 0, CPU).step()
    # Adam's first step has the size of the rate, against the sign of the gradient (here with the decay's part added).
    after_first = method.seen[1]
    assert after_first == ("left after first", pytest.approx(1.9), -3.0)
    assert method.left.item() == pytest.approx(1.9)
    assert method.right.item() == pytest.approx(-3.0 - 0.01 * np.sign(1.9 - 0.5 * 3))
    assert [float(record[name]) for name in ("left", "right", "constant")] == pytest.approx([4, 9, 1])
    assert float(record["second"]) == pytest.approx(-5.7)
    assert not any(isinstance(value, Tensor) and value.requires_grad for value in record.values())


class Diagnosed(Toy):
    """Says what it found when it is asked."""

    def step(self, prepared: Tensor, random: torch.Generator) -> Iterator[Objective]:
        def diagnose() -> Record:
            self.seen.append(torch.is_grad_enabled())
            return {"now": self.left, "double": 2 * self.left}

        yield Objective({"loss": self.left.square()}, ("left",), diagnose)
        self.seen.append("went on")


def test_diagnostics_are_taken_after_the_step_without_gradients_and_before_the_next_objective() -> None:
    method = Diagnosed()
    record = Trainer(method, torch.ones(3), 0, CPU).step()
    assert method.seen == [False, "went on"]
    assert [float(record[name]) for name in ("loss", "now", "double")] == pytest.approx([4, 1.9, 3.8])
    assert not any(isinstance(value, Tensor) and value.requires_grad for value in record.values())


def test_weights_follow_plain_adam() -> None:
    method = Toy()
    trainer = Trainer(method, torch.ones(3), 0, CPU)
    trainer.run(EPOCHS, never)
    left, right = torch.tensor(2.0), torch.tensor(-3.0)
    first, second, moments = [0.0, 0.0], [0.0, 0.0], (0.9, 0.999)
    for step in range(1, EPOCHS + 1):
        for index, rate in enumerate((0.1, 0.01)):
            gradient = (2 * left if index == 0 else left + 0.5 * right).item()
            first[index] = moments[0] * first[index] + (1 - moments[0]) * gradient
            second[index] = moments[1] * second[index] + (1 - moments[1]) * gradient**2
            mean, square = first[index] / (1 - moments[0] ** step), second[index] / (1 - moments[1] ** step)
            (left if index == 0 else right).sub_(rate * mean / (square**0.5 + 1e-8))
    assert (method.left.item(), method.right.item()) == pytest.approx((left.item(), right.item()), rel=1e-5)


def test_each_step_draws_from_a_stream_named_by_its_epoch() -> None:
    method = Toy()
    Trainer(method, torch.ones(3), 7, CPU).run(3, never)
    drawn = [entry for entry in method.seen if entry[0] == "draw"]
    for epoch, (_, value, training) in enumerate(drawn):
        generator = torch.Generator().manual_seed(derive(7, "step", epoch))
        assert value == torch.rand(1, generator=generator).item() and training


def test_running_stops_at_the_total_or_when_asked() -> None:
    trainer = Trainer(Toy(), torch.ones(3), 0, CPU)
    seen: list[int] = []

    def stop_at_two(epoch: int, record: Record) -> bool:
        seen.append(epoch)
        return epoch == 2

    trainer.run(4, stop_at_two)
    assert (seen, trainer.steps) == ([1, 2], 2)
    trainer.run(4, stop_at_two)
    assert (seen, trainer.steps) == ([1, 2, 3, 4], 4)
    trainer.run(4, stop_at_two)
    assert trainer.steps == 4


def graph() -> Graph:
    random = np.random.default_rng(0)
    upper = np.triu(random.random((30, 30)) < 0.2, 1)
    matrix = sp.csr_array((upper | upper.T).astype(np.float32))
    return Graph("g", matrix, random.random((30, 5), dtype=np.float32), np.arange(30))


def fresh(method: str, seed: int = 0, **changes: Any) -> Trainer:
    kind = get_method(method)
    small = {"hidden": 12, "width": 6, "num_anchors": 10, "subgraph_size": 4}
    built = kind.build(kind.configure(None, small, changes), 5, seed)
    return Trainer(built, built.prepare(graph(), CPU), seed, CPU)


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("stop", [0, 1, 3, EPOCHS])
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fossil", {}),
        ("fossil_v2", {"activation": "relu", "fusion_training": "joint"}),
        ("fossil", {"encoder": "gcn", "generator": "random_edges"}),
    ],
)
def test_a_continued_run_ends_bit_for_bit_where_an_uninterrupted_one_does(
    tmp_path: Path, method: str, changes: dict[str, Any], stop: int
) -> None:
    whole = fresh(method, **changes)
    records: list[dict[str, float]] = []
    whole.run(EPOCHS, lambda epoch, record: bool(records.append({k: float(v) for k, v in record.items()})))  # type: ignore[func-returns-value]

    begun = fresh(method, **changes)
    begun.run(stop, never)
    save_tensors(tmp_path / "checkpoint", begun.state(), {"epoch": begun.steps})
    checkpoint = load_tensors(tmp_path / "checkpoint")
    continued = fresh(method, **changes)
    continued.step()  # whatever the fresh trainer did before must not matter
    continued.load_state(checkpoint.tensors, checkpoint.about["epoch"])
    later: list[dict[str, float]] = []
    continued.run(EPOCHS, lambda epoch, record: bool(later.append({k: float(v) for k, v in record.items()})))  # type: ignore[func-returns-value]
    assert same(continued.state(), whole.state())
    assert later == records[stop:]


def test_a_continued_run_does_not_depend_on_the_ambient_generator() -> None:
    first = fresh("fossil")
    first.run(2, never)
    torch.manual_seed(99)
    second = fresh("fossil")
    torch.rand(5)
    second.run(2, never)
    assert same(first.state(), second.state())


def test_state_holds_weights_and_the_moments_of_every_group() -> None:
    trainer = fresh("fossil")
    trainer.run(1, never)
    names = set(trainer.state())
    assert {f"weights/{name}" for name in trainer.method.state_dict()} <= names
    groups = trainer.method.parameter_groups()
    expected = {
        f"optimizer/{group}/{index}/{moment}"
        for group, content in groups.items()
        for index in range(len(content.parameters))
        for moment in ("step", "exp_avg", "exp_avg_sq")
    }
    assert {name for name in names if name.startswith("optimizer/")} == expected


@pytest.mark.parametrize(
    ("precision", "tf32", "autocast"), [("float32", False, False), ("tf32", True, False), ("bfloat16", True, True)]
)
def test_precision_of_products_holds_in_a_step_and_is_restored(precision: Any, tf32: bool, autocast: bool) -> None:
    inside: list[tuple[bool, bool]] = []

    class Watching(Toy):
        def step(self, prepared: Tensor, random: torch.Generator) -> Iterator[Objective]:
            inside.append((torch.backends.cuda.matmul.allow_tf32, torch.is_autocast_enabled("cpu")))
            yield from super().step(prepared, random)

    before = torch.backends.cuda.matmul.allow_tf32
    Trainer(Watching(), torch.ones(3), 0, CPU, precision).run(1, never)
    assert inside == [(tf32, autocast)]
    assert torch.backends.cuda.matmul.allow_tf32 is before and not torch.is_autocast_enabled("cpu")


class Scheduled(Toy):
    def parameter_groups(self) -> dict[str, ParameterGroup]:
        halved = ParameterGroup([self.left], 0.1, 0.0, schedule=lambda step, steps: 1 - step / steps)
        return {"left": halved, "right": ParameterGroup([self.right], 0.01, 0.5, decoupled_decay=True)}


def test_a_schedule_scales_the_rate_of_its_group_and_progress_is_told() -> None:
    method = Scheduled()
    trainer = Trainer(method, torch.ones(3), 0, CPU)
    rates, progress, lefts = [], [], [method.left.item()]

    def look(epoch: int, record: Record) -> bool:
        rates.append(float(trainer.optimizers["left"].param_groups[0]["lr"]))
        progress.append(float(method.progress))
        lefts.append(method.left.item())
        return False

    trainer.run(4, look)
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025]) and progress == pytest.approx([0, 0.25, 0.5, 0.75])
    assert lefts[0] - lefts[1] == pytest.approx(0.1, rel=1e-3)  # Adam's first step has the size of the rate
    assert isinstance(trainer.optimizers["right"], torch.optim.AdamW) and "progress" not in method.state_dict()


class Hungry(Toy):
    """Runs out of memory until it has spared some `needed` times; `late` does so after its first step."""

    def __init__(self, needed: int, late: bool = False, kind: type[Exception] = torch.OutOfMemoryError) -> None:
        super().__init__()
        self.needed, self.late, self.kind, self.spared = needed, late, kind, 0

    def shrink(self) -> bool:
        self.spared += 1
        return self.spared <= 2

    def step(self, prepared: Tensor, random: torch.Generator) -> Iterator[Objective]:
        for index, objective in enumerate(super().step(prepared, random)):
            if self.spared < self.needed and index == int(self.late):
                raise self.kind("out of memory")
            yield objective


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, MemoryError], ids=["PyTorch", "NumPy"])
def test_out_of_memory_goes_on_in_smaller_pieces_with_the_same_result(kind: type[Exception]) -> None:
    plain, hungry = Toy(), Hungry(needed=2, kind=kind)
    Trainer(plain, torch.ones(3), 0, CPU).run(2, never)
    with pytest.warns(FossilWarning, match="Out of memory in epoch 1: going on in smaller pieces"):
        Trainer(hungry, torch.ones(3), 0, CPU).run(2, never)
    assert hungry.spared == 2 and (hungry.left.item(), hungry.right.item()) == (plain.left.item(), plain.right.item())


@pytest.mark.parametrize("hungry", [Hungry(needed=3), Hungry(needed=1, late=True)], ids=["nothing fits", "moved"])
def test_out_of_memory_that_cannot_be_helped_is_one_clear_error(hungry: Hungry) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FossilWarning)
        with pytest.raises(RunError, match="Toy ran out of memory on cpu in epoch 1") as caught:
            Trainer(hungry, torch.ones(3), 0, CPU).run(2, never)
    assert "checkpoint is kept" in caught.value.remedy


def test_out_of_memory_before_the_first_epoch_is_one_clear_error() -> None:
    class Greedy(Toy):
        def fit(self, prepared: Tensor, random: torch.Generator) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(RunError, match="Toy ran out of memory on cpu before the first epoch") as caught:
        Trainer(Greedy(), torch.ones(3), 0, CPU).run(2, never)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


class Closing(Toy):
    """Has something left to do after the last epoch."""

    def closing(self, steps: int) -> Sequence[Phase]:
        return (Phase("closing", steps // 2, self.closing_step),)

    def closing_step(self, prepared: Tensor, random: torch.Generator) -> Iterator[Objective]:
        self.seen.append(("closing", torch.rand(1, generator=random).item()))
        yield Objective({"loss": self.left.square()}, ("left",))


def test_what_is_left_to_do_is_done_on_closing_and_training_can_go_on_from_before() -> None:
    short, longer = Closing(), Closing()
    trainer = Trainer(short, torch.ones(3), 0, CPU)
    trainer.run(2, never)
    state = {name: value.clone() for name, value in trainer.state().items()}
    assert not [each for each in short.seen if each[0] == "closing"]
    before = short.left.item()
    trainer.close()
    assert short.left.item() != before
    trainer.load_state(state, 2)
    trainer.run(4, never)
    Trainer(longer, torch.ones(3), 0, CPU).run(4, never)
    assert short.left.item() == longer.left.item()
    trainer.close()
    closings = [each for each in short.seen if each[0] == "closing"]
    assert len(closings) == 1 + 2 and closings[0] == closings[1]  # drawn alike, whenever it happens


def test_other_errors_pass_through() -> None:
    class Broken(Toy):
        def step(self, prepared: Tensor, random: torch.Generator) -> Iterator[Objective]:
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        Trainer(Broken(), torch.ones(3), 0, CPU).run(1, never)
