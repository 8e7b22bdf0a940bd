"""Graphs by name: the nine of the paper, more that others report on, and two that need no download.

>>> load("csbm", nodes=50, degree=4, features=3).num_nodes
50
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fossil.datasets.fetch import find_or_fetch
from fossil.datasets.files import benchmark, filtered, geom_gcn, ogb, planetoid, webkb, wikipedia, wordnet
from fossil.datasets.pins import CONTENT
from fossil.datasets.synthetic import DIGITS, BlockModel, csbm, digits_graph
from fossil.datasets.verify import content_digest
from fossil.errors import DataError, SettingError, nearest
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.guard.boundary import reading

_REPLACE = "The files are damaged or not the published ones: replace them."


def _nothing_to_read(folder: Path) -> RawGraph:
    raise DataError(f"Nothing is read from {folder}: this graph is made on the spot.", remedy="Use `load`.")


class Counts(NamedTuple):
    """Size of a graph before any treatment; None where the caller decides.

    Attributes:
        nodes: N.
        edges: directed edges, repeated ones counted once.
        features: F.
        classes: number of classes, or of binary tasks.
    """

    nodes: int | None
    edges: int | None
    features: int | None
    classes: int | None


@dataclass(frozen=True, eq=False)
class Entry:
    """What is known about a named graph before it is read.

    Attributes:
        name: what to load it by.
        title: what papers call it.
        counts: what the published files hold, checked whenever they are read.
        note: what to know before using it, in one line.
        homophily: H(G) in Table 1 of the paper, None where the table does not have the graph.
        origins: where each file is published, by its path below the data root; empty for a graph made on the spot.
        reader: makes the graph from the folder that holds the files.
        generator: makes the graph on the spot.
        parameters: names of the settings that `generator` takes.
        splits: names of the splits that were published with it (`fossil.graph.published`).
    """

    name: str
    title: str
    counts: Counts
    note: str
    homophily: float | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    reader: Callable[[Path], RawGraph] = _nothing_to_read
    generator: Callable[..., Graph] | None = None
    parameters: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files below the data root."""
        return tuple(self.origins)


def names() -> tuple[str, ...]:
    """Return every name that `load` accepts, the paper's graphs first."""
    return tuple(CATALOG)


def find(name: str) -> Entry:
    """Return the entry of a name, whatever its case and whether it is written with `-`, `_` or spaces.

    Raises:
        DataError: there is no such graph.

    >>> find("Coauthor-CS").name
    'coauthor_cs'
    """
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    if key not in CATALOG:
        raise DataError(f"There is no graph named {name!r} in the catalogue.", remedy=nearest(key, CATALOG))
    return CATALOG[key]


def known_name(graph: Graph) -> str:
    """Return the catalogue name of a graph, or an empty text for any other graph, even one of the same name.

    Recipes and split rules belong to the published graphs; a user's own folder called `cora` must not inherit them.
    """
    entry = CATALOG.get(graph.name)
    if entry is None or entry.counts.features not in (None, graph.num_features):
        return ""
    # Fewer nodes are fine: a treatment may drop some.
    return entry.name if entry.counts.nodes is None or graph.num_nodes <= entry.counts.nodes else ""


def describe(name: str) -> str:
    """Return one line about a named graph, without reading it.

    >>> print(describe("cora"))
    cora: Cora, 2,708 nodes, 10,556 edges, 1,433 features, 7 classes, homophily 0.81. Papers and their citations.
    """
    entry = find(name)
    parts = [entry.title]
    for kind, count in entry.counts._asdict().items():
        parts.append(f"{kind} to choose" if count is None else f"{count:,} {kind}")
    if entry.homophily is not None:
        parts.append(f"homophily {entry.homophily:.2f}")
    return f"{entry.name}: {', '.join(parts)}. {entry.note}"


def load(
    name: str,
    *,
    treatment: Treatment | None = None,
    data_root: Path | str | None = None,
    download: bool = True,
    **parameters: Any,
) -> Graph:
    """Load a graph by name.

    Args:
        name: see `names()`.
        treatment: what is done about self loops, direction and the like; the default keeps directions.
        data_root: where to look for the files first; by default `$FOSSIL_DATA`. Then the user's cache is searched.
        download: whether missing files may be downloaded into the cache.
        **parameters: settings of a graph made on the spot, for example `nodes=1000` for `csbm`.

    Raises:
        DataError: the name is unknown, or its files are missing, damaged or not the published ones.
        SettingError: a parameter is unknown or impossible.
    """
    entry = find(name)
    for parameter in parameters:
        if parameter not in entry.parameters:
            remedy = nearest(parameter, entry.parameters) if entry.parameters else "Leave it out."
            raise SettingError(f"{entry.name} has no parameter {parameter!r}.", remedy=remedy)
    if entry.generator is not None:
        return entry.generator(treatment=treatment, **parameters)
    read = partial(_read_checked, entry)
    return assemble(find_or_fetch(entry.name, entry.origins, read, data_root=data_root, download=download), treatment)


def _read_checked(entry: Entry, root: Path) -> RawGraph:
    """Read the files of an entry and compare what is in them with what was published."""
    folder = (root / entry.files[0]).parent
    with reading(folder, DataError, _REPLACE):
        raw = entry.reader(folder)
        _check_published(entry, raw, folder)
    return raw


