"""The files of a run folder: who may write there, and how.

config.yaml             what was asked for, every setting resolved
environment.json        versions and device
graph.npz               the graph as it was trained on, labels and published splits included for evaluation
graph.json              in its place, where a converted graph is and what tells it from others
encoding.json           how columns became features, where the input had columns
history.jsonl           one record an epoch
logs.json               by what logs in other programs are found again, where there are any
checkpoint.safetensors  everything needed to go on
weights.safetensors     the trained method
embeddings.npz          ids, vectors, fusion, channel_NAME (and .parquet where pyarrow is installed)
neighbours.usearch      index of neighbours among many vectors, made when first asked for; neighbours.json: of which
summary.json            written last: a folder that has it is finished, and its files are those whose SHA-256 it has
layout.npz              where each node stands on a map, once somebody looked; of the vectors whose SHA-256 it has
parts/                  vectors of nodes one chunk after the other, until all are in embeddings.npz
run.lock                while a process writes there
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fossil.errors import RunError
from fossil.graph.blocks import blocks
from fossil.graph.disk import MANIFEST, DiskGraph
from fossil.graph.graph import Graph
from fossil.guard.budget import in_bytes
from fossil.neighbours.approximate import ABOUT, INDEX
from fossil.readers.npz import write_npz
from fossil.runs.checkpoints import CHECKPOINT
from fossil.runs.config import CONFIG, RunConfig
from fossil.runs.embeddings import ROWS_AT_ONCE, Embeddings
from fossil.runs.lock import LOCK, locked
from fossil.runs.parts import ABOUT as ABOUT_PARTS
from fossil.runs.parts import PARTS, remove_parts
from fossil.storage import read_json, reading, sha256, write_arrays, write_atomically, write_json, write_yaml, writing

SEAL = "sha256"
"""What in a summary tells of a change in it."""

CHANNEL = "channel_"
"""What the names of arrays begin with that say how far each node trusts a channel."""

REFERENCE = "graph.json"
"""What stands for `graph.npz` where the graph is a folder of its own, too large to be kept twice."""

FILES = (
    CONFIG,
    "environment.json",
    "graph.npz",
    REFERENCE,
    "encoding.json",
    "history.jsonl",
    "logs.json",
    CHECKPOINT,
    "weights.safetensors",
    "embeddings.npz",
    "embeddings.parquet",
    "summary.json",
    "layout.npz",
    "map.png",
    INDEX,
    ABOUT,
)


VECTORS = ("embeddings.npz", "embeddings.parquet")
ABOUT_VECTORS = "about.json"
"""What is written of vectors that a trained run made, and last, where they come from."""

TIED = (CONFIG, "graph.npz", REFERENCE, "encoding.json", "weights.safetensors", "embeddings.npz")
"""What is read of a finished run, and belongs together."""


def holds_run(path: Path) -> bool:
    """Tell whether there is a run in `path`.

    Raises:
        RunError: something else stands there.
    """
    _refuse_file(path)
    content = _content(path)
    with reading(path):
        if content and not (path / CONFIG).is_file():
            raise RunError(
                f"{path} exists and holds files that are not a run (for example {content[0].name}).",
                remedy="Choose another --out; nothing was touched.",
            )
    return bool(content)


def claim_folder(path: Path, *, resume: bool, force: bool) -> bool:
    """Make sure a run may be written to `path`; return whether there is one in it to go on with.

    Raises:
        RunError: something stands there already and nobody said what to do about it.
    """
    if not holds_run(path):
        return False
    if resume:
        return True
    if not force:
        raise RunError(
            f"{path} already holds a run.",
            remedy="Go on with --resume, replace it with --force, or choose another --out.",
        )
    # The configuration goes last, so that a half-emptied folder is still known as a run.
    withdraw_results(path)
    remove_parts(path / PARTS)
    for name in reversed(FILES):
        with writing(path / name):
            (path / name).unlink(missing_ok=True)
    return False


def claim_vectors_folder(path: Path, *, force: bool) -> None:
    """Make sure vectors made with a trained run may be written to `path`.

    What stands there but for its description is of a process that was killed: parts are gone on with, and vectors
    without parts replaced where that is asked for.

    Raises:
        RunError: it is not free, or holds such vectors and nobody said that they may be replaced.
    """
    _refuse_file(path)
    content = {entry.name for entry in _content(path)}
    with reading(path):
        begun = {PARTS} if (path / PARTS / ABOUT_PARTS).is_file() else set()
    if ABOUT_VECTORS not in content and content - begun - set(VECTORS):
        raise RunError(f"{path} exists and holds other files.", remedy="Choose another --out; nothing was touched.")
    if not force and (ABOUT_VECTORS in content or (content and not begun)):
        raise RunError(f"{path} already holds vectors.", remedy="Choose another --out, or replace them with --force.")


@contextmanager
def vectors_folder(path: Path | None, *, force: bool) -> Iterator[None]:
    """Hold the folder that vectors made with a trained run are written to; nothing where there is none.

    Raises:
        RunError: it may not be written to, or another process is writing there.
    """
    if path is None:
        yield
        return
    try:
        with locked(path):
            claim_vectors_folder(path, force=force)
            yield
    except BaseException:
        with suppress(OSError):  # it stays where something is in it
            path.rmdir()
        raise


def withdraw_summary(path: Path) -> None:
    """Mark the run in `path` as unfinished, before any of its files change."""
    with writing(path / "summary.json"):
        (path / "summary.json").unlink(missing_ok=True)


def withdraw_results(path: Path) -> None:
    """Mark the run in `path` as unfinished, before its weights change: its summary, scores and map no longer hold."""
    withdraw_summary(path)
    with writing(path):
        for old in (*path.glob("scores-*.json"), path / "map.png"):
            old.unlink(missing_ok=True)


def digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a run that belongs to the others."""
    return {name: sha256(path / name) for name in TIED if (path / name).exists()}


