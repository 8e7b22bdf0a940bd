"""Files made to do harm: small ones that become large, ones that never end, and things that are no files at all."""

from __future__ import annotations

import gzip
import io
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import samples
from bombs import BOMB, gzip_bomb, npy, zip_bomb
from cell import Verdict, watched, where
from containers import packed

from fossil.datasets.catalog import load
from fossil.datasets.ogb import read_ogb
from fossil.datasets.planetoid import read_planetoid
from fossil.datasets.webgraphs import read_benchmark_npz, read_geom_gcn
from fossil.errors import FossilError
from fossil.readers.read import read_graph
from fossil.readers.source import open_graph
from fossil.settings import parse_assignments

SECONDS = 60.0  # making the file included


def members(**arrays: Any) -> dict[str, bytes]:
    parts = {}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, np.asarray(array), allow_pickle=False)
        parts[f"{name}.npy"] = stream.getvalue()
    return parts


def plain_members() -> dict[str, bytes]:
    return members(edge_index=np.array(samples.ties()).T, x=samples.features())


@dataclass(frozen=True)
class Harmful:
    """One such file.

    Attributes:
        name: what it is.
        make: puts it into an empty folder.
        use: what its victim does with it.
    """

    name: str
    make: Callable[[Path], object]
    use: Callable[[Path], object]

    row = "hostile files"
    seconds = SECONDS
    together = 1

    @property
    def key(self) -> str:
        return f"hostile/{self.name}"

    def prepare(self, folder: Path) -> None:
        """Make the file."""
        self.make(folder)

    def play(self, folder: Path) -> Verdict:
        """Be its victim."""
        with warnings.catch_warnings(), watched(folder) as noticed:
            warnings.simplefilter("ignore")
            verdict = self._judge(folder)
        return Verdict("trespass", noticed[0]) if noticed else verdict

    def _judge(self, folder: Path) -> Verdict:
        try:
            self.use(folder)
        except FossilError as error:
            return Verdict("refused", str(error)[:400])
        except BaseException as error:
            return Verdict("traceback", where(error))
        return Verdict("fine")


def read_npz(folder: Path) -> object:
    return read_graph(folder / "graph.npz")


def read_csv(folder: Path) -> object:
    return read_graph(folder / "nodes.csv")


def _write_npz(**arrays: Any) -> Callable[[Path], object]:
    return lambda folder: np.savez(folder / "graph.npz", **arrays)


def _labelled(*codes: int) -> Callable[[Path], object]:
    return _write_npz(
        edge_index=np.array(samples.ties()).T, x=samples.features(), y=np.resize(np.array(codes), samples.NODES)
    )


def _one_nan(folder: Path) -> None:
    count = 200_000
    edges = np.stack([np.arange(count - 1), np.arange(1, count)])
    np.savez(
        folder / "graph.npz",
        edge_index=edges,
        x_data=np.full(1, np.nan, np.float32),
        x_indices=np.zeros(1, np.int32),
        x_indptr=np.minimum(np.arange(count + 1), 1),
        x_shape=np.array([count, count]),
    )


def _long_strings(folder: Path) -> None:
    """Ten thousand rows that share one text of a megabyte, which Parquet stores once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 10_000
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["a" * 2**20]))
    pq.write_table(pa.table({"id": pa.array([str(i) for i in range(rows)]), "word": text}), folder / "nodes.parquet")
    pq.write_table(pa.table({"source": ["0"], "target": ["1"]}), folder / "edges.parquet")


def _many_rows(folder: Path) -> None:
    """Row groups of one number each million rows: 400 million rows in a file of a megabyte."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = pa.table({"id": pa.array(np.zeros(4_000_000, np.int64)), "age": pa.array(np.zeros(4_000_000))})
    with pq.ParquetWriter(folder / "nodes.parquet", part.schema, compression="zstd") as writer:
        for _ in range(100):
            writer.write_table(part, row_group_size=4_000_000)
    pq.write_table(pa.table({"source": [0], "target": [1]}), folder / "edges.parquet")


def _wide(columns: int, names: Callable[[int], str]) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        head = ",".join(["id", *map(names, range(columns))])
        row = ",".join(["1"] * columns)
        (folder / "nodes.csv").write_text(f"{head}\na,{row}\nb,{row}\n")
        (folder / "edges.csv").write_text("source,target\na,b\n")

    return make


def bomb_of_aliases(depth: int = 30) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, depth)]
    return "\n".join(lines)


def _assigned(text: str) -> Callable[[Path], object]:
    from fossil.methods.registry import get_method

    return lambda folder: get_method("fossil").configure(None, parse_assignments([text]))


