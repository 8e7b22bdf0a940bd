"""From tables in parts to a graph on disk, and from there to vectors and scores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import QUICK, environment, here, in_process

import fossil
from fossil.graph.disk import DiskGraph

NODES = 120


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with one table of nodes and three parts of edges."""
    random = np.random.default_rng(0)
    team = np.arange(NODES) % 3
    ids = [f"person {number}" for number in range(NODES)]
    features = {f"x{place}": random.normal(size=NODES) + (team == place) for place in range(4)}
    nodes = pd.DataFrame({"id": ids, **features, "team": [f"t{number}" for number in team]})
    ends = random.integers(0, NODES, (600, 2))
    edges = pd.DataFrame(np.asarray(ids)[ends], columns=["source", "target"])
    folder = tmp_path / "people"
    (folder / "edges").mkdir(parents=True)
    nodes.to_parquet(folder / "nodes.parquet", index=False)
    for number, rows in enumerate(np.array_split(np.arange(600), 3)):
        edges.iloc[rows].to_csv(folder / "edges" / f"part-{number}.csv", index=False)
    return folder


def test_a_converted_graph_is_described_embedded_and_scored(tables: Path, tmp_path: Path) -> None:
    disk, run = tmp_path / "disk", tmp_path / "run"
    converted = here("data", "convert", tables, "--out", disk, "--label", "team", "--direction", "symmetrize")
    assert converted.status == 0, converted.err
    assert "people: 120 nodes" in converted.out and "reverse added" in converted.out
    described = here("data", "describe", disk)
    assert described.status == 0 and "undirected" in described.out
    trained = here("embed", disk, "--out", run, "--method", "fossil_v2", "--epochs", "3", *QUICK)
    assert trained.status == 0, trained.err
    assert not (run / "graph.npz").exists()
    assert json.loads((run / "graph.json").read_text())["folder"] == str(disk.resolve())
    scored = here("evaluate", run)
    assert scored.status == 0, scored.err
    assert isinstance(fossil.load(run).graph, DiskGraph)


def test_the_vectors_are_those_of_the_tables(tables: Path, tmp_path: Path) -> None:
    whole = pd.concat(map(pd.read_csv, sorted((tables / "edges").iterdir())))
    choices = {"label": "team", "treatment": {"direction": "symmetrize"}}
    small = fossil.open_graph((pd.read_parquet(tables / "nodes.parquet"), whole), **choices)
    disk = fossil.convert(tables, tmp_path / "disk", **choices)
    settings = {
        "method": "fossil",
        "epochs": 3,
        "device": "cpu",
        "settings": {"hidden": 16, "width": 8, "encoder": "gcn"},
    }
    expected, found = fossil.embed(small.graph, **settings), fossil.embed(disk, **settings)
    assert list(found) == list(expected)
    np.testing.assert_allclose(found.vectors, expected.vectors, rtol=1e-3, atol=1e-5)


def test_half_precision_features_are_trained_on(tables: Path, tmp_path: Path) -> None:
    disk = fossil.convert(tables, tmp_path / "disk", label="team", feature_type="float16")
    for method in ("prop", "dgi"):
        assert np.isfinite(fossil.embed(disk, method=method, device="cpu").vectors[:, 0]).all()


def test_a_graph_that_is_gone_or_another_one_is_told(tables: Path, tmp_path: Path) -> None:
    disk, run = tmp_path / "disk", tmp_path / "run"
    fossil.convert(tables, disk, label="team")
    fossil.embed(disk, method="prop", out=run, device="cpu")
    disk.rename(tmp_path / "elsewhere")
    gone = here("evaluate", run)
    assert gone.status == 2 and "is not in" in gone.line("error")
    fossil.convert(tables, disk, label="team", treatment={"direction": "reverse"})
    other = here("evaluate", run)
    assert other.status == 2 and "another graph than this run was trained on" in other.line("error")


KILLED = """
import os, signal, sys
from fossil.runs.conversion import convert
def progress(stage, share):
    if stage == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
convert(sys.argv[1], sys.argv[2], label="team", progress=progress)
"""


@pytest.mark.parametrize("stage", ["edges", "features"])
def test_a_killed_conversion_goes_on_with_the_same_command(tables: Path, tmp_path: Path, stage: str) -> None:
    whole = fossil.convert(tables, tmp_path / "whole", label="team")
    killed = subprocess.run([sys.executable, "-c", KILLED, tables, tmp_path / "disk", stage], env=environment())
    assert killed.returncode == -signal.SIGKILL
    assert any(name.endswith(".part") for _, _, names in os.walk(tmp_path / "disk") for name in names)
    refused = here("data", "describe", tmp_path / "disk")
    assert refused.status == 2
    again = here("data", "convert", tables, "--out", tmp_path / "disk", "--label", "team")
    assert again.status == 0, again.err
    assert "converting: ids" not in again.err and f"converting: {stage}" in again.err
    assert DiskGraph(tmp_path / "disk").digests == whole.digests
    assert {path.name for path in (tmp_path / "disk").iterdir()} == {path.name for path in whole.folder.iterdir()}


def test_a_disk_that_fills_up_ends_with_one_message(tables: Path, tmp_path: Path) -> None:
    full = in_process("data", "convert", tables, "--out", tmp_path / "disk", "--label", "team", largest_file=1500)
    assert full.status == 2, full.err
    assert full.line("error").startswith("Could not write") and "large" in full.line("error")
    assert not (tmp_path / "disk/manifest.json").exists()
    again = here("data", "convert", tables, "--out", tmp_path / "disk", "--label", "team")
    assert again.status == 0, again.err


def test_bad_input_ends_with_status_2(tables: Path, tmp_path: Path) -> None:
    with (tables / "edges/part-1.csv").open("a") as stream:
        stream.write("person 3,person 999\n")
    refused = here("data", "convert", tables, "--out", tmp_path / "disk")
    assert refused.status == 2
    assert "'person 999' (row 201 of " in refused.line("error") and "part-1.csv" in refused.line("error")
    assert not (tmp_path / "disk").exists()
