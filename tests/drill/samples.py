"""Valid files of every format, small enough to be read in a hundredth of a second."""

from __future__ import annotations

import csv
import gzip
import pickle
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

NODES = 24
CITIES, TRADES = ("Lyon", "Oslo", "Turin"), ("bakers", "joiners", "smiths")
NODE_COLUMNS, EDGE_COLUMNS = ("id", "city", "age", "member", "since", "label"), ("source", "target")


def people(seed: int = 0) -> list[list[str]]:
    """One row a person: an id, a word, a number, a truth value, a date and a class."""
    draw = np.random.default_rng(seed)
    return [
        [
            f"user-{number:02d}",
            CITIES[int(draw.integers(3))],
            f"{draw.normal(40, 10):.1f}",
            str(bool(draw.integers(2))).lower(),
            f"20{int(draw.integers(10, 24))}-0{int(draw.integers(1, 10))}-1{int(draw.integers(10))}",
            TRADES[number % 3],
        ]
        for number in range(NODES)
    ]


def ties(seed: int = 0) -> list[tuple[int, int]]:
    """A ring, and some chords; each edge in both directions."""
    draw = np.random.default_rng(seed)
    pairs = {(number, (number + 1) % NODES) for number in range(NODES)}
    pairs |= {(int(a), int(b)) for a, b in draw.integers(NODES, size=(20, 2)) if a != b}
    return sorted(pairs | {(b, a) for a, b in pairs})


def named_ties(seed: int = 0) -> list[tuple[str, str]]:
    return [(f"user-{a:02d}", f"user-{b:02d}") for a, b in ties(seed)]


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    separator = "\t" if ".tsv" in path.name else ","
    lines = [list(header), *map(list, rows)]
    if path.suffix == ".gz":
        with gzip.open(path, "wt", newline="") as stream:
            csv.writer(stream, delimiter=separator).writerows(lines)
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: [row[i] for row in lines[1:]] for i, name in enumerate(header)}
        if "age" in columns:
            columns["age"] = [float(value) for value in columns["age"]]
        pq.write_table(pa.table(columns), path)
    else:
        with path.open("w", newline="") as stream:
            csv.writer(stream, delimiter=separator).writerows(lines)


def town(folder: Path, suffix: str = ".csv", seed: int = 0) -> None:
    write_table(folder / f"nodes{suffix}", NODE_COLUMNS, people(seed))
    write_table(folder / f"edges{suffix}", EDGE_COLUMNS, named_ties(seed))


def features(seed: int = 0, width: int = 6) -> Any:
    draw = np.random.default_rng(seed)
    return np.round(draw.normal(size=(NODES, width)) * (draw.random((NODES, width)) < 0.6), 3).astype(np.float32)


def labels(seed: int = 0) -> Any:
    return np.random.default_rng(seed).permutation(np.arange(NODES) % 3)


def masks(seed: int = 0, splits: int = 1) -> dict[str, Any]:
    parts = np.stack(
        [np.random.default_rng(seed + number).permutation(np.arange(NODES) % 3) for number in range(splits)]
    )
    return {name: parts == part for part, name in enumerate(("train", "val", "test"))}


def own_npz(folder: Path, seed: int = 0) -> None:
    """The package's own file, made from the town."""
    from fossil.readers.npz import write_npz
    from fossil.readers.read import read_graph

    town(folder, seed=seed)
    write_npz(folder / "graph.npz", read_graph(folder / "nodes.csv").graph)
    for path in folder.glob("*.csv"):
        path.unlink()


def foreign_npz(folder: Path, seed: int = 0) -> None:
    ids = np.array([f"user-{number:02d}" for number in range(NODES)])
    np.savez(folder / "graph.npz", edge_index=np.array(ties(seed)).T, x=features(seed), y=labels(seed), ids=ids)


