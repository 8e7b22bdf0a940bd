"""Every export is opened by the library it is for, and has what was put in."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import scipy.sparse as sp
from ring_graph import fit_ring, ring

from fossil.errors import FossilWarning, RunError, SettingError
from fossil.graph.graph import Graph
from fossil.runs.embeddings import Embeddings, FitResult
from fossil.runs.exports.base import Exporter
from fossil.runs.exports.registry import exporters
from fossil.runs.run import Run

HOSTILE = [
    "Ada Lovelace",
    'say "hi", then',
    "a\nb",
    "a\tb\r",
    "100%",
    "<b>&amp;",
    "\u202eevil",
    "=1+1",
    "ź",
    "\u3000wide",
]
CLASSES = ("warm, wet", "cold\tdry")
EVERY = sorted(exporters())


@pytest.fixture(scope="module")
def result() -> FitResult:
    """A trained result whose ids and classes hold everything that a format takes for its own."""
    graph = ring().graph
    ids = np.array([*HOSTILE, *graph.ids[len(HOSTILE) :].tolist()])
    labels = np.array([*(np.arange(graph.num_nodes - 1) % 2), -1])
    hostile = replace(graph, ids=ids, labels=labels, label_names=CLASSES, feature_names=("a", "b", "c", "d", "e"))
    trained = fit_ring()
    return replace(trained, ids=ids, graph=hostile)


def classes(result: FitResult) -> list[str | None]:
    assert result.graph.labels is not None
    return [CLASSES[number] if number >= 0 else None for number in result.graph.labels]


def test_csv_is_read_back_by_pandas_and_by_the_standard_library(result: FitResult, tmp_path: Path) -> None:
    import pandas as pd

    path = result.export("csv", tmp_path / "vectors.csv")
    frame = pd.read_csv(path, keep_default_na=False)
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert frame["id"].tolist() == [row["id"] for row in rows] == result.ids.tolist()
    assert frame["label"].tolist() == [name or "" for name in classes(result)]
    vectors = frame[[f"v{i}" for i in range(4)]].to_numpy(np.float32)
    np.testing.assert_array_equal(vectors, result.vectors)
    np.testing.assert_array_equal(frame["fusion"].to_numpy(np.float32), result.fusion)


def test_parquet_is_read_back_by_pyarrow(result: FitResult, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(result.export("parquet", tmp_path / "vectors.parquet"))
    assert table["id"].to_pylist() == result.ids.tolist() and table["label"].to_pylist() == classes(result)
    assert table.schema.field("v0").type == "float"
    vectors = np.column_stack([table[f"v{i}"].to_numpy() for i in range(4)])
    np.testing.assert_array_equal(vectors, result.vectors)
    np.testing.assert_array_equal(table["fusion"].to_numpy(), result.fusion)


def test_numpy_reads_arrays_and_no_pickle(result: FitResult, tmp_path: Path) -> None:
    with np.load(result.export("numpy", tmp_path / "vectors.npz"), allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["vectors"], result.vectors)
        assert stored["ids"].tolist() == result.ids.tolist()
        assert stored["label"].tolist() == [name or "" for name in classes(result)]
        edges = stored["edges"]
    rebuilt = sp.csr_array((np.ones(edges.shape[1]), edges), shape=(20, 20))
    assert (rebuilt != result.graph.adjacency).nnz == 0 and edges.shape[1] == 40


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_word2vec_is_read_back_by_gensim(result: FitResult, tmp_path: Path, name: str) -> None:
    from gensim.models import KeyedVectors

    with pytest.warns(FossilWarning, match="White space and % in 6 of 20 ids"):
        path = result.export("word2vec", tmp_path / name)
    found = KeyedVectors.load_word2vec_format(str(path), binary=name.endswith(".bin"))
    assert [unquote(key) for key in found.index_to_key] == result.ids.tolist()
    np.testing.assert_array_equal(found.vectors, result.vectors)
    np.testing.assert_array_equal(found["Ada%20Lovelace"], result["Ada Lovelace"])


def test_word2vec_leaves_ids_without_white_space_as_they_are(tmp_path: Path) -> None:
    plain = Embeddings(np.array(["ada", "zoë"]), np.float32([[1, 2], [3, 4]]), None)
    path = plain.export("word2vec", tmp_path / "two.txt")
    assert path.read_text(encoding="utf-8") == "2 2\nada 1.0 2.0\nzoë 3.0 4.0\n"


def test_an_empty_id_is_no_word(tmp_path: Path) -> None:
    empty = Embeddings(np.array(["", "bob"]), np.eye(2, dtype=np.float32), None)
    with pytest.raises(RunError, match="empty id"):
        empty.export("word2vec", tmp_path / "two.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sparse", [False, True], ids=["dense features", "sparse features"])
def test_anndata_has_features_classes_vectors_and_edges(result: FitResult, tmp_path: Path, sparse: bool) -> None:
    import anndata

    if sparse:
        result = replace(result, graph=replace(result.graph, features=sp.csr_array(result.graph.features)))
    found = anndata.read_h5ad(result.export("anndata", tmp_path / "vectors.h5ad"))
    assert found.obs_names.tolist() == result.ids.tolist() and found.var_names.tolist() == ["a", "b", "c", "d", "e"]
    labels: Any = found.obs["label"].astype(object)
    assert labels.where(labels.notna(), None).tolist() == classes(result)
    np.testing.assert_array_equal(found.obs["fusion"], result.fusion)
    np.testing.assert_array_equal(found.obsm["X_fossil"], result.vectors)
    assert (found.obsp["edges"] != result.graph.adjacency).nnz == 0
    features: Any = result.graph.features
    assert abs(found.X - features).max() == 0 and sp.issparse(found.X) == sparse


def test_the_projector_of_tensorboard_reads_its_folder(result: FitResult, tmp_path: Path) -> None:
    from google.protobuf import text_format
    from tensorboard.plugins.projector import projector_plugin
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    folder = result.export("tensorboard", tmp_path / "look")
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(encoding="utf-8"), ProjectorConfig())
    [entry] = config.embeddings
    assert entry.tensor_name == "ring"
    vectors = projector_plugin._read_tensor_tsv_file(str(folder / entry.tensor_path))
    np.testing.assert_array_equal(vectors, result.vectors)
    header, *lines = (folder / entry.metadata_path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert header.split("\t") == ["id", "label", "fusion"]
    cells = [line.split("\t") for line in lines]
    assert len(cells) == 20 and {len(row) for row in cells} == {3}
    assert [row[0] for row in cells][:4] == ["Ada Lovelace", 'say "hi", then', r"a\nb", r"a\tb\r"]
    assert cells[-1][1] == "unknown"


def test_the_projector_takes_a_single_column_without_a_header(tmp_path: Path) -> None:
    folder = Embeddings(np.array(["a", "b"]), np.eye(2, dtype=np.float32), None).export("tensorboard", tmp_path / "x")
    assert (folder / "metadata.tsv").read_text() == "a\nb\n"


def test_binary_tasks_are_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    labels = np.arange(40).reshape(20, 2) % 2
    base = fit_ring()
    table = pq.read_table(
        replace(base, graph=base.graph.with_labels(labels)).export("parquet", tmp_path / "tasks.parquet")
    )
    np.testing.assert_array_equal(np.column_stack([table["task_0"], table["task_1"]]), labels)


@pytest.mark.filterwarnings("ignore:White space")
@pytest.mark.parametrize("to", EVERY)
def test_nothing_is_overwritten_without_force(result: FitResult, tmp_path: Path, to: str) -> None:
    out = result.export(to, tmp_path / "out")
    before = snapshot(tmp_path)
    with pytest.raises(RunError, match="already exists"):
        result.export(to, out)
    assert snapshot(tmp_path) == before
    other = replace(result, vectors=result.vectors + 1)
    other.export(to, out, force=True)
    assert snapshot(tmp_path) != before and snapshot(tmp_path).keys() == before.keys()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("to", EVERY)
def test_what_stands_in_the_way_is_never_replaced(result: FitResult, tmp_path: Path, to: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("the only copy")
    with pytest.raises(RunError, match="holds something else"):
        result.export(to, tmp_path / "folder", force=True)
    assert snapshot(tmp_path) == {"folder/thesis.txt": b"the only copy"}


@pytest.mark.parametrize("to", EVERY)
def test_a_failure_leaves_what_was_there(
    result: FitResult, tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = replace(result, ids=ring().graph.ids, graph=ring().graph)
    plain.export(to, tmp_path / "out")
    before = snapshot(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fossil.storage.os.fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        replace(plain, vectors=plain.vectors + 1).export(to, tmp_path / "out", force=True)
    assert snapshot(tmp_path) == before and [path.name for path in tmp_path.iterdir()] == ["out"]


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    found = Embeddings(np.array(["a\ud800", "b"]), np.eye(2, dtype=np.float32), None)
    for to in EVERY:
        with pytest.raises(RunError, match="half a character"):
            found.export(to, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_exported_beside_its_folder(tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "people")
    run = Run.open(tmp_path / "people")
    assert run.export("csv") == tmp_path / "people.csv" and (tmp_path / "people.csv").is_file()
    assert run.export("tensorboard") == tmp_path / "people-projector"
    with np.load(run.export("numpy")) as stored:
        np.testing.assert_array_equal(stored["vectors"], run.embeddings.vectors)


def test_the_run_in_the_current_folder_is_exported_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit_ring(out=tmp_path / "people")
    monkeypatch.chdir(tmp_path / "people")
    assert Run.open(".").export("csv") == tmp_path / "people.csv"
    monkeypatch.chdir(tmp_path)
    assert Run.open("people").export("numpy") == Path("people.npz")


def test_new_nodes_are_exported_with_the_edges_among_them(tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "run")
    graph = ring().graph
    union = Graph("union", graph.adjacency, graph.features, graph.ids)
    found = Run.open(tmp_path / "run").embed(union)
    some = replace(found, ids=found.ids[15:], vectors=found.vectors[15:], fusion=None)
    with np.load(some.export("numpy", tmp_path / "some.npz")) as stored:
        assert stored["ids"].tolist() == ["n15", "n16", "n17", "n18", "n19"]
        assert stored["edges"].T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2], [3, 4], [4, 3]]


def test_an_unknown_form_and_a_missing_place_are_refused(result: FitResult) -> None:
    with pytest.raises(SettingError, match=r"Unknown export 'parket'. Did you mean 'parquet'\?"):
        result.export("parket", "x")
    with pytest.raises(SettingError, match="no run folder"):
        result.export("csv")


@pytest.mark.parametrize(("to", "module"), [("parquet", "pyarrow.parquet"), ("anndata", "anndata")])
def test_a_missing_package_is_named(
    result: FitResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, to: str, module: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(SettingError, match=r"pip install 'fossil-gnn\["):
        result.export(to, tmp_path / "out")


def test_every_export_has_a_name_and_a_suffix() -> None:
    assert set(exporters()) == {"anndata", "csv", "numpy", "parquet", "tensorboard", "word2vec"}
    for kind in exporters().values():
        assert issubclass(kind, Exporter) and kind.suffix


def test_names_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    vectors, trust = np.eye(2, dtype=np.float32), {"a\ud800": np.ones(2, np.float32)}
    for to in EVERY:
        with pytest.raises(RunError, match="half a character"):
            Embeddings(np.array(["a", "b"]), vectors, None, channels=trust).export(to, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["id", "class", "channel", "feature"])
def test_what_ends_a_text_in_hdf5_is_refused(result: FitResult, tmp_path: Path, where: str) -> None:
    odd, graph = "a\0b", result.graph
    ids = np.array([odd, *result.ids[1:].tolist()]) if where == "id" else result.ids
    names = (odd, "cold") if where == "class" else CLASSES
    features = (odd, *graph.feature_names[1:]) if where == "feature" else graph.feature_names
    channels = {odd: np.ones(20, np.float32)} if where == "channel" else None
    graph = replace(graph, ids=ids, label_names=names, feature_names=features)
    with pytest.raises(RunError, match=r"a\\x00b' cannot be written in HDF5"):
        replace(result, ids=ids, graph=graph, channels=channels).export("anndata", tmp_path / "out.h5ad")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_of_an_odd_name_is_exported(result: FitResult, tmp_path: Path) -> None:
    import anndata

    odd = replace(result, graph=replace(result.graph, name="caf\udce9\0"))
    with pytest.warns(FossilWarning):
        for to in EVERY:
            odd.export(to, tmp_path / to)
    assert anndata.read_h5ad(tmp_path / "anndata").uns["graph"] == r"caf\udce9\x00"


def test_a_class_without_a_name_is_not_an_unknown_one(result: FitResult, tmp_path: Path) -> None:
    folder = replace(result, graph=replace(result.graph, label_names=("", "cold"))).export(
        "tensorboard", tmp_path / "x"
    )
    lines = (folder / "metadata.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in lines] == [*["", "cold"] * 9, "", "unknown"]
