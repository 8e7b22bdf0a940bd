"""`fossil report` from the command line: pages of odd runs, and one message for what cannot be shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command import here

import fossil
from fossil.datasets.synthetic import csbm
from fossil.errors import EvaluationError
from fossil.graph.graph import Graph
from fossil.report import run_part
from fossil.report.page import write_report
from fossil.runs.run import Run

BAD = 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "town"
    fossil.embed(csbm(80, degree=6, features=4, signal=10.0, seed=0), method="prop", out=folder)
    return folder


def meta(path: Path) -> dict[str, Any]:
    found = re.search(r'id="meta">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    told: dict[str, Any] = json.loads(found[1])
    return told


def test_a_page_is_written_and_only_replaced_when_asked(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = here("report", run, "--out", out, "--splits", "2")
    assert done.status == 0 and str(out) in done.out
    told = meta(out)
    assert [each["name"] for each in told["runs"]] == ["town"] and told["runs"][0]["nodes"] == 80
    methods = [row["method"] for row in told["scores"]["rows"]]
    assert "majority class" in methods and told["runs"][0]["probe"]["classes"] == ["0", "1"]
    written = out.read_bytes()
    refused = here("report", run, "--out", out)
    assert refused.status == BAD and "already exists" in refused.line("error") and "--force" in refused.line("remedy")
    assert out.read_bytes() == written
    assert here("report", run, "--out", out, "--splits", "2", "--force").status == 0


def test_what_is_no_finished_run_is_refused_by_one_message(run: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    half = tmp_path / "half"
    half.mkdir()
    for name in ("config.yaml", "graph.npz"):
        (half / name).write_bytes((run / name).read_bytes())
    out = tmp_path / "x.html"
    for arguments, said in [
        ((empty,), "not a run folder"),
        ((tmp_path / "nowhere",), "not a run folder"),
        ((half,), "not finished"),
        ((run, half), "not finished"),
        ((run, run), "given twice"),
    ]:
        done = here("report", *arguments, "--out", out)
        assert (done.status, said in done.line("error")) == (BAD, True), done.err
        assert not out.exists()
    done = here("report", run, "--out", tmp_path / "report.pdf")
    assert done.status == BAD and ".html" in done.line("remedy")


@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")  # so few vectors lie on a line
def test_a_run_without_labels_and_one_of_two_nodes_have_pages(nodes: int, tmp_path: Path) -> None:
    ring = sp.csr_array(np.roll(np.eye(nodes, dtype=np.float32), 1, axis=1))
    graph = Graph("few", ring, np.arange(2 * nodes).reshape(nodes, 2), np.arange(nodes))
    fossil.embed(graph, method="features", out=tmp_path / "run")
    out = tmp_path / "report.html"
    done = here("report", tmp_path / "run", "--out", out)
    assert done.status == 0, done.err
    told = meta(out)
    assert told["scores"] is None and "no classes" in told["unscored"]
    assert told["runs"][0]["nodes"] == nodes and told["runs"][0]["probe"] is None


def test_a_large_run_is_sampled_and_says_so(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_part, "LARGEST_PAGE", 50)
    write_report(tmp_path / "r.html", [Run.open(run)], splits=2, device="cpu")
    [told] = meta(tmp_path / "r.html")["runs"]
    assert (told["nodes"], told["totalNodes"]) == (50, 80)
    assert "sample of 50 of 80 nodes" in told["notes"][0]
    assert sum(told["columns"][0]["counts"]) == 50


def test_runs_side_by_side_have_paired_differences(run: Path, tmp_path: Path) -> None:
    graph = csbm(80, degree=6, features=4, signal=10.0, seed=0)
    fossil.embed(graph, method="features", out=tmp_path / "features")
    out = tmp_path / "two.html"
    assert here("report", run, tmp_path / "features", "--out", out, "--splits", "3").status == 0
    told = meta(out)
    rows = {row.method: row for row in fossil.evaluate([run, tmp_path / "features"], splits=3)}
    [difference] = told["scores"]["differences"]
    paired = rows[difference["first"]].minus(rows[difference["second"]])
    assert paired is not None and difference["difference"]["mean"] == pytest.approx(paired.mean)
    assert told["runs"][0]["nodesKey"] == told["runs"][1]["nodesKey"]


def test_an_unknown_protocol_is_refused_and_not_taken_for_a_graph_without_scores(run: Path, tmp_path: Path) -> None:
    done = here("report", run, "--protocol", "papre", "--out", tmp_path / "x.html")
    assert done.status == BAD and done.line("error") == "Unknown protocol 'papre'."
    assert done.line("remedy") == "Did you mean 'paper'?" and not (tmp_path / "x.html").exists()


def test_runs_without_labels_are_given_once_too(tmp_path: Path) -> None:
    ring = sp.csr_array(np.roll(np.eye(9, dtype=np.float32), 1, axis=1))
    fossil.embed(Graph("few", ring, np.eye(9), np.arange(9)), method="features", out=tmp_path / "run")
    with pytest.raises(EvaluationError, match="given twice"):
        write_report(tmp_path / "x.html", [Run.open(tmp_path / "run")] * 2, device="cpu")


def test_what_is_wrong_with_a_graph_is_said_whatever_its_name(tmp_path: Path) -> None:
    ring = sp.csr_array(np.roll(np.eye(9, dtype=np.float32), 1, axis=1))
    graph = Graph("told twice", ring, np.eye(9), np.arange(9), np.zeros(9, np.int64))
    fossil.embed(graph, method="features", out=tmp_path / "run")
    write_report(tmp_path / "x.html", [Run.open(tmp_path / "run")], named="public", device="cpu")
    assert "told twice" in meta(tmp_path / "x.html")["unscored"]


@pytest.mark.parametrize(("ids", "same"), [("counted", False), ("own", True)])
def test_nodes_that_are_only_counted_are_those_of_one_graph_alone(tmp_path: Path, ids: str, same: bool) -> None:
    """Cornell and Texas have 183 nodes each, both numbered from zero."""
    ring = sp.csr_array(np.roll(np.eye(20, dtype=np.float32), 1, axis=1))
    keys = np.arange(20) if ids == "counted" else np.array([f"n{i}" for i in range(20)])
    for name in ("cornell-like", "texas-like"):
        fossil.embed(Graph(name, ring, np.eye(20), keys), method="features", out=tmp_path / name)
    write_report(tmp_path / "x.html", [Run.open(tmp_path / n) for n in ("cornell-like", "texas-like")], device="cpu")
    first, second = meta(tmp_path / "x.html")["runs"]
    assert (first["nodesKey"] == second["nodesKey"]) == same


@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")  # which says that they have
def test_a_run_whose_vectors_have_collapsed_has_a_page(tmp_path: Path) -> None:
    ring = sp.csr_array(np.roll(np.eye(30, dtype=np.float32), 1, axis=1))
    graph = Graph("collapsed", ring, np.ones((30, 3)), np.arange(30), np.arange(30) % 2)
    fossil.embed(graph, method="features", out=tmp_path / "run")
    done = here("report", tmp_path / "run", "--out", tmp_path / "x.html", "--splits", "2")
    assert done.status == 0, done.err
    assert meta(tmp_path / "x.html")["runs"][0]["layout"] == "the one direction that all vectors have"
