"""SIGTERM and SIGHUP end a training as Ctrl-C does, and leave everybody's handlers as they were."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ring_graph import CPU, fit_ring

from fossil.runs.interrupts import Interrupts, TrainingInterruptedError, hearing_interrupts
from fossil.training.checkpoint import load_tensors

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _hanging_up_is_heard() -> Iterator[None]:
    """Whoever runs the tests may do so under `nohup`, where SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


RARELY = CPU.updated({"epochs": 6, "checkpoint_seconds": 1e6})


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Every test leaves the handlers as it found them."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
        assert {number: signal.getsignal(number) for number in SIGNALS} == before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Sending:
    """A reporter that sends this process a signal after the second epoch."""

    def __init__(self, number: int) -> None:
        self.number = number

    def notice(self, text: str) -> None:
        pass

    def start(self, done: int, total: int) -> None:
        pass

    def update(self, epoch: int, record: dict[str, float]) -> None:
        if epoch == 2:
            os.kill(os.getpid(), self.number)

    def finish(self) -> None:
        pass


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_first_checkpoint_loses_nothing(tmp_path: Path, number: int) -> None:
    whole = fit_ring(training=RARELY)
    with pytest.raises(
        TrainingInterruptedError, match=r"Stopped after epoch [23] of 6\. Everything is saved"
    ) as caught:
        fit_ring(training=RARELY, out=tmp_path, reporter=Sending(number))
    assert caught.value.exit_status == 128 + number
    assert load_tensors(tmp_path / "checkpoint.safetensors").about["epoch"] in (2, 3)
    assert not (tmp_path / "run.lock").exists()
    resumed = fit_ring(training=RARELY, out=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.vectors, whole.vectors)
    assert [record["epoch"] for record in resumed.history] == [1, 2, 3, 4, 5, 6]


def test_hangups_stay_ignored_where_they_are(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert len(fit_ring(training=RARELY, reporter=Sending(signal.SIGHUP)).history) == 6
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_handler_of_the_callers_own_stays_in_place() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        assert len(fit_ring(training=RARELY, reporter=Sending(signal.SIGTERM)).history) == 6
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_other_threads_set_no_handlers() -> None:
    found: list[Any] = []

    def work() -> None:
        with hearing_interrupts(Interrupts()):
            found.append([signal.getsignal(number) for number in SIGNALS])
        found.append(len(fit_ring()))

    before = [signal.getsignal(number) for number in SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before, 20]


def test_who_listens_outside_is_told_which_signal_it_was() -> None:
    outer, inner = Interrupts(break_off=True), Interrupts()
    with hearing_interrupts(outer, ctrl_c=False), hearing_interrupts(inner):
        os.kill(os.getpid(), signal.SIGTERM)
        assert inner.heard and not outer.heard
        with pytest.raises(KeyboardInterrupt):  # the second time, they mean now
            os.kill(os.getpid(), signal.SIGHUP)
    assert outer.exit_status == inner.exit_status == 128 + signal.SIGTERM
