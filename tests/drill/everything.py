"""All cases of a drill."""

from __future__ import annotations

import gc
import os
import traceback
from pathlib import Path
from typing import Any

import downloads
import extremes
import formats
import harmful
import stand_ins
import torch._dynamo
import trials

# What the cases import; done once, before the first fork.
from fossil.methods.registry import methods
from fossil.training.devices import environment


def cases(folder: Path, files: int, share: float, settings: float) -> list[Any]:
    """Return the cases, samples made below `folder` where they are not there yet.

    Args:
        folder: of the samples.
        files: how many damaged ones.
        share: of the kills, signals, starts and full disks; crafted files and answers of servers are tried with all.
        settings: share of the extreme settings.
    """
    methods()
    environment(torch.device("cpu"))  # which asks the system for the processor's name, once
    _in_a_fork(lambda: (formats.stock(folder), trials.stock(folder, share)))
    stocked = formats.shelves(folder)
    stand_ins.keep_run(stocked["run: config.yaml"].files)
    gc.collect()
    gc.freeze()  # or every fork would copy what the collector touches
    crafted = (*harmful.HARMFUL, *stand_ins.STAND_INS) if share == 1 else ()
    return [
        *formats.cases(files, stocked),
        *crafted,
        *downloads.cases(share),
        *extremes.cases(settings),
        *trials.cases(share, trials.lone(folder)),
    ]


def _in_a_fork(work: Any) -> None:
    """Do something that trains, and starts threads, in another process."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitpid(process, 0)[1] != 0:
        raise SystemExit("The samples could not be made.")
