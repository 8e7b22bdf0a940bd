"""Every setting of FOSSIL with channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from fossil.errors import SettingError
from fossil.graph.channels import check_channels, listed
from fossil.methods.fossil.settings import ContrastSettings
from fossil.settings import setting


class ChannelSettings(ContrastSettings):
    """Settings of FOSSIL with channels: one set of defaults for all graphs. Subgraphs are compared as released."""

    # The encoder.
    channels: tuple[str, ...] | None = setting(
        None, "names of the channels, in order; null for those that the graph calls for"
    )
    hidden: int = setting(1024, "width of the encoder's first layer", ge=1, search=[256, 512, 1024])
    width: int = setting(256, "D, width of the trained rows of each channel", ge=1, search=[128, 256])
    untrained: int = setting(
        512, "width of the untrained rows beside them; 0 for none", ge=0, search=[0, 128, 256, 512]
    )

    # Weights of the channels.
    weighting: Literal["graph", "node", "equal"] = setting(
        "graph", "channels weighed by how far others agree with them: on the whole graph, for each node, or not at all"
    )
    sharpness: float = setting(
        2.0, "exponent of the agreement", ge=0, search=[1.0, 2.0, 3.0], only_with={"weighting": ("graph", "node")}
    )

    # The two views, and what is asked of them.
    dropout: float = setting(0.5, "p, dropout of the input features, which tells the views apart", ge=0, lt=1)
    edge_dropout: float | None = setting(
        None, "dropout of the edges; null for the agreement of features with surroundings, at most a half", ge=0, lt=1
    )
    subgraph_weight: float | None = setting(
        None,
        "ω, weight of the subgraph loss; null for the square of twice the agreement of features with surroundings, "
        "0 for none",
        ge=0,
    )
    temperature: float = setting(0.8, "τ of costs and node loss", ge=0.05, search=[0.2, 0.5, 0.8, 1.0])

    # Optimisation.
    learning_rate: float = setting(5e-4, "Adam's rate", gt=0, search=[1e-4, 5e-4, 1e-3])
    weight_decay: float = setting(5e-4, "weight decay", ge=0)

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """Build from plain values; channels may be one text, with commas between them."""
        built = super().build(listed(values))
        if built.channels is not None:
            check_channels(built.channels)
        if built.subgraph_weight == 0 and built.node_contrast == "none":
            raise SettingError(
                "With subgraph_weight=0 and node_contrast=none there is nothing to train.",
                remedy="Keep one of the two, or take method prop, which trains nothing.",
            )
        return built
