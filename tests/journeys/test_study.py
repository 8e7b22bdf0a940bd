"""Somebody runs a whole comparison from one file, is interrupted, gets help from a second command, and looks at it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import PROGRAM, environment, here, in_process

from fossil.studies.store import Store

HEAD = """
name: small
title: A small study
graphs:
  - { input: "csbm:nodes=60,features=8,degree=6", title: A }
  - { input: "csbm:nodes=70,features=8,degree=6,homophily=0.2", title: B }
seeds: 2
splits: 2
protocols: [paper]
tables:
  - { name: accuracy, reference: DGI }
figures:
  - { name: growth, kind: growth, value: seconds }
"""
METHODS = """
methods:
  - features
  - prop
  - { method: dgi, title: DGI, epochs: 2, settings: { width: 8 } }
"""
CELLS = 12


def study(folder: Path, methods: str = METHODS, head: str = HEAD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "small.yaml"
    file.write_text(head + methods)
    return file


def records(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in (folder / "small.results" / "cells").glob("*.json")}


def numbers(folder: Path) -> dict[str, Any]:
    """What two runs of a study have to agree on to the last bit."""
    return {
        key: (one["digest"], {name: scores["accuracies"] for name, scores in one["scores"].items()})
        for key, one in records(folder).items()
    }


def test_what_cannot_be_scored_is_told_by_the_run_too(tmp_path: Path) -> None:
    (tmp_path / "town").mkdir()
    (tmp_path / "town" / "nodes.csv").write_text("id,age\n" + "".join(f"{i},{i}\n" for i in range(20)))
    (tmp_path / "town" / "edges.csv").write_text("source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(19)))
    head = HEAD.replace("seeds: 2", "  - town\nseeds: 1")
    done = here("study", "run", study(tmp_path, head=head), "--device", "cpu")
    assert done.status == 0, done.err
    assert "town has no score under paper: town has no labels to score against" in done.out
    assert "small: 6 of 6 trainings done, 0 missing" in done.out


def test_from_plan_to_export(tmp_path: Path) -> None:
    file = study(tmp_path)
    planned = here("study", "plan", file)
    assert planned.status == 0 and f"small: 0 of {CELLS} trainings done, {CELLS} missing" in planned.out
    assert "How long they take is unknown" in planned.out and not (tmp_path / "small.results").exists()

    done = here("study", "run", file, "--device", "cpu")
    assert done.status == 0, done.err
    finished = re.findall(rf"^\[ ?(\d+)/{CELLS}\] (.+?): \d+\.\d\d \(paper\) in ", done.err, re.MULTILINE)
    assert [int(number) for number, _ in finished] == list(range(1, CELLS + 1))
    assert len({name for _, name in finished}) == CELLS and "A, DGI, seed 1" in {name for _, name in finished}
    assert re.search(r"about [\d.]+ (s|minutes|hours) left", done.err)

    again = here("study", "run", file, "--device", "cpu")
    assert again.status == 0 and "] A" not in again.err  # nothing left to do
    status = here("study", "status", file)
    assert f"small: {CELLS} of {CELLS} trainings done, 0 missing" in status.out

    table = here("study", "table", file, "--format", "markdown")
    assert (
        "| Method | A | B |" in table.out
        and "| Majority | " in table.out
        and "How far each row is from DGI" in table.out
    )
    assert re.search(r"^\| DGI \| \S*\d\d\.\d", table.out, re.MULTILINE)
    out = tmp_path / "out"
    exported = here("study", "export", file, "--out", out, "--records")
    assert exported.status == 0 and len(exported.out.split()) == 9
    assert len((out / "small.jsonl").read_text().splitlines()) == CELLS
    drawn = here("study", "figure", file, "--out", out)
    assert drawn.status == 0 and {path.suffix for path in map(Path, drawn.out.split())} == {".png", ".svg"}
    ranked = HEAD.replace("kind: growth, value: seconds", "kind: ranks").replace("ence: DGI", "ence: DGI, ranks: true")
    drawn, table = (here("study", what, study(tmp_path, head=ranked)) for what in ("figure", "table"))
    for said in (drawn.out, table.out):
        assert "3 methods over 2 graphs" in said and "too few graphs to tell" in " ".join(said.split())
    planned = here("study", "plan", study(tmp_path, METHODS, HEAD.replace("seeds: 2", "seeds: 3")))
    assert re.search(r"About .* one after another for 6 of them, as measured on .*; at most [\d.]+ GB", planned.out)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A whole run, and runs that are killed at some change on the disk and then continued."""
    folder = tmp_path_factory.mktemp("killed")
    steps: list[dict[str, Any]] = []

    def step(name: str, kill: float | None) -> None:
        file = study(folder / name)
        arguments = ["study", "run", str(file), "--device", "cpu"]
        steps.append({"out": str(folder / name / "small.results"), "arguments": arguments, "kill": kill})

    step("whole", None)
    for number, kill in enumerate((0.03, 0.3, 0.5, 0.72, 0.97)):
        step(f"killed-{number}", kill)
        step(f"killed-{number}", None)
    (folder / "steps.json").write_text(json.dumps(steps))
    script = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "steps.json")],
        env=environment(), capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return folder, json.loads(done.stdout)


