"""What `fossil explore` takes at a given size: memory of the server, and the time of its answers.

    python benchmarks/explore.py --nodes 1000000 --folder runs/explored

The run is made on the first call and kept in the folder: a graph of communities, of which each node has most of its
edges inside its own, and vectors that are scattered around a centre for each community (method `features`, nothing is
trained). The server is the command itself, in a process of its own, started twice: the first start builds the index of
neighbours and the layout, the second finds both in the run folder. Requests come over HTTP, one after the other, about
nodes drawn at random. Memory is what Linux says of the server's process: what it has of its own (`RssAnon`), and all
that is mapped at the moment, files included, of which the system takes back what it needs (`VmRSS`). The answers of the
index stand beside those of comparing with every vector: the time of both, and how many of the ten true neighbours the
index finds.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Array, Graph
from fossil.neighbours.exact import ExactNeighbours
from fossil.readers.read import LoadedGraph
from fossil.runs.fit import fit
from fossil.runs.neighbours import Searches
from fossil.runs.plan import plan_run
from fossil.runs.run import Run
from measuring import Ledger, Record, parser, ready, table

_DEGREE = 14
_INSIDE = 0.8  # share of the edges that stay in a community
_COMPARED = 200  # nodes whose neighbours are looked for in both ways


def main() -> None:
    """Measure each size, and print a Markdown table."""
    made = parser(__doc__, results="explore.jsonl")
    made.add_argument("--nodes", type=int, nargs="+", default=[20_000, 1_000_000])
    made.add_argument("--width", type=int, default=32)
    made.add_argument("--requests", type=int, default=500, help="of each kind")
    made.add_argument("--folder", type=Path, required=True, help="where runs are kept between two calls")
    arguments = made.parse_args()
    ready(arguments, made)
    ledger = Ledger(arguments, ["nodes", "width", "requests"])
    rows = []
    for nodes in arguments.nodes:
        wanted = {"nodes": nodes, "width": arguments.width, "requests": arguments.requests}
        path = arguments.folder / f"communities-{nodes}-{arguments.width}"
        if not path.exists():
            graph = communities(nodes, arguments.width, arguments.seed)
            fit(plan_run(LoadedGraph(graph), method="features", out=path))
        record = ledger.obtain(wanted, lambda path=path: measure(path, arguments.requests, arguments.seed))
        if record is not None:
            rows.append(_row(record))
    print(f"{ledger}\n")
    print(table(_HEADER, rows))


def communities(nodes: int, width: int, seed: int) -> Graph:
    """Return a graph whose nodes are scattered around the centre of their community: about 100 nodes each."""
    random = np.random.default_rng(seed)
    groups = max(2, nodes // 100)
    group = random.integers(groups, size=nodes)
    centres = random.normal(size=(groups, width)).astype(np.float32)
    features = centres[group] + 0.5 * random.normal(size=(nodes, width)).astype(np.float32)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(groups + 1))
    source = random.integers(nodes, size=nodes * _DEGREE // 2)
    own = group[source]
    near = order[starts[own] + (random.random(len(source)) * (starts[own + 1] - starts[own])).astype(np.int64)]
    target = np.where(random.random(len(source)) < _INSIDE, near, random.integers(nodes, size=len(source)))
    apart = source != target
    ends = np.concatenate([source[apart], target[apart]]), np.concatenate([target[apart], source[apart]])
    adjacency = sp.csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return Graph("communities", adjacency, features, np.arange(nodes), group % 10)


def measure(path: Path, requests: int, seed: int) -> Record:
    """Return what the server of one run takes."""
    had_index = (path / "neighbours.usearch").exists()
    with serving(path) as first:
        first_start = {"seconds": first.seconds, "peak_mb": first.memory()["VmHWM"]}
    with serving(path) as server:
        idle = server.memory()
        random = np.random.default_rng(seed)
        nodes = server.ask("api/meta")["runs"][0]["nodes"]
        asked = {
            "node": [f"api/node?run=0&row={a}" for a, _ in random.integers(nodes, size=(requests, 2))],
            "plan": [f"api/transport?run=0&a={a}&b={b}" for a, b in random.integers(nodes, size=(requests, 2))],
            "find": [f"api/find?run=0&text={a}&limit=12" for a in random.integers(nodes, size=requests)],
            "table": [f"api/table?run=0&start={a}&count=50&by=degree" for a in random.integers(nodes, size=requests)],
        }
        times = {kind: _times(server, paths) for kind, paths in asked.items()}
        busy = server.memory()
    return {
        "first_start": first_start | {"index_was_there": had_index},
        "start_seconds": server.seconds,
        "idle_mb": idle,
        "busy_mb": busy,
        "milliseconds": times,
        "search": _searches(Run.open(path), seed),
        "index_mb": _megabytes(path / "neighbours.usearch"),
        "vectors_mb": _megabytes(path / "embeddings.npz"),
    }


class Served:
    """A server that runs: its address, its process, and how long it took to start."""

    def __init__(self, process: subprocess.Popen[str], address: str, seconds: float) -> None:
        self._process, self._address, self.seconds = process, address, seconds

    def ask(self, path: str) -> Any:
        """Return an answer in JSON."""
        with urlopen(self._address + path) as reply:
            return json.load(reply)

    def memory(self) -> dict[str, float]:
        """Return what Linux says of the process, in megabytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        named = re.findall(r"^(VmHWM|VmRSS|RssAnon):\s+(\d+) kB", status, re.MULTILINE)
        return {name: int(kilobytes) * 1024 / 1e6 for name, kilobytes in named}


