"""Where a run comes from, as its page says it."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import pytest

import fossil
from fossil.report.provenance import same_command
from fossil.runs.run import Run
from fossil.settings import parse_assignments


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


@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")  # after one epoch on a ring
def test_the_command_trains_on_the_same_columns_with_every_digit(tmp_path: Path) -> None:
    lines = "".join(f"n{i},{i * i},{i % 3},\n" for i in range(12))
    (tmp_path / "nodes.csv").write_text(f"id,age,height,empty\n{lines}")
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12)))
    settings = {"learning_rate": 1 / 3000, "channels": ["low", "identity"], "hidden": 8, "width": 4, "subgraph_size": 3}
    fossil.embed(
        tmp_path,
        method="fossil_channels",
        settings=settings,
        roles={"height": "drop"},
        structural_features=True,
        epochs=1,
        device="cpu",
        precision="bfloat16",
        out=tmp_path / "run",
    )
    words = shlex.split(same_command(Run.open(tmp_path / "run")))
    said = {(flag, value) for flag, value in pairwise(words) if flag.startswith("--")}
    assert said >= {("--column", "height=drop"), ("--precision", "bfloat16"), ("--epochs", "1")}
    assert "--structural-features" in words and "empty=drop" not in words
    chosen = parse_assignments(value for flag, value in said if flag == "--set")
    assert {name: chosen[name] for name in settings} == settings
