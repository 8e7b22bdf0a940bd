"""Table 1 of the paper: the sizes and the homophily of its seven graphs, before any treatment."""

import os

import pytest

from fossil.datasets.catalog import load
from fossil.graph.findings import Treatment
from fossil.graph.homophily import edge_homophily

pytestmark = pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")

TABLE = {
    "Cora": (2708, 10556, 1433, 7, 0.81),
    "CiteSeer": (3327, 9104, 3703, 6, 0.74),
    "PubMed": (19717, 88648, 500, 3, 0.80),
    "CoAuthor-CS": (18333, 163788, 6805, 15, 0.81),
    "Actor": (7600, 30019, 932, 5, 0.22),
    "Chameleon": (2277, 36101, 2325, 5, 0.24),
    "Squirrel": (5201, 217073, 2089, 5, 0.22),
}


@pytest.mark.parametrize("title", TABLE)
def test_graph_has_the_published_statistics(title: str) -> None:
    graph = load(title, treatment=Treatment(self_loops="keep"), download=False)
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes, round(edge_homophily(graph), 2))
    assert found == TABLE[title]
