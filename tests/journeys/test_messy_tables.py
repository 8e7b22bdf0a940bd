"""Two tables with everything wrong that tables have, from the first error to scored vectors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from club import MEMBERS, letters, members, name, travel
from command import Outcome

from fossil import Run


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Outcome]]:
    folder = tmp_path_factory.mktemp("club")
    return folder, travel(folder)


def test_the_first_answer_names_everything_that_is_wrong(journey: tuple[Path, list[Outcome]]) -> None:
    first = journey[1][0]
    assert first.status == 2 and "Traceback" not in first.err
    lines = first.line("error").splitlines()
    twice = next(row[1] for row in members() if [other[1] for other in members()].count(row[1]) > 1)
    gaps = [line for line, row in enumerate(members(), start=2) if row[3] in ("", "NA")]
    known = {row[1] for row in members()}
    unknown = sorted({end for _, a, b, _ in letters() for end in (a, b)} - known)
    expected = (
        (f"'{twice}'", "--column NAME=id"),
        ("'long ago'", "--column joined=drop"),
        (f"{len(gaps)} cells of column 'born'", "--missing median"),
        (f"name {len(unknown)} nodes not in the node table", "--unknown-edges drop"),
        ("'letters'", "--edge-weights ignore"),
    )
    assert len(lines) == 1 + len(expected)
    for line, (what, remedy) in zip(lines[1:], expected, strict=True):
        assert what in line and remedy in line
    assert f"lines {gaps[0]}, {gaps[1]}, {gaps[2]} and {len(gaps) - 3} more" in lines[3]


def test_the_options_that_it_named_are_enough(journey: tuple[Path, list[Outcome]]) -> None:
    _, (_, plain, chosen, *_) = journey
    assert plain.status == chosen.status == 0, plain.err + chosen.err
    assert "--column NAME=categorical (for example grade)" in plain.out and "--direction symmetrize" in plain.out
    assert "for codes say" not in chosen.out and "reverse added" in chosen.out and "undirected" in chosen.out
    assert re.search(r"joined +│ calendar +│ days since 20\d\d-\d\d-\d\d", chosen.out)


def test_vectors_are_learnt_and_scored(journey: tuple[Path, list[Outcome]]) -> None:
    folder, (*_, embedded, scored, _, _) = journey
    assert embedded.status == scored.status == 0, embedded.err + scored.err
    with np.load(folder / "run" / "embeddings.npz") as stored:
        assert stored["ids"].tolist() == [name(number) for number in range(MEMBERS)]
        assert np.isfinite(stored["vectors"]).all()
    scores = json.loads((folder / "run" / "scores-paper.json").read_text())["scores"]
    assert np.mean([score["accuracy"] for score in scores]) > 0.5  # three equal sections: a guess has a third


def test_the_advice_that_training_ends_with_is_worth_following(journey: tuple[Path, list[Outcome]]) -> None:
    folder, (*_, advised, compared) = journey
    [finding] = Run.open(folder / "run").summary["findings"]
    assert "hardly uses the edges" in finding and "--set encoder=gcn" in finding
    assert advised.status == compared.status == 0 and Run.open(folder / "advised").summary["findings"] == []
    before, after = (
        np.mean([score["accuracy"] for score in json.loads((folder / run / "scores-paper.json").read_text())["scores"]])
        for run in ("run", "advised")
    )
    assert after > before  # members write within their section
    assert "paired: +" in compared.out


def test_the_run_says_what_was_done_to_the_tables(journey: tuple[Path, list[Outcome]]) -> None:
    run = Run.open(journey[0] / "run")
    lost = sum(len({a, b} - {row[1] for row in members()}) > 0 for _, a, b, _ in letters())
    done = {finding.kind: (finding.count, finding.done) for finding in run.graph.findings}
    assert done["edges that name unknown nodes"] == (lost, "dropped")
    assert done["edge weights"] == (1, "ignored") and done["unnamed index column"] == (1, "left out")
    assert done["empty cells in column 'born'"][0] == 5
    kept = yaml.safe_load((run.path / "config.yaml").read_text())["treatment"]
    assert (kept["missing"], kept["missing_indicator"]) == ("median", True)
    assert (kept["unknown_edges"], kept["edge_weights"], kept["direction"]) == ("drop", "ignore", "symmetrize")
    assert "born_is_missing" in run.graph.feature_names and "grade=1" in run.graph.feature_names
