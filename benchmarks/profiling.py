"""Where the time of a training step goes, kernel by kernel."""

from __future__ import annotations

from typing import Any

from torch.profiler import ProfilerActivity, profile

from components import step_milliseconds
from fossil.training.trainer import Trainer
from measuring import now, table

STEPS, SHOWN = 10, 15
# How the host gives work to a GPU: single kernels under several names, copies, and whole recordings.
_LAUNCHES = ("launchkernel", "memcpyasync", "memsetasync", "graphlaunch")


def print_profile(trainer: Trainer, name: str) -> None:
    """Print the kernels (on a CPU the operations) that take most of ten steps, and how many launches a step has."""
    device = trainer.random.device
    step_milliseconds(trainer, 1)
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]
    with profile(activities=activities) as watched:
        trainer.run(trainer.steps + STEPS, lambda *_: False)
        now(device)
    events = list(watched.key_averages())
    busy = [(event, _own_time(event, on_gpu)) for event in events]
    busy = sorted(((event, time) for event, time in busy if time > 0), key=lambda pair: -pair[1])
    total = sum(time for _, time in busy)
    work = "kernel" if on_gpu else "operation"
    rows = [
        [event.key.replace("|", "¦")[:90], time / 1e3 / STEPS, f"{100 * time / total:.1f} %", event.count / STEPS]
        for event, time in busy[:SHOWN]
    ]
    print(table([f"{work} ({name})", "ms a step", "share", "times a step"], rows))
    count = sum(event.count for event, _ in busy) / STEPS
    print(f"\n{count:.0f} {work}s a step, {total / 1e3 / STEPS:.3g} ms in all")
    if on_gpu:
        launches = sum(event.count for event in events if _is_launch(event.key)) / STEPS
        print(f"{launches:.1f} launches a step by the host; {'replayed' if trainer.replay else 'eager'}")


def _own_time(event: Any, on_gpu: bool) -> float:
    """Return the microseconds that an event took itself, zero for one of the other device or a mere annotation."""
    if getattr(event, "is_user_annotation", False):
        return 0.0
    if on_gpu:
        return float(event.self_device_time_total) if event.device_type.name == "CUDA" else 0.0
    return float(event.self_cpu_time_total)


def _is_launch(key: str) -> bool:
    return key.startswith("cu") and any(part in key.lower() for part in _LAUNCHES)
