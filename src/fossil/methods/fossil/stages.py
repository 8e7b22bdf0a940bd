"""What passes from one stage of FOSSIL to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from fossil.nn.tensors import GraphTensors
from fossil.sampling.subgraphs import Subgraphs, SubgraphSampler


@dataclass(frozen=True, eq=False)
class FossilGraph:
    """A graph as FOSSIL trains on it."""

    tensors: GraphTensors
    sampler: SubgraphSampler


class UniformSample(NamedTuple):
    """Nodes that stand for all, because they were drawn uniformly.

    Attributes:
        rows: their places among the nodes that were encoded.
        population: N.
    """

    rows: Tensor
    population: int


class Batch(NamedTuple):
    """What a step on a part of the graph is about.

    Attributes:
        targets: distinct nodes whose embeddings the losses read, in the graph's numbers.
        pairs: subgraphs, in which nodes have the numbers of their places among the targets.
        anchors: those that subgraphs were asked for around.
    """

    targets: Tensor
    pairs: Pairs
    anchors: UniformSample


class Pairs(NamedTuple):
    """Which subgraphs are compared (Section 4.6.1), before anything is known of their embeddings.

    Attributes:
        subgraphs: S of them, G_i, each with its generated twin Ĝ_i.
        a: row of the subgraph whose G_a is a negative of each, S.
        b: row of the subgraph whose Ĝ_b is another, S.
        within: exp(-A/τ) of each subgraph's own adjacency, S×K×K; None where no structure is compared.
    """

    subgraphs: Subgraphs
    a: Tensor
    b: Tensor
    within: Tensor | None


class Transported(NamedTuple):
    """What came out of the transport of pairs, wherever their plans are.

    Attributes:
        value: fused Gromov-Wasserstein distance of each pair.
        row_error: mass that its plan carries in wrong rows.
    """

    value: Tensor
    row_error: Tensor


class Compared(NamedTuple):
    """What the two contrasts look at.

    Attributes:
        first: H of M nodes, M×D: of all, or of those that were drawn.
        second: Ĥ of the same nodes, M×D.
        places: rows of both that the nodes of the subgraphs have, S×K.
        num_nodes: how many of the M nodes the node loss is over; all when None.
    """

    first: Tensor
    second: Tensor
    places: Tensor
    num_nodes: Tensor | None
