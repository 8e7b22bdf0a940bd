"""Vectors for the nodes of an attributed graph, learnt without labels.

>>> import fossil
>>> result = fossil.embed("digits", epochs=2, settings={"hidden": 32, "width": 16})
>>> result.vectors.shape
(1797, 16)

The public names are imported when first used, so that `import fossil` and `fossil --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fossil.api import embed as embed
    from fossil.errors import FossilError as FossilError
    from fossil.estimator import FossilEmbedder as FossilEmbedder
    from fossil.fit import Embeddings as Embeddings
    from fossil.graph.graph import Graph as Graph
    from fossil.graph.source import open_graph as open_graph
    from fossil.run import Run as Run

_PUBLIC = {
    "Embeddings": "fossil.fit",
    "FossilEmbedder": "fossil.estimator",
    "FossilError": "fossil.errors",
    "Graph": "fossil.graph.graph",
    "Run": "fossil.run",
    "embed": "fossil.api",
    "open_graph": "fossil.graph.source",
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'fossil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
