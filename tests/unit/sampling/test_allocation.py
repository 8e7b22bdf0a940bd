"""Where what all nodes have is kept."""

from __future__ import annotations

import pytest
import torch

from fossil.errors import GraphError
from fossil.sampling import allocation
from fossil.sampling.allocation import allocate

CPU, CARD = torch.device("cpu"), torch.device("meta")  # stands for a card here


@pytest.mark.parametrize(
    ("on_card", "on_host", "place", "dtype"),
    [
        (10_000, 0, CARD, torch.float32),
        (4_000, 0, CARD, torch.bfloat16),
        (2_000, 10_000, CPU, torch.bfloat16),
        (2_000, None, CPU, torch.bfloat16),
        (None, 0, CARD, torch.float32),
    ],
)
def test_room_is_taken_where_there_is_some(
    monkeypatch: pytest.MonkeyPatch, on_card: int | None, on_host: int | None, place: torch.device, dtype: torch.dtype
) -> None:
    free = {"cpu": on_host, "meta": on_card}
    monkeypatch.setattr(allocation, "free_memory", lambda device: free[device.type])
    found = allocate(100, 10, CARD)
    assert (found.device.type, found.dtype, found.shape) == (place.type, dtype, (100, 10))
    assert allocate(10, 10, CARD, like=torch.empty(1, dtype=torch.float16)).dtype == torch.bfloat16


@pytest.mark.parametrize(("device", "said"), [(CARD, "2 kB on meta and 1 kB on the host"), (CPU, "1 kB on the host")])
def test_where_there_is_none_one_message_says_what_is_free(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, said: str
) -> None:
    monkeypatch.setattr(allocation, "free_memory", lambda place: {"cpu": 1_000, "meta": 2_000}[place.type])
    with pytest.raises(GraphError, match=f"100 nodes, 10 numbers of each .* takes 2 kB .*; free are {said}") as refused:
        allocate(100, 10, device)
    assert "smaller width" in refused.value.remedy
