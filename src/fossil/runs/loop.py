"""Around the training loop: history, checkpoints, progress and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fossil.errors import RunError
from fossil.methods.base import Record
from fossil.runs.plan import Plan
from fossil.training.checkpoint import save_tensors
from fossil.training.history import History
from fossil.training.progress import Reporter
from fossil.training.trainer import Trainer

# How many epochs a GPU may run ahead of the history; a CPU has nothing to wait for.
_FLUSH_EVERY = {"cpu": 1, "cuda": 20}


class TrainingInterruptedError(RunError):
    """Ctrl-C: the state was saved."""

    exit_status = 130


def train(trainer: Trainer, plan: Plan, history: History, reporter: Reporter) -> None:
    """Run the loop, keeping history and checkpoints, until it is done or somebody presses Ctrl-C.

    Raises:
        TrainingInterruptedError: somebody did; the state is saved where there is a run folder.
    """
    epochs, out = plan.epochs, plan.out
    flush_every = _FLUSH_EVERY[trainer.random.device.type]
    saved_at, reported = time.monotonic(), len(history.records)

    def flush() -> None:
        nonlocal reported
        history.flush()
        for record in history.records[reported:]:
            reporter.update(int(record["epoch"]), record)
        reported = len(history.records)

    def save() -> None:
        nonlocal saved_at
        if out is not None:
            about = {"epoch": trainer.steps, "identity": plan.config.identity}
            save_tensors(out / "checkpoint.safetensors", trainer.state(), about)
        saved_at = time.monotonic()

    with _noticing_interrupts() as interrupted:

        def after_step(number: int, record: Record) -> bool:
            history.add(number, record)  # a step is an epoch
            due = out is not None and time.monotonic() - saved_at >= plan.config.training.checkpoint_seconds
            if number % flush_every == 0 or due or interrupted.is_set():
                flush()
            if due:
                save()
            return interrupted.is_set()

        reporter.start(trainer.steps, epochs)
        try:
            trainer.run(epochs, after_step)
            flush()
            save()
        finally:
            reporter.finish()
    if trainer.steps < epochs:
        raise TrainingInterruptedError(
            f"Stopped after epoch {trainer.steps} of {epochs}.",
            remedy="Everything is saved: go on with the same command and --resume." if out else "Nothing was saved.",
        )


@contextmanager
def _noticing_interrupts() -> Iterator[threading.Event]:
    """Turn Ctrl-C into an event, so that it is heard between two steps and never in the middle of one."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # signals reach the main thread alone
        return

    def notice(_: int, __: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt  # the second time, the user means now
        event.set()

    before = signal.signal(signal.SIGINT, notice)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
