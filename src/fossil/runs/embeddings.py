"""Vectors keyed by node id, and what a fit returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fossil.errors import FossilError, UnknownNodeError
from fossil.graph.blocks import blocks
from fossil.graph.graph import Array, Graph
from fossil.methods.base import Method, NodeVectors
from fossil.runs.config import RunConfig
from fossil.runs.neighbours import Neighbour, Searches
from fossil.training.divergence import first_not_finite

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 1 << 17
"""Vectors that are worked on at once: 256 MiB at 512 columns."""


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings(Mapping[Any, Array]):
    """Vectors of nodes: a mapping from node id to vector, in the order of the graph.

    Ids are found by what they read as: `7` and `"7"` are one node.

    Attributes:
        ids: N node ids.
        vectors: N×D float32.
        fusion: λ per node (N), where the method has it.
        channels: how far each node trusts each channel, by name (N each, adding up to one), where the method has them.
        path: the run folder they are in, if there is one.

    >>> found = Embeddings(np.array(["ada", "bob"]), np.eye(2, dtype=np.float32), None)
    >>> found
    Embeddings(nodes=2, width=2)
    >>> found["ada"], "eve" in found, list(found)
    (array([1., 0.], dtype=float32), False, ['ada', 'bob'])
    >>> np.asarray(found).shape, sorted(dict(found))
    ((2, 2), ['ada', 'bob'])
    >>> found.to_frame().loc["bob"].tolist()
    [0.0, 1.0]
    """

    ids: Array
    vectors: Array
    fusion: Array | None
    channels: Mapping[str, Array] | None = field(default=None, kw_only=True)
    path: Path | None = field(default=None, kw_only=True)

    def __getitem__(self, key: object) -> Array:
        """Return the vector of one node, by its id.

        Raises:
            UnknownNodeError: there is no such node; it is a KeyError and a GraphError.
        """
        vector: Array = self.vectors[self.row(key)]
        return vector

    def row(self, key: object) -> int:
        """Return which row of `vectors` is that of a node, by its id.

        Raises:
            UnknownNodeError: there is no such node; it is a KeyError and a GraphError.
        """
        row = self._rows.get(str(key))
        if row is None:
            example = f"; ids here look like {str(self.ids[0])!r}" if len(self) else ""
            raise UnknownNodeError(f"Node {str(key)!r} has no vector here.", remedy=f"Check the spelling{example}.")
        return row

    def neighbours(self, key: object, k: int = 10, *, exact: bool | None = None) -> list[Neighbour]:
        """Return the k nodes whose vectors are nearest to that of one node by their cosine, the nearest first.

        Args:
            key: id of the node.
            k: how many; all others where there are fewer.
            exact: compare with every vector; when None below 20,000 nodes, above by an index, which finds nearly all
                of them in a few milliseconds, is built at the first call and kept in the run folder if there is one.

        Raises:
            UnknownNodeError: there is no such node.
            SettingError: k is below one, or an index is needed and usearch is not installed.

        >>> found = Embeddings(np.array(["ada", "bob", "cho"]), np.array([[1.0, 0], [0, 1], [3, 4]]), None)
        >>> found.neighbours("ada", k=1)
        [Neighbour(id='cho', similarity=0.6000000238418579)]
        """
        rows, similarities = self.searches.choose(exact).nearest(np.array([self.row(key)]), k)
        return [*map(Neighbour, self.ids[rows[0]].tolist(), similarities[0].tolist())]

    @cached_property
    def searches(self) -> Searches:
        """What looks for neighbours, and keeps its index in the run folder."""
        return Searches(self.vectors, self.path)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids.tolist())

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, key: object) -> bool:
        return str(key) in self._rows

    # Two results are equal if they are one: a mapping of arrays has no truth value to compare by.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.vectors, dtype=dtype, copy=copy)

    def to_frame(self) -> pd.DataFrame:
        """Return the vectors as a data frame: a row a node under its id, and columns v0, v1, ...

        Raises:
            FossilError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise FossilError(
                "A data frame needs pandas, which is not installed.", remedy="pip install 'fossil-gnn[tables]'"
            ) from error
        columns = [f"v{i}" for i in range(self.vectors.shape[1])]
        return pd.DataFrame(self.vectors, index=pd.Index(self.ids, name="id"), columns=columns)

    def export(self, to: str, out: str | Path | None = None, *, force: bool = False) -> Path:
        """Write the vectors in the form that another program reads; return the file or folder.

        Classes, features and edges go along where the form has room for them and the graph is known.

        Args:
            to: `csv`, `parquet`, `numpy`, `word2vec`, `anndata` or `tensorboard`.
            out: file or folder to write; when None, beside the run folder and under its name.
            force: replace what was exported there before.

        Raises:
            SettingError: there is no such form, its package is missing, or there is no run folder and no `out`.
            RunError: something stands there already, or it cannot be written.
        """
        from fossil.runs.exports.export import export

        graph, run = getattr(self, "graph", None), getattr(self, "path", None)
        return export(self, to, None if out is None else Path(out), graph=graph, run=run, force=force)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._shown().items())})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from fossil.runs.notebook import embeddings_card

        return embeddings_card(self)

    def _shown(self) -> dict[str, object]:
        """What its one line says."""
        return {"nodes": len(self), "width": self.vectors.shape[1]}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {str(key): row for row, key in enumerate(self.ids.tolist())}


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Embeddings):
    """The vectors of a graph's nodes, and how they came about.

    Attributes:
        graph: what was embedded.
        method: the trained method.
        config: what was asked for, every setting resolved.
        history: one record an epoch.
    """

    graph: Graph
    method: Method[Any]
    config: RunConfig
    history: list[dict[str, float]]

    def _shown(self) -> dict[str, object]:
        asked = {"graph": self.config.graph, "method": self.config.method, "seed": self.config.seed}
        return super()._shown() | asked | {"epochs": len(self.history)}


