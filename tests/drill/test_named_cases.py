"""Each named case ends as it should, and one that does not would be seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from named_cases import Named, Said, faults, run, tried

SCRIPT = Path(__file__).with_name("named_cases.py")


def test_every_named_case_ends_as_it_should() -> None:
    done = subprocess.run([sys.executable, SCRIPT], env=os.environ, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:]) + done.stderr[-2000:]
    assert " 0 with a fault" in done.stdout


def case(text: str = "error: It is damaged.\nremedy: Mend it.", status: int = 2, **more: Any) -> Named:
    return Named("Files", "a small one", lambda folder: None, lambda folder: Said(status, text), "damaged", **more)


ENDED = {"status": 2, "text": "error: It is damaged.\nremedy: Mend it.", "changed": [], "left": []}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, []),
        ({"status": 0}, ["status 0 in place of 2"]),
        ({"text": "error: No.\nremedy: Mend it."}, ["no words like 'damaged'"]),
        ({"text": "error: It is damaged.\nerror: It is damaged.\nremedy: Mend it."}, ["not one message"]),
        ({"text": "damaged"}, ["not one message"]),
        ({"text": f"{ENDED['text']}\nTraceback (most recent call last):\n"}, ["a traceback"]),
        ({"changed": ["nodes.csv"]}, ["nodes.csv was changed"]),
        ({"left": ["run/summary.json"]}, ["run/summary.json was left"]),
    ],
)
def test_whatever_is_wrong_with_an_end_is_told(change: dict[str, Any], fault: list[str]) -> None:
    assert faults(case(), ENDED | change) == fault


def test_files_that_change_or_are_left_are_noticed(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "nodes.csv").write_text("id\n")
        (folder / "edges.csv").write_text("source,target\n")
        (folder / "kept.csv").write_text("id\n")

    def act(folder: Path) -> Said:
        (folder / "nodes.csv").write_text("other\n")
        (folder / "edges.csv").unlink()
        (folder / "run").mkdir()
        for name in ("summary.json", "weights.1.part", "history.jsonl"):
            (folder / "run" / name).touch()
        return Said(2, "error: It is damaged.")

    found = tried(Named("Files", "all of it", make, act, "damaged"), tmp_path / "case")
    assert sorted(found["changed"]) == ["edges.csv", "nodes.csv"]
    assert sorted(found["left"]) == ["run/summary.json", "run/weights.1.part"]


def test_a_case_that_raises_is_a_fault(tmp_path: Path) -> None:
    def act(folder: Path) -> Said:
        raise LookupError("no such thing")

    [(_, _, wrong), (_, _, right)] = run([Named("Files", "bad", lambda folder: None, act, ""), case()], tmp_path)
    assert len(wrong) == 1 and "LookupError" in wrong[0]
    assert not right
