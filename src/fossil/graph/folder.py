"""Writing a graph folder: its arrays one by one, in blocks, and last the manifest that makes it whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.blocks import appending, blocks, index_dtype, mapped
from fossil.graph.content import check_content
from fossil.graph.disk import (
    FORMAT_KEY,
    FORMAT_VERSION,
    MANIFEST,
    OPTIONAL,
    REQUIRED,
    DiskGraph,
    check_shapes,
)
from fossil.graph.findings import Finding
from fossil.graph.graph import Array, Features, Graph
from fossil.graph.lookup import write_order
from fossil.progress import Progress, silent
from fossil.storage import sha256, write_json

_BYTES_AT_ONCE = 1 << 24


def seal(
    folder: Path,
    *,
    name: str,
    label_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    about: Mapping[str, Any] | None = None,
    check: bool = True,
    progress: Progress = silent,
) -> DiskGraph:
    """Write the manifest of a folder whose arrays are all there (`appending`), and open it.

    The order of the ids is found here, which takes 8 bytes a node of memory.

    Args:
        folder: with `out_indptr`, `out_indices`, `features`, `ids`, and what else there is.
        name: of the graph.
        label_names: the caller's name of each class.
        feature_names: of each column of the features.
        findings: what was noticed about the graph.
        about: what else to keep in the manifest, such as where the graph comes from.
        check: look at every number first; not needed where the arrays were made from a graph that was looked at.
        progress: is told which share of the arrays has been read for their digests.

    Raises:
        GraphError: the arrays are not those of one graph, or two nodes have one id.
        RunError: the folder cannot be written.
    """
    if check or not (folder / "id_order.npy").exists():
        write_order(folder)
    names = [part for part in (*REQUIRED, *OPTIONAL) if (folder / f"{part}.npy").exists()]
    arrays = {part: mapped(folder / f"{part}.npy") for part in names}
    check_shapes(folder, arrays)
    if check:
        check_content(folder, arrays, feature_names, label_names)
    done, every = 0, max(1, sum(array.nbytes for array in arrays.values()))

    def read(size: int) -> None:
        nonlocal done
        done += size
        progress(min(1.0, done / every))

    print_of_all, digests = _fingerprint(folder, arrays, read)
    for part in [name for name in names if name not in digests]:
        digests[part] = sha256(folder / f"{part}.npy")
        read(arrays[part].nbytes)
    manifest = {
        FORMAT_KEY: FORMAT_VERSION,
        "name": name,
        "nodes": len(arrays["ids"]),
        "edges": len(arrays["out_indices"]),
        "fingerprint": print_of_all,
        "label_names": list(label_names),
        "feature_names": list(feature_names),
        "findings": [asdict(finding) for finding in findings],
        **(about or {}),
        "arrays": {
            part: {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digests[part]}
            for part, array in arrays.items()
        },
    }
    write_json(folder / MANIFEST, manifest)
    return DiskGraph(folder)


def write_disk_graph(folder: Path, graph: Graph, dtype: str = "float32") -> DiskGraph:
    """Write a graph that is in memory as a folder.

    Raises:
        RunError: the folder cannot be written.
    """
    if graph.labels is not None and graph.labels.ndim == 2:
        raise GraphError(f"{graph.name} has binary tasks.", remedy="A graph on disk has one class a node, or none.")
    adjacency = graph.adjacency
    write_csr(folder, "out", adjacency.indptr, [adjacency.indices])
    if graph.is_directed:
        reverse = sp.csr_array(adjacency.T)
        reverse.sort_indices()
        write_csr(folder, "in", reverse.indptr, [reverse.indices])
    columns: dict[str, Array] = {"ids": graph.ids} | ({} if graph.labels is None else {"labels": graph.labels})
    for name, array in columns.items():
        with appending(folder / f"{name}.npy", array.dtype) as out:
            out.append(array)
    with appending(folder / "features.npy", dtype, (graph.num_features,)) as out:
        for part in blocks(graph.num_nodes):
            out.append(_dense(graph.features[part]))
    return seal(
        folder,
        name=graph.name,
        label_names=graph.label_names,
        feature_names=graph.feature_names,
        findings=graph.findings,
        check=False,
    )


def write_csr(folder: Path, way: str, indptr: Array, indices: Iterable[Array]) -> None:
    """Write one direction of the edges.

    Args:
        folder: of the graph.
        way: `out` or `in`.
        indptr: N+1.
        indices: blocks that follow each other, together E node numbers, sorted in each row.
    """
    with appending(folder / f"{way}_indices.npy", index_dtype(len(indptr))) as out:
        for block in indices:
            out.append(block)
    with appending(folder / f"{way}_indptr.npy", index_dtype(int(indptr[-1]))) as out:
        for part in blocks(len(indptr)):
            out.append(indptr[part])


def _fingerprint(folder: Path, arrays: Mapping[str, Array], read: Callable[[int], None]) -> tuple[str, dict[str, str]]:
    """Return `Graph.fingerprint` of the arrays, and the SHA-256 of the files that were read whole for it.

    Args:
        folder: of the arrays.
        arrays: by name.
        read: is told how many bytes were read since it was last told.
    """
    whole, digests = hashlib.sha256(), {}
    for name, dtype in (("out_indptr", np.int64), ("out_indices", np.int64), ("features", arrays["features"].dtype)):
        array, digest = arrays[name], hashlib.sha256()
        digest.update(_header(folder / f"{name}.npy"))
        whole.update(str((np.dtype(dtype).str, array.shape)).encode())
        width = max(1, array.itemsize * int(np.prod(array.shape[1:])))
        for part in blocks(len(array), max(1, _BYTES_AT_ONCE // width)):
            digest.update(array[part].data.cast("B") if array[part].size else b"")
            whole.update(np.ascontiguousarray(array[part], dtype).data.cast("B") if array[part].size else b"")
            read(array[part].nbytes)
        digests[name] = digest.hexdigest()
    for part in blocks(len(arrays["ids"])):
        whole.update(("\n" * bool(part.start) + "\n".join(map(str, arrays["ids"][part].tolist()))).encode())
    return whole.hexdigest()[:16], digests


def _header(path: Path) -> bytes:
    """Return what stands in a file before its array."""
    with path.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        assert version == (1, 0)
        np.lib.format.read_array_header_1_0(stream)
        length = stream.tell()
        stream.seek(0)
        return stream.read(length)


def _dense(features: Features) -> Array:
    return np.asarray(features.toarray() if sp.issparse(features) else features)
