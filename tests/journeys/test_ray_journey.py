"""A study on a Ray cluster of two machines, which here are two nodes of one; one of its processes is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command import PROGRAM, environment, in_process

from fossil.readers.npz import write_npz
from fossil.readers.source import open_graph

pytest.importorskip("ray", reason="needs Ray: pip install 'fossil-gnn[ray]'")
RAY = str(Path(sys.executable).with_name("ray"))
STUDY = """
name: small
graphs: ["csbm:nodes=60,features=8,degree=6", own.npz]
seeds: 2
splits: 2
protocols: [paper]
keep: vectors
methods:
  - { method: patient, epochs: 3, settings: { width: 8 } }
"""
CELLS = 4
# A training that says which process it is in, and goes on when it is told to.
PATIENT = """
import os, time
from pathlib import Path
from fossil.methods.dgi import DGI

class Patient(DGI):
    name, title = "patient", "Patient"

    def prepare(self, graph, device):
        folder = Path(os.environ["PATIENT"])
        (folder / f"{os.getpid()}.pid").write_text("")
        for _ in range(1200):
            if (folder / "go").exists():
                break
            time.sleep(0.1)
        return super().prepare(graph, device)
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Install the patient method, write a study, and return the environment that finds both."""
    about = tmp_path / "site" / "patient-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: patient\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fossil.methods]\npatient = patient:Patient\n")
    (tmp_path / "site" / "patient.py").write_text(PATIENT)
    for name in ("ray", "alone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "small.yaml").write_text(STUDY)
        write_npz(tmp_path / name / "own.npz", open_graph("csbm:nodes=50,features=8").graph)
    return environment(
        {
            "PATIENT": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]),
        }
    )


@pytest.fixture
def cluster(surroundings: dict[str, str]) -> Iterator[str]:
    """Start two nodes of one CPU each, and return their address; nothing leaves this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    folder = tempfile.mkdtemp(prefix="ray-")  # a socket's path has to be short, and pytest's are not
    common = ["--num-cpus=1", "--num-gpus=0", "--node-ip-address=127.0.0.1", "--disable-usage-stats", "--block"]
    head = ["--head", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false", f"--temp-dir={folder}"]
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        for arguments in (head, [f"--address={address}"]):
            nodes.append(
                subprocess.Popen(
                    [RAY, "start", *arguments, *common, "--object-store-memory=100000000"], env=surroundings,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                )
            )  # fmt: skip
            _wait_for(lambda: _answers(address), "the head of the cluster")
        yield address
    finally:
        for node in reversed(nodes):
            os.killpg(node.pid, signal.SIGKILL)
            node.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_killed_worker_costs_nothing_but_time(tmp_path: Path, surroundings: dict[str, str], cluster: str) -> None:
    command = [*PROGRAM, "study", "run", str(tmp_path / "ray" / "small.yaml"), "--executor", "ray"]
    process = subprocess.Popen(
        [*command, "--address", cluster, "--jobs", "2"],
        env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        # Both nodes are at a training. From here on graphs come through Ray alone.
        _wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2 or process.poll() is not None, "two trainings")
        victim = int(sorted(tmp_path.glob("*.pid"))[0].stem)
        (tmp_path / "ray" / "own.npz").unlink()
        os.kill(victim, signal.SIGKILL)
        _wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 3 or process.poll() is not None, "a third process")
        (tmp_path / "go").write_text("")
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "small: 4 of 4 trainings done, 0 missing" in out
    finished = re.findall(r"^\[ ?\d+/\d+\] (.+?): ", err, re.MULTILINE)
    assert sorted(finished) == sorted(set(finished)) and len(finished) == CELLS  # each cell once

    done = in_process("study", "run", tmp_path / "alone" / "small.yaml", "--device", "cpu", env=surroundings)
    assert done.status == 0, done.err
    (tmp_path / "ray" / "own.npz").write_bytes((tmp_path / "alone" / "own.npz").read_bytes())
    assert _numbers(tmp_path / "ray") == _numbers(tmp_path / "alone")  # of one process, to the last bit
    kept = sorted(path.name for path in (tmp_path / "ray" / "small.results" / "kept").iterdir())
    assert kept == sorted(f"{key}.npz" for key in _numbers(tmp_path / "ray"))  # vectors came back too


def _numbers(folder: Path) -> dict[str, Any]:
    records = [json.loads(path.read_text()) for path in (folder / "small.results" / "cells").glob("*.json")]
    return {
        one["key"]: (one["digest"], one["failed"], [scores["accuracies"] for scores in one["scores"].values()])
        for one in records
    }


def _answers(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _wait_for(happened: Callable[[], bool], what: str) -> None:
    for _ in range(1800):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError(f"waited three minutes for {what}")
