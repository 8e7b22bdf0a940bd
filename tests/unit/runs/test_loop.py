"""What the loop says before it has trained for long, and what Ctrl-C does in the middle of a step."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ring_graph import CPU, SMALL, fit_ring, ring
from torch import Tensor

import fossil
from fossil.errors import GraphError
from fossil.methods.fossil import Fossil
from fossil.methods.registry import get_method
from fossil.ops.ranks import LostRankError
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.training.checkpoint import load_tensors

# Ninety epochs on a ring of twenty nodes: nobody asks what its λ is.
pytestmark = pytest.mark.filterwarnings("ignore:FOSSIL.* hardly uses the edges")


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.heard_at: list[int] = []
        self.epoch = 0

    def notice(self, text: str) -> None:
        self.notices.append(text)
        self.heard_at.append(self.epoch)

    def start(self, done: int, total: int) -> None:
        self.epoch = done

    def update(self, epoch: int, record: dict[str, float]) -> None:
        self.epoch = epoch

    def finish(self) -> None:
        pass


def taking(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Let the first step take the first of these, by the loop's clock, and so on; the last goes for all others."""
    clock, left = SimpleNamespace(now=0.0), list(seconds)
    node_loss = Fossil.node_loss

    def slow(self: Fossil, *given: Any) -> Tensor | None:
        clock.now += left.pop(0) if len(left) > 1 else left[0]
        return node_loss(self, *given)

    monkeypatch.setattr(Fossil, "node_loss", slow)
    monkeypatch.setattr("fossil.runs.pace.time", SimpleNamespace(monotonic=lambda: clock.now))


def told(epochs: int, **asked: Any) -> Listener:
    listener = Listener()
    fit_ring(reporter=listener, training=CPU.updated({"epochs": epochs}), **asked)
    return listener


def test_a_long_training_is_foretold_after_its_first_epoch_with_what_is_lighter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taking(monkeypatch, 60)
    listener = told(91)
    memory, time = listener.notices
    assert memory.startswith("memory: training takes about 0.3 GiB on cpu, and ") and memory.endswith("GiB are free")
    assert time.startswith("time: 60 s for the first epoch, about 1.5 hours for the 90 to come; method fossil_v2")
    assert listener.heard_at == [0, 0]  # before any epoch is reported


def test_a_first_epoch_that_takes_hours_is_foretold_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fossil, "seconds", lambda *_: 7200.0)
    listener = told(2)
    assert listener.heard_at == [0, 0]
    _, time = listener.notices
    assert time.startswith("time: 2.0 hours or more an epoch, about 4.0 hours for 2; method fossil_v2, ")
    monkeypatch.setattr(Fossil, "seconds", lambda *_: 7.0)
    assert len(told(2).notices) == 1


def test_only_a_large_graph_is_timed_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr("fossil.ops.infonce.time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    for method, expected in (("fossil", (20 / 2048) ** 2), ("fossil_v2", None)):
        kind = get_method(method)
        model = kind.build(kind.configure(None, SMALL), 5, 0)
        prepared = model.prepare(ring().graph, torch.device("cpu"))
        assert isinstance(model, Fossil) and model.seconds(prepared) is None
        with monkeypatch.context() as patched:
            patched.setattr("fossil.methods.fossil.contrast._MANY_NODES", 20)
            assert model.seconds(prepared) == expected  # a tick on the clock, for the square of the nodes


def test_v2_is_not_told_to_use_v2(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, 60)
    assert told(91, method="fossil_v2").notices[-1].endswith("1.5 hours for the 90 to come")


def test_a_first_epoch_that_compiles_is_no_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, 5, 0.75)
    assert told(10).notices[1:] == ["time: 0.75 s an epoch, about 5.2 s for the 7 to come"]


