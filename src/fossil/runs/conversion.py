"""`fossil.convert`: large tables become a graph on disk, one process at a time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.graph.disk import DiskGraph
from fossil.graph.findings import Treatment
from fossil.guard.boundary import reading
from fossil.progress import StageProgress, silent
from fossil.readers.large.convert import Conversion
from fossil.readers.large.stages import LOCK
from fossil.runs.lock import holding


def convert(
    source: str | Path,
    out: str | Path,
    *,
    edges: str | Path | None = None,
    roles: Mapping[str, str] | None = None,
    label: str | None = None,
    treatment: Treatment | Mapping[str, Any] | None = None,
    name: str | None = None,
    structural_features: bool = False,
    feature_type: str = "float32",
    memory: str | None = None,
    force: bool = False,
    progress: StageProgress = silent,
) -> DiskGraph:
    """Turn tables that do not fit in memory into a folder of arrays, and open it without loading it.

    A conversion that was stopped goes on with the same call. Files, columns and oddities are treated as those of small
    graphs are.

    Args:
        source: a folder with `nodes` and `edges`, each a CSV, TSV or Parquet file or a folder of part files; or a node
            table; or the edges alone, where features are made from them.
        out: the folder to write.
        edges: the edge table, where it is not beside the nodes.
        roles: what a column is, by name, as for `fossil.open_graph`.
        label: the column of classes.
        treatment: what is done about oddities.
        name: what to call the graph; the folder's name when None.
        structural_features: add features made from the edges; a node table is then not needed.
        feature_type: `float32`, or `float16` for half the space.
        memory: how much to use, such as `8GB`; half of what is free when None.
        force: replace the graph, or the beginning of another conversion, in `out`; a graph stays until the new one is
            whole, and both need room until then.
        progress: is told which stage is at work and which share of it is done.

    Raises:
        GraphError: the tables are no graph that can be learnt from; nothing is left of the conversion.
        RunError: the folder cannot be used, is full, or is being written to; what was done is kept.
    """
    out, source = Path(out), Path(source)
    conversion = Conversion(
        source,
        out,
        edges=None if edges is None else Path(edges),
        roles=roles,
        label=label,
        treatment=treatment,
        name=name,
        structural_features=structural_features,
        feature_type=feature_type,
        memory=memory,
        force=force,
    )
    with reading(source):
        conversion.check()
        try:
            with holding(out / LOCK, f"converting {source}"):
                return conversion.run(progress)
        except GraphError:
            with suppress(OSError):  # it stays where something is in it
                out.rmdir()
            raise
