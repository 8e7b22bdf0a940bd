"""Work divided among the processes of one training, its ranks, with the value and the gradient that one process has.

Every rank takes the same step with the same random numbers, and does its share of what is divided. The gradients of
all ranks are averaged when the step has been differentiated. So what a rank adds to a gradient for itself alone counts
as often as there are ranks, and what all of them compute alike counts once. An operation that is divided asks `ranks()`
who it is among; alone, it is undivided and waits for nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.errors import RunError
from fossil.ops.autograd import Function


class LostRankError(RunError):
    """Another process of the training ended, or did not answer in time."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """The processes of one training, as one of them sees them: the default group of `torch.distributed`.

    Attributes:
        rank: number of this one, from zero.
        world_size: how many there are.
        co_located: how many of them, this one included, take the memory that this one takes.
        waiting: the group in which all wait for the first, however long it works alone; None where this one is alone.

    >>> Ranks(rank=1, world_size=3).share(10)
    slice(4, 7, None)
    """

    rank: int = 0
    world_size: int = 1
    co_located: int = 1
    waiting: Any = None

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return which of so many things are this rank's: neighbours, and as many as the others have, or one more."""
        least, more = divmod(count, self.world_size)
        start = self.rank * least + min(self.rank, more)
        return slice(start, start + least + (self.rank < more))

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Put the sum over all ranks in place of a tensor, and return it; without gradient.

        Raises:
            LostRankError: a rank is gone.
        """
        if self.world_size > 1:
            with lost_ranks_as_errors():
                torch.distributed.all_reduce(tensor)
        return tensor


ALONE = Ranks()


@contextmanager
def lost_ranks_as_errors() -> Iterator[None]:
    """Raise LostRankError where another rank does not answer inside the block."""
    try:
        yield
    except RuntimeError as error:  # all that the backends raise
        # Without the file of the backend's source in front, and its advice behind.
        reason = re.sub(r"^\[[^\]]*\] ", "", str(error)).split(". ")[0].partition("\n")[0].strip()
        raise LostRankError(
            f"Another process of this training ended or did not answer ({reason}).",
            remedy="See what became of it; then go on from the last checkpoint with the same command and --resume, in "
            "as many processes as you like.",
        ) from error


_divided: ContextVar[Ranks] = ContextVar("divided", default=ALONE)


@contextmanager
def divided_among(ranks: Ranks) -> Iterator[None]:
    """Divide the operations inside the block among ranks; all of them must enter it with the same work."""
    token = _divided.set(ranks)
    try:
        yield
    finally:
        _divided.reset(token)


def ranks() -> Ranks:
    """Return who shares the work now."""
    return _divided.get()


def all_gather(part: Tensor, count: int) -> Tensor:
    """Join the shares of all ranks, in their order; the gradient of a share is the sum of what all ranks make of it.

    Args:
        part: this rank's `share` of `count` rows.
        count: rows of the whole.
    """
    among = ranks()
    return part if among.world_size == 1 else _AllGather.apply(part, count, among)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, count: int, among: Ranks) -> Tensor:
        ctx.among, mine = among, among.share(count)
        # A sum of disjoint parts: exact, whatever the sizes, and the one operation that every backend has.
        whole = part.new_zeros(count, *part.shape[1:])
        whole[mine] = part
        return among.all_reduce(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        total = ctx.among.all_reduce(gradients[0].clone(memory_format=torch.contiguous_format))
        return total[ctx.among.share(len(total))], None, None