def test_kernels_that_are_compiled_are_no_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, 14.25, 0.75)
    compiled, node_loss = [0.0], Fossil.node_loss

    def compiling(self: Fossil, *given: Any) -> Tensor | None:
        compiled[0] = 14.0
        return node_loss(self, *given)

    monkeypatch.setattr(Fossil, "node_loss", compiling)
    monkeypatch.setattr("fossil.runs.pace.seconds_compiling", lambda: compiled[0])
    assert told(10).notices[1:] == ["time: 0.75 s an epoch, about 5.2 s for the 7 to come"]


def test_a_short_training_says_nothing_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, 0.1)
    assert len(told(5).notices) == 1


def test_a_process_lost_in_the_first_step_foretells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fossil, "node_loss", lambda *_: raised(LostRankError("Rank 1 is gone.", remedy="Look there.")))
    listener = Listener()
    with pytest.raises(LostRankError, match="Stopped after epoch 0 of 3"):
        fit_ring(reporter=listener)
    assert len(listener.notices) == 1  # of memory


def raised(error: Exception) -> Any:
    raise error


def test_nothing_is_said_where_nobody_asked(capsys: pytest.CaptureFixture[str]) -> None:
    fossil.embed("digits", epochs=1, settings=SMALL, device="cpu")
    assert capsys.readouterr() == ("", "")


def test_a_graph_is_refused_as_soon_as_it_takes_more_than_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = []
    memory = Fossil.memory
    monkeypatch.setattr(Fossil, "memory", lambda *given: needed.append(memory(*given)) or needed[-1])
    fit_ring()
    monkeypatch.setattr("fossil.runs.fit.free_memory", lambda device: int(needed[0]) - 1)
    with pytest.raises(GraphError, match=r"and 0\.3 GiB are free"):
        fit_ring()
    monkeypatch.setattr("fossil.runs.fit.free_memory", lambda device: int(needed[0]) + 1)
    assert len(fit_ring()) == 20


def interrupting(monkeypatch: pytest.MonkeyPatch, step: int, backward: bool) -> None:
    """Press Ctrl-C in the middle of so many steps' last, on the way forward or back."""
    node_loss, calls = Fossil.node_loss, []

    def pressing(self: Fossil, *given: Any) -> Tensor | None:
        loss = node_loss(self, *given)
        calls.append(loss)
        if len(calls) == step:
            assert loss is not None
            if backward:
                loss.register_hook(lambda gradient: os.kill(os.getpid(), signal.SIGINT))
            else:
                os.kill(os.getpid(), signal.SIGINT)
        return loss

    monkeypatch.setattr(Fossil, "node_loss", pressing)


@pytest.mark.parametrize("backward", [False, True])
def test_ctrl_c_gives_up_a_long_step_and_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backward: bool
) -> None:
    training = CPU.updated({"epochs": 6, "checkpoint_seconds": 1e6})
    whole = fit_ring(training=training)
    with monkeypatch.context() as patched:
        interrupting(patched, 4, backward)
        patched.setattr("fossil.runs.loop._PATIENCE", 0.0)
        with pytest.raises(KeyboardInterrupt):
            fit_ring(training=training, out=tmp_path)
    assert load_tensors(tmp_path / "checkpoint.safetensors").about["epoch"] == 3
    assert not (tmp_path / "summary.json").exists()
    resumed = fit_ring(training=training, out=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.vectors, whole.vectors)
    assert [record["epoch"] for record in resumed.history] == list(range(1, 7))


def test_ctrl_c_in_the_first_step_of_all_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        interrupting(patched, 1, backward=False)
        with pytest.raises(KeyboardInterrupt):
            fit_ring(out=tmp_path)
    assert len(fit_ring(out=tmp_path, resume=True).history) == 3


def test_ctrl_c_waits_for_the_end_of_a_short_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 2, backward=False)
    with pytest.raises(TrainingInterruptedError, match="Stopped after epoch 2 of 3"):
        fit_ring(out=tmp_path)
    assert load_tensors(tmp_path / "checkpoint.safetensors").about["epoch"] == 2
