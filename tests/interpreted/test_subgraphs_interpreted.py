"""The sampler's kernels, against the version with tensor operations: the same draws from the same seeds."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fossil.ops import subgraphs
from fossil.sampling.frontiers import Reach

# Those of the sampler's own tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sampling"))
small_graphs = importlib.import_module("small_graphs")


@pytest.mark.parametrize(("name", "size", "reach"), small_graphs.CASES)
def test_the_kernels_draw_the_same_subgraphs_from_the_same_seeds(
    name: str, size: int, reach: Reach, counted: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted("subgraphs", "draw", "adjacency")
    plan = small_graphs.sampler(name, size, reach).plan
    anchors = torch.arange(small_graphs.GRAPHS[name][0])
    seeds = torch.randint(1 << 62, (len(anchors), 3), generator=torch.Generator().manual_seed(3))
    nodes, filled = subgraphs.draw_subgraphs(plan, anchors, seeds)
    blocks = subgraphs.adjacency_blocks(plan, nodes)
    assert calls == ["draw", "adjacency"]
    monkeypatch.setattr(subgraphs, "triton_runs_on", lambda device: False)
    expected, fillable = subgraphs.draw_subgraphs(plan, anchors, seeds)
    assert torch.equal(filled, fillable)
    assert torch.equal(nodes[filled].sort(1).values, expected[fillable].sort(1).values)
    assert torch.equal(nodes[:, -1], anchors)
    assert ((nodes >= 0) & (nodes < len(anchors))).all()
    assert torch.equal(blocks, subgraphs.adjacency_blocks(plan, nodes))
    assert calls == ["draw", "adjacency"]
