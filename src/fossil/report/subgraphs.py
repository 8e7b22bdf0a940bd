"""The subgraph around each node, drawn as the run's own method draws it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fossil.graph.graph import Array, Graph
from fossil.graph.structure import undirected
from fossil.methods.fossil.settings import ContrastSettings, FossilSettings
from fossil.ops.sparse import SparseMatrix
from fossil.report.contract import Subgraph, SubgraphRule, brief
from fossil.runs.run import Run
from fossil.sampling.subgraphs import SubgraphSampler
from fossil.seeding import torch_generator

_CHUNK = 50_000  # anchors at once


@dataclass(frozen=True, eq=False)
class NodeSubgraphs:
    """A subgraph for each of some anchors.

    Attributes:
        nodes: A×K nodes of the graph, the anchor last; rows of anchors without a subgraph mean nothing.
        filled: whether an anchor has one (A).
        adjacency: A×K×K, whether two of its nodes have an edge in either direction.
    """

    nodes: Array
    filled: Array
    adjacency: Array


def settings_of(run: Run) -> tuple[ContrastSettings, str]:
    """Return how a run compares subgraphs, and that in words; FOSSIL's defaults where its method does not."""
    settings = run.config.settings
    if not isinstance(settings, ContrastSettings):
        return ContrastSettings(), "The method compares no subgraphs; here the defaults of FOSSIL do, on its vectors."
    if settings.similarity == "pooled_cosine":
        return (
            settings.updated({"similarity": "fused_gromov_wasserstein"}),
            "The run compares means of subgraphs; here they are transported, with its other settings.",
        )
    return settings, "With the run's own settings."


def subgraph_rule(run: Run) -> SubgraphRule:
    """Return how subgraphs are drawn, in words."""
    settings, whose = settings_of(run)
    reach = "six hops" if settings.reach == "six_hop" else "two hops"
    return SubgraphRule(
        settings.subgraph_size, f"{settings.subgraph_size} nodes, the anchor included, from up to {reach} away. {whose}"
    )


def sampler_of(run: Run, *, ahead: bool = True) -> SubgraphSampler:
    """Return what draws the subgraphs of a run, on the host: FOSSIL follows directions, all others do not.

    Args:
        run: a finished run.
        ahead: whether what is certain of each subgraph is worked out for all nodes now, or for few when they are drawn.
    """
    settings, _ = settings_of(run)
    adjacency = run.graph.adjacency if isinstance(settings, FossilSettings) else undirected(run.graph.adjacency)
    edges = SparseMatrix.from_scipy(adjacency, torch.device("cpu"))
    return SubgraphSampler(edges.crow, edges.col, settings.subgraph_size, settings.reach, ahead=ahead)


def subgraphs_of(sampler: SubgraphSampler, anchors: Array) -> NodeSubgraphs:
    """Draw a subgraph around each anchor; the same ones whenever it is asked for all of them."""
    size = sampler.plan.size
    nodes, filled = np.zeros((len(anchors), size), np.int64), np.zeros(len(anchors), bool)
    adjacency = np.zeros((len(anchors), size, size), bool)
    for start in range(0, len(anchors), _CHUNK):
        chunk = anchors[start : start + _CHUNK]
        drawn = sampler.sample(torch.from_numpy(chunk), torch_generator(0, "report", "subgraphs", str(start)))
        found = drawn.nodes[: int(drawn.count)]
        order = np.argsort(chunk, kind="stable")
        places = start + order[np.searchsorted(chunk[order], found[:, -1].numpy())]
        nodes[places], filled[places] = found.numpy(), True
        adjacency[places] = sampler.adjacency(found).numpy() > 0
    return NodeSubgraphs(nodes, filled, adjacency)


def as_subgraph(graph: Graph, nodes: Array, adjacency: Array, page_rows: Array) -> Subgraph:
    """Return one subgraph as the page takes it.

    Args:
        graph: whose nodes they are.
        nodes: K nodes.
        adjacency: K×K.
        page_rows: the page's row of each node of the graph (N), -1 where it has none.
    """
    first, second = np.nonzero(np.triu(adjacency, 1))
    edges = [(int(i), int(j)) for i, j in zip(first, second, strict=True)]
    return Subgraph(page_rows[nodes].tolist(), [brief(str(key)) for key in graph.ids[nodes].tolist()], edges)