_XML = '<?xml version="1.0"?><!DOCTYPE g [{entities}]><graphml xmlns="http://graphml.graphdrawing.org/xmlns">{body}</graphml>'
_LAUGHS = "".join([f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(12)])
_GRAPHML_BODY = (
    '<key id="d0" for="node" attr.name="t" attr.type="string"/><graph edgedefault="directed"><node id="0">'
    '<data key="d0">{text}</data></node></graph>'
)


def _graphml(text: str) -> tuple[Callable[[Path], object], Callable[[Path], object]]:
    return (lambda folder: (folder / "graph.graphml").write_text(text)), (
        lambda folder: read_graph(folder / "graph.graphml")
    )


def _ogb_with(name: str, text: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        samples.ogb(folder)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text))

    return make


def _planetoid_with(part: str, content: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        samples.planetoid(folder)
        (folder / f"ind.cora.{part}").write_bytes(content)

    return make


def _geom_gcn_with(text: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / "out1_node_feature_label.txt").write_text(f"node_id\tfeature\tlabel\n{text}")
        (folder / "out1_graph_edges.txt").write_text("node_id\tnode_id\n0\t1\n")

    return make


def _planetoid(folder: Path) -> object:
    return read_planetoid(folder, "cora")


def _ogb(folder: Path) -> object:
    return read_ogb(folder, "small")


def nothing(folder: Path) -> None:
    """Leave the folder empty."""


_GZIPPED = b"id,age\n", b"a,1\n"
HARMFUL = (
    Harmful(
        "an unused member of 3 GiB",
        lambda folder: (folder / "graph.npz").write_bytes(zip_bomb(plain_members(), "unused.npy", npy(f"({BOMB},)"))),
        read_npz,
    ),
    Harmful(
        "features of 3 GiB",
        lambda folder: (folder / "graph.npz").write_bytes(
            zip_bomb(
                members(edge_index=np.array(samples.ties()).T),
                "x.npy",
                npy(f"({samples.NODES}, {BOMB // samples.NODES})"),
            )
        ),
        read_npz,
    ),
    Harmful(
        "a declared shape of 10¹²",
        lambda folder: (folder / "graph.npz").write_bytes(
            packed([*plain_members().items(), ("y.npy", npy("(1000000000000,)") + bytes(50))])
        ),
        read_npz,
    ),
    Harmful("a node number of 2⁴⁰", _write_npz(edge_index=np.array([[0, 2**40], [1, 0]])), read_npz),
    Harmful(
        "a node number of 10⁹",
        _write_npz(edge_index=np.array([[0, 10**9], [1, 0]])),
        lambda folder: read_graph(folder / "graph.npz", structural_features=True),
    ),
    Harmful("classes 1,000,000 and 2,000,000", _labelled(1_000_000, 2_000_000), read_npz),
    Harmful("classes that are years", _labelled(1990, 2024), read_npz),
    Harmful("class -100", _labelled(-100, 0, 1), read_npz),
    Harmful("classes of 2⁶²", _labelled(2**62, 0, 1), read_npz),
    Harmful("NaN in wide sparse features", _one_nan, read_npz),
    Harmful(
        "a sparse shape of 2⁴⁰",
        _write_npz(
            adj_data=np.ones(1),
            adj_indices=np.zeros(1, np.int64),
            adj_indptr=np.array([0, 1]),
            adj_shape=np.array([2**40, 2**40]),
        ),
        read_npz,
    ),
    Harmful(
        "a benchmark's shape of 2⁴⁰",
        _write_npz(
            labels=np.zeros(2, int),
            adj_data=np.ones(1),
            adj_indices=np.zeros(1, np.int64),
            adj_indptr=np.array([0, 1, 1]),
            adj_shape=np.array([2, 2]),
            attr_data=np.ones(1),
            attr_indices=np.zeros(1, np.int64),
            attr_indptr=np.array([0, 1, 1]),
            attr_shape=np.array([2, 2**40]),
        ),
        lambda folder: read_benchmark_npz(folder / "graph.npz", "small"),
    ),
    Harmful(
        "a gzipped table of 3 GiB",
        lambda folder: (folder / "nodes.csv.gz").write_bytes(gzip_bomb(*_GZIPPED)),
        lambda folder: read_graph(folder / "nodes.csv.gz"),
    ),
    Harmful(
        "a gzipped line of 3 GiB",
        lambda folder: (folder / "nodes.csv.gz").write_bytes(gzip_bomb(b"id,age\na,", b"1")),
        lambda folder: read_graph(folder / "nodes.csv.gz"),
    ),
    Harmful(
        "a gzipped OGB table of 3 GiB",
        lambda folder: (samples.ogb(folder), (folder / "edge.csv.gz").write_bytes(gzip_bomb(b"0,1\n", b"0,1\n"))),
        _ogb,
    ),
    Harmful("10,000 rows of one megabyte", _long_strings, lambda folder: read_graph(folder / "nodes.parquet")),
    Harmful("400 million rows", _many_rows, lambda folder: read_graph(folder / "nodes.parquet")),
    Harmful("60,000 columns", _wide(60_000, lambda i: f"column{i}"), read_csv),
    Harmful("60,000 columns of one name", _wide(60_000, lambda i: "column"), read_csv),
    Harmful(
        "a cell of 100 MB",
        lambda folder: (samples.town(folder), (folder / "nodes.csv").write_text("id,a\nx," + "y" * 10**8)),
        read_csv,
    ),
    Harmful(
        "a quote that never ends",
        lambda folder: (samples.town(folder), (folder / "nodes.csv").write_text('id,a\nx,"' + "y,\n" * 10**6)),
        read_csv,
    ),
    Harmful(
        "pickle: memo index 2²⁹", _planetoid_with("allx", b"N" + b"r" + struct.pack("<I", 2**29) + b"."), _planetoid
    ),
    Harmful(
        "pickle: memo index 2³²", _planetoid_with("allx", b"N" + b"r" + struct.pack("<I", 2**32 - 1) + b"."), _planetoid
    ),
    Harmful(
        "pickle: a text of 2⁶² bytes", _planetoid_with("allx", b"\x8d" + struct.pack("<Q", 2**62) + b"a."), _planetoid
    ),
    Harmful("pickle: a text of 8 GB", _planetoid_with("allx", b"\x8d" + struct.pack("<Q", 2**33) + b"a."), _planetoid),
    Harmful("pickle: nested 10⁶ deep", _planetoid_with("graph", b"(" * 10**6 + b"."), _planetoid),
    Harmful("pickle: lists that double", _planetoid_with("graph", b"]" + b"2\x81" * 40 + b"."), _planetoid),
    Harmful("pickle: os.system", _planetoid_with("graph", b"cos\nsystem\n(S'touch trespass'\ntR."), _planetoid),
    Harmful("test.index of 10¹⁵", _planetoid_with("test.index", b"1000000000000000\n504\n"), _planetoid),
    Harmful("test.index of 10³⁰", _planetoid_with("test.index", b"1" + b"0" * 30 + b"\n504\n"), _planetoid),
    Harmful("num-node-list of 10¹²", _ogb_with("num-node-list", b"1000000000000\n"), _ogb),
    Harmful("num-edge-list of -1", _ogb_with("num-edge-list", b"-1\n"), _ogb),
    Harmful(
        "a feature's number of 10¹²",
        _geom_gcn_with("0\t1000000000000\t0\n1\t1\t0\n"),
        lambda folder: read_geom_gcn(folder, "small", "indices"),
    ),
    Harmful(
        "a class of 10¹²",
        _geom_gcn_with("0\t1\t1000000000000\n1\t1\t0\n"),
        lambda folder: read_geom_gcn(folder, "small", "indices"),
    ),
    Harmful("csbm of 10¹² nodes", nothing, lambda folder: open_graph("csbm:nodes=1000000000000")),
    Harmful("csbm of 2 × 10⁹ nodes", nothing, lambda folder: open_graph("csbm:nodes=2000000000,features=2")),
    Harmful("csbm of 10⁹ features", nothing, lambda folder: open_graph("csbm:nodes=100,features=1000000000")),
    Harmful("digits of 10⁹ neighbours", nothing, lambda folder: open_graph("digits:neighbours=1000000000")),
    Harmful("a catalogue name that is a path", nothing, lambda folder: load("../../etc/passwd")),
    Harmful(
        "--set: aliases that multiply", nothing, _assigned("alpha={" + bomb_of_aliases().replace("\n", ", ") + "}")
    ),
    Harmful("--set: 100,000 brackets", nothing, _assigned("alpha=" + "[" * 100_000)),
    Harmful("--set: 100,000 braces", nothing, _assigned("alpha=" + "{a: " * 100_000)),
    Harmful('--set: !!int ""', nothing, _assigned('alpha=!!int ""')),
    Harmful("--set: a number of 100,000 digits", nothing, _assigned("alpha=" + "9" * 100_000)),
    Harmful("--set: a call", nothing, _assigned("alpha=!!python/object/apply:os.system ['touch trespass']")),
    Harmful("--set: a base-60 number", nothing, _assigned("width=" + ":".join(["59"] * 20_000))),
    Harmful(
        "GraphML: a billion laughs", *_graphml(_XML.format(entities=_LAUGHS, body=_GRAPHML_BODY.format(text="&a11;")))
    ),
    Harmful(
        "GraphML: a file from outside",
        *_graphml(
            _XML.format(entities='<!ENTITY x SYSTEM "file:///etc/passwd">', body=_GRAPHML_BODY.format(text="&x;"))
        ),
    ),
    Harmful("GraphML: 100,000 deep", *_graphml('<?xml version="1.0"?>' + "<graphml>" * 100_000)),
)
