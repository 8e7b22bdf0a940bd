"""The GPU version of the sampler, interpreted on the CPU, against the version with tensor operations."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
import torch

sys.path.insert(0, sys.argv[1])
import test_subgraphs as cases

results = []
for name, size, reach in cases.CASES:
    sampler = cases.sampler(name, size, reach)
    anchors = torch.arange(cases.GRAPHS[name][0])
    seeds = torch.randint(1 << 62, (len(anchors), 3), generator=torch.Generator().manual_seed(3))
    nodes, filled = sampler._sample_fused(anchors, seeds)
    expected, fillable = sampler._sample_plainly(anchors, seeds)
    blocks = sampler._is_edge(expected[:, :, None], expected[:, None, :]).float()
    results.append({
        "filled": torch.equal(filled, fillable),
        "nodes": torch.equal(nodes[filled].sort(1).values, expected[fillable].sort(1).values),
        "anchors": torch.equal(nodes[:, -1], anchors),
        "valid": bool(((nodes >= 0) & (nodes < len(anchors))).all()),
        "adjacency": torch.equal(sampler.adjacency(expected), blocks),
        "served": sampler._is_fused(),
    })
print(json.dumps(results))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_interpreted_kernels_draw_the_same_subgraphs_from_the_same_seeds() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) == 26
    assert all(all(result.values()) for result in results), results