def as_arrays(encoded: NodeVectors, first: int = 0) -> tuple[Array, Array | None, dict[str, Array] | None]:
    """Return vectors, λ and trust in channels, the latter two where there are any, of the nodes from `first` on."""
    found = encoded.on_host()
    fusion = None if found.fusion is None else found.fusion.numpy()[first:]
    channels = None if found.channels is None else {name: each.numpy()[first:] for name, each in found.channels.items()}
    return found.vectors.numpy()[first:], fusion, channels


def embeddings_of(ids: Array, encoded: NodeVectors) -> Embeddings:
    """Return what a method says of nodes, keyed by their ids."""
    vectors, fusion, channels = as_arrays(encoded)
    return Embeddings(ids, vectors, fusion, channels=channels)


def not_finite(found: Embeddings) -> str | None:
    """Return in words what is NaN or infinite among vectors and what comes with them; None where nothing is."""
    arrays = {"the vectors": found.vectors} | ({} if found.fusion is None else {"λ": found.fusion})
    arrays |= {f"the trust in channel {name}": each for name, each in (found.channels or {}).items()}
    for named, array in arrays.items():
        rows = _rows_not_finite(array)
        if len(rows):
            return f"{named} of {len(rows):,} of {len(found):,} nodes, the first {str(found.ids[rows[0]])!r}"
    return None


def _rows_not_finite(values: Array, *, squared: bool = False) -> Array:
    """Return the rows (of N, or N×D) that are not finite, or whose squared length is not; found in blocks of rows."""
    found = [np.empty(0, np.int64)]
    for part in blocks(len(values), ROWS_AT_ONCE):
        rows = values[part].reshape(part.stop - part.start, -1)
        finite = np.isfinite(np.square(rows).sum(axis=1)) if squared else np.isfinite(rows).all(axis=1)
        found.append(part.start + np.flatnonzero(~finite))
    return np.concatenate(found)


def fault_of(method: Method[Any], ids: Array, encoded: NodeVectors) -> str | None:
    """Return in words what is not finite among weights and vectors; None where all is good.

    Vectors of a trained method must have a length, too: one beyond float32 has no direction.
    """
    bad = first_not_finite(method.state_dict())
    found = embeddings_of(ids, encoded)
    wrong = not_finite(found)
    if wrong is not None or bad is not None or not method.trained:
        return wrong or bad
    with np.errstate(over="ignore"):
        long = _rows_not_finite(found.vectors, squared=True)
    return f"the length of {len(long):,} of {len(found.vectors):,} vectors" if len(long) else None
