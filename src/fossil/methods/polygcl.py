"""PolyGCL: contrast nodes with shuffled ones in two views, a learnt low-pass and a learnt high-pass filter.

Chen, Lei and Wei, "PolyGCL: graph contrastive learning via learnable spectral polynomial filters", ICLR 2024. It is
Deep Graph Infomax with two spectral views that share one linear map, for graphs whose labels follow the edges and for
graphs whose labels do not.

## Equations

With the shifted Laplacian L̃ = -D^-1/2 A D^-1/2 of the undirected graph and Chebyshev polynomials T_i,

- a filter takes the value γ_j at the Chebyshev node x_j, the lowest frequency first: γ_j = γ_{j-1} - relu(a_j) from
  γ_0 = 2 (low), γ_j = γ_{j-1} + relu(b_j) from γ_0 = 0 (high);
- its coefficients interpolate them: c_i = 2/(K+1) Σ_j γ_j T_i(x_j), p(L̃) = c_0/2 + Σ_{i≥1} c_i T_i(L̃);
- views: H_low = σ(p_low(L̃) X W + b) and H_high = σ(p_high(L̃) X W + b); embeddings H = α H_high + β H_low;
- summary s = relu(mean_i H_i); score of a node D(h, s) = hᵀ M s + m;
- loss: binary cross-entropy over 4N scores, D(H_low, s) and D(H_high, s) against 1, the same of rows of X in random
  order against 0, with the summary of the real graph.

Linear map and discriminator have one learning rate; filters, α and β another.

## Cost

Filters are linear, so p(L̃) X W = p(L̃) (X W): by default X is projected to D columns first, and both filters share the
terms T_i(L̃) X W, which lie in one tensor, so that one pass over it sums them for both. A step takes 2 products X W,
2 K sparse products of (E + N) D for the terms and 2 K of E D for the gradient of X W, and O(K N D) memory. In the order
of the official code (`order=filter_first`) it takes (E + N) F, no sparse products for gradients, and K N F, and X
becomes dense: by count 2 (K+1) N F floats, 11 GB on CoAuthor-CS, against 0.8 GB.

## Differences from the official code

- Project first, see above. The second dropout, between filter and linear map, is then drawn on X together with the
  first, and `standardize` acts on the D projected columns. `order=filter_first` restores the official places.
- One dropout mask serves both filters of a side; officially each of the four encodings draws its own.
- `standardize` uses the statistics of the encoding at hand, in training and afterwards. The official batch
  normalisation mixes running statistics over both filters and over real and shuffled nodes, and encodes with these.
- A fixed number of epochs; officially training stops after 20 or 50 epochs without a lower training loss.
- Directed graphs are made undirected, and self-loops are left out.

As in the official code, the scale and shift of the normalisation and the slope of the leaky ReLU are not learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized, symmetric_normalized, undirected
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup, Record
from fossil.nn.augment import shuffled
from fossil.nn.discriminators import BilinearDiscriminator, real_or_fake
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.filters import ChebyshevRecurrence, MonotoneFilter, chebyshev_filters
from fossil.ops.activation import biased_prelu
from fossil.ops.features import FeatureMatrix, dropout
from fossil.ops.rows import rows_of
from fossil.settings import Settings, setting

_RATES = [1e-4, 5e-4, 1e-3, 5e-3, 1e-2]
_DECAYS = [0.0, 1e-5, 1e-4, 1e-3]
_DROPS = [i / 10 for i in range(9)]
_SLOPE = 0.25  # of the leaky ReLU: where PyTorch's PReLU starts, and where the official code leaves it


class PolyGCLSettings(Settings):
    """Settings of PolyGCL. The defaults are those of the official script."""

    width: int = setting(512, "D, width of the embeddings", ge=1, search=[256, 512])
    polynomial_order: int = setting(10, "K, degree of the filters", ge=1, le=1000, search=[5, 10])
    activation: Literal["relu", "leaky_relu"] = setting("relu", "σ; the leaky ReLU has a slope of 0.25")
    standardize: bool = setting(False, "give each filtered column mean 0 and variance 1 before the bias")
    normalize_features: bool = setting(True, "divide each node's features by the sum of their absolute values")
    input_dropout: float = setting(0.5, "dropout of X", ge=0, lt=1, search=_DROPS)
    dropout: float = setting(0.5, "dropout after the filters; drawn on X too when projecting first", ge=0, lt=1,
                             search=_DROPS)  # fmt: skip
    order: Literal["project_first", "filter_first"] = setting(
        "project_first", "filter X W in D columns, or X in F columns (released code)"
    )
    learning_rate: float = setting(1e-3, "Adam's rate for linear map and discriminator", gt=0, search=_RATES)
    weight_decay: float = setting(0.0, "weight decay of linear map and discriminator", ge=0, search=_DECAYS)
    filter_learning_rate: float = setting(1e-2, "Adam's rate for filters, α and β", gt=0, search=_RATES)
    filter_weight_decay: float = setting(0.0, "weight decay of filters, α and β", ge=0, search=_DECAYS)


@dataclass(frozen=True, eq=False)
class PolyGCLGraph:
    """Features X (N×F) and shifted Laplacian L̃ (N×N) on a device."""

    features: FeatureMatrix
    laplacian: ChebyshevRecurrence


class PolyGCL(Method[PolyGCLGraph]):
    """PolyGCL: real against shuffled nodes under a learnt low-pass and a learnt high-pass polynomial filter."""

    name = "polygcl"
    title = "PolyGCL"
    paper = "Chen et al., ICLR 2024"
    whole_because = "its polynomial filters reach a hop with every term, and so nearly every node"
    cost = Cost("2, each through two filters", "nnz(X)·D + P·E·D", "P·N·D + E")
    undirected = True
    epochs = 500
    Config = PolyGCLSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}, "released": {"order": "filter_first"}}

    def __init__(self, config: PolyGCLSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.linear = nn.Linear(num_features, config.width)
        self.discriminator = BilinearDiscriminator(config.width)
        for parameter in self.discriminator.parameters():  # as PyTorch starts a bilinear layer
            nn.init.uniform_(parameter, -(config.width**-0.5), config.width**-0.5)
        self.low = MonotoneFilter(config.polynomial_order, "low")
        self.high = MonotoneFilter(config.polynomial_order, "high")
        self.low_weight = nn.Parameter(torch.tensor(0.5))  # β
        self.high_weight = nn.Parameter(torch.tensor(0.5))  # α

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return linear map and discriminator as one group, what belongs to the filters as another."""
        config = self.config
        maps = [*self.linear.parameters(), *self.discriminator.parameters()]
        filters = [self.low.steps, self.high.steps, self.low_weight, self.high_weight]
        return {
            "encoder": ParameterGroup(maps, config.learning_rate, config.weight_decay),
            "filters": ParameterGroup(filters, config.filter_learning_rate, config.filter_weight_decay),
        }

    def prepare(self, graph: Graph, device: torch.device) -> PolyGCLGraph:
        """Move the features and the Laplacian of the undirected graph to `device`."""
        normalized = symmetric_normalized(undirected(graph.adjacency), self_loops=False)
        features = row_normalized(graph.features) if self.config.normalize_features else graph.features
        return PolyGCLGraph(
            features=FeatureMatrix.from_host(features, device),
            laplacian=ChebyshevRecurrence.from_scipy(-normalized, device),
        )

    def step(self, prepared: PolyGCLGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the loss, on which both groups take a step."""
        real = self.views(prepared, random)
        fake = self.views(prepared, random, order=shuffled(real.shape[1], random))
        summary = torch.relu(self.mixed(real.mean(1)))  # the mean of the mixture is the mixture of the means
        loss = real_or_fake(self.discriminator(real, summary), self.discriminator(fake, summary))
        # The optimiser changes the parameters themselves, and the record is of this step.
        low_weight, high_weight = self.low_weight.detach().clone(), self.high_weight.detach().clone()

        def diagnose() -> Record:
            low, high = real
            rank = sampled_rank(torch.addcmul(low_weight * low, high, high_weight))
            return {"low_weight": low_weight, "high_weight": high_weight, "effective_rank": rank}

        yield Objective({"loss": loss}, ("encoder", "filters"), diagnose)

    def views(self, graph: PolyGCLGraph, random: torch.Generator | None = None, order: Tensor | None = None) -> Tensor:
        """Return the low-pass and the high-pass view, 2×N×D.

        Args:
            graph: features and Laplacian.
            random: draws what is dropped; None for nothing.
            order: N, if the nodes are to have features in that order.
        """
        config = self.config
        if config.order == "filter_first":
            signal = _dense(graph.features.dropout(config.input_dropout, random))
        else:
            # Both dropouts at once, because only X is left to draw the second on.
            dropped = 1 - (1 - config.input_dropout) * (1 - config.dropout)
            signal = graph.features.dropout(dropped, random).project(self.linear.weight.T)
        if order is not None:
            signal = rows_of(signal, order)
        coefficients = torch.stack([self.low.coefficients(), self.high.coefficients()])
        return self.finish(chebyshev_filters(graph.laplacian, signal, coefficients), random)

    def finish(self, filtered: Tensor, random: torch.Generator | None) -> Tensor:
        """Return the embeddings (2×N×D) of filtered signals: 2×N×D, or 2×N×F when filtering first."""
        config = self.config
        filter_first = config.order == "filter_first"
        if filter_first:
            filtered = dropout(filtered, config.dropout, random)
        if config.standardize:
            filtered = standardized(filtered)
        projected = filtered @ self.linear.weight.T if filter_first else filtered
        return self.activated(projected.flatten(0, 1)).view(projected.shape)

    def activated(self, values: Tensor) -> Tensor:
        """Return σ(H + b) for `values` H (N×D)."""
        slope = None if self.config.activation == "relu" else self.linear.bias.new_full((1,), _SLOPE)
        with torch.autocast(values.device.type, enabled=False):  # a PReLU would be narrow
            return biased_prelu(values, self.linear.bias, [slope])

    def mixed(self, views: Tensor) -> Tensor:
        """Return the embeddings α H_high + β H_low of both views H, low first (2×N×D, or 2×D for one row): N×D."""
        low, high = views
        return torch.addcmul(self.low_weight * low, high, self.high_weight)

    @torch.no_grad()
    def encode(self, prepared: PolyGCLGraph) -> NodeVectors:
        """Return the mixture of both views."""
        return NodeVectors(self.mixed(self.views(prepared)))


def standardized(views: Tensor, smallest: float = 1e-5) -> Tensor:
    """Return each column of each view less its mean, divided by its standard deviation.

    Args:
        views: V×N×D.
        smallest: added to the variance.
    """
    # A batch normalisation without parameters reads and writes less than a mean, a difference and a quotient.
    parts = [torch.batch_norm(view, None, None, None, None, True, 0.0, smallest, True) for view in views]
    return torch.stack(parts)


def _dense(features: FeatureMatrix) -> Tensor:
    data = features.data
    if isinstance(data, Tensor):
        return data
    filled = torch.zeros(data.shape, device=data.values.device)
    return filled.index_put((data.row, data.col), data.values)
