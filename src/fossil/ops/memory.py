"""How much memory a program may still take, on a GPU, on this machine or in its container; and how much it took."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import torch

from fossil.guard.budget import free_host_memory


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Return how many bytes more this process can use on the device; None where the system does not say.

    Args:
        device: CPU or GPU.
        root: where the system's files are found.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return free_host_memory(root)


def clear_peak(device: torch.device) -> None:
    """Forget the most memory that was in use so far, where the system can."""
    if device.type == "cuda":
        gc.collect()  # captured steps of earlier trainings hold memory until then
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the largest resident size of this process


def peak_bytes(device: torch.device) -> int | None:
    """Return the most bytes in use since `clear_peak`, of a GPU or of this process; None where nobody can tell."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        return None
