"""Vectors of a graph from those of its chunks."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from fossil.methods.base import NodeVectors
from fossil.methods.chunks import join_chunks


def test_vectors_are_joined_as_they_come() -> None:
    """No more than two chunks are there at a time, beside the whole."""
    alive: set[int] = set()

    def chunks() -> Any:
        for first in range(0, 50, 10):
            rows = torch.arange(first, first + 10, dtype=torch.float32)
            part = NodeVectors(
                rows[:, None] * torch.ones(3), rows, -rows, {"a": rows, "b": 1 - rows}, {"a": first / 10, "b": 1.0}
            )
            alive.add(first)
            weakref.finalize(part.vectors, alive.discard, first)
            del rows
            assert len(alive) <= 2
            yield part
            del part

    whole = join_chunks(chunks(), 50)
    numbers = torch.arange(50, dtype=torch.float32)
    assert torch.equal(whole.vectors, numbers[:, None].expand(50, 3))
    assert torch.equal(whole.fusion, numbers) and torch.equal(whole.structure_share, -numbers)
    assert torch.equal(whole.channels["b"], 1 - numbers)
    assert whole.channel_shares == {"a": pytest.approx(2.0), "b": pytest.approx(1.0)}
