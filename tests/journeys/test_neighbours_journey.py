"""`fossil neighbours` against scikit-learn's search, in every form."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import here
from sklearn.neighbors import NearestNeighbors

NAMES = ["=cmd()", "\x1b[2Jcleared", "a,b\n", "-1", *(f"n{i}" for i in range(56))]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on nodes of which some have ids that a terminal would obey."""
    folder = tmp_path_factory.mktemp("near")
    random = np.random.default_rng(0)
    nodes = pd.DataFrame(random.normal(size=(60, 5))).set_axis([f"f{i}" for i in range(5)], axis=1)
    nodes.insert(0, "id", NAMES)
    (folder / "graph").mkdir()
    nodes.to_csv(folder / "graph" / "nodes.csv", index=False)
    ends = random.choice(NAMES, size=(200, 2))
    pd.DataFrame(ends, columns=["source", "target"]).to_csv(folder / "graph" / "edges.csv", index=False)
    done = here("embed", "graph", "--method", "features", "--direction", "symmetrize", "--out", "run", cwd=folder)
    assert done.status == 0, done.err
    return folder


@pytest.mark.parametrize("search", [(), ("--exact",), ("--no-exact",)], ids=["default", "exact", "index"])
def test_neighbours_are_those_of_scikit_learn(place: Path, search: tuple[str, ...]) -> None:
    asked = ("n3", NAMES[1])
    done = here("neighbours", "run", *asked, "-k", "4", "--format", "json", *search, cwd=place)
    assert done.status == 0, done.err
    stored = np.load(place / "run" / "embeddings.npz")
    ids, vectors = stored["ids"].tolist(), stored["vectors"]
    queries = vectors[[ids.index(key) for key in asked]]
    far, rows = NearestNeighbors(n_neighbors=5, metric="cosine").fit(vectors).kneighbors(queries)
    records = json.loads(done.out)
    assert [each["neighbour"] for each in records] == [ids[row] for row in rows[:, 1:].flatten()]
    assert [each["cosine"] for each in records] == pytest.approx((1 - far[:, 1:]).flatten(), abs=1e-6)
    assert [(each["id"], each["rank"]) for each in records] == [(key, rank) for key in asked for rank in (1, 2, 3, 4)]


def test_a_table_obeys_nobody_and_csv_has_ids_as_they_are(place: Path) -> None:
    shown = here("neighbours", "run", NAMES[1], "-k", "59", cwd=place)
    assert shown.status == 0 and "\x1b" not in shown.out and "\\x1b[2Jcleared" in shown.out
    plain = here("neighbours", "run", NAMES[1], "-k", "59", "--format", "csv", cwd=place)
    frame = pd.read_csv(io.StringIO(plain.out))
    assert set(frame["neighbour"]) == set(NAMES) - {NAMES[1]}


def test_an_id_that_begins_with_a_hyphen_comes_behind_two_as_the_help_says(place: Path) -> None:
    assert "after -- where one begins with a hyphen" in " ".join(
        here("neighbours", "--help", cwd=place).out.replace("│", "").split()
    )
    done = here("neighbours", "run", "-k", "1", "--format", "json", "--", "-1", cwd=place)
    assert done.status == 0 and json.loads(done.out)[0]["id"] == "-1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "nobody"), "Node 'nobody' has no vector here."),
        (("run", "n3", "-k", "0"), "Invalid value for '-k'"),
        (("run",), "Missing argument 'ID'"),
        (("graph", "n3"), "graph is not a run folder."),
        (("nowhere", "n3"), "nowhere is not a run folder."),
    ],
)
def test_what_cannot_be_found_is_said_in_one_message(place: Path, arguments: tuple[str, ...], said: str) -> None:
    done = here("neighbours", *arguments, cwd=place)
    assert done.status == 2 and done.line("error").startswith(said) and done.out == ""
