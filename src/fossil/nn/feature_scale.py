"""What features are multiplied by, so that squares and lengths of rows stay within float32."""

from __future__ import annotations

import numpy as np

from fossil.graph.graph import Graph

_ORDINARY = (2.0**-10, 2.0**20)  # largest features whose squares, and lengths of rows, float32 holds with ease
_LARGEST_EXPONENT = 126  # of a power of two that float32 holds, and one by it


def ordinary_scale(largest: float) -> float:
    """Return one, or a power of two, by which features of this largest magnitude are multiplied.

    Very large or small numbers get into the range of ordinary ones; directions stay as they are.
    """
    if largest == 0 or _ORDINARY[0] <= largest <= _ORDINARY[1]:
        return 1.0
    exponent = int(np.frexp(np.float32(largest))[1])
    return 2.0 ** max(-_LARGEST_EXPONENT, min(-exponent, _LARGEST_EXPONENT))


def scale_of(graph: Graph) -> float:
    """Return the `ordinary_scale` of a graph's features."""
    return ordinary_scale(float(abs(graph.features).max()))
