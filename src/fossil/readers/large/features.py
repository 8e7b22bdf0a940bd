"""The features and labels of a large table, encoded batch by batch into files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fossil.errors import GraphError
from fossil.graph.blocks import appending, blocks, mapped
from fossil.graph.findings import Finding
from fossil.graph.graph import Array
from fossil.progress import Progress
from fossil.readers.cells import NodeTable, cell_texts
from fossil.readers.column import ColumnPlan, fit_scale
from fossil.readers.large.columns import LargePlan, node_rows
from fossil.readers.large.parts import PartTable
from fossil.readers.structural_features import STRUCTURAL_NAMES, Ways, structural_columns


def write_structure(ways: Ways, scratch: Path, progress: Progress) -> list[ColumnPlan]:
    """Write what the edges say of every node, a file a column, and return how the columns are scaled."""
    plans = []
    for number, (name, column) in enumerate(zip(STRUCTURAL_NAMES, structural_columns(ways), strict=True)):
        plans.append(fit_scale(name, column))
        with appending(_structure(scratch, name), np.float64) as out:
            out.append(column)
        progress((number + 1) / len(STRUCTURAL_NAMES))
    return plans


def _structure(scratch: Path, name: str) -> Path:
    return scratch / f"structure_{name}.npy"


class Structure:
    """The columns that `write_structure` wrote, scaled; none where the plan has none."""

    def __init__(self, plans: Sequence[ColumnPlan], scratch: Path) -> None:
        self.columns = [(plan, mapped(_structure(scratch, plan.name))) for plan in plans]

    def rows(self, first: int, last: int) -> Array:
        """Return some rows, n×5 or n×0."""
        scaled = [plan.standardise(column[first:last]) for plan, column in self.columns]
        return np.stack(scaled, axis=1) if scaled else np.empty((last - first, 0))


class _Zeros:
    """The rows in which all features are zero: how many, and the first of them."""

    def __init__(self) -> None:
        self.count, self.first = 0, list[int]()

    def add(self, block: Array, first: int) -> None:
        """Count those among the next rows, of which the first is row `first`."""
        empty = np.flatnonzero(~block.any(axis=1))
        self.count += len(empty)
        self.first += (first + empty[: 20 - len(self.first)]).tolist()


def write_structure_alone(
    structure: Structure, ids: Array, folder: Path, dtype: str, progress: Progress
) -> tuple[int, list[int]]:
    """Write the features of nodes without a table, and tell which share is done; return the rows that are zero."""
    names, zeros = STRUCTURAL_NAMES, _Zeros()
    (folder / "labels.npy").unlink(missing_ok=True)
    with appending(folder / "features.npy", dtype, (len(names),)) as out:
        for part in blocks(len(ids)):
            rows = NodeTable("the edges", ids[part], {}, lines=range(part.start, part.stop), unit="node")
            block = _as_type(structure.rows(part.start, part.stop), dtype, rows, names)
            zeros.add(block, part.start)
            out.append(block)
            progress(part.stop / len(ids))
    return zeros.count, zeros.first


def write_features(
    table: PartTable,
    large: LargePlan,
    structure: Structure,
    ids: Array,
    folder: Path,
    dtype: str,
    progress: Progress,
) -> tuple[tuple[Finding, ...], int, list[int]]:
    """Encode all rows; return what was noticed, how many rows are zero, and the first of those.

    Args:
        table: of the nodes.
        large: how its columns are encoded.
        structure: further columns, from the edges.
        ids: N.
        folder: to write `features` to, and `labels` where there is a column of them.
        dtype: float32 or float16.
        progress: is told which share is done.

    Raises:
        GraphError: a feature is too large for the type.
    """
    plan = large.plan
    used = [column.name for column in plan.columns if column.feature_names]
    numeric = [column.name for column in plan.columns if column.role == "numeric"]
    label = plan.label_column
    number = {name: place for place, name in enumerate(large.label_names)}
    found: list[dict[str, Finding]] = [{} for _ in used]
    zeros = _Zeros()
    (folder / "labels.npy").unlink(missing_ok=True)
    # Where all features come from the edges, the ids tell what rows there are.
    wanted = [*used, *([label] if label is not None else [])] or [plan.columns[0].name]
    names = (*plan.feature_names, *(column.name for column in plan.structural))
    with ExitStack() as files:
        out = files.enter_context(appending(folder / "features.npy", dtype, (len(names),)))
        classes = None if label is None else files.enter_context(appending(folder / "labels.npy", np.int64))
        for piece in table.pieces(wanted, len(names)):
            rows = node_rows(piece, ids, numeric)
            features, noticed = plan.encode_cells(rows)
            for each, more in zip(found, noticed, strict=True):
                _gather(each, more)
            beside = structure.rows(piece.first, piece.first + piece.rows)
            block = _as_type(np.hstack([features, beside]), dtype, rows, names)
            zeros.add(block, piece.first)
            out.append(block)
            if classes is not None and label is not None:
                classes.append(np.asarray([number.get(text, -1) for text in cell_texts(rows.columns[label])], np.int64))
            progress(piece.share)
    return tuple(finding for each in found for finding in each.values()), zeros.count, zeros.first


def _gather(found: dict[str, Finding], more: tuple[Finding, ...]) -> None:
    """Add what was noticed in further cells of a column."""
    for finding in more:
        before = found.get(finding.kind, Finding(finding.kind, 0, finding.done))
        examples = tuple(dict.fromkeys((*before.examples, *finding.examples)))[:3]
        found[finding.kind] = Finding(finding.kind, before.count + finding.count, finding.done, examples)


def _as_type(features: Array, dtype: str, rows: NodeTable, names: tuple[str, ...]) -> Array:
    """Return features of the type asked for, none of which may be too large for it."""
    with np.errstate(over="ignore"):
        block = features.astype(dtype, copy=False)
    if np.isfinite(block).all():
        return block
    row, column = divmod(int(np.argmin(np.isfinite(block))), len(names))
    raise GraphError(
        f"Feature {names[column]} of node {str(rows.ids[row])!r} is NaN, infinite or too large for {dtype} "
        f"({rows.where}, {rows.places([row])}).",
        remedy="Scale large values." if dtype == "float32" else "Scale large values, or choose --feature-type float32.",
    )
