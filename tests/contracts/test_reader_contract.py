"""What every reader must do, run over all that are found: one small graph, in every form that graphs come in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from fossil.errors import GraphError
from fossil.graph.folder import write_disk_graph
from fossil.graph.graph import Graph
from fossil.readers.base import Reader
from fossil.readers.read import read_graph
from fossil.readers.registry import readers

# Every column has mean 0 and deviation 1, so that one which is standardised stays as it is.
FEATURES = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], np.float32)
COLUMNS = ("u", "v", "w")
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]


def nodes_frame() -> pd.DataFrame:
    frame = pd.DataFrame(FEATURES, columns=[*COLUMNS])
    frame.insert(0, "id", range(len(FEATURES)))
    return frame


def edges_frame() -> pd.DataFrame:
    return pd.DataFrame(EDGES, columns=["source", "target"])


def adjacency() -> sp.csr_array:
    source, target = zip(*EDGES, strict=True)
    return sp.csr_array((np.ones(len(EDGES), np.float32), (source, target)), shape=(4, 4))


def network() -> nx.DiGraph[int]:
    graph = nx.DiGraph()
    for number, row in enumerate(FEATURES.tolist()):
        graph.add_node(number, **dict(zip(COLUMNS, row, strict=True)))
    graph.add_edges_from(EDGES)
    return graph


def delimited(folder: Path) -> Path:
    nodes_frame().to_csv(folder / "nodes.csv", index=False)
    edges_frame().to_csv(folder / "edges.csv", index=False)
    return folder / "nodes.csv"


def parquet(folder: Path) -> Path:
    nodes_frame().to_parquet(folder / "nodes.parquet")
    edges_frame().to_parquet(folder / "edges.parquet")
    return folder / "nodes.parquet"


def npz(folder: Path) -> Path:
    np.savez(folder / "graph.npz", edge_index=np.array(EDGES).T, x=FEATURES)
    return folder / "graph.npz"


def graphml(folder: Path) -> Path:
    nx.write_graphml(network(), folder / "graph.graphml")
    return folder / "graph.graphml"


def converted(folder: Path) -> Path:
    graph = Graph("graph", adjacency(), FEATURES, np.arange(4), feature_names=COLUMNS)
    return write_disk_graph(folder / "graph", graph).folder


# By the name of the reader: what makes the graph above in its form, in an empty folder.
SAMPLES: dict[str, Callable[[Path], Any]] = {
    "csv": delimited,
    "disk": converted,
    "folder": lambda folder: delimited(folder).parent,
    "frames": lambda folder: (nodes_frame(), edges_frame()),
    "graph": lambda folder: Graph("graph", adjacency(), FEATURES, np.arange(4), feature_names=COLUMNS),
    "graphml": graphml,
    "networkx": lambda folder: network(),
    "npz": npz,
    "parquet": parquet,
    "pyg": lambda folder: Data(x=torch.tensor(FEATURES), edge_index=torch.tensor(EDGES).T.contiguous()),
    "scipy": lambda folder: (adjacency(), FEATURES),
}

READERS = sorted(readers())
# A reader of another package is known to that package's tests alone, and has no sample here.
OWN = [name for name in READERS if readers()[name].__module__.startswith("fossil.")]
FILES = [name for name in OWN if readers()[name].suffixes]
OF_FILES = [(name, suffix) for name in FILES for suffix in readers()[name].suffixes]

GARBAGE = {
    "nothing": b"",
    "zeros": bytes(200),
    "noise": np.random.default_rng(0).bytes(2000),
    "the start of an archive": b"PK\x03\x04" + np.random.default_rng(1).bytes(200),
    "a single array": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }" + b" " * 58,
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x05hello\x94.",
    "the start of Parquet": b"PAR1" + bytes(50) + b"PAR1",
    "other XML": b"<?xml version='1.0'?><html><body>hello</body></html>",
    "an empty document": b"<?xml version='1.0'?><graphml xmlns='http://graphml.graphdrawing.org/xmlns'/>",
    "prose": b"It was a dark and stormy night,\nand the graph had no edges.\n",
    "numbers": b"1 2 3\n4 5 6\n",
}


def sample(name: str, folder: Path) -> Any:
    """Return the graph of this file in the form that a reader takes."""
    if name not in SAMPLES:
        pytest.fail(f"There is no sample of {readers()[name].form}: add one to SAMPLES, under {name!r}.")
    (folder / name).mkdir()
    return SAMPLES[name](folder / name)


def file_of(name: str, suffix: str, folder: Path) -> Path:
    """Return the file of a reader's sample, of that suffix."""
    path = sample(name, folder)
    assert isinstance(path, Path) and path.is_file()
    return path.rename(path.with_suffix(suffix))