def graphml(folder: Path, seed: int = 0) -> None:
    import networkx as nx

    graph: Any = nx.DiGraph()
    for number, row in enumerate(people(seed)):
        graph.add_node(number, city=row[1], age=float(row[2]), label=row[5])
    graph.add_edges_from(ties(seed))
    nx.write_graphml(graph, folder / "graph.graphml")


def planetoid(folder: Path, seed: int = 0) -> None:
    draw, count = np.random.default_rng(seed), 506
    values = np.round(draw.random((count, 5)) * (draw.random((count, 5)) < 0.5), 3)
    classes = np.eye(3, dtype=np.int32)[draw.integers(0, 3, count)]
    for part, rows in {"x": slice(0, 3), "allx": slice(0, 504), "tx": slice(504, 506)}.items():
        (folder / f"ind.cora.{part}").write_bytes(pickle.dumps(sp.csr_matrix(values[rows]), protocol=3))
        (folder / f"ind.cora.{part.replace('x', 'y')}").write_bytes(pickle.dumps(classes[rows], protocol=3))
    graph = defaultdict(list, {a: [(a + 1) % count, (a * 7 + seed) % count] for a in range(count)})
    (folder / "ind.cora.graph").write_bytes(pickle.dumps(graph, protocol=2))
    (folder / "ind.cora.test.index").write_text("505\n504\n")


def ogb(folder: Path, seed: int = 0) -> None:
    pairs = ties(seed)
    tables = {
        "num-node-list": [[NODES]], "num-edge-list": [[len(pairs)]], "edge": pairs,
        "node-label": labels(seed)[:, None].tolist(),
        "node-feat": features(seed).tolist(),
    }  # fmt: skip
    for name, rows in tables.items():
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def geom_gcn(folder: Path, seed: int = 0) -> None:
    rows = [
        f"{i}\t{','.join(map(str, (row != 0).astype(int)))}\t{c}"
        for i, (row, c) in enumerate(zip(features(seed), labels(seed), strict=True))
    ]
    (folder / "out1_node_feature_label.txt").write_text("\n".join(["node_id\tfeature\tlabel", *rows, ""]))
    (folder / "out1_graph_edges.txt").write_text(
        "\n".join(["node_id\tnode_id", *(f"{a}\t{b}" for a, b in ties(seed)), ""])
    )
    np.savez_compressed(folder / "split_0.npz", **{f"{name}_mask": each[0] for name, each in masks(seed).items()})


def _csr_arrays(prefix: str, matrix: Any) -> dict[str, Any]:
    stored = sp.csr_array(matrix)
    return {f"{prefix}_{part}": np.asarray(getattr(stored, part)) for part in ("data", "indices", "indptr", "shape")}


def _adjacency(seed: int) -> Any:
    source, target = np.array(ties(seed)).T
    return sp.csr_array((np.ones(len(source), np.float32), (source, target)), shape=(NODES, NODES))


def benchmark_npz(folder: Path, seed: int = 0) -> None:
    arrays = _csr_arrays("adj", _adjacency(seed)) | _csr_arrays("attr", features(seed))
    np.savez(folder / "graph.npz", labels=labels(seed), class_names=np.array(TRADES), **arrays)


def heterophilous_npz(folder: Path, seed: int = 0) -> None:
    split = {f"{name}_masks": each for name, each in masks(seed, 2).items()}
    np.savez(
        folder / "graph.npz",
        edges=np.array(ties(seed)),
        node_features=features(seed),
        node_labels=labels(seed),
        **split,
    )


def wordnet_npz(folder: Path, seed: int = 0) -> None:
    arrays = _csr_arrays("attr", features(seed)) | {f"{name}_mask": each[0] for name, each in masks(seed).items()}
    np.savez(
        folder / "wordnet30.npz", edge_index=np.array(ties(seed)).T, labels=labels(seed), class_names=np.array(TRADES),
        synset_ids=np.array([f"word.n.{i}" for i in range(NODES)]), vocabulary=np.array(list("abcdef")), **arrays,
    )  # fmt: skip
