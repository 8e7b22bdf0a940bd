"""Several processes that train one method: how they find each other, what they tell each other, how they end.

`torchrun` starts them and names them in the environment. Every process holds the whole method and takes every step; the
work inside a step is divided by `fossil.ops.ranks`, and gradients are averaged here. The first process leads: it alone
writes and speaks.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, NoReturn

import torch
from torch import distributed, nn

from fossil.errors import SettingError
from fossil.ops.ranks import ALONE, Ranks, lost_ranks_as_errors

# What the others may take beyond one's own time: a first step that compiles, or a large checkpoint.
_PATIENCE = timedelta(minutes=10)
# What the first process may take for what it does alone. Who ends meanwhile is noticed at once: its connections close.
_WORK_ALONE = timedelta(days=30)
_TO_SPEAK = timedelta(seconds=20)  # what the one that speaks may take to say its last word
_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_ENDED, _SPOKEN = "fossil/ended", "fossil/spoken"


class Launch(NamedTuple):
    """Where a process stands among all.

    Attributes:
        rank: its number, from zero.
        world_size: how many there are.
        local_rank: its number on this machine.
        local_world_size: how many there are on this machine.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1


def launched() -> Launch:
    """Return what the launcher says in the environment; a process that nobody launched is alone.

    Raises:
        SettingError: it says something impossible.
    """
    said = {name: os.environ.get(name) for name in _NAMES}
    if said["RANK"] is None or said["WORLD_SIZE"] is None or "MASTER_ADDR" not in os.environ:
        return Launch()
    found = Launch(*(int(value) if value and value.isdecimal() else -1 for value in said.values()))
    if not (0 <= found.rank < found.world_size and 0 <= found.local_rank < found.local_world_size):
        told = ", ".join(f"{name}={value}" for name, value in said.items())
        raise SettingError(
            f"The environment says {told}, which is no process among others.",
            remedy="Start several processes with torchrun, or unset these variables to train in one.",
        )
    return found


class ProcessGroup:
    """The processes that were launched together, as one of them sees them.

    Args:
        here: where this one stands.

    Attributes:
        ranks: the same for operations; alone until `join`.
        was_joined: whether this process has ever joined a group.
    """

    was_joined: ClassVar[bool] = False

    def __init__(self, here: Launch) -> None:
        self.here, self.ranks = here, ALONE
        self._store: Any = None
        if here.world_size > 1:
            with lost_ranks_as_errors():
                from torch.distributed.rendezvous import rendezvous

                self._store, *_ = next(rendezvous("env://", timeout=_PATIENCE))

    def join(self, device: str) -> Ranks:
        """Wait for all others, and return who shares the work.

        Args:
            device: name of the device; without a number it is the GPU of this process's own.

        Raises:
            SettingError: there are more processes here than GPUs.
            LostRankError: not all came.
        """
        if self.here.world_size > 1:
            has_own_gpu = _takes_own_gpu(device, self.here)
            backend = "cpu:gloo,cuda:nccl" if has_own_gpu else "gloo"
            with lost_ranks_as_errors():
                distributed.init_process_group(
                    backend, store=self._store, rank=self.here.rank, world_size=self.here.world_size, timeout=_PATIENCE
                )
                waiting = distributed.new_group(backend="gloo", timeout=_WORK_ALONE)
            ProcessGroup.was_joined = True
            co_located = 1 if has_own_gpu else self.here.local_world_size
            self.ranks = Ranks(self.here.rank, self.here.world_size, co_located, waiting)
        return self.ranks

    def leave(self) -> None:
        """Let the others know that this one is gone."""
        if distributed.is_initialized():
            distributed.destroy_process_group()

    def claim_failure(self, status: int) -> int | None:
        """Tell how a failure ends: None for the first that fails, which says why; its status for all others.

        They wait until it has spoken, because a launcher ends all others as soon as one has ended.

        Args:
            status: exit status of this process, if it is the first.
        """
        if self._store is None:
            return None
        mine = f"{self.here.rank} {status}"
        try:
            first = self._store.compare_set(_ENDED, "", mine).decode()
            if first == mine:
                atexit.register(self._have_spoken)
                return None
            with suppress(RuntimeError):
                self._store.wait([_SPOKEN], _TO_SPEAK)
            return int(first.split()[1])
        except RuntimeError:  # the store went with the launcher, or with the first process
            return None if self.here.rank == 0 else status

    def _have_spoken(self) -> None:
        with suppress(RuntimeError):
            self._store.set(_SPOKEN, "1")


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """Be among the processes that were launched together, until the end of the block."""
    here = ProcessGroup(launched())
    try:
        yield here
    finally:
        here.leave()


def exit_process(status: int = 0) -> NoReturn:
    """End this process. One that joined a group ends at once, after the functions of `atexit`.

    Threads of the backend outlive their group, and in one of a few ends that the interpreter takes its time for they
    abort the process (seen with gloo of PyTorch 2.13), for which a launcher would end all others.
    """
    if not ProcessGroup.was_joined:
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it
            stream.flush()
    os._exit(status)


def average_gradients(ranks: Ranks, parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradient of each parameter that has one by its mean over all ranks."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if ranks.world_size == 1 or not gradients:
        return
    flat = ranks.all_reduce(torch.cat([gradient.flatten() for gradient in gradients])) / ranks.world_size
    for gradient, mean in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def wait_for_first(ranks: Ranks) -> None:
    """Wait until the first rank has done what it does alone, however long that takes.

    Raises:
        LostRankError: a rank is gone.
    """
    if ranks.waiting is not None:
        with lost_ranks_as_errors():
            distributed.barrier(ranks.waiting)


def all_reduce_max(ranks: Ranks, number: int) -> int:
    """Return the largest of the numbers that the ranks have."""
    if ranks.world_size == 1:
        return number
    found = torch.tensor(number)
    with lost_ranks_as_errors():
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return int(found)


def all_say(ranks: Ranks, what: str) -> bool:
    """Tell whether all ranks say the same."""
    number = int.from_bytes(hashlib.sha256(what.encode()).digest()[:7])
    return all_reduce_max(ranks, number) == -all_reduce_max(ranks, -number)


def broadcast_bytes(ranks: Ranks, content: bytes | None) -> bytes:
    """Return to every rank what the first has."""
    size = all_reduce_max(ranks, 0 if content is None else len(content))
    buffer = torch.empty(size, dtype=torch.uint8)
    if content is not None:
        buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    with lost_ranks_as_errors():
        distributed.broadcast(buffer, src=0)
    return buffer.numpy().tobytes()


def _takes_own_gpu(device: str, here: Launch) -> bool:
    """Give this process a GPU of its own, unless it works on a CPU or on a GPU that was named by number."""
    if device not in ("auto", "cuda") or not torch.cuda.is_available():
        return False
    if here.local_world_size > torch.cuda.device_count():
        raise SettingError(
            f"{here.local_world_size} processes are to share {torch.cuda.device_count()} GPU(s).",
            remedy="Let torchrun start as many processes as there are GPUs, or use --device cpu.",
        )
    torch.cuda.set_device(here.local_rank)
    return True
