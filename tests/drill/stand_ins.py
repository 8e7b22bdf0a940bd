"""Runs with something else in them, and things that are no files in the place of files."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import run_samples
import samples
from bombs import BOMB, npy, zip_bomb
from harmful import Harmful, bomb_of_aliases, members, nothing, read_csv, read_npz

from fossil.readers.read import read_graph
from fossil.readers.source import open_graph
from fossil.runs.run import Run

_FIELDS = "/".join(["b" * 200] * 30)


def _run_with(name: str, content: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        _copy_run(folder)
        (folder / "run" / name).write_bytes(content)

    return make


_RUN: dict[str, bytes] = {}


def keep_run(files: dict[str, bytes]) -> None:
    """Take note of a finished run, to be spoilt."""
    _RUN.update(files)


def _copy_run(folder: Path) -> None:
    for name, content in _RUN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _instead(name: str, kind: str) -> Callable[[Path], object]:
    """Put something that is no file in the place of one, in a run or among tables."""

    def make(folder: Path) -> None:
        if name.startswith("run/"):
            _copy_run(folder)
        elif name == "graph.npz":
            samples.foreign_npz(folder)
        else:
            samples.town(folder)
        path = folder / name
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path.name)
        elif kind == "nowhere":
            path.symlink_to("no/such/file")
        else:
            path.symlink_to(kind)

    return make


def _use_run(folder: Path) -> object:
    return run_samples.open_whole(folder)


def _resume(folder: Path) -> object:
    return run_samples.train(folder, run_samples.HALF + 1, resume=True)


STAND_INS = (
    Harmful("config.yaml: aliases that multiply", _run_with("config.yaml", bomb_of_aliases().encode()), _use_run),
    Harmful("config.yaml: 100,000 brackets", _run_with("config.yaml", b"[" * 100_000), _use_run),
    Harmful(
        "config.yaml: a call", _run_with("config.yaml", b"!!python/object/apply:os.system ['touch trespass']"), _use_run
    ),
    Harmful("encoding.json: 100,000 brackets", _run_with("encoding.json", b"[" * 100_000), _use_run),
    Harmful("summary.json: 100,000 brackets", _run_with("summary.json", b"[" * 100_000), _use_run),
    Harmful("history.jsonl: 100,000 brackets", _run_with("history.jsonl", b"[" * 100_000 + b"\n"), _resume),
    Harmful("weights: a header of 2⁶² bytes", _run_with("weights.safetensors", struct.pack("<Q", 2**62)), _use_run),
    Harmful(
        "embeddings.npz: 3 GiB",
        lambda folder: (
            _copy_run(folder),
            (folder / "run" / "embeddings.npz").write_bytes(
                zip_bomb(members(ids=np.arange(3)), "vectors.npy", npy(f"(3, {BOMB // 3})"))
            ),
        ),
        _use_run,
    ),
    *(
        Harmful(f"{name}: a pipe in its place", _instead(name, "pipe"), use)
        for name, use in (("nodes.csv", read_csv), ("edges.csv", read_csv), ("graph.npz", read_npz))
    ),
    *(
        Harmful(f"{name}: endless zeros", _instead(name, "/dev/zero"), use)
        for name, use in (("nodes.csv", read_csv), ("graph.npz", read_npz))
    ),
    *(
        Harmful(f"{name}: a link to itself", _instead(name, "loop"), use)
        for name, use in (("nodes.csv", read_csv), ("edges.csv", read_csv), ("graph.npz", read_npz))
    ),
    *(
        Harmful(f"{file}: {kind} in its place, {words}", _instead(f"run/{file}", kind), use)
        for words, use in (("opened", _use_run), ("resumed", _resume))
        for file in (
            "config.yaml",
            "graph.npz",
            "encoding.json",
            "summary.json",
            "embeddings.npz",
            "weights.safetensors",
            "checkpoint.safetensors",
            "history.jsonl",
        )
        for kind in ("pipe", "folder", "loop", "nowhere")
    ),
    Harmful("a path of 6,000 letters", nothing, lambda folder: open_graph(f"./{_FIELDS}")),
    Harmful("a name of 300 letters", nothing, lambda folder: read_graph(folder / ("a" * 300))),
    Harmful("a name with a zero byte", nothing, lambda folder: read_graph(f"{folder}/a\0b.csv")),
    Harmful("a run of a name of 300 letters", nothing, lambda folder: Run.open(folder / ("a" * 300)).config),
)
