from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from ring_graph import CPU, SMALL, fit_ring, ring

import fossil
from fossil.errors import FossilError, GraphError, RunError
from fossil.methods.fossil import Fossil, FossilSettings
from fossil.readers.attach import attach
from fossil.runs.config import RunConfig
from fossil.runs.folder import FILES, withdraw_results
from fossil.runs.run import Run
from fossil.training.checkpoint import save_tensors
from fossil.training.trainer import TrainingSettings

CONFIG = RunConfig("fossil", "paper", FossilSettings(alpha=0.3), TrainingSettings(), 7, "town", "abc", "./town")
PEOPLE = 24


def some_run(path: Path) -> Path:
    """A folder with every file a run may have, as far as the code that looks at names is concerned."""
    path.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (path / name).write_text(name)
    (path / "config.yaml").write_text(yaml.safe_dump(CONFIG.to_dict()))
    (path / "summary.json").write_text("{}")
    return path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "NoneType"),
        ("- 1\n- 2\n", "list indices"),
        ("format: 1\nmethod: fossil\n", "there is no 'preset'"),
        ("format: [\n", r"line 2: "),
        ("format: \x00", "special characters"),
    ],
)
def test_a_damaged_configuration_is_named_in_one_line(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(RunError, match=rf"config\.yaml is damaged \(.*{reason}") as caught:
        _ = Run.open(tmp_path).config
    assert "\n" not in caught.value.what


def test_a_folder_without_configuration_is_no_run(tmp_path: Path) -> None:
    for look in (Run.open, fossil.load):
        with pytest.raises(RunError, match="is not a run folder"):
            look(tmp_path)


def test_an_unfinished_run_hands_out_neither_vectors_nor_weights(tmp_path: Path) -> None:
    run = Run.open(some_run(tmp_path))
    withdraw_results(tmp_path)
    for use in (lambda: run.arrays, lambda: run.embeddings, run.load_method):
        with pytest.raises(RunError, match="is not finished"):
            use()


def test_weights_of_other_settings_are_refused(tmp_path: Path) -> None:
    some_run(tmp_path)
    narrow = Fossil.build(FossilSettings(hidden=8, width=4), num_features=5, seed=0)
    save_tensors(tmp_path / "weights.safetensors", narrow.state_dict(), {"num_features": 5})
    with pytest.raises(RunError, match="does not fit the settings"):
        Run.open(tmp_path).load_method()


# A run that was really made, from tables.


def write_people(folder: Path, numbers: range, prefix: str = "p", edges: list[tuple[str, str]] | None = None) -> Path:
    """A ring of people with an age, a city and three measures."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(len(numbers))
    rows = [
        [f"{prefix}{i}", str(20 + 3 * i % 17), "xyz"[i % 3], *(f"{value:.3f}" for value in draw.normal(size=3))]
        for i in numbers
    ]
    ring = [(f"{prefix}{a}", f"{prefix}{b}") for a, b in zip(numbers, [*numbers[1:], numbers[0]], strict=True)]
    pairs = ring if edges is None else edges
    lines = ["id,age,city,u,v,w", *(",".join(row) for row in rows)]
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n{b},{a}\n" for a, b in pairs))
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables `people` and the run that was trained on them."""
    folder = tmp_path_factory.mktemp("trained")
    fit_ring(write_people(folder / "people", range(PEOPLE)), out=folder / "run")
    return folder


@pytest.fixture
def newcomers(tmp_path: Path) -> Path:
    """Three new people; the first knows an old one, the last knows nobody."""
    return write_people(tmp_path / "newcomers", range(3), "new", [("new0", "p5"), ("new0", "new1")])


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_load_opens_the_run_that_embed_wrote(trained: Path) -> None:
    for path in (trained / "run", str(trained / "run")):
        run = fossil.load(path)
        assert isinstance(run, Run) and run.finished and run.config.settings.model_dump().items() >= SMALL.items()


def test_embeddings_of_a_run_are_those_of_its_fit(tmp_path: Path) -> None:
    result = fit_ring(out=tmp_path / "run")
    found = fossil.load(tmp_path / "run").embeddings
    np.testing.assert_array_equal(found.ids, result.ids)
    np.testing.assert_array_equal(found.vectors, result.vectors)
    np.testing.assert_array_equal(found.fusion, result.fusion)
    np.testing.assert_array_equal(found["n7"], result["n7"])
    fit_ring(method="dgi", settings={"width": 4}, out=tmp_path / "dgi")
    assert fossil.load(tmp_path / "dgi").embeddings.fusion is None


def test_embedding_the_graph_itself_repeats_training_and_writes_nothing(trained: Path) -> None:
    run = fossil.load(trained / "run")
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    for source in (trained / "people", str(trained / "people"), trained / "people" / "nodes.csv"):
        again = run.embed(source)
        np.testing.assert_array_equal(again.ids, run.embeddings.ids)
        np.testing.assert_allclose(again.vectors, run.embeddings.vectors, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(again.fusion, run.embeddings.fusion, rtol=1e-5, atol=1e-6)
        assert again.graph.fingerprint == run.graph.fingerprint
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


def test_another_graph_is_encoded_by_the_old_plan(trained: Path, tmp_path: Path) -> None:
    run = fossil.load(trained / "run")
    other = write_people(tmp_path / "other", range(5, 17), "guest")
    found = run.embed(other)
    assert found.ids.tolist() == [f"guest{i}" for i in range(5, 17)] and found.vectors.shape == (12, SMALL["width"])
    assert found.graph.name == "other" and run.plan is not None
    # Ages of other people have another mean: standardised anew, they would be other features.
    ages = [float(line.split(",")[1]) for line in (other / "nodes.csv").read_text().splitlines()[1:]]
    [age] = [column for column in run.plan.columns if column.name == "age"]
    expected = (np.array(ages) - age.mean) / age.scale
    np.testing.assert_allclose(found.graph.features[:, found.graph.feature_names.index("age")], expected, rtol=1e-5)
    encoded = run.encode(found.graph)
    np.testing.assert_array_equal(found.vectors, encoded.vectors.numpy())


def test_new_nodes_are_embedded_beside_the_old(trained: Path, newcomers: Path) -> None:
    run = fossil.load(trained / "run")
    found = run.embed(newcomers, attach=True)
    assert found.ids.tolist() == ["new0", "new1", "new2"] and len(found) == 3
    union = attach(run.graph, run.plan, newcomers / "nodes.csv", newcomers / "edges.csv")
    assert found.graph.fingerprint == union.fingerprint and union.num_nodes == PEOPLE + 3
    np.testing.assert_array_equal(found.vectors, run.encode(union).vectors.numpy()[PEOPLE:])
    assert found.fusion is not None and found.fusion.shape == (3,)
    np.testing.assert_array_equal(found["new1"], found.vectors[1])


def test_an_edge_table_may_be_named(trained: Path, newcomers: Path) -> None:
    run = fossil.load(trained / "run")
    expected = run.embed(newcomers, attach=True)
    (newcomers / "edges.csv").rename(newcomers / "ties.csv")
    named = run.embed(newcomers / "nodes.csv", attach=True, edges=str(newcomers / "ties.csv"))
    np.testing.assert_array_equal(named.vectors, expected.vectors)
    # Without any edge to an old node the graph is another one.
    assert run.embed(newcomers, attach=True).graph.num_edges == named.graph.num_edges - 4


def test_newcomers_that_a_treatment_drops_shift_nobody(trained: Path, newcomers: Path, tmp_path: Path) -> None:
    fit_ring(trained / "people", treatment={"isolated": "drop"}, out=tmp_path / "run")
    found = fossil.load(tmp_path / "run").embed(newcomers, attach=True)
    assert found.ids.tolist() == ["new0", "new1"] and len(found.vectors) == len(found.fusion) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("attached", [False, True])
def test_vectors_are_written_where_asked_and_said_where_from(
    trained: Path, newcomers: Path, tmp_path: Path, attached: bool
) -> None:
    run, out = fossil.load(trained / "run"), tmp_path / "vectors"
    source = newcomers if attached else trained / "people"
    found = run.embed(source, attach=attached, out=out)
    assert files(out) == {"embeddings.npz", "embeddings.parquet", "about.json"}
    with np.load(out / "embeddings.npz") as stored:
        np.testing.assert_array_equal(stored["ids"], found.ids)
        np.testing.assert_array_equal(stored["vectors"], found.vectors)
        np.testing.assert_array_equal(stored["fusion"], found.fusion)
    about = json.loads((out / "about.json").read_text())
    assert about == {
        "run": str(run.path),
        "source": str(source),
        "attached": attached,
        "weights": run.config.identity,
    }


def test_vectors_replace_others_only_when_told_to(trained: Path, newcomers: Path, tmp_path: Path) -> None:
    run, out = fossil.load(trained / "run"), tmp_path / "vectors"
    run.embed(trained / "people", out=out)
    before = (out / "embeddings.npz").read_bytes()
    with pytest.raises(RunError, match="already holds vectors"):
        run.embed(newcomers, attach=True, out=out)
    assert (out / "embeddings.npz").read_bytes() == before
    run.embed(newcomers, attach=True, out=out, force=True)
    assert (out / "embeddings.npz").read_bytes() != before
    for taken in (trained / "run", trained / "people"):
        with pytest.raises(RunError, match="holds other files"):
            run.embed(newcomers, attach=True, out=taken, force=True)


def test_a_folder_that_is_taken_is_found_before_anything_is_read(trained: Path) -> None:
    with pytest.raises(RunError, match="holds other files"):
        fossil.load(trained / "run").embed("no/such/place", out=trained / "people")


def test_objects_are_embedded_too(tmp_path: Path) -> None:
    result = fit_ring(out=tmp_path / "run")
    run, graph = fossil.load(tmp_path / "run"), ring().graph
    for source in (graph, (graph.adjacency, graph.features)):
        np.testing.assert_allclose(run.embed(source).vectors, result.vectors, rtol=1e-5, atol=1e-6)
    run.embed(graph, out=tmp_path / "vectors")
    assert json.loads((tmp_path / "vectors" / "about.json").read_text())["source"] == "Graph"


def test_what_does_not_fit_the_run_is_refused(trained: Path, tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "matrix")
    matrix, tables = fossil.load(tmp_path / "matrix"), fossil.load(trained / "run")
    graph = ring().graph
    wrong: list[tuple[Run, Any, dict[str, Any], type[FossilError], str]] = [
        (matrix, trained / "people", {}, GraphError, "has columns, but the run in .* was trained on a feature matrix"),
        (matrix, (graph.adjacency, np.eye(20)), {}, RunError, "has 20 features, the run has 5"),
        (tables, graph, {}, GraphError, "the plan to apply encodes columns"),
        (tables, trained / "people", {"attach": True}, GraphError, "already in graph 'people'"),
        (tables, graph, {"attach": True}, GraphError, "come in tables, and this is a Graph"),
        (tables, "no/such/place", {}, GraphError, "neither a catalogue name nor an existing path"),
    ]
    for run, source, asked, kind, message in wrong:
        with pytest.raises(kind, match=message):
            run.embed(source, out=tmp_path / "vectors", **asked)
        assert not (tmp_path / "vectors").exists()


def test_loading_a_method_leaves_the_ambient_generator_alone(trained: Path) -> None:
    state = torch.get_rng_state()
    Run.open(trained / "run").load_method()
    assert torch.equal(torch.get_rng_state(), state)


def test_an_unfinished_run_embeds_nothing(trained: Path, tmp_path: Path) -> None:
    fit_ring(trained / "people", out=tmp_path / "run", training=CPU)
    (tmp_path / "run" / "summary.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        fossil.load(tmp_path / "run").embed(trained / "people", out=tmp_path / "vectors")
    assert not (tmp_path / "vectors").exists()


def test_vectors_can_be_left_in_their_file(tmp_path: Path) -> None:
    result = fit_ring(out=tmp_path / "run")
    mapped = Run.open(tmp_path / "run").mapped_vectors
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, result.vectors)
    content = bytearray((tmp_path / "run" / "embeddings.npz").read_bytes())
    content[-200] ^= 1
    (tmp_path / "run" / "embeddings.npz").write_bytes(content)
    with pytest.raises(RunError, match=r"embeddings\.npz is not the file that this run wrote"):
        _ = Run.open(tmp_path / "run").mapped_vectors
