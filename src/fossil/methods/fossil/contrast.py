"""The contrast of subgraphs and of nodes, in the order of Sections 4.5 and 4.6, whatever made the two views."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.base import Method
from fossil.methods.fossil.memory import smaller_tiles
from fossil.methods.fossil.parts import make_solver
from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil.settings import ContrastSettings
from fossil.methods.fossil.stages import Batch, Compared, Pairs, Transported, UniformSample
from fossil.nn.contrast import subgraph_contrast
from fossil.ops.costs import exponential_cost
from fossil.ops.infonce import node_contrast, node_contrast_seconds
from fossil.ops.ranks import all_gather, ranks
from fossil.ops.rows import rows_of
from fossil.ops.subgraph_costs import SubgraphCosts, costs_between, gathered_costs, subgraph_costs
from fossil.ops.unit import unit_vectors
from fossil.sampling.batches import moved
from fossil.sampling.subgraphs import Subgraphs, SubgraphSampler
from fossil.transport import FusedProblem, pooled_cosine

_MANY_NODES = 20_000  # from which on the node loss over all of them takes a CPU a minute or more
# The value of a plan that misses its masses can be below zero: then exp(-D/τ) is taken no further than float32 reaches.
_MOST_ALIKE = 40.0


class Sampled(Protocol):
    """A graph that subgraphs are drawn from."""

    @property
    def sampler(self) -> SubgraphSampler:
        """What draws them."""


Drawn = TypeVar("Drawn", bound=Sampled)


class SubgraphContrast(Method[Drawn]):
    """What a method needs to compare two views of all nodes, H and Ĥ: subgraph by subgraph, and node by node."""

    def __init__(self, config: ContrastSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.solver = make_solver(config)
        self.tile_rows: int | None = None  # of the node loss; it knows best until memory runs out

    @property
    def row_width(self) -> int:
        """Columns of H."""
        raise NotImplementedError

    @property
    def feature_weight(self) -> float:
        """α of Eq. 1; Wasserstein looks at the features alone, Gromov-Wasserstein at the structure alone."""
        return {"wasserstein": 1.0, "gromov_wasserstein": 0.0}.get(self.config.similarity, self.config.alpha)

    # Section 4.5: subgraphs.

    def sample(self, sampler: SubgraphSampler, random: torch.Generator) -> Pairs:
        """Draw anchors, a subgraph around each, and what it is compared with."""
        anchors = sampler.draw_anchors(self.config.num_anchors, random)
        return self.pair(sampler.sample(anchors, random).compact(), sampler, random)

    def draw_batch(self, graph: SampledGraph, random: torch.Generator) -> Batch:
        """Draw the same where a step reads a part of the graph, and tell which nodes that takes."""
        device, sampler, random = random.device, graph.sampler, graph.random_on_store(random)
        anchors = sampler.draw_anchors(self.config.num_anchors, random)
        pairs = self.pair(sampler.sample(anchors, random).compact(waiting=True), sampler, random)
        subgraphs = pairs.subgraphs
        # Anchors that fill no subgraph are encoded too: all of them together are drawn uniformly.
        targets = torch.unique(torch.cat([subgraphs.nodes.flatten(), anchors]))
        renumbered = replace(subgraphs, nodes=torch.searchsorted(targets, subgraphs.nodes))
        sample = UniformSample(torch.searchsorted(targets, anchors), sampler.num_nodes)
        return moved(Batch(targets, pairs._replace(subgraphs=renumbered), sample), device)

    def pair(self, subgraphs: Subgraphs, sampler: SubgraphSampler, random: torch.Generator) -> Pairs:
        """Draw the negatives of each subgraph and look up the edges within it."""
        config = self.config
        a = subgraphs.others(random)
        b = a if config.negatives == "shared" else subgraphs.others(random)
        if config.similarity == "pooled_cosine":
            return Pairs(subgraphs, a, b, None)
        return Pairs(subgraphs, a, b, torch.exp(-sampler.adjacency(subgraphs.nodes) / config.temperature))

    def compared(self, H: Tensor, H_hat: Tensor, subgraphs: Subgraphs) -> Compared:
        """Return what the contrasts look at: all nodes, or, where the node loss is over the subgraphs (v2), theirs.

        Picked out once for both losses, whose cost then does not depend on the size of the graph.
        """
        if self.config.node_contrast != "subgraph_nodes":
            return Compared(H, H_hat, subgraphs.nodes, None)
        nodes, num_nodes, places = subgraphs.distinct_nodes()
        return Compared(rows_of(H, nodes), rows_of(H_hat, nodes), places, num_nodes)

    # Section 4.6.1: contrast of subgraphs.

    def subgraph_loss(self, compared: Compared, pairs: Pairs) -> tuple[Tensor, Transported | None]:
        """Return L_ot (Eq. 11), and what is behind it where something was transported."""
        count = len(pairs.subgraphs.nodes)
        if count < 2:  # nothing to tell a subgraph from; it must still be a loss
            return 0 * compared.first.sum(), None
        alike, solution = self.similarity(compared, pairs)
        return subgraph_contrast(alike, count, pairs.subgraphs.usable.repeat(3)), solution

    def similarity(self, compared: Compared, pairs: Pairs) -> tuple[Tensor, Transported | None]:
        """Return the similarity of S positive pairs and 2S negative ones, 3S in all, and what is behind it.

        Pair i is (G_i, Ĝ_i); its negatives are (G_i, G_a) and (G_i, Ĝ_b) with a and b other subgraphs. Pairs of rows
        that are no subgraph are compared like the others, and count nowhere.
        """
        config = self.config
        if pairs.within is None:
            X, Y = (rows_of(view, compared.places) for view in compared[:2])  # S×K×D
            cosines = pooled_cosine(torch.cat([X] * 3), torch.cat([Y, rows_of(X, pairs.a), rows_of(Y, pairs.a)]))
            return torch.exp(cosines / config.temperature), None
        solution = self.transported(self.problem(compared, pairs, pairs.within))
        exponent = -solution.value / (config.contrast_temperature or config.temperature)
        return torch.exp(exponent.clamp_max(_MOST_ALIKE)), solution

    def transported(self, problem: FusedProblem) -> Transported:
        """Solve all problems, each rank its share of them, and return what comes out."""
        mine = ranks().share(problem.batch)
        solution = self.solver(problem.part(mine.start, mine.stop), check=False)
        value, row_error = (all_gather(each, problem.batch) for each in (solution.value, solution.row_error))
        return Transported(value, row_error)

    def problem(self, compared: Compared, pairs: Pairs, within: Tensor) -> FusedProblem:
        """Return the transport problems of all pairs (Eq. 1 and 10)."""
        _, a, b, _ = pairs
        if self.config.structure_cost == "product":
            feature, of_first, of_second = self.costs(compared, a, b)
            source, target = of_first * within, of_first
        else:
            feature, of_second = self.adjacency_costs(compared, a, b)
            source = target = within
        return FusedProblem.uniform(
            feature_cost=feature,
            source_structure=torch.cat([source] * 3),
            target_structure=torch.cat([of_second, rows_of(target, a), rows_of(of_second, b)]),
            alpha=self.feature_weight,
        )

    def costs(self, compared: Compared, a: Tensor, b: Tensor) -> SubgraphCosts:
        """Return the costs between and within subgraphs (Eq. 10), all made of embeddings in one way."""
        config, (first, second, places, _) = self.config, compared
        if config.cost_similarity == "cosine":
            return subgraph_costs(first, second, places, a, b, config.temperature, config.cost_threshold)
        X, Y = rows_of(first, places), rows_of(second, places)  # S×K×D
        return gathered_costs(X, Y, a, b, config.temperature, config.cost_threshold)

    def adjacency_costs(self, compared: Compared, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return the costs between subgraphs (3S×K×K) and the structure of the generated ones (Â, S×K×K)."""
        config = self.config
        X, Y = (rows_of(view, compared.places) for view in compared[:2])  # S×K×D
        # Â is made of cosines, whatever the feature costs are made of.
        U, V = unit_vectors(X), unit_vectors(Y)
        first, second = (U, V) if config.cost_similarity == "cosine" else (X, Y)
        feature = costs_between(first, second, a, b, config.temperature, config.cost_threshold)
        return feature, exponential_cost(V, V, config.temperature)

    # Section 4.6.2: contrast of nodes.

    def node_loss(self, compared: Compared) -> Tensor | None:
        """Return L_node (Eq. 12 to 14)."""
        if self.config.node_contrast == "none":
            return None
        first, second, _, num_nodes = compared
        return node_contrast(first, second, self.config.temperature, count=num_nodes, tile_rows=self.tile_rows)

    def seconds(self, prepared: Drawn) -> float | None:
        """Return about how many seconds the node loss over all nodes of a large graph takes on a CPU."""
        nodes, device = prepared.sampler.num_nodes, prepared.sampler.degree.device
        if self.config.node_contrast != "all_nodes" or device.type != "cpu" or nodes < _MANY_NODES:
            return None
        return node_contrast_seconds(nodes, self.row_width)

    def lighter(self) -> str | None:
        """Return what takes less time on a large graph, if the node loss is over all pairs of nodes."""
        if self.config.node_contrast != "all_nodes":
            return None
        return f"method {self.name}_v2, whose node loss is over the sampled nodes alone, takes less on large graphs"

    def most_ranks(self, graph: Graph) -> int:
        """Return how many anchors there are: a process has at least one of them."""
        return min(self.config.num_anchors, graph.num_nodes)

    def shrink(self) -> bool:
        """Work with smaller tiles of the node loss from now on; return whether that was possible."""
        smaller = smaller_tiles(self.config, self.tile_rows)
        self.tile_rows = smaller or self.tile_rows
        return smaller is not None
