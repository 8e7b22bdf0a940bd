"""`fossil` with something that befalls one process before a chosen step, on every machine alike.

Usage: python in_trouble.py RANK STEP TROUBLE ARGUMENTS..., where TROUBLE is the name of a signal, `memory`, or
`slowness`. Step -1 is what the first process fits alone; from then on all wait a few seconds for each other at most.
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

SHORT = 3  # seconds
take_step, fit = Trainer._minimise, Trainer.fit


def befall(trouble: str) -> None:
    if trouble == "memory":
        raise torch.OutOfMemoryError("no room")
    if trouble == "slowness":
        time.sleep(2 * SHORT)
    else:
        os.kill(os.getpid(), getattr(signal, trouble))


def troubled(rank: int, step: int, trouble: str) -> tuple[Any, Any]:
    """Return a step and a fit that are like any other, but for one of one process."""

    def minimise(trainer: Trainer, *arguments: Any) -> Record:
        if (trainer.ranks.rank, trainer.steps) == (rank, step):
            befall(trouble)
        return take_step(trainer, *arguments)

    def fit_in_trouble(trainer: Trainer) -> None:
        if step == -1:
            _set_pg_timeout(timedelta(seconds=SHORT))
            if trainer.ranks.rank == rank:
                befall(trouble)
        fit(trainer)

    return minimise, fit_in_trouble


if __name__ == "__main__":
    Trainer._minimise, Trainer.fit = troubled(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])  # type: ignore[method-assign]
    sys.argv[1:] = sys.argv[4:]
    run()
