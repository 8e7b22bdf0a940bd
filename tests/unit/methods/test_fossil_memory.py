"""What FOSSIL expects to take beside what a process really took."""

import json
import subprocess
import sys

import pytest

# One process, in which every graph is larger than the last, so that each peak is its own.
MEASURE = """
import json
from pathlib import Path
import torch
from fossil.datasets.synthetic import csbm
from fossil.methods.registry import get_method
from fossil.training.trainer import Trainer

def bytes_of(name):  # not getrusage, whose peak begins with that of the process that started this one
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status[name].split()[0])

def resident():
    return bytes_of("VmRSS")

def peak():
    return bytes_of("VmHWM")

torch.set_num_threads(1)
kind, found, before = get_method("%(method)s"), [], None
for nodes in (6000, 15000, 30000):
    graph = csbm(nodes, degree=10.0, features=16, seed=0)
    config = kind.complete(kind.configure(None, {"num_anchors": 20, "subgraph_size": 4, **%(settings)s}), graph, 0)
    method = kind.build(config, graph.num_features, 0)
    prepared = method.prepare(graph, torch.device("cpu"))
    before = before or resident()  # before the first step loads and compiles
    trainer = Trainer(method, prepared, 0, torch.device("cpu"))
    trainer.fit()
    trainer.step()
    del trainer
    method.encode(prepared)
    found.append([method.memory(prepared), peak() - before])
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process from /proc")
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fossil_v2", {"hidden": 1024, "width": 32}),
        ("fossil_v2", {"hidden": 64, "width": 256}),
        ("fossil_channels_v2", {"hidden": 512, "width": 8}),
        ("fossil_channels_v2", {"hidden": 32, "width": 128}),
    ],
)
def test_the_memory_expected_is_the_memory_taken(method: str, settings: dict[str, int]) -> None:
    code = MEASURE % {"method": method, "settings": settings}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (small, first), (_, second), (large, last) = json.loads(done.stdout)
    assert first < second < last, "a peak hides the next"
    assert 0.7 < large / last < 1.4
    # What grows with the graph, without what every process takes.
    assert 0.7 < (large - small) / (last - first) < 1.4
