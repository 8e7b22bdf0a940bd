"""Vectors to search among, and their true neighbours by the plain formula in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def clustered(count: int, width: int = 24, seed: int = 0) -> Array:
    """Vectors in 40 clouds of unlike density, of lengths from a thousandth to a thousand, as embeddings have them."""
    random = np.random.default_rng(seed)
    centres, spread = random.normal(size=(40, width)), random.uniform(0.2, 1.0, size=40)
    cloud = random.integers(40, size=count)
    vectors = centres[cloud] + spread[cloud, None] * random.normal(size=(count, width))
    return (vectors * 10 ** random.uniform(-3, 3, size=(count, 1))).astype(np.float32)


def cosines(vectors: Array, rows: Array) -> Array:
    """Q×N cosines in float64, below every cosine where a vector meets itself; zero for a vector of length zero."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    wide /= np.where(lengths > 0, lengths, 1)[:, None]
    alike = wide[rows] @ wide.T
    alike[np.arange(len(rows)), rows] = -2
    return alike