def content(graph: Graph) -> tuple[set[tuple[str, str]], dict[str, list[float]]]:
    """Return edges and features by id, columns in an order that does not depend on the form."""
    ids = [str(key) for key in graph.ids.tolist()]
    dense = graph.features.toarray() if graph.has_sparse_features else np.asarray(graph.features)
    columns = dense[:, np.lexsort(dense[::-1])]
    edges = {(ids[a], ids[b]) for a, b in zip(*graph.adjacency.nonzero(), strict=True)}
    return edges, dict(zip(ids, columns.tolist(), strict=True))


@pytest.mark.parametrize("name", READERS)
def test_it_says_what_it_is(name: str) -> None:
    reader = readers()[name]
    assert issubclass(reader, Reader) and not inspect.isabstract(reader)
    assert reader.name == name and name == name.strip().lower()
    assert reader.form.strip() == reader.form != "" and not reader.form.endswith(".")
    assert inspect.cleandoc(vars(reader)["__doc__"] or "")
    assert isinstance(reader.suffixes, tuple) and isinstance(reader.has_columns, bool)
    for suffix in reader.suffixes:
        assert suffix.startswith(".") and suffix == suffix.lower()


def test_no_two_read_the_same_suffix() -> None:
    every = [suffix for reader in readers().values() for suffix in reader.suffixes]
    assert len(set(every)) == len(every)


def test_there_is_a_sample_of_every_form_and_of_nothing_else() -> None:
    assert sorted(SAMPLES) == OWN


@pytest.mark.parametrize("name", READERS)
def test_it_accepts_nothing_that_is_not_its_own(name: str, tmp_path: Path) -> None:
    accepts = readers()[name].accepts
    strangers: list[Any] = [None, 3, 2.5, "text", b"text", [], {}, (), (1, 2), object(), int, tmp_path / "no.such"]
    strangers += [sample(other, tmp_path) for other in OWN if other != name]
    for stranger in strangers:
        assert accepts(stranger) is False, stranger


@pytest.mark.parametrize("name", OWN)
def test_it_gives_the_graph_that_every_other_form_gives(name: str, tmp_path: Path) -> None:
    source = sample(name, tmp_path)
    assert readers()[name].accepts(source) is True
    loaded = read_graph(source)
    edges, features = content(loaded.graph)
    assert edges == {(str(a), str(b)) for a, b in EDGES}
    assert features.keys() == {"0", "1", "2", "3"}
    expected = FEATURES[:, np.lexsort(FEATURES[::-1])]
    for row, key in enumerate("0123"):
        np.testing.assert_allclose(features[key], expected[row], rtol=1e-6)
    assert loaded.graph.labels is None and loaded.graph.name
    assert (loaded.plan is not None) == readers()[name].has_columns
    if loaded.graph.feature_names:
        assert sorted(loaded.graph.feature_names) == sorted(COLUMNS)
    if isinstance(source, Path):
        assert read_graph(str(source)).graph.fingerprint == loaded.graph.fingerprint


@pytest.mark.parametrize("name", OWN)
def test_a_name_that_is_given_counts_and_structure_can_be_added(name: str, tmp_path: Path) -> None:
    source = sample(name, tmp_path)
    assert read_graph(source, name="other").graph.name == "other"
    assert read_graph(source, structural_features=True).graph.num_features > len(COLUMNS)


