"""The one file that knows devices, precision, recorded steps and the machine."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fossil.errors import FossilWarning, SettingError

Precision = Literal["float32", "tf32", "bfloat16"]
Record = dict[str, Tensor | float]
_PACKAGES = ("fossil-gnn", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "pydantic", "safetensors")


def resolve_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is the GPU if there is one.

    Raises:
        SettingError: there is no such device on this machine.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(f"device={name!r} is no device.", remedy="Use auto, cpu, cuda or cuda:0.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"device={name!r} is not supported.", remedy="Use auto, cpu, cuda or cuda:0.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(f"device={name!r} was asked for, but no GPU is usable here.", remedy="Use --device cpu.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(
            f"device={name!r} was asked for, but this machine has {torch.cuda.device_count()} GPU(s).",
            remedy="Use cuda:0.",
        )
    return device


@contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute products inside the block in full float32, in TF32 (on a GPU) or in bfloat16; restored afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class Replay:
    """Runs a step that does the same every time, on a GPU by replaying a recording of it.

    A launch of a small kernel costs the processor more than the kernel costs the GPU, and a step has hundreds. The
    first calls run the step as it is, which also compiles kernels and fills caches; the next one records it as a CUDA
    graph, and from then on each call is a single launch. A step that cannot be recorded goes on as it is.

    Args:
        step: makes one training step and returns what to record. All it reads and writes stays in place.
        random: the generator that the step draws from; a replay draws what the step itself would have drawn.
    """

    warm_up = 3

    def __init__(self, step: Callable[[], Record], random: torch.Generator) -> None:
        self.step, self.random = step, random
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(random.device)  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.numbers: dict[str, float] = {}

    def __call__(self) -> Record:
        """Make one step."""
        self.calls += 1
        if self.calls == self.warm_up + 1:
            self._record()
        if self.graph is None:
            return self._on_side_stream()
        self.graph.replay()
        # The recording writes to the same place every time, so each record is copied, in one go.
        return {**self.numbers, **dict(zip(self.names, self.values.clone().unbind(), strict=True))}

    def _on_side_stream(self) -> Record:
        # Work that is to be recorded must have run outside the default stream before.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            record = self.step()
        torch.cuda.current_stream().wait_stream(self.stream)
        return record

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.random)
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                record = self.step()
                tensors = {name: value for name, value in record.items() if isinstance(value, Tensor)}
                self.values = torch.stack([value.float() for value in tensors.values()])
        except RuntimeError as error:
            warnings.warn(
                f"The training step could not be recorded for replay and runs operation by operation: {error}",
                FossilWarning,
                stacklevel=2,
            )
            return
        self.names = list(tensors)
        self.numbers = {name: value for name, value in record.items() if not isinstance(value, Tensor)}
        self.graph = graph


def is_out_of_memory(error: RuntimeError) -> bool:
    """Tell whether memory ran out, on whichever device."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def free_memory(device: torch.device) -> int | None:
    """Return how many bytes a new program could use on the device; None where the system does not say."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(kilobytes[0]) if kilobytes else None


def describe_device(device: torch.device) -> str:
    """Return the device in words."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def environment(device: torch.device) -> dict[str, Any]:
    """Return what a reader needs to know about the machine and the versions a result was made with."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed as a package"
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "versions": versions,
    }