def test_a_killed_study_goes_on_without_doing_anything_twice(played: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, results = played
    whole = results[0]
    assert whole["status"] == 0 and len(numbers(folder / "whole")) == CELLS
    kept = []
    for number in range(5):
        killed, continued = results[1 + 2 * number], results[2 + 2 * number]
        assert killed["status"] == -signal.SIGKILL and continued["status"] == 0
        before = {name: digest for name, digest in killed["files"].items() if name.startswith("cells/")}
        whole_ones = {name: digest for name, digest in before.items() if name.endswith(".json")}
        assert {name: continued["files"][name] for name in whole_ones} == whole_ones  # not made again
        kept.append(len(whole_ones))
        assert numbers(folder / f"killed-{number}") == numbers(folder / "whole")  # none missing, and the same bits
        assert not Store(folder / f"killed-{number}" / "small.results").running()  # a file may be left, but no claim
    assert kept[0] == 0 and kept == sorted(kept) and 0 < kept[2] < CELLS


def test_two_commands_on_one_store_share_the_work(tmp_path: Path, played: tuple[Path, list[dict[str, Any]]]) -> None:
    file = study(tmp_path)
    command = [*PROGRAM, "study", "run", str(file), "--device", "cpu"]
    both = [
        subprocess.Popen(
            [*command, *further], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for further in ((), ("--jobs", "2"))
    ]
    told = [one.communicate(timeout=200) for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    finished = [re.findall(r"^\[ ?\d+/\d+\] (.+?): ", err, re.MULTILINE) for _, err in told]
    names = [name for of_one in finished for name in of_one]
    assert sorted(names) == sorted(set(names)) and len(names) == CELLS  # each cell once, by one of the two
    assert all("small: 12 of 12 trainings done, 0 missing" in out for out, _ in told)
    assert numbers(tmp_path) == numbers(played[0] / "whole")  # what one process makes, to the last bit


def outside_package(folder: Path) -> dict[str, str]:
    """Install methods whose process dies, that fail, and whose steps are slow; return the environment for them."""
    (folder / "site" / "trouble-1.0.dist-info").mkdir(parents=True)
    (folder / "site" / "trouble-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: trouble\nVersion: 1.0\n"
    )
    (folder / "site" / "trouble-1.0.dist-info" / "entry_points.txt").write_text(
        "[fossil.methods]\ndeadly = trouble:Deadly\nfaulty = trouble:Faulty\nslow = trouble:Slow\n"
    )
    (folder / "site" / "trouble.py").write_text(
        "import os, signal, time\n"
        "from pathlib import Path\n"
        "from fossil.methods.dgi import DGI\n"
        "from fossil.methods.untrained import Features\n"
        "class Deadly(Features):\n"
        "    name, title = 'deadly', 'Deadly'\n"
        "    def prepare(self, graph, device):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "class Faulty(Features):\n"
        "    name, title = 'faulty', 'Faulty'\n"
        "    def prepare(self, graph, device):\n"
        "        raise ZeroDivisionError('by seven')\n"
        "class Slow(DGI):\n"
        "    name, title = 'slow', 'Slow'\n"
        "    def step(self, prepared, random):\n"
        "        Path(__file__).with_name(f'{os.getpid()}.step').touch()\n"
        "        time.sleep(600)\n"
        "        yield from super().step(prepared, random)\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])}


def test_a_method_that_fails_or_kills_its_process_is_in_the_table_and_stops_nobody(tmp_path: Path) -> None:
    env = outside_package(tmp_path)
    head = HEAD.replace("seeds: 2", "seeds: 1").replace(", reference: DGI", "")
    head = "\n".join(line for line in head.splitlines() if "title: B" not in line) + "\n"
    file = study(tmp_path, "methods: [faulty, deadly, features]\n", head)
    done = in_process("study", "run", file, "--device", "cpu", "--jobs", "2", env=env)
    assert done.status == 0, done.err
    assert "small: 1 of 3 trainings done, 2 failed, 0 missing" in done.out
    failed = {one["method"]: one for one in records(tmp_path).values() if one["failed"]}
    assert failed["faulty"]["failed"] == "ZeroDivisionError: by seven"
    assert "in prepare" in failed["faulty"]["traceback"]
    assert failed["deadly"]["failed"].startswith("Its process was ended 2 times (signal 9)")


@pytest.mark.parametrize("method", ["dgi", "slow"])  # steps that are waited for, and a first one that is given up
def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(tmp_path: Path, method: str) -> None:
    methods = METHODS.replace("epochs: 2,", "epochs: 2000000,").replace("method: dgi", f"method: {method}")
    file = study(tmp_path, methods)
    process = subprocess.Popen(
        [*PROGRAM, "study", "run", str(file), "--device", "cpu", "--jobs", "2"],
        env=environment() | outside_package(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    running: list[int] = []
    for _ in range(1200):  # until both are at trainings that would take hours
        time.sleep(0.1)
        claims = (tmp_path / "small.results" / "claims").glob("*.lock")
        about = [json.loads(path.read_text() or "{}") for path in claims]
        running = [one["pid"] for one in about if "DGI" in one.get("what", "")]
        in_step = len(list((tmp_path / "site").glob("*.step"))) if method == "slow" else 2
        if len(running) == in_step == 2 or process.poll() is not None:
            break
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Everything that was finished is kept" in err and "Traceback" not in err
    assert len(running) == 2 and not any(_is_alive(pid) for pid in running)
    assert 4 <= len(records(tmp_path)) < CELLS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
