"""BNLL: BGRL in which every node also predicts what the target says of its neighbours, like ones above all.

Liu, Zhang, He, Zheng and Zhao, *Bootstrap latents of nodes and neighbors for graph self-supervised learning*, ECML-PKDD
2024. The authors call it BLNN. Encoder, target, views, optimiser and embeddings are those of BGRL.

## Equations

With the predictions q_1, q_2 and target embeddings y_1, y_2 of BGRL's two views, each row scaled to length one and the
targets constant, the neighbours j of node i in the graph as it is, without dropped edges, support it by

    w_ij = exp(<y_1i, y_2j>/τ) / Σ_{k in N(i)} exp(<y_1i, y_2k>/τ),

    L = 2 - mean_i <q_1i, y_2i> - mean_i <q_2i, y_1i> - mean_i Σ_{j in N(i)} w_ij (<q_1i, y_2j> + <q_2i, y_1j>).

A node without neighbours has BGRL's loss alone. A large τ weighs all neighbours alike; a small one lets a node ignore
neighbours that are unlike it. At best L is -2.

## Cost

BGRL's, and O(E D) time for the weights and two products with the N×N matrix W = (w_ij): the last term is
-mean_i <q_1i, (W y_2)_i> and so on, so no gradient ever passes through an edge. Memory stays O(N D + E).

## On a batch of nodes

BGRL's batch of B nodes, read one hop further, because the neighbours' term compares a node with the target embeddings
of its neighbours. With a fan-out the weights w_ij sum to one over the neighbours that are shown: a mean, so that
nothing is scaled. `weights_over: anchors` needs all nodes that share a neighbour, and so the whole graph.

## Differences from the official code

- The official code overwrites the second prediction by the first before the loss, so that one view predicts both
  targets: `second_prediction: overwritten`. The second pass through the encoder still moves the running statistics.
- The official code scales the weights to sum to one over the nodes that share a neighbour, not over the neighbours of
  a node: `weights_over: anchors`.
- The preset `released` has both; the default follows the paper. `neighbour_weight` is ours, and one in both.
- Beyond that, those of BGRL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.methods.base import Cost, Record
from fossil.methods.bgrl import Bgrl, BgrlSettings, BootstrapGraph
from fossil.nn.blocks import LoopedBlock
from fossil.ops.edges import edge_products
from fossil.ops.sparse import SparseMatrix, leading
from fossil.ops.unit import unit_vectors
from fossil.settings import setting

WeightsOver = Literal["neighbours", "anchors"]


class BnllSettings(BgrlSettings):
    """Settings of BNLL: those of BGRL and of the neighbours' term."""

    temperature: float = setting(
        0.8, "τ of the neighbours' weights", ge=0.05, search=[0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 1.9],
        origin="official code for Coauthor CS",
    )  # fmt: skip
    neighbour_weight: float = setting(1.0, "weight of the neighbours' term", ge=0, search=[0.1, 0.5, 1.0])

    # Where the official code and the paper's text part ways.
    second_prediction: Literal["own", "overwritten"] = setting(
        "own", "what predicts the first view's targets: the second view (paper), or the first itself (official code)"
    )
    weights_over: WeightsOver = setting(
        "neighbours",
        "weights sum to one over the neighbours of a node (paper), or over the nodes that have it as neighbour "
        "(official code)",
    )


class Bnll(Bgrl):
    """BGRL with a second alignment, towards the target embeddings of supportive neighbours."""

    name = "bnll"
    title = "BNLL"
    paper = "Liu et al., ECML-PKDD 2024, arXiv 2408.05087"
    cost = Cost("4, two with a gradient", "nnz(X)·D + E·D + N·D²", "N·D + E")
    extra_hops = 1
    Config = BnllSettings
    small: ClassVar[Mapping[str, Any]] = {"hidden": 16, "width": 8, "predictor_hidden": 16}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        "released": {"second_prediction": "overwritten", "weights_over": "anchors"},
    }

    def __init__(self, config: BnllSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config: BnllSettings = config

    def check_sampled(self) -> None:
        """Raise SettingError where the weights need the whole graph."""
        if self.config.weights_over == "anchors":
            raise SettingError(
                "weights_over=anchors needs the whole graph at every step, and cannot be trained on samples: it sums "
                "over all nodes that share a neighbour.",
                remedy="Use weights_over=neighbours, or train on the whole graph.",
            )

    def loss(
        self, predictions: Sequence[Tensor], targets: Sequence[Tensor], graph: BootstrapGraph | LoopedBlock
    ) -> tuple[Tensor, Record]:
        """Return L and its parts, given q_1, q_2 (N×D each) and y_1, y_2, on a block those of neighbours below."""
        config = self.config
        q_1, q_2 = predictions[0], predictions[0 if config.second_prediction == "overwritten" else 1]
        nodes, _ = super().loss((q_1, q_2), [leading(each, len(q_1)) for each in targets], graph)
        q_1, q_2, y_1, y_2 = map(unit_vectors, (q_1, q_2, *targets))
        adjacency = graph.adjacency if isinstance(graph, BootstrapGraph) else graph.innermost
        support = support_weights(leading(y_1, len(q_1)), y_2, adjacency, config.temperature, config.weights_over)
        supported_1, supported_2 = support.matmul(y_1), support.matmul(y_2)
        neighbours = -((q_1 * supported_2).sum(1).mean() + (q_2 * supported_1).sum(1).mean())
        return nodes + config.neighbour_weight * neighbours, {"nodes": nodes, "neighbours": neighbours}


@torch.no_grad()
def support_weights(
    first: Tensor, second: Tensor, adjacency: SparseMatrix, temperature: float, over: WeightsOver
) -> SparseMatrix:
    """Return W: how much neighbour j supports node i, on the pattern of `adjacency` (N×N).

    Args:
        first: y_1, unit rows, N×D.
        second: y_2, unit rows, N×D.
        adjacency: row i lists the neighbours of i.
        temperature: τ.
        over: whether the weights of a row or those of a column sum to one.
    """
    likeness = edge_products(adjacency, first, second)
    # Cosines are at most one, so that lowered exponents are never positive and sums cannot overflow.
    weights = torch.exp((likeness - 1) / temperature)
    group = adjacency.row if over == "neighbours" else adjacency.col
    totals = weights.new_zeros(len(first)).index_add(0, group, weights)
    return adjacency.with_values(weights / totals[group])
