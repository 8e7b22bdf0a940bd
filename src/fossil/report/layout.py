"""Where each node of a run stands on a plane: found once, and kept in the run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import RunError, warn_the_caller
from fossil.graph.graph import Array
from fossil.neighbours.base import unit_rows
from fossil.runs.lock import locked
from fossil.runs.run import Run
from fossil.storage import read_arrays, sha256, write_arrays

LAYOUT = "layout.npz"

_LARGEST_TSNE = 5000
_LARGEST_UMAP = 200_000  # above it, many minutes
_APART = 0.3  # least distance of UMAP's points, so that nodes of a dense cluster can be pointed at
_FEWEST = 10  # nodes, below which neighbourhoods mean nothing
_ALIKE = 1e-6  # between coordinates of unit vectors: what float32 leaves of equal directions


@dataclass(frozen=True, eq=False)
class Layout:
    """Places of nodes on a plane.

    Attributes:
        positions: N×2.
        how: the method, in words.
    """

    positions: Array
    how: str


def layout_of(run: Run) -> Layout:
    """Return the layout that is kept with a run; find it and keep it where there is none of these vectors.

    Raises:
        RunError: the run is not finished.

    Warns:
        FossilWarning: the run's folder cannot be written to, so that the next one will find it anew.
    """
    vectors = run.embeddings.vectors  # which are checked as they are read
    digest = sha256(run.path / "embeddings.npz")
    kept = _kept(run.path / LAYOUT, digest, len(vectors))
    if kept is not None:
        return kept
    found = Layout(*flatten(vectors))
    arrays = {
        "positions": found.positions.astype(np.float32),
        "how": np.array(found.how),
        "of": np.array(digest),
    }
    try:
        with locked(run.path):
            if sha256(run.path / "embeddings.npz") == digest:  # nobody trained anew meanwhile
                write_arrays(run.path / LAYOUT, arrays)
    except RunError as error:
        warn_the_caller(f"The layout of {run.path} could not be kept there: {error.what}")
    return found


def _kept(path: Path, digest: str, nodes: int) -> Layout | None:
    """Return the layout in a file; None unless it is whole and of the vectors with this SHA-256."""
    try:
        arrays = read_arrays(path)
        positions, how, of = arrays["positions"], arrays["how"], arrays["of"]
    except (RunError, KeyError):  # it is found again
        return None
    whole = positions.shape == (nodes, 2) and positions.dtype.kind == "f" and np.isfinite(positions).all()
    return Layout(positions, str(how)) if whole and str(of) == digest else None


def flatten(vectors: Array, seed: int = 0) -> tuple[Array, str]:
    """Return N×2 positions and how they were found.

    UMAP of unit vectors where it is installed, else t-SNE, and principal components for large graphs and tiny ones.
    """
    unit = unit_rows(vectors)
    if len(unit) == 1:
        return np.zeros((1, 2)), "the one node there is"
    if np.ptp(unit, axis=0).max() < _ALIKE:  # collapsed: t-SNE would divide by their spread, and crash
        return np.zeros((len(unit), 2)), "the one direction that all vectors have"
    if unit.shape[1] == 1:
        return np.column_stack([unit, np.zeros(len(unit))]), "the one direction there is"
    from sklearn.decomposition import PCA

    if len(unit) < _FEWEST or len(unit) > _LARGEST_UMAP or not (_has_umap() or len(unit) <= _LARGEST_TSNE):
        return PCA(2, random_state=seed).fit_transform(unit), "principal components"
    reduced = PCA(min(30, *unit.shape), random_state=seed).fit_transform(unit)
    return (_umap(reduced, seed), "UMAP") if _has_umap() else (_tsne(reduced, seed), "t-SNE")


def _has_umap() -> bool:
    return find_spec("umap") is not None


def _umap(reduced: Array, seed: int) -> Array:
    import warnings

    umap: Any = import_module("umap")  # which ships no types
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a seed forbids, and of graphs that fall apart
        near = min(15, len(reduced) - 1)
        # The seed makes two reports of one run alike; UMAP then works in one thread.
        flattened = umap.UMAP(n_components=2, n_neighbors=near, min_dist=_APART, random_state=seed, n_jobs=1)
        found: Array = flattened.fit_transform(reduced)
    # Nodes far from all others get no place from UMAP.
    return np.where(np.isfinite(found), found, 0.0)


def _tsne(reduced: Array, seed: int) -> Array:
    from sklearn.manifold import TSNE

    perplexity = min(30, (len(reduced) - 1) / 3)
    found: Array = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(reduced)
    return found
