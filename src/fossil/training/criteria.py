"""Criteria that tell good vectors from bad ones without labels: when to stop, and with which settings?

Each takes vectors of all nodes (N×D, on any device) and returns a number. Where all pairs of nodes would be needed,
nodes are sampled: the same ones whenever the seed is the same, on whatever device. `benchmarks/criteria.py` measures
how well each of them ranks what a probe with labels ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from fossil.ops.unit import cosine, unit_vectors
from fossil.seeding import torch_generator

SAMPLE = 2048
"""Nodes that are looked at where N² would be too many pairs."""

_CHUNK = 1 << 24  # cosines at a time, or numbers of the vectors of pairs


def sampled(nodes: int, most: int, seed: int, device: torch.device) -> Tensor:
    """Return the numbers of at most so many nodes, drawn without replacement, in the order of the draw."""
    return torch.randperm(nodes, generator=torch_generator(seed, "criteria"))[:most].to(device)


# Two views of the same nodes.


def alignment(first: Tensor, second: Tensor) -> float:
    """Return the mean squared distance between the directions of the two views of a node: 0 to 4, less is better.

    Wang and Isola, ICML 2020; it is 2 - 2 cos.
    """
    return float((unit_vectors(first) - unit_vectors(second)).square().sum(1).mean())


def uniformity(vectors: Tensor, seed: int = 0, most: int = SAMPLE) -> float:
    """Return the logarithm of the mean of exp(-2||x-y||²) over pairs of directions: -8 to 0, less is better.

    Wang and Isola, ICML 2020: the less, the more evenly the nodes lie on the sphere. Over the pairs of `most` nodes.
    """
    unit = unit_vectors(vectors[sampled(len(vectors), most, seed, vectors.device)]).double()
    gram = unit @ unit.T  # many times as fast as distances one by one
    lengths = gram.diagonal()
    near = torch.exp(-2 * (lengths[:, None] + lengths - 2 * gram).clamp_min(0))
    near.fill_diagonal_(0)
    return float((near.sum() / (len(unit) * (len(unit) - 1))).log())


# How many directions are used.


def rankme(vectors: Tensor, seed: int = 0, most: int = SAMPLE) -> float:
    """Return exp of the entropy of the singular values, as shares of their sum: 1 to min(N, D), more is better.

    Garrido et al., ICML 2023, without the ε that they add to the shares. `fossil.nn.effective_rank` has its
    relative that weighs directions by their squares. Over `most` nodes, which cannot show more directions than that.
    """
    rows = vectors[sampled(len(vectors), most, seed, vectors.device)].double()
    # Squares of singular values from the smaller of the two products.
    gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    values = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return float(torch.special.entr(shares).sum().exp())


# Who is near whom.


def nearest(vectors: Tensor, nodes: Tensor, count: int = 10) -> Tensor:
    """Return the nodes of greatest cosine with each of these nodes, itself left out: M×count, or as many as exist."""
    unit, count, parts = unit_vectors(vectors), min(count, len(vectors) - 1), []
    for chunk in nodes.split(max(1, _CHUNK // len(vectors))):
        cosines = unit[chunk] @ unit.T
        cosines[torch.arange(len(chunk), device=cosines.device), chunk] = -torch.inf
        parts.append(cosines.topk(count, dim=1).indices)
    return torch.cat(parts)


def neighbours_kept(before: Tensor, after: Tensor) -> float:
    """Return which share of the nearest nodes (M×K, from `nearest`) is among those of another look: 0 to 1.

    Between two checkpoints of a training it says how settled they are; between two seeds, how far they agree.
    """
    return float((before[:, :, None] == after[:, None, :]).any(2).double().mean())


def linear_cka(first: Tensor, second: Tensor) -> float:
    """Return linear centred kernel alignment of two sets of vectors (N×D and N×D') of the same nodes: 0 to 1.

    Kornblith et al., ICML 2019: <K, L> / (||K|| ||L||) of their centred inner products. Turning or scaling either set
    changes nothing. Takes N² numbers: give it sampled nodes.
    """
    grams = []
    for vectors in (first, second):
        centred = vectors.double() - vectors.double().mean(0)
        grams.append(centred @ centred.T)
    K, L = grams
    norms = float(torch.linalg.matrix_norm(K) * torch.linalg.matrix_norm(L))
    return float((K * L).sum()) / norms if norms else 0.0


# What was held out of the graph (`fossil.graph.heldout`).


def edges_found(vectors: Tensor, edges: Tensor, non_edges: Tensor) -> float:
    """Return the area under the ROC curve of cosines that tell edges (2×M) from pairs that are none: 0 to 1."""
    wanted, rivals = _cosines(vectors, edges), _cosines(vectors, non_edges).sort().values
    below, up_to = (torch.searchsorted(rivals, wanted, right=right) for right in (False, True))
    return float((below + up_to).double().mean() / (2 * len(rivals)))  # a tie counts half


def _cosines(vectors: Tensor, pairs: Tensor) -> Tensor:
    parts = pairs.split(max(1, _CHUNK // vectors.shape[1]), dim=1)
    return torch.cat([cosine(vectors[first], vectors[second]) for first, second in parts])


def features_found(vectors: Tensor, values: Tensor, seed: int = 0, most: int = SAMPLE, penalty: float = 1.0) -> float:
    """Return R² of feature columns (N×C) predicted from the vectors by ridge regression: up to 1, more is better.

    Fitted on `most` nodes and counted on as many others, or on the halves of a small graph. Columns are weighted by
    their variance, so that R² is one minus the share of the squares that is left.

    Args:
        vectors: N×D.
        values: what is to be predicted, N×C.
        seed: of the nodes.
        most: nodes of either half.
        penalty: weight of the squared coefficients, in mean squared lengths of the centred vectors.
    """
    nodes = sampled(len(vectors), 2 * most, seed, vectors.device)
    fitted, counted = nodes.tensor_split(2)
    X, Y = vectors[fitted].double(), values[fitted].double()
    centre, level = X.mean(0), Y.mean(0)
    X = X - centre
    gram = X @ X.T
    # In the dual form, whose size does not depend on D. Vectors that are all alike predict the mean.
    gram.diagonal().add_(penalty * float(gram.diagonal().mean()) or 1.0)
    coefficients = X.T @ torch.linalg.solve(gram, Y - level)
    truth = values[counted].double()
    left = (truth - level - (vectors[counted].double() - centre) @ coefficients).square().sum()
    total = (truth - truth.mean(0)).square().sum()
    return 1 - float(left) / float(total) if total else 0.0


# The training loss itself.


def recent_loss(losses: Sequence[float], window: int = 5) -> float:
    """Return the mean of the last losses, because a single one depends on its draw."""
    return fmean(losses[-window:])


def loss_improvement(losses: Sequence[float], window: int = 5) -> float | None:
    """Return by which share of itself the mean of `window` losses has fallen to that of the last ones.

    None before there are two windows. The windows are next to each other whenever it is asked, so that early and late
    in a training the same is measured.
    """
    if len(losses) < 2 * window:
        return None
    before, after = fmean(losses[-2 * window : -window]), fmean(losses[-window:])
    return (before - after) / abs(before) if before else 0.0
