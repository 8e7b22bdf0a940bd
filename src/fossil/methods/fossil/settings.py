"""Every setting of FOSSIL, and the two readings of the paper as presets.

`released` is what the authors' code does and what comes near their table; `paper` follows Section 4 to the letter. Each
difference between them is one switch, and its meaning says which equation it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fossil.graph.structure import Centrality
from fossil.nn.encoders import Activation
from fossil.ops.costs import Similarity
from fossil.sampling.frontiers import Reach
from fossil.settings import Settings, setting

_RATES = [1e-4, 5e-4, 1e-3, 5e-3, 1e-2]
_DROPS = [0.1, 0.2, 0.3, 0.4]
_ALPHAS = [i / 10 for i in range(11)]

# Without which other settings one has no effect.
_GATED = {"encoder": "decoupled"}  # the other encoders have one branch, and nothing to mix
_FUSED = {"similarity": "fused_gromov_wasserstein"}
_STRUCTURED = {"similarity": ("fused_gromov_wasserstein", "gromov_wasserstein")}
_TRANSPORTED = {"similarity": ("fused_gromov_wasserstein", "wasserstein", "gromov_wasserstein")}


class ContrastSettings(Settings):
    """Settings of the subgraphs, of their comparison and of the node loss (Sections 4.5 and 4.6)."""

    similarity: Literal["fused_gromov_wasserstein", "wasserstein", "gromov_wasserstein", "pooled_cosine"] = setting(
        "fused_gromov_wasserstein", "how subgraphs are compared (Table 3)"
    )
    node_contrast: Literal["all_nodes", "subgraph_nodes", "none"] = setting(
        "all_nodes",
        "nodes in the node loss: all (v1, Eq. 13), those of the sampled subgraphs (v2, Eq. 14), or no node loss",
    )

    num_anchors: int = setting(300, "|S|, anchors drawn per step", ge=2, origin="Section 4.7")
    subgraph_size: int = setting(
        12, "k, nodes of a subgraph, anchor included", ge=2, le=256, search=list(range(10, 31))
    )
    alpha: float = setting(
        0.5, "weight of the features against the structure in the transport cost (Eq. 1)", ge=0, le=1,
        search=_ALPHAS, only_with=_FUSED,
    )  # fmt: skip
    temperature: float = setting(
        0.8, "τ of costs and node loss", ge=0.05, search=[0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0]
    )
    bapg_step: float = setting(
        0.5, "β, step of the transport solver; larger is slower and more feasible", gt=0,
        search=[1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0, 1.5, 2.0], only_with=_TRANSPORTED,
    )  # fmt: skip
    solver_iterations: int = setting(
        20, "iterations of the transport solver", ge=1, origin="released code", only_with=_TRANSPORTED
    )
    solver_gradient: Literal["envelope", "unrolled"] = setting(
        "envelope",
        "hold the plan constant in the gradient, or differentiate through all iterations (released code)",
        only_with=_TRANSPORTED,
    )

    # Where the released code and the paper's text part ways.
    reach: Reach = setting("six_hop", "Section 4.5: subgraphs reach up to six hops (released) or two (paper)")
    cost_similarity: Similarity = setting(
        "cosine", "Eq. 10: costs from cosines (released) or raw products (paper)", only_with=_TRANSPORTED
    )
    cost_threshold: float = setting(
        0.1,
        "Eq. 10: costs lowered by this share of their range and cut at zero (released); 0 in the paper",
        ge=0,
        lt=1,
        only_with=_TRANSPORTED,
    )
    structure_cost: Literal["product", "adjacency"] = setting(
        "product",
        "Eq. 10: C¹ is the product of embedding costs and exp(-A/τ), C² embedding costs alone (released); "
        "or exp(-A/τ) of each subgraph's own adjacency (paper)",
        only_with=_STRUCTURED,
    )
    contrast_temperature: float | None = setting(
        0.01,
        "Eq. 11: temperature of the distances in the subgraph loss (released); null takes τ (paper)",
        gt=0,
        only_with=_TRANSPORTED,
    )
    negatives: Literal["independent", "shared"] = setting(
        "independent",
        "Eq. 11: the two negatives come from two subgraphs (released) or from one (paper)",
        only_with=_TRANSPORTED,
    )
    solver_constant_terms: bool = setting(
        False,
        "Algorithm 1: the gradient keeps the squared terms of L⊗P (paper) or drops them (released)",
        only_with=_STRUCTURED,
    )
    solver_marginals: Literal["prescribed", "actual"] = setting(
        "prescribed",
        "Eq. 1: squared terms of the value from the prescribed marginals (released) or the plan's own (paper)",
        only_with=_STRUCTURED,
    )


class FossilSettings(ContrastSettings):
    """Settings of FOSSIL. The defaults are the released ones, those of Cora's file where graphs differ."""

    # Parts that the ablations exchange.
    encoder: Literal["decoupled", "gcn", "gcnii"] = setting("decoupled", "how nodes are encoded (Table 4)")
    generator: Literal["gat_embeddings", "gat_features", "feature_attention", "gcn_embeddings", "random_edges"] = (
        setting("gat_embeddings", "how the second view is made (Table 5)")
    )
    centrality: Centrality = setting("degree", "centrality that the fusion layer reads (Table 6)", only_with=_GATED)

    # Shape.
    hidden: int = setting(
        1024,
        "width of the encoder's first layer",
        ge=1,
        origin="Section 5.1",
        only_with={"encoder": ("decoupled", "gcn")},
    )
    width: int = setting(512, "D, width of the embeddings", ge=1, origin="Section 5.1")
    fusion_hidden: int = setting(
        30, "width of the fusion layer's two maps", ge=1, origin="released code", only_with=_GATED
    )
    gcnii_layers: int = setting(
        8, "depth of the gcnii encoder", ge=1, le=100, search=[2, 4, 8, 16], only_with={"encoder": "gcnii"}
    )

    alpha: float = setting(
        0.5, "weight of the features against the structure in the transport cost (Eq. 1), and of λ's mean (Eq. 15)",
        ge=0, le=1, search=_ALPHAS, only_with=(_FUSED, {"similarity": "pooled_cosine", **_GATED}),
    )  # fmt: skip
    edge_drop: float = setting(
        0.15, "share of edges that the generator drops", ge=0, lt=1, only_with={"generator": "random_edges"}
    )

    # Optimisation.
    learning_rate: float = setting(5e-4, "Adam's rate for encoder and generator", gt=0, search=_RATES)
    fusion_learning_rate: float = setting(
        1e-2, "Adam's rate for the fusion layer", gt=0, search=_RATES, only_with=_GATED
    )
    weight_decay: float = setting(5e-4, "weight decay of both", ge=0, origin="released code")
    dropout: float = setting(0.3, "p, dropout of the input features", ge=0, lt=1, search=_DROPS)
    fusion_dropout: float = setting(
        0.3, "p_f, dropout in the fusion layer", ge=0, lt=1, search=_DROPS, only_with=_GATED
    )
    fusion_l2: float = setting(
        1e6, "β₁, weight of ||λ||₂ (Eq. 15)", ge=0, search=[10.0**i for i in range(1, 7)], only_with=_GATED
    )
    fusion_mean: float = setting(
        1.0, "β₂, weight of |mean(λ) - (1 - alpha)| (Eq. 15)", ge=0, origin="Section 5.1", only_with=_GATED
    )

    # Where the released code and the paper's text part ways.
    aggregation: Literal["sum", "symmetric"] = setting(
        "sum",
        "Eq. 5: the encoder sums over neighbours (released), or multiplies with D^-1/2 A D^-1/2 (paper)",
        only_with={"encoder": "decoupled"},
    )
    activation: Activation = setting(
        "prelu", "Eq. 5: activation after the first layer on top of its own PReLU (released); none in the paper"
    )
    fusion_training: Literal["separate", "joint"] = setting(
        "separate",
        "L = L_contrast + L_θ: λ is constant in the contrast, and the fusion layer takes a step of its own on constant "
        "embeddings (released); or one loss through everything (paper)",
        only_with=_GATED,
    )
    fusion_pass: Literal["shared", "second"] = setting(
        "shared",
        "embeddings that the fusion layer's own step sees: those of the contrast and, once for every ten epochs, "
        "of a pass after the last one, or those of a second pass right after the encoder's step, as the released code "
        "has it at more cost",
        only_with={"fusion_training": "separate", **_GATED},
    )
    fusion_nonlinear: bool = setting(
        False, "Section 4.4: ψ has a ReLU between its layers (paper) or none (released)", only_with=_GATED
    )
    fusion_drop_logit: bool = setting(
        True,
        "Section 4.4: dropout reaches the logit of λ, so that λ = 1/2 on a share p_f of nodes (released)",
        only_with=_GATED,
    )


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "released": {},
    "paper": {
        "aggregation": "symmetric",
        "activation": "none",
        "reach": "two_hop",
        "cost_similarity": "inner_product",
        "cost_threshold": 0.0,
        "structure_cost": "adjacency",
        "contrast_temperature": None,
        "negatives": "shared",
        "solver_constant_terms": True,
        "solver_marginals": "actual",
        "fusion_training": "joint",
        "fusion_nonlinear": True,
        "fusion_drop_logit": False,
    },
}
