"""How long training takes: estimated by the method before the first step, or measured epoch by epoch."""

from __future__ import annotations

import time

from fossil.ops.dispatch import seconds_compiling
from fossil.training.capabilities import EstimatesTime, KnowsLighter
from fossil.training.progress import duration
from fossil.training.trainer import Trainer

_LONG_EPOCH = 10.0  # seconds of a first epoch that says by itself what to expect, though something was compiled in it
_LONG_TRAINING = 3600.0  # seconds from which on something lighter is named


class Pace:
    """How long an epoch takes, measured whenever the device has been waited for, and what to expect of the others.

    The first epoch compiles, captures and allocates: the others are measured from its end on.

    Args:
        done: epochs before this training, which may go on with an earlier one.
        total: epochs when it is over.
        most_ahead: epochs that the device may be ahead of what is known of it.

    Attributes:
        seconds: of an epoch, by the last measurement; infinite before the first.
    """

    def __init__(self, done: int, total: int, most_ahead: int) -> None:
        self.seconds = float("inf")
        self._total, self._most_ahead = total, most_ahead
        self._first_epoch, self._first_ended = done + 1, 0.0
        self._measured_epoch, self._measured_at = done, _clock()
        self._said = False

    def is_due(self, epoch: int) -> bool:
        """Tell whether the device is as far ahead as it may be: a second or so, that Ctrl-C is heard."""
        ahead = max(1, min(self._most_ahead, int(1 / max(self.seconds, 1e-9))))
        return epoch - self._measured_epoch >= ahead

    def measure(self, epoch: int) -> None:
        """Take note that an epoch is over."""
        if epoch > self._measured_epoch:
            now = _clock()
            self.seconds = (now - self._measured_at) / (epoch - self._measured_epoch)
            self._measured_epoch, self._measured_at = epoch, now
            if epoch <= self._first_epoch:
                self._first_ended = now

    def expectation(self, trainer: Trainer) -> str | None:
        """Return once, as soon as a measurement is worth it, how long all will take, and what is lighter."""
        to_come, is_measured = self._total - self._measured_epoch, self._measured_epoch >= self._first_epoch
        epochs, seconds = self._measured_epoch - self._first_epoch, self._measured_at - self._first_ended
        after_first = epochs > 0
        is_worth_it = seconds >= 1 if after_first else self.seconds >= _LONG_EPOCH
        if self._said or to_come == 0 or not (is_measured and is_worth_it):
            return None
        self._said = True
        expected, what = (seconds / epochs, "an epoch") if after_first else (self.seconds, "for the first epoch")
        left = expected * to_come
        said = f"time: {duration(expected)} {what}, about {duration(left)} for the {to_come} to come"
        return said + _advice(trainer, left)


def estimate(trainer: Trainer, total: int) -> str | None:
    """Return how long so many epochs will take, where one alone would take long and the method knows beforehand."""
    method, to_come = trainer.method, total - trainer.steps
    seconds = method.seconds(trainer.prepared) if to_come and isinstance(method, EstimatesTime) else None
    if seconds is None or seconds < _LONG_EPOCH:
        return None
    left = seconds * to_come
    return f"time: {duration(seconds)} or more an epoch, about {duration(left)} for {to_come}{_advice(trainer, left)}"


def _advice(trainer: Trainer, left: float) -> str:
    """Return what to do instead, where training would take long and the method knows."""
    lighter = trainer.method.lighter() if isinstance(trainer.method, KnowsLighter) else None
    return f"; {lighter}" if lighter and left > _LONG_TRAINING else ""


def _clock() -> float:
    """Return the time, which stands still while kernels are compiled."""
    return time.monotonic() - seconds_compiling()