def _check_published(entry: Entry, raw: RawGraph, folder: Path) -> None:
    for end in (raw.source, raw.target):
        if end.min(initial=0) < 0 or end.max(initial=0) >= len(raw.ids):
            raise DataError(
                f"{entry.name} has edges in {folder} to nodes outside 0 to {len(raw.ids) - 1:,}.", remedy=_REPLACE
            )
    found = _count(raw)._asdict()
    for kind, expected in entry.counts._asdict().items():
        if expected is not None and found[kind] != expected:
            raise DataError(
                f"{entry.name} has {found[kind]:,} {kind} in {folder}, but {expected:,} are expected.", remedy=_REPLACE
            )
    if entry.name in CONTENT and content_digest(raw) != CONTENT[entry.name]:
        raise DataError(f"The graph in {folder} has the size of {entry.name} and other content.", remedy=_REPLACE)


def _count(raw: RawGraph) -> Counts:
    nodes = len(raw.ids)
    once = sp.csr_array((np.ones(len(raw.source), bool), (raw.source, raw.target)), shape=(nodes, nodes))
    labels = np.zeros(0, np.int64) if raw.labels is None else np.asarray(raw.labels)
    classes = labels.shape[-1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
    return Counts(nodes, int(once.nnz), raw.features.shape[1], classes)


_PAGES = "Linked pages, many of them duplicated; directed."
_FILTERED = "Linked pages without duplicates, each edge in both directions."
_DIRECTED = "Linked pages without duplicates; directed."

_ENTRIES = (
    Entry(
        *("cora", "Cora", Counts(2708, 10556, 1433, 7), "Papers and their citations.", 0.81),
        *planetoid("Cora"),
        splits=("public",),
    ),
    Entry(
        *("citeseer", "CiteSeer", Counts(3327, 9104, 3703, 6), "Papers; 15 have neither words nor a class.", 0.74),
        *planetoid("CiteSeer"),
        splits=("public",),
    ),
    Entry(
        *("pubmed", "PubMed", Counts(19717, 88648, 500, 3), "Papers on diabetes and their citations.", 0.80),
        *planetoid("PubMed"),
        splits=("public",),
    ),
    Entry(
        *("coauthor_cs", "CoAuthor-CS", Counts(18333, 163788, 6805, 15)),
        *("Authors, joined when they wrote a paper together.", 0.81),
        *benchmark("coauthor_cs", "Coauthor/CS", "ms_academic_cs.npz"),
    ),
    Entry(
        *("actor", "Actor", Counts(7600, 30019, 932, 5), "Actors named on the same page; directed.", 0.22),
        *geom_gcn("actor", "Actor", "film", "indices"),
        splits=("geom_gcn",),
    ),
    Entry(
        *("chameleon", "Chameleon", Counts(2277, 36101, 2325, 5), _PAGES, 0.24),
        *wikipedia("chameleon"),
        splits=("geom_gcn",),
    ),
    Entry(
        *("squirrel", "Squirrel", Counts(5201, 217073, 2089, 5), _PAGES, 0.22),
        *wikipedia("squirrel"),
        splits=("geom_gcn",),
    ),
    Entry(
        *("ogbn_arxiv", "ogbn-arxiv", Counts(169343, 1166243, 128, 40)),
        *("Computer science papers and their citations; directed.", None),
        *ogb("ogbn_arxiv", "arxiv.zip", "node-feat"),
    ),
    Entry(
        *("ogbn_proteins", "ogbn-proteins", Counts(132534, 79122504, 8, 112)),
        *("112 binary tasks; features are means over edges.", None),
        *ogb("ogbn_proteins", "proteins.zip", "edge-feat", add_inverse=True),
    ),
    Entry(
        *("chameleon_filtered", "Chameleon, filtered", Counts(890, 17708, 2325, 5), _FILTERED),
        *(None, *filtered("chameleon_filtered")),
        splits=("geom_gcn",),
    ),
    Entry(
        *("squirrel_filtered", "Squirrel, filtered", Counts(2223, 93996, 2089, 5), _FILTERED),
        *(None, *filtered("squirrel_filtered")),
        splits=("geom_gcn",),
    ),
    Entry(
        *("chameleon_filtered_directed", "Chameleon, filtered, directed", Counts(890, 13584, 2325, 5), _DIRECTED),
        *(None, *filtered("chameleon_filtered_directed")),
        splits=("geom_gcn",),
    ),
    Entry(
        *("squirrel_filtered_directed", "Squirrel, filtered, directed", Counts(2223, 65718, 2089, 5), _DIRECTED),
        *(None, *filtered("squirrel_filtered_directed")),
        splits=("geom_gcn",),
    ),
    Entry(
        *("amazon_photo", "Amazon Photo", Counts(7650, 238162, 745, 8), "Goods that are bought together.", None),
        *benchmark("amazon_photo", "Amazon/Photo", "amazon_electronics_photo.npz"),
    ),
    Entry(
        *("texas", "Texas", Counts(183, 325, 1703, 5), "Pages of a university; one class has a single page.", None),
        *webkb("texas"),
        splits=("geom_gcn",),
    ),
    Entry(
        *("cornell", "Cornell", Counts(183, 298, 1703, 5)),
        *("Pages of a university, with classes of its own and not those of Texas.", None),
        *webkb("cornell"),
        splits=("geom_gcn",),
    ),
    Entry(
        *("wordnet", "WordNet 3.0", Counts(117659, 361638, 2000, 45)),
        *("Senses of words and pointers between them; directed, no published benchmark.", None),
        *wordnet(),
        splits=("public",),
    ),
    Entry(
        name="digits",
        title="Digits",
        counts=Counts(DIGITS, None, 64, 10),
        note="Images of digits, joined to their nearest; nothing to download.",
        generator=digits_graph,
        parameters=("neighbours",),
    ),
    Entry(
        name="csbm",
        title="cSBM",
        counts=Counts(None, None, None, 2),
        note="Random graph of chosen homophily; nothing to download.",
        generator=csbm,
        parameters=tuple(BlockModel.model_fields),
    ),
)

CATALOG: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every named graph."""
