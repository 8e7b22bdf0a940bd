"""Where a run comes from, as its page says it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import fossil
from fossil.report.provenance import same_command
from fossil.runs.run import Run


@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")  # a single column of numbers has one direction
def test_the_command_has_what_was_done_about_oddities(tmp_path: Path) -> None:
    town = tmp_path / "old town"
    town.mkdir()
    (town / "nodes.csv").write_text(
        "id,age,team\n" + "\n".join(f"n{i},{i},{'ab'[i % 2]}" for i in range(9)) + "\nn9,,a\n"
    )
    (town / "edges.csv").write_text("source,target\n" + "\n".join(f"n{i},n{(i + 1) % 10}" for i in range(10)) + "\n")
    treatment = {"direction": "symmetrize", "missing": "median", "missing_indicator": True}
    fossil.embed(town, method="features", label="team", treatment=treatment, seed=3, out=tmp_path / "run")
    words = shlex.split(same_command(Run.open(tmp_path / "run")))
    assert words == [
        *("fossil", "embed", str(town), "--method", "features", "--direction", "symmetrize", "--missing", "median"),
        *("--missing-indicator", "--label", "team", "--seed", "3", "--out", "RUN"),
    ]
