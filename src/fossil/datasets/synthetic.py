"""Graphs that need no file: handwritten digits joined to their neighbours, and a random model with known truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fossil.errors import SettingError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Treatment
from fossil.graph.graph import Array, Graph
from fossil.guard.budget import free_host_memory, in_bytes
from fossil.seeding import numpy_generator
from fossil.settings import Settings, setting

DIGITS = 1797
"""Number of images that scikit-learn bundles."""


def digits_graph(neighbours: int = 10, *, treatment: Treatment | None = None) -> Graph:
    """Join each of scikit-learn's 8×8 digit images to its nearest images; the class is the digit.

    Features are the 64 grey values divided by 16; an edge stands where either image is among the `neighbours`
    nearest (Euclidean) of the other.

    Raises:
        SettingError: `neighbours` is not between 1 and 1,796.
    """
    if not isinstance(neighbours, int) or not 1 <= neighbours < DIGITS:
        raise SettingError(f"neighbours={neighbours!r} is not accepted.", remedy=f"Use 1 to {DIGITS - 1:,}.")
    from sklearn.datasets import load_digits
    from sklearn.neighbors import NearestNeighbors

    images = load_digits()
    features = images.data / 16
    # A tree compares pixels directly: exact distances and no N×N matrix.
    nearest = NearestNeighbors(n_neighbors=neighbours, algorithm="kd_tree").fit(features).kneighbors_graph()
    source, target = nearest.maximum(nearest.T).nonzero()
    raw = RawGraph(
        name="digits",
        source=source,
        target=target,
        features=features.astype(np.float32),
        ids=np.array([f"digit-{i:04d}" for i in range(DIGITS)]),
        labels=images.target.astype(np.int64),
        label_names=tuple(str(digit) for digit in images.target_names),
    )
    return assemble(raw, treatment)


class BlockModel(Settings):
    """The contextual stochastic block model with two classes of equal size (Chien et al., ICLR 2021, Section 4).

    With class signs v_i in {-1, +1}, two nodes are joined with one probability inside a class and another across, and
    node i has features sqrt(mu/n) v_i u + z_i/sqrt(p), where u is drawn from N(0, I/p) and z_i from N(0, I).
    """

    nodes: int = setting(1000, "number of nodes (n)", ge=4, le=10**9)
    degree: float = setting(10.0, "expected mean degree (d)", gt=0, le=1e6)
    features: int = setting(100, "number of features (p)", ge=1)
    homophily: float = setting(0.8, "expected share of edges inside a class", ge=0, le=1)
    signal: float = setting(5.0, "strength of the class in the features (mu)", ge=0)
    seed: int = setting(0, "which random graph")

    @classmethod
    def from_phi(
        cls, phi: float, *, nodes: int = 5000, degree: float = 5.0, features: int = 2000, excess: float = 3.25
    ) -> BlockModel:
        """Return the model at angle `phi` of the curve along which graph and features are equally informative.

        In that paper lambda = sqrt(1 + eps) sin(pi phi / 2) tells how far edges follow the classes and
        mu = sqrt(n/p) sqrt(1 + eps) cos(pi phi / 2) how far features do; edge probabilities
        (d ± lambda sqrt(d)) / n give a homophily of 1/2 + lambda / (2 sqrt(d)). Thus phi = 1 is all in the edges and
        homophilous, phi = 0 all in the features, phi = -1 all in the edges and heterophilous.

        Args:
            phi: from -1 to 1.
            nodes: n.
            degree: d, at least lambda².
            features: p.
            excess: eps, the margin above the threshold at which classes can be found at all.

        Raises:
            SettingError: `phi` is out of range, or the degree too small for it.

        >>> BlockModel.from_phi(0.0).homophily, round(BlockModel.from_phi(1.0).homophily, 3)
        (0.5, 0.961)
        """
        if not -1 <= phi <= 1:
            raise SettingError(f"phi={phi!r} is not accepted.", remedy="Use a number from -1 to 1.")
        angle, radius = math.pi * phi / 2, math.sqrt(1 + excess)
        values = {
            "nodes": nodes,
            "degree": degree,
            "features": features,
            "homophily": 0.5 + radius * math.sin(angle) / (2 * math.sqrt(degree)),
            "signal": math.sqrt(nodes / features) * radius * max(math.cos(angle), 0.0),
        }
        return cls.build(values)


def csbm(nodes: int = 1000, *, treatment: Treatment | None = None, **parameters: Any) -> Graph:
    """Draw a graph from the contextual stochastic block model, in time and memory that grow with nodes and edges only.

    Args:
        nodes: number of nodes.
        treatment: what to do about isolated nodes.
        **parameters: the other settings of `BlockModel`: `degree`, `features`, `homophily`, `signal`, `seed`.

    Raises:
        SettingError: an unknown setting, an impossible value, more edges than pairs of nodes, or more of either than
            fit in memory.

    >>> csbm(100, degree=4, features=8, homophily=0.2, seed=1).num_classes
    2
    """
    model = BlockModel.build({"nodes": nodes, **parameters})
    need, free = int(model.nodes * (8 * model.features + 32 * model.degree)), free_host_memory()
    if free is not None and need > free:
        raise SettingError(
            f"csbm with nodes={model.nodes}, features={model.features} and degree={model.degree:g} takes "
            f"{in_bytes(need)} in memory, and {in_bytes(free)} are free.",
            remedy="Choose fewer of them.",
        )
    generator = numpy_generator(model.seed, "csbm")
    members = np.array_split(generator.permutation(model.nodes), 2)
    labels = np.zeros(model.nodes, np.int64)
    labels[members[1]] = 1
    source, target = _draw_edges(model, members, generator)
    raw = RawGraph(
        name="csbm",
        source=np.concatenate([source, target]),
        target=np.concatenate([target, source]),
        features=_draw_features(model, labels, generator),
        ids=np.arange(model.nodes),
        labels=labels,
    )
    return assemble(raw, treatment)


def _draw_features(model: BlockModel, labels: Array, generator: np.random.Generator) -> Array:
    direction = generator.standard_normal(model.features) / math.sqrt(model.features)
    offset = (math.sqrt(model.signal / model.nodes) * direction).astype(np.float32)
    features = generator.standard_normal((model.nodes, model.features), dtype=np.float32)
    features /= np.float32(math.sqrt(model.features))
    features[labels == 1] += offset
    features[labels == 0] -= offset
    return features


def _draw_edges(model: BlockModel, members: list[Array], generator: np.random.Generator) -> tuple[Array, Array]:
    """Return both ends of each undirected edge once; every pair of nodes is decided independently."""
    first, second = members
    inside = [math.comb(len(part), 2) for part in members]
    across = len(first) * len(second)
    expected = model.nodes * model.degree / 2
    inside_probability = model.homophily * expected / sum(inside)
    across_probability = (1 - model.homophily) * expected / across
    if max(inside_probability, across_probability) > 1 + 1e-9:
        raise SettingError(
            f"degree={model.degree:g} with homophily={model.homophily:g} asks for more edges than there are pairs "
            f"among {model.nodes:,} nodes.",
            remedy="Lower the degree, add nodes, or bring the homophily closer to 0.5.",
        )
    ends = []
    for part, pairs in zip(members, inside, strict=True):
        larger, smaller = _pair(_draw_numbers(pairs, inside_probability, generator))
        ends.append((part[larger], part[smaller]))
    i, j = np.divmod(_draw_numbers(across, across_probability, generator), len(second))
    ends.append((first[i], second[j]))
    source, target = (np.concatenate(side) for side in zip(*ends, strict=True))
    return source, target


def _draw_numbers(count: int, probability: float, generator: np.random.Generator) -> Array:
    """Keep each of the numbers 0 to count - 1 with the given probability, without going through all of them."""
    kept = generator.binomial(count, min(probability, 1.0))
    return generator.choice(count, kept, replace=False, shuffle=False)


def _pair(number: Array) -> tuple[Array, Array]:
    """Return the pair (i, j), i > j, that has this number when pairs are counted (1,0), (2,0), (2,1), (3,0), ..."""
    larger = ((1 + np.sqrt(1 + 8 * number)) / 2).astype(np.int64)
    # The square root may be off by one unit in the last place.
    larger -= larger * (larger - 1) // 2 > number
    larger += larger * (larger + 1) // 2 <= number
    return larger, number - larger * (larger - 1) // 2
