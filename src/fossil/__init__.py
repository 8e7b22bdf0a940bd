"""Vectors for the nodes of an attributed graph, learnt without labels.

>>> import fossil
>>> result = fossil.embed("digits", epochs=2, settings={"hidden": 32, "width": 16})
>>> result.vectors.shape
(1797, 400)

The public names are imported when first used, so that `import fossil` and `fossil --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fossil import transport as transport
    from fossil.api import embed as embed
    from fossil.api import evaluate as evaluate
    from fossil.api import load as load
    from fossil.errors import FossilError as FossilError
    from fossil.estimator import FossilEmbedder as FossilEmbedder
    from fossil.graph.graph import Graph as Graph
    from fossil.readers.source import open_graph as open_graph
    from fossil.runs.conversion import convert as convert
    from fossil.runs.embeddings import Embeddings as Embeddings
    from fossil.runs.embeddings import FitResult as FitResult
    from fossil.runs.run import Run as Run

_PUBLIC = {
    "Embeddings": "fossil.runs.embeddings",
    "FitResult": "fossil.runs.embeddings",
    "FossilEmbedder": "fossil.estimator",
    "FossilError": "fossil.errors",
    "Graph": "fossil.graph.graph",
    "Run": "fossil.runs.run",
    "convert": "fossil.runs.conversion",
    "embed": "fossil.api",
    "evaluate": "fossil.api",
    "load": "fossil.api",
    "open_graph": "fossil.readers.source",
}
_MODULES = ("transport",)
__all__ = [*_PUBLIC, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"fossil.{name}")
    raise AttributeError(f"module 'fossil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
