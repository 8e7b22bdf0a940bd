"""One picture of a fit: the nodes on a plane, coloured by label."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fossil.errors import SettingError
from fossil.graph.graph import Array
from fossil.runs.embeddings import FitResult
from fossil.storage import write_atomically

_LARGEST_TSNE = 5000


def flatten(vectors: Array, seed: int = 0) -> tuple[Array, str]:
    """Return N×2 positions and how they were found: t-SNE of unit vectors, principal components for large graphs."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    if unit.shape[1] == 1:
        return np.column_stack([unit, np.zeros(len(unit))]), "the one direction there is"
    if 10 <= len(unit) <= _LARGEST_TSNE:
        reduced = PCA(min(30, *unit.shape), random_state=seed).fit_transform(unit)
        perplexity = min(30, (len(unit) - 1) / 3)
        return TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(reduced), "t-SNE"
    return PCA(2, random_state=seed).fit_transform(unit), "principal components"


def draw_map(path: Path, result: FitResult) -> None:
    """Write a PNG of the embeddings, coloured by label where there are labels.

    Raises:
        SettingError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingError(
            "A map needs matplotlib, which is not installed.", remedy="pip install 'fossil-gnn[plot]'"
        ) from error
    positions, how = flatten(result.vectors)
    figure = Figure(figsize=(7, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    graph = result.graph
    if graph.labels is not None and graph.labels.ndim == 1:
        names = graph.label_names or tuple(str(number) for number in range(graph.num_classes))
        for number, name in enumerate(names):
            mine = graph.labels == number
            if not mine.any():
                continue
            axes.scatter(positions[mine, 0], positions[mine, 1], s=6, label=name, color=f"C{number % 10}")
        if len(names) <= 20 and axes.collections:
            axes.legend(markerscale=3, fontsize="small", loc="best")
    else:
        axes.scatter(positions[:, 0], positions[:, 1], s=6)
    axes.set_title(f"{graph.name}: {len(graph.ids):,} nodes, {result.method.title}, {how}", fontsize="medium")
    axes.set_xticks([])
    axes.set_yticks([])
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=130))
