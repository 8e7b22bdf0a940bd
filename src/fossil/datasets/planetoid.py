"""The citation graphs Cora, CiteSeer and PubMed as Planetoid publishes them: eight `ind.*` files.

Seven of the files are Python 2 pickles. A pickle can name any function of the interpreter and have it called, so
these are read by an unpickler that knows six names only, and hands out inert records in place of the NumPy and
SciPy classes: whatever the file says, no code but the code below sees its content.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import DataError
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Finding
from fossil.graph.graph import Array
from fossil.graph.published import NOWHERE, TEST, TRAINING, VALIDATION
from fossil.guard.arrays import checked_csr
from fossil.guard.budget import check_need

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
VALIDATION_NODES = 500
_REPLACE = "Replace them by the published files."


def read_planetoid(folder: Path, name: str) -> RawGraph:
    """Read one citation graph; edges, features, labels and split are those of `torch_geometric.datasets.Planetoid`.

    The published split trains on the nodes of `x`, validates on the 500 after them, and tests on those of `test.index`.
    Test nodes that the files leave out (15 in CiteSeer) get zero features and class 0, and are reported.

    Args:
        folder: where the `ind.<name>.*` files are.
        name: `cora`, `citeseer` or `pubmed`.

    Raises:
        DataError: a file is damaged, asks for code to be run, or does not fit the others.
    """
    files = {part: folder / f"ind.{name}.{part}" for part in PARTS}
    test_rows = _read_test_rows(files["test.index"])
    rest, test = read_array(files["allx"]), read_array(files["tx"])
    classes = [read_array(files["ally"]), read_array(files["ty"])]
    # The rows of `tx` and `ty` follow `test.index`; the other nodes come first, in order.
    rows = np.concatenate([np.arange(rest.shape[0]), test_rows])
    nodes = int(rows.max()) + 1
    if nodes > 2 * len(rows):
        raise _damaged(files["test.index"], f"it names node {nodes - 1}, but there are {len(rows)} rows of features")
    labels = np.zeros(nodes, np.int64)
    try:
        stacked = sp.vstack([sp.coo_array(rest), sp.coo_array(test)])
        values = stacked.data.astype(np.float32)
        features = sp.csr_array((values, (rows[stacked.row], stacked.col)), shape=(nodes, stacked.shape[1]))
        labels[rows] = np.concatenate(classes).argmax(axis=1)
    except (ValueError, IndexError) as error:
        raise DataError(f"The files of {name} in {folder} do not fit each other: {error}.", remedy=_REPLACE) from error

    source, target = _read_edges(files["graph"])
    loops = source == target
    findings = []
    if loops.any():
        findings.append(Finding("self loops in the files", int(loops.sum()), "removed", _some(source[loops])))
    absent = np.setdiff1d(np.arange(nodes), rows)
    if len(absent):
        findings.append(Finding("nodes absent from the files", len(absent), "zero features, class 0", _some(absent)))
    return RawGraph(
        name=name,
        source=source[~loops],
        target=target[~loops],
        features=features,
        ids=np.arange(nodes),
        labels=labels,
        findings=tuple(findings),
        published_splits={"public": _split(files["y"], rest.shape[0], test_rows, nodes)},
    )


def _split(path: Path, rest: int, test_rows: Array, nodes: int) -> Array:
    training = read_array(path).shape[0]
    if training + VALIDATION_NODES > rest:
        raise _damaged(path, f"it leaves no {VALIDATION_NODES} validation nodes among the {rest} that are not for test")
    parts = np.full((1, nodes), NOWHERE, np.int8)
    parts[0, :training] = TRAINING
    parts[0, training : training + VALIDATION_NODES] = VALIDATION
    parts[0, test_rows] = TEST
    return parts


def read_array(path: Path) -> Any:
    """Read one pickled array or CSR matrix.

    Raises:
        DataError: the file is damaged, holds something else, or asks for code to be run.
    """
    record = read_restricted(path)
    if not isinstance(record, _ArrayRecord | _MatrixRecord):
        raise _damaged(path, f"a {type(record).__name__} where an array is expected")
    try:
        array = record.restore()
    except Exception as error:  # its parts can be anything at all
        raise _damaged(path, str(error)) from error
    if array.ndim != 2:
        raise _damaged(path, f"{array.ndim} dimensions where 2 are expected")
    return array


def read_restricted(path: Path) -> Any:
    """Unpickle a file that may name arrays, CSR matrices, `defaultdict` and `list`, and nothing else.

    Raises:
        DataError: the file names anything else, or is not a pickle.
    """
    try:
        content = path.read_bytes()
        _check_memo(content)
        # From bytes in memory, no more is read, and no more room made, than there are.
        return _RestrictedUnpickler(io.BytesIO(content), encoding="latin1").load()
    except DataError as error:
        raise DataError(f"{path}: {error.what}", remedy=error.remedy) from error
    except Exception as error:  # a damaged pickle can raise anything at all
        raise _damaged(path, str(error)) from error


def _check_memo(content: bytes) -> None:
    """Refuse a pickle that numbers what it remembers beyond its own length: the unpickler makes room for all below."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= int(argument or 0) <= len(content):
            raise ValueError(f"it puts something into place {argument:,} of its memory")


