from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Treatment
from fossil.readers.base import Request
from fossil.readers.read import read_graph
from fossil.readers.scipy import SciPyMatrix


def test_scipy_weights_are_refused_or_ignored_and_stored_zeros_are_no_edges() -> None:
    adjacency = sp.coo_array((np.array([1.0, 2.0, 0.0]), ([0, 1, 2], [1, 2, 0])), shape=(3, 3))
    with pytest.raises(GraphError, match=r"1 and 2\).*treatment={'edge_weights': 'ignore'}"):
        read_graph((adjacency, np.eye(3)))
    raw, plan = SciPyMatrix.read((adjacency, np.eye(3)), Request(treatment=Treatment(edge_weights="ignore")))
    assert isinstance(raw, RawGraph) and plan is None
    assert raw.source.tolist() == [0, 1] and [(f.kind, f.done) for f in raw.findings] == [("edge weights", "ignored")]
    graph = read_graph((2 * (adjacency != 0), np.eye(3))).graph
    assert graph.adjacency.data.tolist() == [1, 1]


def test_a_matrix_alone_has_no_features() -> None:
    raw, _ = SciPyMatrix.read(sp.csr_array(np.roll(np.eye(3), 1, axis=1)), Request())
    assert raw.features.shape == (3, 0)


@pytest.mark.parametrize(
    ("adjacency", "features"),
    [
        (sp.csr_array((2, 3)), np.eye(2)),
        (np.eye(3), np.eye(3)),
        (sp.csr_array((3, 3)), np.eye(2)),
        (sp.csr_array((3, 3)), np.array([["a"]] * 3)),
        (sp.csr_array((3, 3)), np.ones(3)),
    ],
)
def test_matrices_that_do_not_fit(adjacency: object, features: object) -> None:
    with pytest.raises(GraphError):
        SciPyMatrix.read((adjacency, features), Request())
    with pytest.raises(GraphError):
        read_graph((adjacency, features))