def sealed(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary with the SHA-256 of what it says, by which a change in it is told."""
    content = {name: value for name, value in summary.items() if name != SEAL}
    written = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return content | {SEAL: hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()}


def write_inputs(path: Path, config: RunConfig, environment: dict[str, Any], graph: Graph, plan: Any) -> None:
    """Write what is known before training."""
    _sweep(path)
    write_yaml(path / "config.yaml", config.to_dict())
    write_json(path / "environment.json", environment)
    with writing(path / "encoding.json"):
        if plan is None:
            (path / "encoding.json").unlink(missing_ok=True)
        else:
            write_json(path / "encoding.json", plan.to_json())
    write_graph(path, graph)


def write_graph(path: Path, graph: Graph) -> None:
    """Write the graph of a run, or where it is on disk already, which one it is."""
    on_disk = isinstance(graph, DiskGraph)
    other = path / ("graph.npz" if on_disk else REFERENCE)
    with writing(other):
        other.unlink(missing_ok=True)
    if isinstance(graph, DiskGraph):
        manifest = sha256(graph.folder / MANIFEST)
        write_json(path / REFERENCE, {"folder": str(graph.folder.resolve()), "manifest": manifest})
    else:
        write_npz(path / "graph.npz", graph)


def read_reference(path: Path) -> DiskGraph:
    """Open the converted graph that a file of a run names.

    Raises:
        RunError: it is not there, or another one is.
    """
    about = read_json(path)
    if not isinstance(about, dict) or not all(isinstance(about.get(key), str) for key in ("folder", "manifest")):
        raise RunError(f"{path} names no converted graph.", remedy="Put the right file back.")
    folder = Path(about["folder"])
    with reading(folder):
        if not (folder / MANIFEST).is_file():
            raise RunError(
                f"The graph of this run is not in {folder} any more.",
                remedy="Put the converted graph back there, or a link to it.",
            )
    if sha256(folder / MANIFEST) != about["manifest"]:
        raise RunError(
            f"{folder} holds another graph than this run was trained on.",
            remedy="Convert the same tables again with the same choices.",
        )
    return DiskGraph(folder)


def check_disk(path: Path, nodes: int, columns: int, *, in_parts: bool, force: bool) -> None:
    """Refuse vectors for which the disk has no room, before they are made.

    They are written as NPZ, and once more as Parquet where pyarrow is installed; parts stay until both are there.

    Args:
        path: the run folder, whether it exists or not.
        nodes: N.
        columns: of a vector.
        in_parts: whether they are embedded in parts.
        force: whether what stands in the folder is removed before.

    Raises:
        RunError: with what is needed and what is free.
    """
    forms = ["parts"] * in_parts + ["NPZ"] + ["Parquet"] * (find_spec("pyarrow") is not None)
    need = 4 * nodes * columns * len(forms)
    with reading(path):
        standing = next(each for each in (path, *path.absolute().parents) if each.exists())
        free = shutil.disk_usage(standing).free
        # What is replaced, or gone on with, has its room already.
        ours = [*(path / PARTS).glob("part-*.npz"), *((path / name for name in FILES) if force else ())]
        free += sum(each.stat().st_size for each in ours if each.is_file())
    if need > free:
        raise RunError(
            f"{nodes:,} vectors of {columns:,} numbers take {in_bytes(need)} in {path} ({' and '.join(forms)}, one "
            f"beside the other), and {in_bytes(free)} are free.",
            remedy="Make room there, choose another --out, or a smaller width.",
        )


def write_embeddings(path: Path, found: Embeddings) -> None:
    """Write embeddings keyed by node id as NPZ, and as Parquet where pyarrow is installed."""
    beside = {} if found.fusion is None else {"fusion": found.fusion}
    beside |= {f"{CHANNEL}{name}": shares for name, shares in (found.channels or {}).items()}
    write_arrays(path / "embeddings.npz", {"ids": found.ids, "vectors": found.vectors} | beside, compress=False)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        with writing(path / "embeddings.parquet"):  # what stands there is of other vectors
            (path / "embeddings.parquet").unlink(missing_ok=True)
        return

    def table(rows: slice) -> Any:
        vectors = {f"v{i}": np.ascontiguousarray(column) for i, column in enumerate(found.vectors[rows].T)}
        return pa.table({"id": found.ids[rows]} | vectors | {name: each[rows] for name, each in beside.items()})

    def write(stream: BinaryIO) -> None:
        with pq.ParquetWriter(stream, table(slice(0, 0)).schema) as writer:
            for rows in blocks(len(found), ROWS_AT_ONCE):  # columns are copies of rows: never of all at once
                writer.write_table(table(rows))

    write_atomically(path / "embeddings.parquet", write)


def _refuse_file(path: Path) -> None:
    with reading(path):
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file.", remedy="Choose another --out.")


def _content(path: Path) -> list[Path]:
    """Return what stands in a folder, but for what a killed process leaves behind: half-written files, and a lock."""
    with reading(path):
        if not path.is_dir():
            return []
        return [entry for entry in path.iterdir() if not (entry.name.endswith(".part") or entry.name == LOCK)]


def _sweep(path: Path) -> None:
    """Remove the half-written neighbours of our own files, which a killed run leaves behind."""
    with writing(path):
        for name in FILES:
            for part in path.glob(f".{name}.*.part"):
                part.unlink(missing_ok=True)
