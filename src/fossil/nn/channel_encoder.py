"""The trained rows of every channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fossil.graph.channels import Channel
from fossil.nn.channel_tensors import ChannelTensors
from fossil.ops.activation import biased_activation
from fossil.ops.unit import unit_vectors


class ChannelEncoder(nn.Module):
    """Two layers along every channel c, with its operator S_c for h hops.

        G_c = PReLU(S_c X W₁ + b₁)                        N×H, without S_c where h = 0
        T_c = unit(PReLU(S_c^(h-1) G_c W₂c + b₂c))        N×D, without S_c where h < 2

    All channels share W₁ and b₁, so those of one operator share G.

    Args:
        in_features: F.
        channels: C of them.
        hidden: H, width of the first layer.
        width: D, width of the second along each channel.
        drop: dropout of the features in training mode.
    """

    def __init__(self, in_features: int, channels: Sequence[Channel], hidden: int, width: int, drop: float) -> None:
        super().__init__()
        self.channels = tuple(channels)
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.first_prelu = nn.PReLU()
        weights = [nn.init.xavier_uniform_(torch.empty(hidden, width)) for _ in self.channels]
        self.second = nn.ParameterList([nn.Parameter(weight) for weight in weights])
        self.second_bias = nn.Parameter(torch.zeros(len(self.channels) * width))
        self.second_prelu = nn.PReLU()
        self.drop = drop

    def forward(self, graph: ChannelTensors, random: torch.Generator | None = None) -> Tensor:
        """Return T, a unit vector for each node and channel, N×C×D; with `random` in training mode."""
        first_product = graph.first_product(graph.features.dropout(self.drop, random), self.first)
        hidden: dict[str, Tensor] = {}  # G by operator
        products = []
        for channel, weight in zip(self.channels, self.second, strict=True):
            if channel.operator not in hidden:
                hidden[channel.operator] = self.first_activation(first_product(channel))
            products.append(graph.second_product(channel, hidden[channel.operator], weight))
        return self.second_activation(products)

    def first_activation(self, product: Tensor) -> Tensor:
        """Return G, given S X W₁ (N×H)."""
        return biased_activation(product, self.first_bias, self.first_prelu)

    def second_activation(self, products: list[Tensor]) -> Tensor:
        """Return T (N×C×D), given S^(h-1) G W₂ of each channel (N×D)."""
        joined = biased_activation(torch.cat(products, 1), self.second_bias, self.second_prelu)
        return unit_vectors(joined.view(len(joined), len(self.channels), -1))
