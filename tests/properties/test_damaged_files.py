"""Whatever becomes of the bytes of a file, reading it ends in a graph or in one message of this package.

Every format has a valid sample, which is damaged in many ways: bits flipped, parts cut out, doubled, moved or
overwritten, numbers replaced by extreme ones. Archives are damaged as they are, and, since their checksums would notice
nearly all of that, also inside, packed again with checksums that are right.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import random
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import yaml

from fossil.datasets import verify
from fossil.datasets.archive import unpack
from fossil.datasets.catalog import CATALOG, Counts, Entry, load
from fossil.datasets.files import benchmark, geom_gcn, ogb, planetoid
from fossil.errors import FossilError
from fossil.evaluation.vectors import OutsideVectors, read_vectors
from fossil.graph.graph import Graph
from fossil.guard.boundary import reading
from fossil.readers.encoding import EncodingPlan
from fossil.readers.npz import read_npz, write_npz
from fossil.readers.read import LoadedGraph, read_graph
from fossil.settings import plain_yaml

CASES = 60
NODES = 30
EXTREMES = (
    b"-1",
    b"1e999",
    b"nan",
    b"99999999999999999999",
    b"0",
    b"",
    b"'",
    b"\xff\xfe",
    b"\x00",
    b"-0x1",
    b"2147483648",
)


def features() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 5, (NODES, 4)).astype(np.float64)


def edges() -> np.ndarray[Any, Any]:
    ring = np.arange(NODES)
    return np.stack([ring, np.roll(ring, -1)])


def nodes_table() -> pd.DataFrame:
    table = pd.DataFrame(features(), columns=list("abcd")).astype({"a": int})
    table.insert(0, "id", [f"n{number}" for number in range(NODES)])
    table["kind"] = [("red", "green", "blué")[number % 3] for number in range(NODES)]
    table["since"] = [f"2021-0{1 + number % 9}-11" for number in range(NODES)]
    table["label"] = [number % 2 for number in range(NODES)]
    return table


def edges_table() -> pd.DataFrame:
    source, target = edges()
    return pd.DataFrame({"source": [f"n{i}" for i in source], "target": [f"n{i}" for i in target]})


def small_graph() -> Graph:
    ties = sp.csr_array((np.ones(NODES, np.float32), tuple(edges())), shape=(NODES, NODES))
    splits = {"public": np.arange(NODES)[None] % 3}
    labels = np.arange(NODES) % 2
    return Graph("g", ties, features(), np.arange(NODES), labels, ("x", "y"), published_splits=splits)


class Sample(NamedTuple):
    """A valid file, what reads it, and how its content is packed and unpacked where that is damaged inside."""

    write: Callable[[Path], Path]
    read: Callable[[Path], object]
    returns: type = LoadedGraph
    open: Callable[[bytes, int], bytes] = lambda whole, pick: whole
    close: Callable[[bytes, bytes, int], bytes] = lambda changed, whole, pick: changed


def table(suffix: str, which: str = "nodes") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        for name, content in (("nodes", nodes_table()), ("edges", edges_table())):
            if suffix == "parquet":
                content.to_parquet(folder / f"{name}.parquet")
            else:
                text = content.to_csv(index=False, sep="\t" if "tsv" in suffix else ",").encode()
                (folder / f"{name}.{suffix}").write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
        return folder / f"{which}.{suffix}"

    return write


def graphml(folder: Path) -> Path:
    graph = nx.DiGraph(list(zip(*edges().tolist(), strict=True)))
    for number, row in enumerate(features().tolist()):
        graph.nodes[number].update({"a": row[0], "b": bool(row[1]), "c": str(row[2])})
    nx.write_graphml(graph, folder / "g.graphml")
    return folder / "g.graphml"


def npz(folder: Path) -> Path:
    ids = np.array([f"n{i}" for i in range(NODES)])
    np.savez(folder / "g.npz", edge_index=edges(), x=features(), y=np.arange(NODES) % 3, ids=ids)
    return folder / "g.npz"


def sparse_npz(folder: Path) -> Path:
    ties, words = small_graph().adjacency, sp.csr_array(features())
    parts = {f"{name}_{part}": getattr(of, part) for name, of in (("adj", ties), ("attr", words))
             for part in ("data", "indices", "indptr", "shape")}  # fmt: skip
    np.savez(folder / "g.npz", labels=np.arange(NODES) % 3, **parts)
    return folder / "g.npz"


def own_npz(folder: Path) -> Path:
    write_npz(folder / "own.npz", small_graph())
    return folder / "own.npz"


def vectors(suffix: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"v.{suffix}"
        if suffix == "npz":
            np.savez(path, vectors=features(), ids=np.arange(NODES))
        else:
            np.save(path, features())
        return path

    return write


def a_member(whole: bytes, pick: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return archive.read(archive.namelist()[pick % len(archive.namelist())])


def with_a_member(changed: bytes, whole: bytes, pick: int) -> bytes:
    """Pack the archive again with one member changed; its checksums are right."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, zipfile.ZipFile(stream, "w") as again:
        names = archive.namelist()
        for name in names:
            again.writestr(name, changed if name == names[pick % len(names)] else archive.read(name))
    return stream.getvalue()


