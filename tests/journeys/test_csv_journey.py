"""From two tables to vectors, to vectors of newcomers, to a score: the real command in its own process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from command import QUICK, here, in_process
from people import HEADER, person, rows, ties, write_table, write_town
from scipy.sparse.csgraph import dijkstra

import fossil
from fossil import Run
from fossil.readers.attach import attach

NEW = ("new-000", "new-001")
ANCHORS = (0, 3)  # the old nodes that the newcomers know
WIDTH = 5 * (16 + 5)  # trained and untrained rows of five channels


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a town of 200 and the run that was trained on it."""
    folder = tmp_path_factory.mktemp("journey")
    write_town(folder / "town")
    done = in_process("embed", "town", "--out", "run", "--epochs", "5", *QUICK, cwd=folder)
    assert done.status == 0, done.err
    (folder / "said.txt").write_text(done.out)
    return folder


@pytest.fixture
def newcomers(place: Path, tmp_path: Path) -> Path:
    """Ten new nodes; the first comes from a city that nobody came from before."""
    people = rows(range(10), "new", seed=5)
    people[0][1] = "Atlantis"
    write_table(tmp_path / "nodes.csv", HEADER, people)
    among = [(person(i, "new"), person((i + 1) % 10, "new")) for i in range(10)]
    to_old = [(new, person(old)) for new, old in zip(NEW, ANCHORS, strict=True)]
    every = [*among, *to_old]
    write_table(tmp_path / "edges.csv", ("source", "target"), [*every, *((b, a) for a, b in every)])
    return tmp_path


def vectors_of(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "embeddings.npz") as stored:
        return dict(zip(stored["ids"].tolist(), stored["vectors"], strict=True))


def test_a_plan_says_what_training_would_take_and_writes_nothing(place: Path) -> None:
    before = sorted(place.iterdir())
    done = here("embed", "town", "--plan", "--epochs", "5", *QUICK, cwd=place)
    assert done.status == 0, done.err
    assert "this is a plan, and nothing is trained" in done.out and "a step, measured" in done.out
    assert sorted(place.iterdir()) == before
    refused = here("embed", "town", cwd=place)
    assert refused.status == 2 and "There is no folder to write to." in refused.err and "--out DIR" in refused.err


def test_vectors_are_keyed_by_the_ids_of_the_table(place: Path) -> None:
    import pandas as pd

    vectors = vectors_of(place / "run")
    assert set(vectors) == {person(number) for number in range(200)}
    assert all(vector.shape == (WIDTH,) and np.isfinite(vector).all() for vector in vectors.values())
    table = pd.read_parquet(place / "run" / "embeddings.parquet").set_index("id")
    np.testing.assert_array_equal(table.loc[person(17)].filter(like="v"), vectors[person(17)])
    trusted = table.filter(like="channel_")
    assert trusted.shape[1] == 5 and np.allclose(trusted.sum(axis=1), 1)


def test_the_encoding_plan_is_printed_and_saved(place: Path) -> None:
    said = (place / "said.txt").read_text()
    plan = json.loads((place / "run" / "encoding.json").read_text())
    roles = {column["name"]: column["role"] for column in plan["columns"]}
    assert roles == {"id": "id", "city": "categorical", "age": "numeric", "member": "boolean", "label": "label"}
    ages = np.array([float(row[2]) for row in rows(range(200))])
    assert f"(x - {ages.mean():.4g}) / {ages.std():.4g}" in said
    for name, role in roles.items():
        assert any(name in line and role in line for line in said.splitlines())
    assert "next: fossil evaluate run" in said


def test_new_nodes_are_attached_to_the_old(place: Path, newcomers: Path, tmp_path: Path) -> None:
    done = in_process("embed", newcomers, "--run", "run", "--attach", "--out", tmp_path / "out", cwd=place)
    assert done.status == 0, done.err
    new = vectors_of(tmp_path / "out")
    assert set(new) == {person(number, "new") for number in range(10)}
    assert "1 unknown category in column 'city'" in done.out and "Atlantis" in done.out

    run = Run.open(place / "run")
    union = attach(run.graph, run.plan, newcomers / "nodes.csv", newcomers / "edges.csv")
    encoded = run.encode(union).vectors.numpy()
    np.testing.assert_allclose(encoded[200:], np.stack([new[key] for key in union.ids[200:]]), rtol=1e-5, atol=1e-6)
    hops = dijkstra(union.adjacency, unweighted=True, indices=range(200, 210), min_only=True)[:200]
    far, near = hops > 3, hops == 1  # the encoder looks two hops far, and `low` at the degrees of who it sees there
    assert far.any() and near.sum() == len(ANCHORS)
    old = run.arrays["vectors"]
    np.testing.assert_allclose(encoded[:200][far], old[far], rtol=1e-4, atol=1e-5)
    assert (np.abs(encoded[:200][near] - old[near]).max(axis=1) > 1e-4).all()


