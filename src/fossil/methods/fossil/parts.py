"""The parts of FOSSIL that the paper's ablations exchange, made from their settings (Tables 4 to 6)."""

from __future__ import annotations

from torch import nn

from fossil.methods.fossil.settings import ContrastSettings, FossilSettings
from fossil.nn.encoders import DecoupledEncoder, Encoder, GCNEncoder, GCNIIEncoder
from fossil.nn.fusion import FusionGate
from fossil.nn.generators import (
    FeatureAttention,
    GATOnEmbeddings,
    GATOnFeatures,
    GCNOnEmbeddings,
    Generator,
    RandomEdgeDropping,
)
from fossil.transport import BAPG


def make_encoder(config: FossilSettings, num_features: int, activation: nn.Module) -> Encoder:
    """Return the encoder of Section 4.2, or one of Table 4."""
    if config.encoder == "gcnii":
        return GCNIIEncoder(num_features, config.width, config.gcnii_layers, config.dropout)
    kind = DecoupledEncoder if config.encoder == "decoupled" else GCNEncoder
    return kind(num_features, config.hidden, config.width, activation, config.dropout)


def make_generator(config: FossilSettings, num_features: int, activation: nn.Module, encoder: Encoder) -> Generator:
    """Return the generator of Section 4.3, or one of Table 5."""
    match config.generator:
        case "gat_embeddings":
            return GATOnEmbeddings(config.width, activation)
        case "gat_features":
            return GATOnFeatures(num_features, config.width, activation)
        case "feature_attention":
            return FeatureAttention(num_features, config.width, activation)
        case "gcn_embeddings":
            return GCNOnEmbeddings(config.width, activation)
        case "random_edges":
            return RandomEdgeDropping(encoder, config.edge_drop)


def make_gate(config: FossilSettings) -> FusionGate | None:
    """Return the fusion layer of Section 4.4; None for encoders with one branch, which leave nothing to mix."""
    if config.encoder != "decoupled":
        return None
    return FusionGate(
        config.width,
        config.fusion_hidden,
        with_centrality=config.centrality != "none",
        drop=config.fusion_dropout,
        nonlinear=config.fusion_nonlinear,
        drop_logit=config.fusion_drop_logit,
    )


def make_solver(config: ContrastSettings) -> BAPG:
    """Return the transport solver of Appendix A."""
    return BAPG(
        step=config.bapg_step,
        iterations=config.solver_iterations,
        tolerance=None,
        constant_terms=config.solver_constant_terms,
        marginals=config.solver_marginals,
        gradient=config.solver_gradient,
        symmetric=True,
    )
