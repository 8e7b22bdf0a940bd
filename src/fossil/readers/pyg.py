"""PyTorch Geometric graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Treatment
from fossil.graph.graph import Array
from fossil.readers.arrays import raw_from_arrays
from fossil.readers.base import Found, Reader, Request, instance_of
from fossil.readers.weights import edge_values


class PyGData(Reader):
    """A PyTorch Geometric `Data`: `edge_index`, `x` (dense or sparse) and `y`; masks are not read."""

    name = "pyg"
    form = "a PyTorch Geometric Data"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is one."""
        return instance_of(source, "torch_geometric.data.data", "BaseData")

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read it.

        Raises:
            GraphError: several node types, edge weights, edges in another form, or parts that do not fit together.
        """
        return Found(_raw(source, request.name or "graph", request.treatment))


def _raw(data: Any, name: str, treatment: Treatment) -> RawGraph:
    if hasattr(data, "node_types"):
        raise GraphError(
            f"A {type(data).__name__} with several node types is not one attributed graph.",
            remedy="Turn it into a plain Data object first, for example with to_homogeneous().",
        )
    features, labels = (getattr(data, key, None) for key in ("x", "y"))
    edges = _ends(data)
    given = {key: getattr(data, key, None) for key in ("edge_attr", "edge_weight")}
    values = {key: value.detach().cpu().float().numpy() for key, value in given.items() if value is not None}
    return raw_from_arrays(
        source=edges[0],
        target=edges[1],
        nodes=data.num_nodes or 0,
        features=_from_tensor(features),
        labels=None if labels is None else labels.detach().cpu().numpy(),
        name=name,
        findings=edge_values(f"The {type(data).__name__}", values, treatment),
    )


def _ends(data: Any) -> Array:
    """Return sources and targets (2×E)."""
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None and getattr(data, "adj_t", None) is not None:
        raise GraphError(
            f"This {type(data).__name__} has adj_t in place of edge_index.",
            remedy="Give the edges as edge_index, without the transform ToSparseTensor.",
        )
    edges: Array = np.empty((2, 0), np.int64) if edge_index is None else edge_index.detach().cpu().numpy()
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(
            f"The edge_index of this {type(data).__name__} has the shape {edges.shape} and the type {edges.dtype}.",
            remedy="Give two rows of whole numbers, such as edge_index.t().long() of two columns.",
        )
    return edges


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