@pytest.mark.parametrize("attach_them", [True, False])
def test_python_gives_the_numbers_of_the_command(
    place: Path, newcomers: Path, tmp_path: Path, attach_them: bool
) -> None:
    source = newcomers if attach_them else place / "town"
    further = ("--attach",) if attach_them else ()
    done = here("embed", source, "--run", place / "run", "--out", tmp_path / "said", "--device", "cpu", *further)
    assert done.status == 0, done.err
    found = fossil.load(place / "run").embed(source, attach=attach_them, out=tmp_path / "asked")
    printed = vectors_of(tmp_path / "said")
    assert list(printed) == found.ids.tolist()
    np.testing.assert_array_equal(np.stack(list(printed.values())), found.vectors)
    for name in ("embeddings.npz", "about.json"):
        said, asked = ((tmp_path / folder / name).read_bytes() for folder in ("said", "asked"))
        assert said == asked, name
    assert f"{len(found)} vectors of width {WIDTH}" in done.out
    assert all(str(finding) in done.out for finding in found.graph.findings)


def test_another_graph_with_the_same_columns(place: Path, tmp_path: Path) -> None:
    write_town(tmp_path / "other", 60, prefix="guest", seed=9)
    done = here("embed", tmp_path / "other", "--run", place / "run", "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert set(vectors_of(tmp_path / "out")) == {person(number, "guest") for number in range(60)}
    assert json.loads((tmp_path / "out" / "about.json").read_text())["attached"] is False


def test_the_graph_itself_gets_the_vectors_of_training(place: Path, tmp_path: Path) -> None:
    done = here("embed", place / "town", "--run", place / "run", "--out", tmp_path / "out", "--device", "cpu")
    assert done.status == 0, done.err
    again, trained = vectors_of(tmp_path / "out"), vectors_of(place / "run")
    for key, vector in trained.items():
        np.testing.assert_allclose(again[key], vector, rtol=1e-5, atol=1e-6)


def test_scores_are_shown_and_every_raw_value_kept(place: Path) -> None:
    done = in_process("evaluate", "run", "--protocol", "paper", "--splits", "3", "--features", cwd=place)
    assert done.status == 0, done.err
    kept = json.loads((place / "run" / "scores-paper.json").read_text())
    accuracies = [score["accuracy"] for score in kept["scores"]]
    assert len(accuracies) == 3 and len({score["seed"] for score in kept["scores"]}) == 3
    assert f"{100 * np.mean(accuracies):.2f}" in done.out
    assert "│ Propagated features" in done.out and "Protocol 'paper'" in done.out
    assert np.mean(accuracies) > 0.5  # three equal communities: a guess has a third


def test_scoring_is_offered_where_there_are_labels(place: Path, tmp_path: Path) -> None:
    assert "next: fossil evaluate run" in (place / "said.txt").read_text()
    write_table(tmp_path / "town" / "nodes.csv", HEADER[:-1], [row[:-1] for row in rows(range(60))])
    write_table(tmp_path / "town" / "edges.csv", ("source", "target"), ties(60))
    done = here("embed", "town", "--out", "run", "--epochs", "1", *QUICK, cwd=tmp_path)
    assert done.status == 0 and "done in" in done.out, done.err
    assert "fossil evaluate" not in done.out


@pytest.mark.parametrize(
    "option",
    [
        ("--method", "fossil"),
        ("--seed", "0"),
        ("--epochs", "5"),
        ("--precision", "float32"),
        ("--no-recipe",),
        ("--checkpoint-seconds", "15"),
        ("--no-replay",),
        ("--direction", "keep"),
        ("--resume",),
    ],
    ids=lambda option: option[0],
)
def test_what_a_run_settles_is_refused_beside_it(place: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    done = here("embed", place / "town", "--run", place / "run", "--out", tmp_path / "out", *option)
    assert done.status == 2
    assert done.line("error") == f"{option[0]} has no effect with --run."
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_tables_of_other_kinds_give_the_same_graph(place: Path, tmp_path: Path, suffix: str) -> None:
    write_town(tmp_path / "town", suffix=suffix)
    done = here("embed", tmp_path / "town", "--out", tmp_path / "out", "--epochs", "2", *QUICK)
    assert done.status == 0, done.err
    fingerprint = Run.open(place / "run").graph.fingerprint
    assert Run.open(tmp_path / "out").graph.fingerprint == fingerprint


def test_npz_and_graphml(place: Path, tmp_path: Path) -> None:
    network = nx.DiGraph(ties(200))
    attributes = {row[0]: {"city": row[1], "age": float(row[2]), "label": row[4]} for row in rows(range(200))}
    network.add_nodes_from(attributes)
    nx.set_node_attributes(network, attributes)
    nx.write_graphml(network, tmp_path / "town.graphml")
    for source in (tmp_path / "town.graphml", place / "run" / "graph.npz"):
        out = tmp_path / source.suffix
        done = here("embed", source, "--out", out, "--epochs", "2", *QUICK)
        assert done.status == 0, done.err
        assert set(vectors_of(out)) == set(attributes)
        assert Run.open(out).graph.num_classes == 3


def test_names_that_look_like_markup_come_out_unchanged(tmp_path: Path) -> None:
    people = [[f"[/b]:cat:{i}", "[red]" if i % 2 else "[/x]", str(i), "true", "a"] for i in range(30)]
    write_table(tmp_path / "nodes.csv", ("id", "[/city]", "age", "member", "label"), people)
    ends = [(f"[/b]:cat:{i}", f"[/b]:cat:{(i + 1) % 30}") for i in range(30)]
    write_table(tmp_path / "edges.csv", ("source", "target"), [*ends, (ends[0][0], ends[0][0])])
    done = here("data", "describe", tmp_path)
    assert done.status == 0, done.err
    assert "for example [/b]:cat:0" in done.out and "[/city]" in done.out


def test_describe_own_files(place: Path) -> None:
    done = here("data", "describe", place / "town")
    assert done.status == 0, done.err
    graph = Run.open(place / "run").graph
    assert f"town: 200 nodes, {graph.num_edges:,} directed edges" in done.out
    assert "undirected" in done.out and graph.fingerprint in done.out and "Encoding plan" in done.out


def test_describe_a_catalogue_graph() -> None:
    done = here("data", "describe", "digits")
    assert done.status == 0, done.err
    assert "digits: 1,797 nodes" in done.out and "64 features, 10 classes" in done.out
    assert "0 nodes have the features and the neighbours of another" in done.out and "warning" not in done.out


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")
def test_describe_warns_of_a_graph_on_which_a_lookup_scores() -> None:
    done = here("data", "describe", "chameleon", env={"COLUMNS": "400"})
    assert done.status == 0, done.err
    [line] = [line for line in done.out.splitlines() if "warning" in line]
    assert "a lookup of out-neighbours. Report chameleon_filtered or chameleon_filtered_directed" in line


def test_list_names_every_graph_and_where_its_files_are(tmp_path: Path) -> None:
    from fossil.datasets.catalog import names

    done = here("data", "list", env={"FOSSIL_DATA": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    elsewhere = {"digits": "built in", "csbm": "built in", "wordnet": "to bring"}
    for name in names():
        line = next(line for line in lines if f" {name} " in line)
        assert elsewhere.get(name, "to download") in line


def test_list_says_which_files_are_at_hand_and_under_which_folder(tmp_path: Path) -> None:
    (tmp_path / "WordNet").mkdir()
    (tmp_path / "WordNet" / "wordnet30.npz").write_bytes(b"")
    environment = {"FOSSIL_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    shown = here("data", "list", env=environment).out
    states = {line.split()[1]: line.split("│")[-2].strip() for line in shown.splitlines() if line.startswith("│")}
    assert states["wordnet"] == "at hand" and states["cora"] == "to download" and states["digits"] == "built in"
    assert shown.splitlines()[-1] == f"at hand: under {tmp_path}"
    listed = json.loads(here("data", "list", "--format", "json", env=environment).out)
    records = {one["name"]: one["files"] for one in listed}
    assert records["wordnet"] == str(tmp_path) and records["cora"] == "to download"


def test_formats_are_listed() -> None:
    from fossil.readers.registry import readers

    done = here("data", "formats", env={"COLUMNS": "200"})
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    for name, reader in readers().items():
        line = next(line for line in lines if line.startswith(f"│ {name} "))
        assert reader.form in line and all(suffix in line for suffix in reader.suffixes)


def test_doctor_shows_versions_and_places() -> None:
    import torch

    done = here("doctor", env={"FOSSIL_DATA": "/some/where"})
    assert done.status == 0, done.err
    assert torch.__version__ in done.out and "FOSSIL_DATA: /some/where" in done.out


def test_version_and_help() -> None:
    from fossil import __version__

    assert in_process("--version").out == f"fossil-gnn {__version__}\n"
    shown = in_process("--help")
    assert shown.status == 0
    assert all(verb in shown.out for verb in ("embed", "evaluate", "data", "doctor"))
    assert "--attach" in here("embed", "--help").out