SAMPLES = {
    "csv": Sample(table("csv"), read_graph),
    "csv, the edges": Sample(table("csv", "edges"), lambda path: read_graph(path.parent)),
    "tsv": Sample(table("tsv"), read_graph),
    "csv.gz": Sample(table("csv.gz"), read_graph),
    "csv.gz, inside": Sample(
        table("csv.gz"),
        read_graph,
        LoadedGraph,
        lambda whole, _: gzip.decompress(whole),
        lambda text, *_: gzip.compress(text),
    ),
    "parquet": Sample(table("parquet"), read_graph),
    "parquet, the edges": Sample(table("parquet", "edges"), lambda path: read_graph(path.parent)),
    "graphml": Sample(graphml, read_graph),
    "npz": Sample(npz, read_graph),
    "npz, inside": Sample(npz, read_graph, open=a_member, close=with_a_member),
    "sparse npz, inside": Sample(sparse_npz, read_graph, open=a_member, close=with_a_member),
    "own npz": Sample(own_npz, read_npz, Graph),
    "own npz, inside": Sample(own_npz, read_npz, Graph, a_member, with_a_member),
    "vectors, npz": Sample(vectors("npz"), lambda path: read_vectors(path, small_graph()), OutsideVectors),
    "vectors, npz, inside": Sample(
        vectors("npz"), lambda path: read_vectors(path, small_graph()), OutsideVectors, a_member, with_a_member
    ),
    "vectors, npy": Sample(vectors("npy"), lambda path: read_vectors(path, small_graph()), OutsideVectors),
}


def flipped(piece: bytes, chance: random.Random) -> bytes:
    return bytes(byte ^ 1 << chance.randrange(8) for byte in piece[:1]) + piece[1:]


Cut = Callable[[bytes, bytes, bytes, random.Random], bytes]

# Of what stands before, in and behind a piece of the content, what becomes of it.
DAMAGE: tuple[Cut, ...] = (
    lambda before, piece, behind, chance: before + flipped(piece, chance) + behind,
    lambda before, piece, behind, chance: before,
    lambda before, piece, behind, chance: before + behind,
    lambda before, piece, behind, chance: before + piece + piece + behind,
    lambda before, piece, behind, chance: before + chance.randbytes(len(piece)) + behind,
    lambda before, piece, behind, chance: before + bytes(len(piece)) + behind,
    lambda before, piece, behind, chance: before + b"\xff" * len(piece) + behind,
    lambda before, piece, behind, chance: before + chance.choice(EXTREMES) + behind,
    lambda before, piece, behind, chance: piece + behind + before,
)  # fmt: skip


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one to three things done to it."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        start = chance.randrange(len(content) + 1)
        stop = start + chance.choice((1, 2, 8, 100, len(content)))
        content = chance.choice(DAMAGE)(content[:start], content[start:stop], content[stop:], chance)
    return content


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_a_damaged_file_ends_in_a_graph_or_in_one_message(tmp_path: Path, name: str) -> None:
    sample, chance = SAMPLES[name], random.Random(name)
    path = sample.write(tmp_path)
    whole = path.read_bytes()
    assert isinstance(sample.read(path), sample.returns)
    refused = 0
    for case in range(CASES):
        pick = chance.randrange(1000)
        changed = damaged(sample.open(whole, pick), chance)
        path.write_bytes(sample.close(changed, whole, pick))
        try:
            assert isinstance(sample.read(path), sample.returns)
        except FossilError as error:
            refused += 1
            assert error.what and len(str(error)) < 20_000
        except BaseException as error:
            pytest.fail(f"case {case}: {type(error).__name__}: {error}; {changed[:300]!r}")
    assert refused > 0


# The formats of the catalogue, as if nobody knew the published files.


def write_planetoid(folder: Path) -> None:
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2, (520, 6)).astype(np.float32)
    classes = np.eye(3, dtype=np.int32)[generator.integers(0, 3, 520)]
    parts = {"x": slice(0, 5), "allx": slice(0, 510), "tx": slice(510, 520)}
    for part, rows in parts.items():
        (folder / f"ind.cora.{part}").write_bytes(pickle.dumps(sp.csr_matrix(words[rows]), 3))
        (folder / f"ind.cora.{part.replace('x', 'y')}").write_bytes(pickle.dumps(classes[rows], 3))
    ring = defaultdict(list, {number: [(number + 1) % 520] for number in range(520)})
    (folder / "ind.cora.graph").write_bytes(pickle.dumps(ring, 2))
    (folder / "ind.cora.test.index").write_text("".join(f"{number}\n" for number in range(510, 520)))


def write_geom_gcn(folder: Path) -> None:
    rows = (f"{i}\t{','.join(str(int(v > 2)) for v in row)}\t{i % 2}" for i, row in enumerate(features()))
    (folder / "out1_node_feature_label.txt").write_text("\n".join(["id\tfeature\tlabel", *rows, ""]))
    (folder / "out1_graph_edges.txt").write_text(
        "\n".join(["id\tid", *(f"{a}\t{b}" for a, b in edges().T.tolist()), ""])
    )
    part = np.arange(NODES) % 3
    for number in range(10):
        masks = {f"{name}_mask": part == i for i, name in enumerate(("train", "val", "test"))}
        np.savez(folder / f"texas_split_0.6_0.2_{number}.npz", **masks)


