from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from bad_inputs import CASES, Case


def digests(folder: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_explained_and_costs_nothing(case: Case, tmp_path: Path) -> None:
    arguments = case.prepare(tmp_path)
    before = digests(tmp_path)
    outcome = case.run(tmp_path, arguments)
    assert outcome.status == 2, outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.line("error") and outcome.line("remedy")
    told = outcome.line("error").splitlines()
    assert len(told) == (case.troubles + 1 if case.troubles > 1 else 1)
    assert all(re.match(rf" +{number}\. ", line) for number, line in enumerate(told[1:], start=1))
    if case.largest_file is not None:
        assert re.search(r"Could not write \S+\.(safetensors|npz): ", outcome.err)
    after = digests(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert not list(tmp_path.rglob("*.part"))


def test_names_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_guide_has_every_case() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "what-can-go-wrong.md"
    table = guide.read_text(encoding="utf-8").partition("| What is wrong |")[2]
    names = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    assert names == [case.name for case in CASES], "run: python tests/journeys/bad_inputs.py"
