"""`fossil` with something that befalls one process before a chosen step, on every machine alike.

Usage: python in_trouble.py RANK STEP TROUBLE ARGUMENTS..., where TROUBLE is the name of a signal, `memory`, or
`slowness`. Step -1 is what the first process fits alone; for its result the others then wait a few seconds at most, but
where nothing else is said.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import torch
from torch.distributed.distributed_c10d import _set_pg_timeout

from fossil.cli.main import run
from fossil.methods.base import Record
from fossil.training.trainer import Trainer

SHORT, USUAL = timedelta(seconds=3), timedelta(minutes=10)
take_step, fit, share_state = Trainer._minimise, Trainer.fit, Trainer._share_state


def befall(trouble: str) -> None:
    if trouble == "memory":
        raise torch.OutOfMemoryError("no room")
    if trouble == "slowness":
        time.sleep(2 * SHORT.seconds)
    else:
        os.kill(os.getpid(), getattr(signal, trouble))


def plan_trouble(rank: int, step: int, trouble: str) -> None:
    """Replace steps and the fit by ones that are like any other, but for one of one process."""

    def minimise(trainer: Trainer, *arguments: Any) -> Record:
        if (trainer.ranks.rank, trainer.steps) == (rank, step):
            befall(trouble)
        return take_step(trainer, *arguments)

    def fit_in_trouble(trainer: Trainer) -> None:
        if (trainer.ranks.rank, step) == (rank, -1):
            befall(trouble)
        fit(trainer)

    def share_impatiently(trainer: Trainer) -> None:
        _set_pg_timeout(SHORT)
        share_state(trainer)
        _set_pg_timeout(USUAL)

    Trainer._minimise = minimise  # type: ignore[method-assign]
    Trainer.fit = fit_in_trouble  # type: ignore[method-assign]
    if step == -1:
        Trainer._share_state = share_impatiently  # type: ignore[method-assign]


if __name__ == "__main__":
    plan_trouble(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    sys.argv[1:] = sys.argv[4:]
    run()
