"""The arrays of a graph on disk, held to those of the same graph in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.graph import csr
from fossil.graph.disk import DiskGraph
from fossil.graph.folder import write_disk_graph
from fossil.graph.graph import Graph
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
def test_patterns_on_disk_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directed: bool, loops: bool
) -> None:
    monkeypatch.setattr(csr, "EDGES_AT_ONCE", 16)
    whole = graph(directed=directed, loops=loops)
    disk = write_disk_graph(tmp_path / "g", whole)
    monkeypatch.setattr(DiskGraph, "adjacency", property(lambda _: pytest.fail("all edges were loaded")))
    expected, found = GraphStore.of(whole), GraphStore.of(disk)
    assert found.patterns.keys() == expected.patterns.keys() == {"out", "in", "both"}
    for direction, pattern in expected.patterns.items():
        assert torch.equal(found.patterns[direction].crow, pattern.crow)
        assert torch.equal(found.patterns[direction].col, pattern.col)
        assert found.patterns[direction].crow.dtype == torch.int64
        assert found.patterns[direction].col.dtype == torch.int32
    shared = found.patterns["both"].col.data_ptr() == found.patterns["out"].col.data_ptr()
    assert shared is (not directed and not loops)
