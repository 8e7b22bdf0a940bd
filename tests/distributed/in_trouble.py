"""`fossil` with something that befalls one process before a chosen step, on every machine alike.

Usage: python in_trouble.py RANK STEP TROUBLE ARGUMENTS..., where TROUBLE is the name of a signal, or `memory`.
"""

from __future__ import annotations

import os
import signal
import sys

import torch

from fossil.cli.main import run
from fossil.methods.base import Record
from fossil.training.trainer import Trainer

RANK, STEP, TROUBLE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
take_step = Trainer._minimise


def _minimise(trainer: Trainer, *arguments: object) -> Record:
    if trainer.ranks.rank == RANK and trainer.steps == STEP:
        if TROUBLE == "memory":
            raise torch.OutOfMemoryError("no room")
        os.kill(os.getpid(), getattr(signal, TROUBLE))
    return take_step(trainer, *arguments)  # type: ignore[arg-type]


if __name__ == "__main__":
    Trainer._minimise = _minimise  # type: ignore[method-assign,assignment]
    sys.argv[1:] = sys.argv[4:]
    run()