@pytest.mark.parametrize("name", FILES)
def test_reading_leaves_the_files_alone(name: str, tmp_path: Path) -> None:
    sample(name, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    read_graph(next(path for path in before if readers()[name].accepts(path) and path.stem != "edges"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", FILES)
def test_the_suffix_may_be_in_capitals(name: str, tmp_path: Path) -> None:
    path = sample(name, tmp_path)
    expected = read_graph(path).graph.fingerprint
    assert read_graph(path.rename(path.with_suffix(path.suffix.upper()))).graph.fingerprint == expected


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize(("name", "suffix"), OF_FILES)
def test_a_file_that_holds_something_else_is_refused(name: str, suffix: str, garbage: str, tmp_path: Path) -> None:
    path = file_of(name, suffix, tmp_path)
    path.write_bytes(GARBAGE[garbage])
    with pytest.raises(GraphError) as caught:
        read_graph(path)
    assert caught.value.what and caught.value.remedy


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_off_is_refused(name: str, share: float, tmp_path: Path) -> None:
    path = sample(name, tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(GraphError) as caught:
        read_graph(path)
    assert caught.value.what and caught.value.remedy


@pytest.mark.parametrize("name", FILES)
def test_a_file_in_which_bytes_changed_is_read_or_refused(name: str, tmp_path: Path) -> None:
    path = sample(name, tmp_path)
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in random.integers(len(whole), size=2):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
        try:
            read_graph(path)  # a change may make no difference, or another number
        except GraphError as error:
            assert error.what and error.remedy


@pytest.mark.parametrize(("name", "suffix"), OF_FILES)
def test_a_folder_in_place_of_its_file_is_refused(name: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"graph{suffix}").mkdir()
    with pytest.raises(GraphError) as caught:
        read_graph(tmp_path / f"graph{suffix}")
    assert caught.value.what and caught.value.remedy


@pytest.mark.parametrize("suffix", [suffix for _, suffix in OF_FILES])
def test_a_folder_of_tables_is_one_whatever_its_name_ends_in(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / f"town{suffix}"
    folder.mkdir()
    delimited(folder)
    assert content(read_graph(folder).graph)[0] == {(str(a), str(b)) for a, b in EDGES}


@pytest.mark.parametrize("name", [name for name in OWN if not readers()[name].has_columns])
@pytest.mark.parametrize("choice", [{"label": "u"}, {"roles": {"u": "drop"}}])
def test_without_columns_there_is_nothing_to_choose(name: str, choice: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="no columns to choose from") as caught:
        read_graph(sample(name, tmp_path), **choice)
    assert caught.value.remedy


@pytest.mark.parametrize("name", [name for name in OWN if readers()[name].has_columns])
def test_with_columns_a_caller_says_what_they_are(name: str, tmp_path: Path) -> None:
    source = sample(name, tmp_path)
    graph = read_graph(source, label="u", roles={"v": "drop"}).graph
    assert graph.feature_names == ("w",) and graph.num_classes == 2
    for choice in ({"label": "z"}, {"roles": {"z": "drop"}}):
        with pytest.raises(GraphError, match="no column 'z'") as caught:
            read_graph(source, **choice)  # type: ignore[arg-type]
        assert caught.value.remedy


@pytest.mark.parametrize("unknown", [None, 3, [], object(), (1, 2), np.eye(3)])
def test_an_unknown_object_is_told_every_form(unknown: object) -> None:
    with pytest.raises(GraphError, match=f"A {type(unknown).__name__} is not a graph") as caught:
        read_graph(unknown)
    for reader in readers().values():
        assert reader.form in caught.value.remedy


def test_an_unknown_suffix_is_told_every_suffix(tmp_path: Path) -> None:
    (tmp_path / "graph.unknown").write_text("hello")
    with pytest.raises(GraphError, match="suffix") as caught:
        read_graph(tmp_path / "graph.unknown")
    for reader in readers().values():
        for suffix in reader.suffixes:
            assert suffix in caught.value.remedy


def test_a_path_that_does_not_exist_is_told_every_form(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="no existing file or folder") as caught:
        read_graph(tmp_path / "graph.npz")
    for reader in readers().values():
        assert reader.form in caught.value.remedy
