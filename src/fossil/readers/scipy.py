"""SciPy adjacency matrices, alone or with features."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from fossil.readers.arrays import raw_from_adjacency
from fossil.readers.base import Found, Reader, Request


class SciPyMatrix(Reader):
    """An N×N sparse matrix (row i points to its columns), or a pair of it and N×F features, dense or sparse."""

    name = "scipy"
    form = "a SciPy sparse matrix or (adjacency, features)"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is a sparse matrix, or a pair that begins with one."""
        return bool(sp.issparse(_parts(source)[0]))

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read it.

        Raises:
            GraphError: the matrix is not square, has weights, or the features are not numbers.
        """
        return Found(raw_from_adjacency(*_parts(source), request.name or "graph", request.treatment))


def _parts(source: Any) -> tuple[Any, Any]:
    return source if isinstance(source, tuple) and len(source) == 2 else (source, None)
