"""The graph convolution of Kipf and Welling, for any propagation matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix


class GraphConvolution(nn.Module):
    """S X W + b with Glorot-uniform W and b = 0; S is given at each call, self-loops and normalisation included.

    S (X W) costs E·D and (S X) W costs E·F for the sum over neighbours, so the narrower side is propagated. Sparse
    features are multiplied by W first in any case: S X would fill up.

    Args:
        in_features: F, width of the input.
        out_features: D, width of the output.
        bias: whether there is a b.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_features, out_features)))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Tensor | FeatureMatrix, propagation: SparseMatrix) -> Tensor:
        """Return S X W + b, N×D, for `x` (N×F) and `propagation` S (N×N)."""
        data = x.data if isinstance(x, FeatureMatrix) else x
        in_features, out_features = self.weight.shape
        if isinstance(data, Tensor) and in_features < out_features:
            return self.finish(propagation.matmul(data) @ self.weight)
        return self.finish(propagation.matmul(project(x, self.weight)))

    def finish(self, product: Tensor) -> Tensor:
        """Return S X W + b, given S X W."""
        return product if self.bias is None else product + self.bias


def project(x: Tensor | FeatureMatrix, weight: Tensor) -> Tensor:
    """Return X W (N×D) for dense, sparse or hidden X (N×F)."""
    return x.project(weight) if isinstance(x, FeatureMatrix) else x @ weight
