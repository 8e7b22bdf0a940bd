"""Where arrays are put, on machines whose free memory is made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.graph.folder import write_disk_graph
from fossil.graph.graph import Graph
from fossil.ops.ranks import Ranks
from fossil.sampling.feature_rows import FeatureRows
from fossil.sampling.neighbourhoods import Adjacency
from fossil.sampling.store import EdgeDirection, GraphStore
from fossil.training import placement
from fossil.training.placement import host_store, place

CARD = torch.device("cuda")
EDGES, FEATURES = 8 * 11 + 4 * 20, 4 * 10 * 6


def store() -> GraphStore:
    edges = Adjacency(torch.arange(0, 21, 2), torch.arange(20, dtype=torch.int32) % 10)
    return GraphStore.undirected(edges, FeatureRows(torch.zeros(10, 6)))


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is moved or pinned, without a card to move it to."""
    made: list[str] = []
    monkeypatch.setattr(GraphStore, "moved", lambda self, name, device: made.append(name) or self)
    monkeypatch.setattr(GraphStore, "pinned", lambda self: made.append("pinned") or self)
    return made


def places(
    monkeypatch: pytest.MonkeyPatch, card: float, host: float, *, step: float = 0, ranks: Ranks | None = None
) -> dict[str, str]:
    free = {"cuda": round(card / 0.85) + 1, "cpu": round(host / 0.85) + 1}
    monkeypatch.setattr(placement, "free_memory", lambda device: free[device.type])
    _, found = place(store(), CARD, step, mapped=EDGES, ranks=ranks or Ranks())
    assert {each.name: each.size for each in found} == {"edges": EDGES, "features": FEATURES}
    return {each.name: each.where for each in found}


def test_edges_come_first_and_a_step_keeps_its_room(monkeypatch: pytest.MonkeyPatch, moves: list[str]) -> None:
    both = EDGES + FEATURES
    assert places(monkeypatch, both, 0) == {"edges": "the card", "features": "the card"}
    assert places(monkeypatch, both, 0, step=9) == {"edges": "the card", "features": "disk"}
    assert places(monkeypatch, both, 1e6, step=9)["features"] == "pinned host memory"
    assert places(monkeypatch, EDGES - 9, 0) == {"edges": "disk", "features": "disk"}
    assert moves == ["edges", "features", "edges", "edges", "pinned"]


def test_pinned_memory_comes_in_powers_of_two(monkeypatch: pytest.MonkeyPatch, moves: list[str]) -> None:
    assert FEATURES == 240
    assert places(monkeypatch, EDGES, 250)["features"] == "disk"
    assert places(monkeypatch, EDGES, 256)["features"] == "pinned host memory"


@pytest.mark.parametrize(
    ("directed", "directions"), [(False, ("out", "in", "both")), (True, ("out",)), (True, ("both",))]
)
def test_edges_on_disk_are_told_apart_from_what_is_made_of_them_in_memory(
    tmp_path: Path, directed: bool, directions: tuple[EdgeDirection, ...]
) -> None:
    edges = np.triu(np.random.default_rng(0).random((30, 30)) < 0.3, 1)
    adjacency = sp.csr_array((edges if directed else edges | edges.T).astype(np.float32))
    graph = write_disk_graph(tmp_path, Graph("g", adjacency, np.ones((30, 2)), np.arange(30)))
    found, mapped = host_store(graph, directions)
    _, placed = place(found, torch.device("cpu"), 0, mapped=mapped)
    listed, offsets = 4 * graph.num_edges, 8 * 31  # numbers of nodes take 4 bytes as they lie, offsets 8 in memory
    union = "both" in directions and directed
    expected = [("edges", 0 if union else listed, "disk")]
    expected.append(("what is made of them", offsets + union * 4 * 2 * graph.num_edges, "memory"))
    assert [(one.name, one.size, one.where) for one in placed] == [*expected, ("features", 4 * 60, "disk")]


def test_what_another_process_has_no_room_for_is_on_no_card(monkeypatch: pytest.MonkeyPatch, moves: list[str]) -> None:
    two = Ranks(0, 2)
    asked: list[int] = []
    monkeypatch.setattr(placement, "all_reduce_max", lambda ranks, number: asked.append(number) or int(ranks is two))
    assert places(monkeypatch, 1e6, 0, ranks=two) == {"edges": "disk", "features": "disk"}
    assert asked == [0, 0] and moves == []
