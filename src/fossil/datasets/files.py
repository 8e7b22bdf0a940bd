"""Where the files of each named graph are published, and what reads them.

Each function returns the address of every file by its path below the data root, in the layout of PyTorch Geometric
where that has the graph, and what makes the graph from the folder of the first file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from fossil.datasets.ogb import read_ogb
from fossil.datasets.planetoid import PARTS, read_planetoid
from fossil.datasets.webgraphs import read_benchmark_npz, read_geom_gcn, read_heterophilous_npz, read_wordnet
from fossil.graph.assemble import RawGraph

Files: TypeAlias = tuple[dict[str, str], Callable[[Path], RawGraph]]

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/f1fc0d14b3b019c562737240d06ec83b07d16a8f"
# In the repository above, Cornell's features and classes are a copy of those of Texas; its splits are right.
_CORNELL = "https://raw.githubusercontent.com/bingzhewei/geom-gcn/1124af17444d7fd09686504ec46caa3f39f4f632"
_FILTERED = "https://github.com/yandex-research/heterophilous-graphs/raw/a431395582e929d88271309716bea4fe24ce6318/data"
_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_WORDNET = (
    "a machine that has it: it is derived from the files data.noun, data.verb, data.adj and data.adv of WordNet 3.0 "
    "and published nowhere"
)

_GEOM_GCN_SPLITS = 10


def planetoid(title: str) -> Files:
    """Return the files of a citation graph."""
    name = title.lower()
    files = [f"ind.{name}.{part}" for part in PARTS]
    origins = {f"Planetoid/{title}/raw/{file}": f"{_PLANETOID}/{file}" for file in files}
    return origins, partial(read_planetoid, name=name)


def geom_gcn(
    name: str, folder: str, published: str, layout: Literal["indices", "values"] = "values", origin: str = _GEOM_GCN
) -> Files:
    """Return the text files of a graph and its ten splits.

    Args:
        name: of the graph.
        folder: below the data root.
        published: what the graph is called there.
        layout: how features are written.
        origin: where features, classes and edges come from.
    """
    files = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
    splits = [f"{published}_split_0.6_0.2_{number}.npz" for number in range(_GEOM_GCN_SPLITS)]
    origins = {f"{folder}/raw/{file}": f"{origin}/new_data/{published}/{file}" for file in files}
    origins |= {f"{folder}/raw/{file}": f"{_GEOM_GCN}/splits/{file}" for file in splits}
    return origins, partial(read_geom_gcn, name=name, layout=layout, splits=splits)


def wikipedia(name: str) -> Files:
    """Return the files of a graph of linked pages, as geom-gcn has them."""
    return geom_gcn(name, f"WikipediaNetwork/{name}/geom_gcn", name)


def webkb(name: str) -> Files:
    """Return the files of the pages of a university."""
    return geom_gcn(name, f"WebKB/{name}", name, origin=_CORNELL if name == "cornell" else _GEOM_GCN)


def filtered(name: str) -> Files:
    """Return the file of a graph of linked pages without their duplicates."""
    file = f"{name}.npz"
    origins = {f"heterophilous_filtered/{file}": f"{_FILTERED}/{file}"}
    return origins, lambda raw: read_heterophilous_npz(raw / file, name, directed=name.endswith("_directed"))


def benchmark(name: str, folder: str, file: str) -> Files:
    """Return the file of a graph of gnn-benchmark."""
    return {f"{folder}/raw/{file}": f"{_BENCHMARK}/{file}"}, lambda raw: read_benchmark_npz(raw / file, name)


def ogb(name: str, archive: str, feature_file: str, *, add_inverse: bool = False) -> Files:
    """Return the files of a graph of the Open Graph Benchmark."""
    files = ("edge", feature_file, "node-label", "num-node-list", "num-edge-list")
    origins = {f"{name}/raw/{file}.csv.gz": f"{_OGB}/{archive}" for file in files}
    return origins, partial(read_ogb, name=name, add_inverse=add_inverse)


def wordnet() -> Files:
    """Return the file of WordNet's graph."""
    return {"WordNet/wordnet30.npz": _WORDNET}, lambda raw: read_wordnet(raw / "wordnet30.npz", "wordnet")
