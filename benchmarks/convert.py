"""Converting a pair of Parquet files beside reading them whole, and training on them: seconds and peak memory of each.

    python benchmarks/convert.py                                  # a million nodes, ten million edges, 16 features
    python benchmarks/convert.py --limit 8GB --memory 2GB         # the system refuses more than 8 GB to each
    python benchmarks/convert.py --limit 8GB --only convert --only train --steps 100

The files are made once in a folder of their own: normal features, one column of categories, one of classes; sources
uniform, targets skewed as squares of uniform numbers are. Each contender runs in a process of its own. `cpu` is the
time that processors worked for it, which others on the machine hardly change. `rss` is what it held at most, pages of
files included, which the system takes back when it needs them; `own` is what it held at most without those, which it
cannot take back. A limit is one on the latter (RLIMIT_DATA): what goes beyond ends the process. `train` takes so many
steps of a method on samples of the graph that was converted last, and embeds all nodes, as `fossil embed` does.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fossil.guard.budget import in_bytes, parse_bytes
from measuring import RESULTS, Record, hardware, version_of

_ROWS_AT_ONCE = 1 << 20
CONTENDERS = {
    "read whole": "from fossil.readers.read import read_graph; read_graph({tables!r}, label='team')",
    "convert": "from fossil.runs.conversion import convert; "
    "convert({tables!r}, {out!r}, label='team', memory={memory!r})",
    "train": "import runpy, sys; sys.argv = ['fossil', 'embed', {out!r}, '--sampled', "
    "'--method', {method!r}, '--epochs', '{steps}', '--out', {run!r}, '--force']; "
    "runpy.run_module('fossil', run_name='__main__')",
}


def make_tables(folder: Path, nodes: int, edges: int, features: int, seed: int) -> None:
    """Write `nodes.parquet` and `edges.parquet`, a block at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(seed)
    folder.mkdir(parents=True)

    def write(name: str, rows: int, block: object) -> None:
        writer = None
        for first in range(0, rows, _ROWS_AT_ONCE):
            table = pa.table(block(first, min(_ROWS_AT_ONCE, rows - first)))  # type: ignore[operator]
            writer = writer or parquet.ParquetWriter(folder / name, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()

    def node_block(first: int, rows: int) -> dict[str, object]:
        columns: dict[str, object] = {"id": np.arange(first, first + rows)}
        columns |= {f"x{place}": random.normal(size=rows).astype(np.float32) for place in range(features)}
        columns["kind"] = random.choice(np.array(["red", "green", "blue"]), rows)
        return columns | {"team": random.choice(np.array(["a", "b", "c", "d"]), rows)}

    def edge_block(first: int, rows: int) -> dict[str, object]:
        target = (nodes * random.random(rows) ** 2).astype(np.int64)
        return {"source": random.integers(0, nodes, rows), "target": target}

    write("nodes.parquet", nodes, node_block)
    write("edges.parquet", edges, edge_block)


def measure(code: str, limit: int | None) -> Record:
    """Run some Python in a process of its own; return its seconds and what it held at most."""

    def bound() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    quiet = subprocess.DEVNULL
    began, before, own, rss = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN), 0, 0
    child = subprocess.Popen(
        [sys.executable, "-c", code], preexec_fn=bound, stdout=quiet, stderr=subprocess.PIPE, text=True
    )
    while child.poll() is None:
        held = _held(child.pid)
        own, rss = max(own, held.get("RssAnon", 0)), max(rss, held.get("VmHWM", 0))
        time.sleep(0.02)
    assert child.stderr is not None
    said = child.stderr.read().strip().splitlines()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "rss": rss,
        "own": own,
        "failed": said[-1][:200] if child.returncode else "",
    }


def _held(process: int) -> dict[str, int]:
    """Return what the system says about the memory of a process, in bytes."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", "").split() for line in lines if line.endswith("kB")]
    return {name: 1024 * int(size) for name, size, _ in words}


def main() -> None:
    """Measure each contender, and print one beside the other."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--nodes", type=int, default=1_000_000)
    made.add_argument("--edges", type=int, default=10_000_000)
    made.add_argument("--features", type=int, default=16)
    made.add_argument("--memory", default="1GB", help="what fossil data convert is told to use")
    made.add_argument("--limit", help="what the system lets each contender have, such as 8GB")
    made.add_argument("--method", default="fossil_v2", help="what is trained")
    made.add_argument("--steps", type=int, default=100, help="of the training")
    made.add_argument("--only", choices=CONTENDERS, action="append")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--folder", type=Path, help="where the files are made, and kept; a temporary one otherwise")
    made.add_argument("--results", type=Path, default=RESULTS / "convert.jsonl")
    arguments = made.parse_args()
    limit = None if arguments.limit is None else parse_bytes(arguments.limit)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        tables = folder / f"{arguments.nodes}-{arguments.edges}-{arguments.features}-{arguments.seed}"
        if not tables.exists():
            make_tables(tables, arguments.nodes, arguments.edges, arguments.features, arguments.seed)
        print(f"{'':12}{'seconds':>9}{'cpu':>9}{'rss':>10}{'own':>10}   limit {arguments.limit or 'none'}")
        for name in arguments.only or CONTENDERS:
            out, run = folder / "converted", folder / "run"
            if name == "convert":
                shutil.rmtree(out, ignore_errors=True)
            places = {"tables": str(tables), "out": str(out), "run": str(run)}
            code = CONTENDERS[name].format(**places, **vars(arguments))
            found = measure(code, limit)
            sizes = {key: getattr(arguments, key) for key in ("nodes", "edges", "features", "memory", "limit", "seed")}
            if name == "train":
                sizes |= {"method": arguments.method, "steps": arguments.steps}
            record = {
                "contender": name,
                **sizes,
                **found,
                "hardware": hardware("cpu"),
                "pyarrow": version_of("pyarrow"),
            }
            with arguments.results.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
            print(
                f"{name:12}{found['seconds']:9.1f}{found['cpu']:9.1f}{in_bytes(found['rss']):>10}{in_bytes(found['own']):>10}"
                f"   {found['failed']}"
            )


if __name__ == "__main__":
    main()