def write_ogb(folder: Path) -> None:
    parts = {"edge": edges().T, "node-feat": features(), "node-label": np.arange(NODES)[:, None] % 3,
             "num-node-list": [[NODES]], "num-edge-list": [[NODES]]}  # fmt: skip
    for name, values in parts.items():
        np.savetxt(folder / f"{name}.csv.gz", values, "%g", ",")


def write_benchmark(folder: Path) -> None:
    sparse_npz(folder).rename(folder / "photo.npz")


CATALOGUE = {
    "planetoid": (write_planetoid, planetoid("Cora")),
    "geom-gcn": (write_geom_gcn, geom_gcn("texas", "WebKB/texas", "texas")),
    "ogb": (write_ogb, ogb("ogbn_arxiv", "arxiv.zip", "node-feat")),
    "gnn-benchmark": (write_benchmark, benchmark("photo", "Amazon/Photo", "photo.npz")),
}


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_a_damaged_published_file_ends_in_a_graph_or_in_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write, files = CATALOGUE[name]
    entry = Entry("made_up", "Made up", Counts(None, None, None, None), "None.", None, *files)
    monkeypatch.setattr("fossil.datasets.catalog.CATALOG", {**CATALOG, "made_up": entry})
    monkeypatch.setattr(verify, "FILES", {})
    folder = (tmp_path / entry.files[0]).parent
    folder.mkdir(parents=True)
    write(folder)
    assert isinstance(load("made_up", data_root=tmp_path, download=False), Graph)
    chance, refused = random.Random(name), 0
    for case in range(2 * CASES):
        path = tmp_path / chance.choice(entry.files)
        whole = path.read_bytes()
        inside = path.suffix == ".gz" and case % 2
        changed = damaged(gzip.decompress(whole) if inside else whole, chance)
        path.write_bytes(gzip.compress(changed) if inside else changed)
        try:
            load("made_up", data_root=tmp_path, download=False)
        except FossilError:
            refused += 1
        except BaseException as error:
            pytest.fail(f"case {case}, {path.name}: {type(error).__name__}: {error}; {changed[:300]!r}")
        path.write_bytes(whole)
    assert refused > 0


def test_a_damaged_archive_ends_in_files_or_in_one_message(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("edge", "node-feat"):
            archive.writestr(f"arxiv/raw/{name}.csv.gz", random.Random(name).randbytes(200))
    whole, chance = stream.getvalue(), random.Random(3)
    (tmp_path / "cache").mkdir()
    for case in range(4 * CASES):
        changed = damaged(whole, chance)
        try:
            with reading("the archive"):
                unpack(io.BytesIO(changed), ["a/raw/edge.csv.gz", "a/raw/node-feat.csv.gz"], tmp_path / "cache")
        except FossilError:
            pass
        except BaseException as error:
            pytest.fail(f"case {case}: {type(error).__name__}: {error}")
        written = {path.relative_to(tmp_path / "cache").as_posix() for path in tmp_path.rglob("*") if path.is_file()}
        assert written <= {"a/raw/edge.csv.gz", "a/raw/node-feat.csv.gz"}


ODD = (None, True, -1, 0.5, 1e308, "", "x" * 50, [], {}, [[]], {"role": "id"}, float("nan"), 10**400)


def changed_somewhere(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with something in it replaced, left out or added."""
    if not value or not isinstance(value, dict | list) or chance.random() < 0.1:
        return chance.choice(ODD)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key, copy = chance.choice(keys), value.copy()
    if chance.random() < 0.1:
        del copy[key]
    else:
        copy[key] = changed_somewhere(value[key], chance)
    return copy


def test_a_damaged_plan_ends_in_a_plan_or_in_one_message(tmp_path: Path) -> None:
    plan = read_graph(table("csv")(tmp_path)).plan
    assert plan is not None
    whole, chance, accepted = json.loads(json.dumps(plan.to_json())), random.Random(1), 0
    for case in range(6 * CASES):
        value = changed_somewhere(whole, chance)
        try:
            # A plan that is accepted also encodes, or says why not.
            read_graph(tmp_path / "nodes.csv", plan=EncodingPlan.from_json(value))
            accepted += 1
        except FossilError:
            pass
        except BaseException as error:
            pytest.fail(f"case {case}: {type(error).__name__}: {error}; {value}")
    assert 0 < accepted < 6 * CASES


def test_a_damaged_text_of_settings_ends_in_values_or_in_one_error() -> None:
    whole = (
        b"method: dgi\nsettings: {width: 512, drop: 0.5, when: 2021-03-04, bits: !!binary aGVs, at: 12:30}\nx: [*a]\n"
    )
    chance = random.Random(2)
    for _ in range(10 * CASES):
        with contextlib.suppress(yaml.YAMLError):
            plain_yaml(damaged(whole, chance).decode("latin-1"))
