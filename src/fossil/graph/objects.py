"""Graphs that already live in Python: PyTorch Geometric, NetworkX, SciPy and pandas, in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, encode_labels
from fossil.graph.cells import Column
from fossil.graph.encoding import ColumnChoices, EncodingPlan
from fossil.graph.findings import Finding
from fossil.graph.graph import Array, Features, Graph
from fossil.graph.tables import ID_NAMES, Frame, id_texts, raw_from_frames

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from torch_geometric.data import Data


def from_networkx(
    source: nx.Graph[Any], choices: ColumnChoices | None = None, name: str = "graph"
) -> tuple[RawGraph, EncodingPlan]:
    """Read a NetworkX graph: node attributes are columns; an undirected edge gives both directions.

    Raises:
        GraphError: two nodes have the same text, or an attribute cannot be encoded.
    """
    attributes = list(dict.fromkeys(key for _, values in source.nodes(data=True) for key in values))
    keys = list(source.nodes)
    # The node itself is the id, whatever attributes exist; a name that no attribute has keeps them apart.
    id_name = next(
        f"node{'_' * extra}" for extra in range(len(attributes) + 1) if f"node{'_' * extra}" not in attributes
    )
    columns: dict[str, Column] = {id_name: [str(key) for key in keys]}
    columns |= {str(key): [source.nodes[node].get(key) for node in keys] for key in attributes}
    choices = choices or ColumnChoices()
    nodes = Frame(f"NetworkX graph {name!r}", columns, range(1, len(keys) + 1), unit="node")
    raw, plan = raw_from_frames(nodes, _networkx_edges(source, name), choices, name, id_name)
    return raw, plan


def _networkx_edges(source: nx.Graph[Any], name: str) -> Frame:
    pairs = [(str(a), str(b)) for a, b in source.edges()]
    if not source.is_directed():
        pairs += [(b, a) for a, b in pairs if a != b]
    columns: dict[str, Column] = {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]}
    for key in dict.fromkeys(str(key) for *_, values in source.edges(data=True) for key in values):
        columns.setdefault(key, [None] * len(pairs))
    return Frame(f"NetworkX graph {name!r}", columns, range(1, len(pairs) + 1), unit="edge")


def from_frames(
    nodes: pd.DataFrame, edges: pd.DataFrame, choices: ColumnChoices | None = None, name: str = "graph"
) -> tuple[RawGraph, EncodingPlan]:
    """Read two pandas data frames; an index that is not just a row count serves as the id where no column does."""
    return raw_from_frames(
        _frame(nodes, "the nodes data frame", True), _frame(edges, "the edges data frame"), choices, name
    )


def _frame(data: pd.DataFrame, where: str, index_may_be_id: bool = False) -> Frame:
    import pandas as pd

    named = any(str(column).lower() in ID_NAMES for column in data.columns)
    if index_may_be_id and not named and not isinstance(data.index, pd.RangeIndex):
        data = data.reset_index(names="id")
    if data.shape[1] == 0:
        raise GraphError(f"There are no columns in {where}.", remedy="Give at least an id column.")
    columns: dict[str, Column] = {}
    for position, key in enumerate(data.columns):
        series = data.iloc[:, position]
        if str(key) in columns:
            raise GraphError(f"There are two columns {str(key)!r} in {where}.", remedy="Give each its own name.")
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
            columns[str(key)] = series.to_numpy()
        else:
            columns[str(key)] = [
                None if gap else cell for cell, gap in zip(series.tolist(), series.isna(), strict=True)
            ]
    return Frame(where, columns, range(1, len(data) + 1), unit="row")


def from_scipy(adjacency: Any, features: Any = None, name: str = "graph") -> RawGraph:
    """Read an N×N SciPy sparse matrix (row i points to its columns) and N×F features, dense or sparse.

    Raises:
        GraphError: the matrix is not square, or the features are not numbers.
    """
    if not sp.issparse(adjacency) or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(
            f"The adjacency is a {type(adjacency).__name__} of shape {getattr(adjacency, 'shape', None)}.",
            remedy="Give a square SciPy sparse matrix, one row and one column a node.",
        )
    entries = sp.coo_array(adjacency)
    present = entries.data != 0
    weighted = int(np.count_nonzero(entries.data[present] != 1))
    return raw_from_arrays(
        source=entries.row[present],
        target=entries.col[present],
        nodes=int(adjacency.shape[0]),
        features=features,
        name=name,
        findings=(Finding("edge weights other than 1", weighted, "ignored"),) if weighted else (),
    )


def from_pyg(data: Data, name: str = "graph") -> RawGraph:
    """Read `edge_index`, `x` (dense or sparse) and `y` of a PyTorch Geometric graph; masks are not read.

    Raises:
        GraphError: several node types, or parts that do not fit together.
    """
    if hasattr(data, "node_types"):
        raise GraphError(
            f"A {type(data).__name__} with several node types is not one attributed graph.",
            remedy="Turn it into a plain Data object first, for example with to_homogeneous().",
        )
    edge_index, features, labels = (getattr(data, key, None) for key in ("edge_index", "x", "y"))
    edges = np.empty((2, 0), np.int64) if edge_index is None else edge_index.detach().cpu().numpy()
    ignored = tuple(key for key in ("edge_attr", "edge_weight") if getattr(data, key, None) is not None)
    return raw_from_arrays(
        source=edges[0],
        target=edges[1],
        nodes=data.num_nodes or 0,
        features=_from_tensor(features),
        labels=None if labels is None else labels.detach().cpu().numpy(),
        name=name,
        findings=(Finding("edge attributes", len(ignored), "ignored", ignored),) if ignored else (),
    )


def _from_tensor(tensor: Any) -> Any:
    import torch

    if tensor is None:
        return None
    tensor = tensor.detach().cpu()
    if tensor.layout == torch.strided:
        return tensor.float().numpy()
    coordinates = tensor.to_sparse_coo().coalesce()
    row, column = coordinates.indices().numpy()
    return sp.csr_array((coordinates.values().float().numpy(), (row, column)), shape=tuple(tensor.shape))


def to_pyg(graph: Graph) -> Data:
    """Return a PyTorch Geometric `Data` with copies of the arrays; sparse features stay sparse (CSR)."""
    import torch
    from torch_geometric.data import Data

    source, target = graph.adjacency.nonzero()
    edge_index = torch.from_numpy(np.stack([source, target]).astype(np.int64))
    if sp.issparse(graph.features):
        stored = sp.csr_array(graph.features)
        x = torch.sparse_csr_tensor(
            torch.tensor(stored.indptr.astype(np.int64)),
            torch.tensor(stored.indices.astype(np.int64)),
            torch.tensor(stored.data),
            size=stored.shape,
            check_invariants=True,
        )
    else:
        x = torch.tensor(graph.features)
    y = None if graph.labels is None else torch.tensor(graph.labels)
    return Data(x=x, edge_index=edge_index, y=y, num_nodes=graph.num_nodes)


def raw_from_arrays(
    *,
    source: Array,
    target: Array,
    nodes: int,
    features: Any,
    labels: Any = None,
    label_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    ids: Array | None = None,
    name: str = "graph",
    findings: tuple[Finding, ...] = (),
) -> RawGraph:
    """Collect the arrays of a graph; N×0 features when there are none, row numbers when there are no ids.

    Raises:
        GraphError: features or labels of a kind that cannot be used.
    """
    numbers, names = (None, ()) if labels is None else class_labels(labels)
    return RawGraph(
        name=name,
        source=np.asarray(source),
        target=np.asarray(target),
        features=_feature_matrix(features, nodes),
        ids=np.arange(nodes) if ids is None else np.array(ids),
        labels=numbers,
        label_names=tuple(label_names) or names,
        feature_names=tuple(feature_names),
        findings=findings,
    )


def _feature_matrix(features: Any, nodes: int) -> Features:
    if features is None:
        return np.zeros((nodes, 0), np.float32)
    matrix: Features = sp.csr_array(features) if sp.issparse(features) else np.asarray(features)
    if matrix.ndim != 2 or matrix.shape[0] != nodes or matrix.dtype.kind not in "fiub":
        raise GraphError(
            f"Features have shape {matrix.shape} and type {matrix.dtype} for {nodes} nodes.",
            remedy="Give a matrix of numbers with one row a node.",
        )
    return matrix


def class_labels(values: Any) -> tuple[Array, tuple[str, ...]]:
    """Return class numbers (N, -1 unknown) or binary tasks (N×T) from an array of numbers or texts.

    >>> class_labels(np.array([2.0, np.nan, 0.0]))
    (array([ 2, -1,  0]), ())

    Raises:
        GraphError: numbers that are not whole.
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "fiub":
        return encode_labels(id_texts(array))
    unknown = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
    whole = np.where(unknown, -1, array)
    if array.ndim > 2 or (whole != np.floor(whole)).any():
        raise GraphError(
            f"Labels of shape {array.shape} are not whole numbers.", remedy="Labels are classes; leave out targets."
        )
    return whole.astype(np.int64), ()