class _DtypeRecord:
    """Stands in for `numpy.dtype`."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, ""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    def restore(self) -> np.dtype[Any]:
        dtype = np.dtype(f"{self.order}{self.code}")
        if dtype.kind not in "iufb":
            raise ValueError(f"arrays of {dtype} are not accepted")
        return dtype


class _ArrayRecord:
    """Stands in for `numpy.ndarray`."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.dtype, self.by_columns, self.content = state

    def restore(self) -> Array:
        # A Python 2 string read as latin1 has one character per byte.
        content = self.content.encode("latin1") if isinstance(self.content, str) else self.content
        flat = np.frombuffer(content, self.dtype.restore())
        return flat.reshape(self.shape, order="F" if self.by_columns else "C")


class _MatrixRecord:
    """Stands in for `scipy.sparse.csr_matrix`."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def restore(self) -> sp.csr_array:
        data, indices, indptr = (self.state[key].restore() for key in ("data", "indices", "indptr"))
        return checked_csr(data, indices, indptr, self.state["_shape"])


def _reconstruct(*_: object) -> _ArrayRecord:
    """Stands in for the function NumPy calls to make an empty array before its state is set."""
    return _ArrayRecord()


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ArrayRecord,
    ("numpy", "dtype"): _DtypeRecord,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): _MatrixRecord,
    ("scipy.sparse._csr", "csr_matrix"): _MatrixRecord,
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "list"): list,
}


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        admitted = _ADMITTED.get((module.replace("__builtin__", "builtins"), name))
        if admitted is None:
            raise DataError(
                f"the file asks for {module}.{name}, which no citation graph needs; it was not run.",
                remedy="Do not use this file; fetch the published one.",
            )
        return admitted


def _read_edges(path: Path) -> tuple[Array, Array]:
    """Flatten the pickled mapping from each node to its neighbours."""
    neighbours = read_restricted(path)
    try:
        lengths = [len(listed) for listed in neighbours.values()]
        check_need(path, 32 * sum(lengths), "The edges", DataError)
        source = np.repeat(np.fromiter(neighbours.keys(), np.int64), lengths)
        target = np.fromiter((node for listed in neighbours.values() for node in listed), np.int64)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, str(error)) from error
    return source, target


def _read_test_rows(path: Path) -> Array:
    try:
        rows = np.loadtxt(path, dtype=np.int64, ndmin=1)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if len(rows) == 0 or rows.min() < 0:
        raise _damaged(path, "it does not list the rows of the test nodes")
    return rows


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path} cannot be read: {why.rstrip('.')}.", remedy=_REPLACE)


def _some(nodes: Array) -> tuple[str, ...]:
    return tuple(str(node) for node in nodes[:3])
