"""`fossil` with something that befalls one process before a chosen step, on every machine alike.

Usage: python in_trouble.py RANK STEP TROUBLE ARGUMENTS..., where TROUBLE is the name of a signal, or `memory`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch

from fossil.cli.main import run
from fossil.methods.base import Record
from fossil.training.trainer import Trainer

take_step = Trainer._minimise


def troubled(rank: int, step: int, trouble: str) -> Any:
    """Return a step that is like any other, but for one of one process."""

    def minimise(trainer: Trainer, *arguments: Any) -> Record:
        if (trainer.ranks.rank, trainer.steps) == (rank, step):
            if trouble == "memory":
                raise torch.OutOfMemoryError("no room")
            os.kill(os.getpid(), getattr(signal, trouble))
        return take_step(trainer, *arguments)

    return minimise


if __name__ == "__main__":
    Trainer._minimise = troubled(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])  # type: ignore[method-assign]
    sys.argv[1:] = sys.argv[4:]
    run()
