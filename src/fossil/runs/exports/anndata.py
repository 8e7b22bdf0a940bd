"""AnnData: annotated matrices, as scanpy and other single-cell tools have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import RunError, SettingError
from fossil.printable import printable
from fossil.runs.exports.base import Exporter, Subject

VECTORS, EDGES = "X_fossil", "edges"


class AnndataExporter(Exporter):
    """Features in `X`, what is known of the nodes in `obs`, vectors in `obsm["X_fossil"]`, edges in `obsp["edges"]`."""

    name = "anndata"
    suffix = ".h5ad"

    @classmethod
    def check(cls) -> None:
        """Raise SettingError where anndata is not installed."""
        try:
            import anndata  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "AnnData needs the package anndata, which is not installed.",
                remedy="pip install 'fossil-gnn[anndata]'",
            ) from error

    @classmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write it; without a graph there are neither features nor edges.

        Raises:
            RunError: a text holds what no text in HDF5 can.
        """
        import pandas as pd
        from anndata import AnnData

        graph = subject.graph
        for text in (*subject.texts, *(() if graph is None else graph.feature_names)):
            if "\0" in text or text.encode(errors="replace").decode() != text:
                raise RunError(
                    f"{text!r} cannot be written in HDF5: it holds the sign NUL, or half a character.",
                    remedy="Take another format, such as csv, or rename it and train anew.",
                )
        known: dict[str, Any] = {
            name: pd.Categorical(column) if isinstance(column, list) else column
            for name, column in subject.columns.items()
        }
        names = () if graph is None else graph.feature_names or (f"x{i}" for i in range(graph.num_features))
        AnnData(
            X=None if graph is None else graph.features,
            obs=pd.DataFrame(known, index=pd.Index(subject.ids, dtype=object)),
            var=pd.DataFrame(index=pd.Index(list(names), dtype=object)),
            obsm={VECTORS: np.ascontiguousarray(subject.vectors)},
            obsp={} if graph is None else {EDGES: graph.adjacency},
            uns={"graph": printable(subject.name)},
        ).write_h5ad(path)
