"""Subg-Con: a node should resemble the summary of its own neighbourhood more than that of another.

Every node has a small context subgraph, chosen once by personalised PageRank. A step embeds the subgraphs of a random
batch of nodes, each alone, and pulls a centre and the mean of its subgraph together, against the centre and the mean of
another subgraph. Jiao, Xiong, Zhang, Zhang, Zhang and Zhu, ICDM 2020.

## Equations

With K nodes in subgraph i, its own normalised adjacency Â_i = D_i^-1/2 (A_i + I) D_i^-1/2 (degrees within the
subgraph), centre i in the first row, and another subgraph j of the batch for each i:

    Z_i = PReLU(Â_i X_i W + b)                                K×D
    h_i = first row of Z_i,   c_i = mean of the rows of Z_i
    p_i = sigmoid(h_i·c_i),   n_i = sigmoid(h_j·c_i),   n'_i = sigmoid(h_i·c_j)
    L   = mean over i of max(0, m - (p_i - n_i)) + mean over i of max(0, m - (p_j - n'_i))

The embedding of a node is h_i, from its own subgraph.

## Cost

Once per graph N·E·`pagerank_iterations` for the subgraphs and N·K² numbers for the Â_i. A step takes
min(nnz(X), B·K·F)·D for X W and B·K²·D for the batch of B subgraphs. The final embeddings are one sparse product with
at most N·K entries, because they need the first row of each Â_i alone.

## Differences from the official code

- The other subgraph is the next one in a batch in random order, so that none is compared with itself; the official code
  shuffles the batch, and with probability 1/B compares a subgraph with itself, which has no gradient.
- One epoch is one batch, as there; but the number of epochs is fixed and small. The official code stops by validation
  accuracy, which needs labels. Trained on, the loss falls further while the embeddings get worse, with raw features and
  no weight decay above all; weight decay 0.001, width 256 and batches of 300 hold them, and most recipes use these.
- The subgraph is the centre with the K-1 other nodes of highest score. Where few iterations rank the centre below the
  first K, the official code puts it in the place of the highest.
- Edges count in both directions, and self-loops of the graph are left out of the walk.
- Nodes of equal score are chosen by their ids, not by the order of the file.
- `normalize_features` and `similarity` are ours, against saturation: the sigmoid of products of long vectors is one for
  positives and negatives alike, and the gradients vanish. The preset `released` has raw features and inner products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized, undirected
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup, Record
from fossil.nn.augment import shuffled
from fossil.nn.effective_rank import sampled_rank
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.ops.unit import unit_vectors
from fossil.sampling.pagerank import Neighbourhoods, convolution_matrices, pagerank_neighbourhoods
from fossil.settings import Settings, setting


class SubgConSettings(Settings):
    """Settings of Subg-Con."""

    width: int = setting(1024, "D, width of the embeddings", ge=1, search=[256, 512, 1024], origin="official code")
    context_size: int = setting(
        20, "K, nodes of a subgraph, centre included", ge=1, search=[5, 10, 20, 30, 50], origin="official code"
    )
    batch_size: int = setting(500, "B, subgraphs in a step", ge=2, search=[200, 500, 1000], origin="official code")
    margin: float = setting(
        0.5, "m, by which own summaries should win", gt=0, le=1, search=[0.25, 0.5, 0.75], origin="official code"
    )
    similarity: Literal["inner_product", "cosine"] = setting(
        "inner_product", "what the sigmoid is taken of: h·c (official), or its cosine divided by the temperature"
    )
    temperature: float = setting(0.2, "divides the cosine", gt=0, only_with={"similarity": "cosine"})
    restart: float = setting(
        0.15, "probability that the PageRank walk returns to its centre", gt=0, lt=1, search=[0.15, 0.25],
        origin="official code",
    )  # fmt: skip
    pagerank_iterations: int = setting(10, "steps of the PageRank walk", ge=1, origin="official code")
    normalize_features: bool = setting(
        True,
        "divide each node's features by the sum of their absolute values; the official code does not",
        search=[True, False],
    )
    learning_rate: float = setting(1e-3, "Adam's rate", gt=0, search=[1e-4, 5e-4, 1e-3, 5e-3], origin="official code")
    weight_decay: float = setting(0.0, "weight decay", ge=0, search=[0.0, 1e-5, 1e-3], origin="official code")


@dataclass(frozen=True, eq=False)
class SubgConGraph:
    """A graph as Subg-Con trains on it.

    Attributes:
        features: X, N×F.
        contexts: the subgraph of each node, N×K.
        convolutions: Â_i, N×K×K.
        centres: the first row of each Â_i, as one N×N matrix.
    """

    features: FeatureMatrix
    contexts: Neighbourhoods
    convolutions: Tensor
    centres: SparseMatrix


class SubgCon(Method[SubgConGraph]):
    """Sub-graph contrast for scalable self-supervised graph representation learning."""

    name = "subgcon"
    title = "Subg-Con"
    paper = "Jiao et al., ICDM 2020, arXiv 2009.10273"
    whole_because = "the subgraph of a node is chosen by a walk of PageRank over all edges"
    cost = Cost("none; B subgraphs", "min(nnz(X), B·K·F)·D + B·K²·D", "N·K² + (N + B·K)·D")
    undirected = True
    epochs = 100
    Config = SubgConSettings
    small: ClassVar[Mapping[str, Any]] = {"width": 8, "context_size": 5, "batch_size": 16}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        "released": {"normalize_features": False, "similarity": "inner_product"},
    }

    def __init__(self, config: SubgConSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_features, config.width)))
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.slopes = nn.Parameter(torch.full((config.width,), 0.25))

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return everything as one group."""
        config = self.config
        return {"all": ParameterGroup(list(self.parameters()), config.learning_rate, config.weight_decay)}

    def prepare(self, graph: Graph, device: torch.device) -> SubgConGraph:
        """Choose the subgraph of every node and move everything to `device`."""
        config = self.config
        features = row_normalized(graph.features) if config.normalize_features else graph.features
        adjacency = undirected(graph.adjacency)
        contexts = pagerank_neighbourhoods(
            adjacency,
            config.context_size,
            restart=config.restart,
            iterations=config.pagerank_iterations,
            tie_break=graph.ids,
            device=device,
        )
        convolutions = convolution_matrices(adjacency, contexts)
        centres = _first_rows(contexts, convolutions)
        return SubgConGraph(FeatureMatrix.from_host(features, device), contexts, convolutions, centres)

    def check_trainable(self, prepared: SubgConGraph) -> None:
        """Raise GraphError unless there is a second subgraph to compare with."""
        if len(prepared.contexts.nodes) < 2:
            raise GraphError("Subg-Con compares the subgraphs of nodes, and there is one node.", remedy="Give it more.")

    def step(self, prepared: SubgConGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the margin loss on a random batch of subgraphs."""
        batch = shuffled(len(prepared.contexts.nodes), random)[: self.config.batch_size]
        centres, summaries = self.embed_subgraphs(prepared, batch)
        other_centres, other_summaries = centres.roll(1, 0), summaries.roll(1, 0)
        own = self.score(centres, summaries)
        foreign_centre = self.score(other_centres, summaries)
        foreign_summary = self.score(centres, other_summaries)
        margin = self.config.margin
        loss = torch.relu(margin - own + foreign_centre).mean()
        loss = loss + torch.relu(margin - own.roll(1, 0) + foreign_summary).mean()

        def diagnose() -> Record:
            return {"own": own.mean(), "foreign": foreign_centre.mean(), "effective_rank": sampled_rank(centres)}

        yield Objective({"loss": loss}, ("all",), diagnose)

    def embed_subgraphs(self, graph: SubgConGraph, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the centres h and the summaries c of the subgraphs around the nodes in `batch` (B): B×D each."""
        nodes, present = graph.contexts.nodes[batch], graph.contexts.present[batch]
        embedded = self.activate(graph.convolutions[batch] @ self.project(graph.features, nodes))
        weights = present / present.sum(1, keepdim=True)  # the mean over nodes that are there
        return embedded[:, 0], (weights[:, None] @ embedded).squeeze(1)

    def project(self, features: FeatureMatrix, nodes: Tensor) -> Tensor:
        """Return X W of the nodes of B subgraphs (B×K): B×K×D, by whichever way has fewer rows to multiply."""
        data = features.data
        if isinstance(data, Tensor) and nodes.numel() < len(data):
            return data[nodes] @ self.weight
        return features.project(self.weight)[nodes]

    def activate(self, product: Tensor) -> Tensor:
        """Return PReLU(Â X W + b), given Â X W, with a slope for each of the D columns."""
        shifted = product + self.bias
        return torch.where(shifted > 0, shifted, self.slopes * shifted)

    def score(self, centres: Tensor, summaries: Tensor) -> Tensor:
        """Return how well centres and summaries (B×D each) fit, in pairs: B numbers between 0 and 1."""
        if self.config.similarity == "inner_product":
            return torch.sigmoid((centres * summaries).sum(1))
        return torch.sigmoid((unit_vectors(centres) * unit_vectors(summaries)).sum(1) / self.config.temperature)

    @torch.no_grad()
    def encode(self, prepared: SubgConGraph) -> NodeVectors:
        """Return h of every node."""
        return NodeVectors(self.activate(prepared.centres.matmul(prepared.features.project(self.weight))))


def _first_rows(contexts: Neighbourhoods, convolutions: Tensor) -> SparseMatrix:
    """Return the N×N matrix whose row i holds the first row of Â_i at the nodes of subgraph i."""
    present = contexts.present.cpu().numpy()
    offsets = np.concatenate([[0], present.sum(1).cumsum()])
    columns, values = contexts.nodes.cpu().numpy()[present], convolutions[:, 0].cpu().numpy()[present]
    matrix = sp.csr_array((values, columns, offsets), shape=(len(present), len(present)))
    matrix.eliminate_zeros()  # nodes of the subgraph that are no neighbours of the centre
    return SparseMatrix.from_scipy(matrix, convolutions.device)
