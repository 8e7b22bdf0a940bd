"""What a training would take, found without training: where arrays lie, memory, and the time of a few steps."""

from __future__ import annotations

import time
from statistics import median

import torch

from fossil.guard.budget import in_bytes
from fossil.ops.memory import free_memory
from fossil.runs.fit import make_trainer
from fossil.runs.plan import Plan
from fossil.runs.preparation import whole_bytes
from fossil.training.capabilities import step_memory
from fossil.training.progress import duration

_STEPS = 4  # of which the first, which compiles and allocates, does not count


def forecast(plan: Plan) -> list[str]:
    """Return in lines what the training that is planned would take; nothing is written, and what is trained is dropped.

    Raises:
        FossilError: the training could not start.
    """
    trainer, _, prepared = make_trainer(plan)
    device, graph = trainer.random.device, plan.graph
    lines = [f"{plan.describe()}; this is a plan, and nothing is trained"]
    if prepared.is_sampled:
        lines.append(prepared.describe(plan.config.training.fan_out))
    else:
        lines.append(f"whole graph on {device}: at least {in_bytes(whole_bytes(graph))}")
    free = free_memory(device)
    there = "" if free is None else f", and {free / 2**30:,.1f} GiB are free"
    needed = step_memory(trainer.method, trainer.prepared)
    if needed is not None:
        lines.append(f"memory of a step: about {needed / 2**30:,.2f} GiB{there}")
    if plan.kind.trained:
        trainer.fit()
        seconds = []
        for _ in range(_STEPS):
            began = time.perf_counter()
            trainer.set_rates(plan.epochs)
            trainer.step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            trainer.steps += 1
            seconds.append(time.perf_counter() - began)
        each = median(seconds[1:])
        lines.append(f"time: {duration(each)} a step, measured; about {duration(each * plan.epochs)} for {plan.epochs}")
    return lines
