"""A graph that stays on disk: a folder of arrays, opened without being loaded.

manifest.json                  written last: a folder that has it is whole; names, findings, SHA-256 of the arrays
out_indptr, out_indices.npy    row i lists the nodes that i points to, sorted, each once
in_indptr, in_indices.npy      row i lists the nodes that point to i; absent where every edge has its reverse
features.npy                   N×F, float32 or float16
ids.npy                        N, int64 or text as the caller wrote it
id_order.npy                   the rows in the order of their ids; absent where they are in that order already
labels.npy                     N class numbers, -1 where unknown; absent without labels
encoding.json                  how columns became features, where there were columns
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError, RunError
from fossil.graph.blocks import mapped
from fossil.graph.findings import Finding
from fossil.graph.graph import Array, Graph
from fossil.graph.lookup import as_keys, rows_of
from fossil.storage import read_json, sha256

MANIFEST, ENCODING = "manifest.json", "encoding.json"
FORMAT_KEY, FORMAT_VERSION = "fossil_graph_folder", 1
REQUIRED = ("out_indptr", "out_indices", "features", "ids")
OPTIONAL = ("in_indptr", "in_indices", "id_order", "labels")
FEATURE_TYPES = ("float32", "float16")


class DiskGraph(Graph):
    """A `Graph` whose arrays are memory-mapped: what is read of them is loaded, and given back when memory is short.

    Whatever takes a `Graph` takes this one. `adjacency` alone is made in memory, when it is first asked for: SciPy
    wants a number for each edge, which takes 4 bytes an edge. Who can do with the pattern reads `out_indptr` and
    `out_indices`.

    Attributes:
        folder: where it is.
        out_indptr: N+1.
        out_indices: E; `out_indices[out_indptr[i]:out_indptr[i + 1]]` are the nodes that i points to.
        in_indptr: N+1; the same arrays as `out_*` where the graph is undirected.
        in_indices: E; likewise, the nodes that point to i.
        features: N×F, float32 or float16.
    """

    folder: Path
    out_indptr: Array
    out_indices: Array
    in_indptr: Array
    in_indices: Array
    _manifest: dict[str, Any]
    _order: Array | None

    def __new__(cls, folder: Path | None = None, changed: Mapping[str, Any] | None = None, **fields: Any) -> Any:
        """Return a `Graph` in memory where its fields are given, which is what `dataclasses.replace` does."""
        return Graph(**fields) if folder is None else super().__new__(cls)

    def __init__(self, folder: Path, changed: Mapping[str, Any] | None = None) -> None:
        """Open a folder.

        Args:
            folder: where it is.
            changed: attributes that are others than those on disk, such as `name` and `labels`.

        Raises:
            GraphError: there is no whole graph in it, or its files do not fit together.
        """
        manifest = read_manifest(folder)
        arrays = {name: mapped(folder / f"{name}.npy") for name in manifest["arrays"]}
        _check_arrays(folder, manifest, arrays)
        parts: dict[str, Any] = {
            "folder": folder,
            "name": manifest["name"],
            "labels": None,
            "in_indptr": arrays["out_indptr"],
            "in_indices": arrays["out_indices"],
            "label_names": tuple(manifest["label_names"]),
            "feature_names": tuple(manifest["feature_names"]),
            "findings": tuple(
                Finding(**{**part, "examples": tuple(part["examples"])}) for part in manifest["findings"]
            ),
            "published_splits": {},
            "_order": arrays.pop("id_order", None),
            "_manifest": manifest,
        }
        for name, value in (parts | arrays | dict(changed or {})).items():
            object.__setattr__(self, name, value)  # frozen, like every graph

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """N×N CSR of float32 ones over the memory-mapped pattern; takes 4 bytes an edge in memory."""
        ones = np.ones(self.num_edges, np.float32)
        matrix = sp.csr_array((ones, self.out_indices, self.out_indptr), shape=(self.num_nodes,) * 2)
        matrix.has_canonical_format = True  # so that nothing is sorted in place
        return matrix

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.out_indptr) - 1

    @property
    def num_edges(self) -> int:
        """Stored directed edges; an undirected edge counts twice."""
        return len(self.out_indices)

    @property
    def has_sparse_features(self) -> bool:
        """Features on disk are dense."""
        return False

    @property
    def is_directed(self) -> bool:
        """Whether some edge lacks its reverse."""
        return self.in_indices is not self.out_indices

    @property
    def fingerprint(self) -> str:
        """What an equal `Graph` in memory has, found when the folder was written."""
        return str(self._manifest["fingerprint"])

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of every array, by name."""
        return {name: about["sha256"] for name, about in self._manifest["arrays"].items()}

    def verify(self) -> None:
        """Read every array and compare it with the manifest.

        Raises:
            GraphError: one of them changed since the folder was written.
        """
        for name, digest in self.digests.items():
            if sha256(self.folder / f"{name}.npy") != digest:
                raise GraphError(
                    f"{self.folder / name}.npy is not the array that was written.", remedy="Convert the graph again."
                )

    def rows(self, ids: Iterable[object]) -> Array:
        """Return the row of each id, in the order asked for, by binary search on disk.

        Raises:
            GraphError: an id is not in the graph.
        """
        asked = [str(key) for key in ids]
        found = rows_of(as_keys(asked, self.ids.dtype), self.ids, self._order)
        if (found < 0).any():
            key = asked[int(np.argmax(found < 0))]
            raise GraphError(f"Node {key!r} is not in graph {self.name!r}.", remedy="Check the spelling.")
        return found

    def __contains__(self, key: object) -> bool:
        return bool(rows_of(as_keys([str(key)], self.ids.dtype), self.ids, self._order)[0] >= 0)

    def with_labels(self, labels: Array | None, label_names: Sequence[str] = ()) -> DiskGraph:
        """Return the same graph with other labels."""
        return DiskGraph(self.folder, {"name": self.name, "labels": labels, "label_names": tuple(label_names)})

    def named(self, name: str) -> DiskGraph:
        """Return the same graph under another name."""
        kept = {key: getattr(self, key) for key in ("labels", "label_names")}
        return DiskGraph(self.folder, {**kept, "name": name})

    def loaded(self) -> Graph:
        """Return the same graph in memory, features in float32."""
        return Graph(
            name=self.name,
            adjacency=self.adjacency,
            features=np.array(self.features, np.float32),
            ids=np.array(self.ids),
            labels=None if self.labels is None else np.array(self.labels),
            label_names=self.label_names,
            feature_names=self.feature_names,
            findings=self.findings,
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder.

    Raises:
        GraphError: there is none, or it is of another kind or version.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise GraphError(
            f"{folder} holds no whole graph: it has no {MANIFEST}, which is written last.",
            remedy="Give fossil data convert again; it goes on where it stopped.",
        )
    try:
        manifest = read_json(path)
    except RunError as error:
        raise GraphError(f"{path} cannot be read ({error.what})", remedy="Convert the graph again.") from error
    version = manifest.get(FORMAT_KEY) if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        found = "no manifest of a graph" if version is None else f"of format {version}"
        raise GraphError(
            f"{path} is {found}; this version reads {FORMAT_VERSION}.",
            remedy="Convert the graph again, or update fossil-gnn.",
        )
    known = {name: type(manifest.get(name)) for name in ("name", "arrays", "findings", "label_names", "feature_names")}
    if list(known.values()) != [str, dict, list, list, list] or not {*REQUIRED} <= manifest["arrays"].keys():
        raise GraphError(f"{path} is damaged: parts of it are missing.", remedy="Convert the graph again.")
    return dict(manifest)


def _check_arrays(folder: Path, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise GraphError where an array is another one than the manifest names, as far as its size tells."""
    for name, array in arrays.items():
        about = manifest["arrays"][name]
        if name not in (*REQUIRED, *OPTIONAL) or [array.dtype.str, list(array.shape)] != [
            about["dtype"],
            about["shape"],
        ]:
            raise GraphError(
                f"{folder / name}.npy holds {array.dtype.str} of shape {array.shape}, and the manifest says "
                f"{about['dtype']} of shape {tuple(about['shape'])}.",
                remedy="Convert the graph again.",
            )
    check_shapes(folder, arrays)


def check_shapes(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Raise GraphError unless the arrays of a folder, by name, are those of one graph as far as their shapes tell."""
    nodes, edges = len(arrays["out_indptr"]) - 1, len(arrays["out_indices"])
    wanted: dict[str, tuple[int, ...]] = {"in_indptr": (nodes + 1,), "in_indices": (edges,)}
    wanted |= dict.fromkeys(("ids", "id_order", "labels"), (nodes,))
    wanted["features"] = (nodes, arrays["features"].shape[-1])
    wrong = [name for name, shape in wanted.items() if name in arrays and arrays[name].shape != shape]
    wrong += ["features"] * (arrays["features"].dtype.name not in FEATURE_TYPES)
    ends = {way: arrays[way][-1:].tolist() for way in ("out_indptr", "in_indptr") if way in arrays}
    wrong += [way for way, end in ends.items() if end != [edges]]
    if wrong:
        raise GraphError(
            f"The arrays of {folder} do not fit together: {', '.join(dict.fromkeys(wrong))} of {nodes:,} nodes and "
            f"{edges:,} edges.",
            remedy="Convert the graph again.",
        )