@contextmanager
def serving(path: Path) -> Iterator[Served]:
    """Start the command, and end it by SIGTERM: a shell in the background lets SIGINT pass unheard."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "fossil", "explore", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            yield Served(process, address, time.perf_counter() - began)
        finally:
            process.terminate()


def _times(server: Served, paths: list[str]) -> dict[str, float]:
    """Return percentiles of the time of requests, the first of which, not counted, warms up."""
    server.ask(paths[0])
    found = []
    for path in paths:
        began = time.perf_counter()
        server.ask(path)
        found.append(1e3 * (time.perf_counter() - began))
    return dict(zip(("median", "p99", "most"), np.percentile(found, [50, 99, 100]).tolist(), strict=True))


def _searches(run: Run, seed: int) -> Record:
    """Return the time of a search for ten neighbours in both ways, without HTTP, and what the index misses."""
    vectors = run.mapped_vectors
    exact, index = ExactNeighbours(vectors), Searches(vectors, run.path).choose(exact=False)
    rows = np.random.default_rng(seed + 1).integers(len(vectors), size=_COMPARED)
    index.nearest(rows, 10)
    times: dict[str, list[float]] = {"exact": [], "index": []}
    answers: dict[str, list[Array]] = {"exact": [], "index": []}
    for row in rows:
        for name, search in (("exact", exact), ("index", index)):
            began = time.perf_counter()
            answers[name].append(search.nearest(np.array([row]), 10).rows[0])
            times[name].append(1e3 * (time.perf_counter() - began))
    shared = [len(np.intersect1d(a, b)) / 10 for a, b in zip(answers["exact"], answers["index"], strict=True)]
    percentiles = {
        name: dict(zip(("median", "p99"), np.percentile(each, [50, 99]).tolist(), strict=True))
        for name, each in times.items()
    }
    return percentiles | {"recall_at_10": float(np.mean(shared))}


def _megabytes(path: Path) -> float | None:
    return path.stat().st_size / 1e6 if path.exists() else None


_HEADER = (
    "nodes", "start (s)", "own memory (MB)", "mapped in all (MB)", "peak at the first start (MB)",
    "neighbours: index, 99 % (ms)", "every vector, 99 % (ms)", "recall@10", "node, 99 % (ms)", "plan, median (ms)",
    "plan, 99 % (ms)", "find, 99 % (ms)", "table, 99 % (ms)",
)  # fmt: skip


def _row(record: Record) -> list[object]:
    times, search = record["milliseconds"], record["search"]
    return [
        record["nodes"],
        record["start_seconds"],
        record["busy_mb"]["RssAnon"],
        record["busy_mb"]["VmRSS"],
        record["first_start"]["peak_mb"],
        search["index"]["p99"],
        search["exact"]["p99"],
        search["recall_at_10"],
        times["node"]["p99"],
        times["plan"]["median"],
        times["plan"]["p99"],
        times["find"]["p99"],
        times["table"]["p99"],
    ]


if __name__ == "__main__":
    main()
