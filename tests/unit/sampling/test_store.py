"""The arrays of a graph on disk, held to those of the same graph in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.errors import GraphError
from fossil.graph import csr
from fossil.graph.disk import DiskGraph
from fossil.graph.folder import write_disk_graph
from fossil.graph.graph import Graph
from fossil.sampling import store
from fossil.sampling.store import GraphStore

NODES = 70


def graph(*, directed: bool, loops: bool) -> Graph:
    """A hub that everybody points to and that points to nobody, nodes without edges, and the rest at random."""
    edges = np.random.default_rng(3).random((NODES, NODES)) < 0.06
    edges[:, 0], edges[0] = True, False
    edges = edges if directed else edges | edges.T
    edges[-3:] = edges[:, -3:] = False
    np.fill_diagonal(edges, False)
    if loops:
        edges[[4, 9, 69], [4, 9, 69]] = True
    features = np.random.default_rng(4).normal(size=(NODES, 3)).astype(np.float32)
    return Graph("g", sp.csr_array(edges.astype(np.float32)), features, np.arange(NODES))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("loops", [True, False])
def test_edges_on_disk_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directed: bool, loops: bool
) -> None:
    monkeypatch.setattr(csr, "EDGES_AT_ONCE", 16)
    whole = graph(directed=directed, loops=loops)
    disk = write_disk_graph(tmp_path / "g", whole)
    monkeypatch.setattr(DiskGraph, "adjacency", property(lambda _: pytest.fail("all edges were loaded")))
    expected, found = GraphStore.of(whole), GraphStore.of(disk)
    assert found.adjacency.keys() == expected.adjacency.keys() == {"out", "in", "both"}
    for direction, edges in expected.adjacency.items():
        assert torch.equal(found.adjacency[direction].crow, edges.crow)
        assert torch.equal(found.adjacency[direction].col, edges.col)
        assert found.adjacency[direction].crow.dtype == torch.int64
        assert found.adjacency[direction].col.dtype == torch.int32
    shared = found.adjacency["both"].col.data_ptr() == found.adjacency["out"].col.data_ptr()
    assert shared is (not directed and not loops)


def test_a_union_of_directions_that_fits_in_no_memory_is_told_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = write_disk_graph(tmp_path / "g", graph(directed=True, loops=False))
    need = 4 * disk.num_edges + 16 * (NODES + 1)
    monkeypatch.setattr(store, "free_memory", lambda device: need - 1)
    monkeypatch.setattr(store, "union", lambda *_, **__: pytest.fail("it was begun"))
    with pytest.raises(GraphError, match=r"both directions together .* or more are needed in memory; .* are free"):
        GraphStore.of(disk)
    assert GraphStore.of(disk, ("out", "in")).num_nodes == NODES
    monkeypatch.undo()
    assert GraphStore.of(disk).adjacency["both"].num_nodes == NODES
