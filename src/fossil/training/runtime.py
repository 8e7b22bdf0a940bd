"""The one file that knows devices, precision, recorded steps and the machine."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor

from fossil.accelerate import main_stream
from fossil.errors import FossilError, FossilWarning, SettingError

Precision = Literal["float32", "tf32", "bfloat16"]
Record = dict[str, Tensor | float]
Result = TypeVar("Result")
# What PyTorch says of a tensor that is too large for the machine, or for any machine.
_TOO_LARGE = ("can't allocate memory", "Storage size calculation overflowed", "Overflow when unpacking long")
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


class Recording(Generic[Result]):
    """Does the same work again and again, on a GPU by replaying a recording of it.

    A launch of a small kernel costs the processor more than the kernel costs the GPU, and a step has hundreds. The
    first calls do the work as it is, which also compiles kernels and fills caches; the next one records it as a CUDA
    graph, and from then on each call is a single launch. Work that cannot be recorded goes on as it is, and so does
    work on a CPU.

    Args:
        work: all it reads and writes stays in place. Its result is in the same place after each replay: copy it.
        device: where it runs.
        random: the generator that it draws from, if any; a replay draws what the work itself would have drawn.
        warm_up: calls before it is recorded.
    """

    def __init__(
        self,
        work: Callable[[], Result],
        device: torch.device,
        random: torch.Generator | None = None,
        warm_up: int = 3,
    ) -> None:
        self.work, self.random, self.warm_up = work, random, warm_up
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = main_stream(device) if device.type == "cuda" else None

    def __call__(self) -> Result:
        """Do the work once."""
        if self.stream is None:
            return self.work()
        self.calls += 1
        if self.calls == self.warm_up + 1:
            self._record()
        if self.graph is None:
            return self._on_side_stream(self.stream)
        self.graph.replay()
        return self.result

    def _on_side_stream(self, stream: torch.cuda.Stream) -> Result:
        # Work that is to be recorded must have run outside the default stream before.
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self.work()
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        if self.random is not None:
            graph.register_generator_state(self.random)
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.result = self.work()
        except RuntimeError as error:
            warnings.warn(
                f"Work on the GPU could not be recorded for replay and runs operation by operation: {error}",
                FossilWarning,
                stacklevel=2,
            )
            return
        self.graph = graph


class Replay:
    """A training step as a `Recording`.

    Args:
        step: makes one training step and returns what to record of it.
        random: the generator that the step draws from.
    """

    warm_up = 3

    def __init__(self, step: Callable[[], Record], random: torch.Generator) -> None:
        self.recording = Recording(lambda: _packed(step()), random.device, random, self.warm_up)

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replayed by now."""
        return self.recording.graph is not None

    def __call__(self) -> Record:
        """Make one step."""
        numbers, names, values = self.recording()
        # The next step writes to the same place, so the values are copied, in one go.
        return {**numbers, **dict(zip(names, values.clone().unbind(), strict=True))}


def _packed(record: Record) -> tuple[dict[str, float], list[str], Tensor]:
    """Return the plain numbers of a record, and its tensors by name and as one."""
    tensors = {name: value for name, value in record.items() if isinstance(value, Tensor)}
    numbers = {name: value for name, value in record.items() if not isinstance(value, Tensor)}
    return numbers, list(tensors), torch.stack([value.float() for value in tensors.values()])


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether memory ran out, on whichever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError | TypeError) and any(text in str(error) for text in _TOO_LARGE)


@contextmanager
def lack_of_memory_as(explanation: FossilError) -> Iterator[None]:
    """Raise `explanation` in place of whatever tells inside the block that memory ran out."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise explanation from error


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
