"""A run that was made: its configuration, its vectors, its trained method, and vectors of further nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError, RunError
from fossil.graph.disk import DiskGraph
from fossil.graph.graph import Array, Graph
from fossil.guard.arrays import Arrays
from fossil.guard.boundary import reading as guarded
from fossil.guard.budget import free_host_memory, in_bytes
from fossil.methods.base import Method, NodeVectors
from fossil.methods.registry import get_method
from fossil.ops.memory import free_memory
from fossil.progress import StageProgress, silent
from fossil.readers.attach import attach_tables
from fossil.readers.disk import DiskFolder, read_encoding
from fossil.readers.encoding import EncodingPlan
from fossil.readers.npz import read_npz
from fossil.readers.source import open_graph
from fossil.runs.config import CONFIG, RunConfig, fingerprint
from fossil.runs.embeddings import Embeddings, as_arrays, embeddings_of, not_finite
from fossil.runs.exports.export import export
from fossil.runs.folder import (
    ABOUT_VECTORS,
    CHANNEL,
    REFERENCE,
    SEAL,
    claim_vectors_folder,
    read_reference,
    sealed,
    vectors_folder,
    write_embeddings,
)
from fossil.runs.neighbours import Neighbour
from fossil.runs.notebook import run_card
from fossil.runs.parts import PARTS, embed_in_parts, refuse_other_parts, remove_parts, weights_digest
from fossil.runs.preparation import whole_bytes, why_whole
from fossil.storage import read_arrays, read_json, reading, sha256, write_json
from fossil.training.capabilities import lack_of_memory_as
from fossil.training.checkpoint import load_tensors
from fossil.training.devices import resolve_device
from fossil.training.divergence import first_not_finite


@dataclass(frozen=True, eq=False)
class Run:
    """An existing run folder.

    Each file is compared, as it is read, with the SHA-256 that the summary of a finished run has of it: what was
    changed, damaged or comes from another run is refused. Runs of earlier versions have none; of theirs, shapes, ids
    and the graph's fingerprint are compared.
    """

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Return the run in `path`.

        Raises:
            RunError: there is no run in that folder.
        """
        folder = Path(path)
        with reading(folder):
            if not (folder / CONFIG).is_file():
                raise RunError(f"{folder} is not a run folder.", remedy="Make one with: fossil embed INPUT --out DIR")
        return cls(folder)

    @cached_property
    def config(self) -> RunConfig:
        """What the run was asked to do."""
        return RunConfig.read(self._checked(CONFIG).parent)

    @property
    def finished(self) -> bool:
        """Whether training and encoding are over."""
        with reading(self.path):
            return (self.path / "summary.json").is_file()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What was learnt, in numbers."""
        path = self.path / "summary.json"
        summary = read_json(path)
        files = summary.get("files", {}) if isinstance(summary, dict) else None
        if not isinstance(files, dict):
            raise RunError(f"{path} is no summary of a run.", remedy="Make it again with --resume.")
        if ("files" in summary or SEAL in summary) and summary != sealed(summary):  # an earlier version has neither
            raise _foreign(path, "it was changed or damaged")
        return {name: value for name, value in summary.items() if name != SEAL}

    @cached_property
    def graph(self) -> Graph:
        """The graph as it was trained on."""
        with reading(self.path):
            on_disk = (self.path / REFERENCE).exists()
        path = self._checked(REFERENCE if on_disk else "graph.npz")
        graph = read_reference(path) if on_disk else read_npz(path)
        config = self.config
        if fingerprint(graph, get_method(config.method), config.settings) != config.fingerprint:
            raise _foreign(path, "it is another graph than config.yaml names")
        return graph

    @cached_property
    def plan(self) -> EncodingPlan | None:
        """How columns became features; None where there were no columns."""
        path = self.path / "encoding.json"
        with reading(path):
            if "encoding.json" not in self._digests and not (path.exists() or path.is_symlink()):
                return None
        return EncodingPlan.from_json(read_json(self._checked("encoding.json")), str(path))

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """`ids`, `vectors`, and `fusion` or `channel_NAME` where the method has it; RunError for an unfinished run."""
        self.check_finished()
        path = self._checked("embeddings.npz")
        arrays = read_arrays(path)
        if not {"ids", "vectors"} <= arrays.keys():
            raise RunError(f"{path} holds no embeddings.", remedy="Make it again with --resume.")
        self._check_arrays(path, arrays)
        return arrays

    @cached_property
    def mapped_vectors(self) -> Array:
        """The vectors (N×D), read from their file where they are looked at; in memory for a run of an earlier version.

        Raises:
            RunError: the run is not finished, or the file is not the one that it wrote.
        """
        self.check_finished()
        if not self._digests:  # nothing but looking at all of it tells whether it is whole
            return self.embeddings.vectors
        path = self._checked("embeddings.npz")
        with guarded(path, RunError), Arrays(path, RunError) as arrays:
            return arrays.mapped("vectors")

    def _check_arrays(self, path: Path, arrays: dict[str, Array]) -> None:
        """Raise RunError unless the arrays are finite and have a row for each node of the graph."""
        nodes = len(arrays["ids"]) if arrays["ids"].ndim == 1 else -1
        per_node = {name: each for name, each in arrays.items() if name == "fusion" or name.startswith(CHANNEL)}
        shapes = [arrays["vectors"].shape[:1], *(each.shape for each in per_node.values())]
        if arrays["vectors"].ndim != 2 or any(shape != (nodes,) for shape in shapes):
            raise _foreign(path, "its arrays have different numbers of rows")
        if any(each.dtype.kind != "f" for each in (arrays["vectors"], *per_node.values())):
            raise _foreign(path, "its vectors are no numbers")
        if not self._digests and not np.array_equal(arrays["ids"], self.graph.ids):
            raise _foreign(path, "its nodes are not those of graph.npz")
        wrong = not_finite(_embeddings(arrays))
        if wrong is not None:
            raise RunError(f"{path} is not finite: {wrong}.", remedy="The training diverged: train anew with --force.")

    @property
    def _digests(self) -> dict[str, Any]:
        """The SHA-256 of each file by its name; empty for an unfinished run, and for one of an earlier version."""
        return dict(self.summary.get("files", {})) if self.finished else {}

    def _checked(self, name: str) -> Path:
        """Return where a file of the run is; RunError where it is not the one that the run wrote."""
        path = self.path / name
        if self._digests and self._digests.get(name) != sha256(path):
            raise _foreign(path, "it was changed or damaged, or comes from another run")
        return path

    @cached_property
    def embeddings(self) -> Embeddings:
        """The vectors of the graph's nodes; RunError where the run is not finished."""
        return _embeddings(self.arrays, self.path)

    def neighbours(self, key: object, k: int = 10, *, exact: bool | None = None) -> list[Neighbour]:
        """Return the k nodes whose vectors are nearest to that of one node; see `Embeddings.neighbours`.

        Raises:
            RunError: the run is not finished.
            UnknownNodeError: there is no such node.
            SettingError: k is below one, or an index is needed and usearch is not installed.
        """
        return self.embeddings.neighbours(key, k, exact=exact)

    def export(self, to: str, out: str | Path | None = None, *, force: bool = False) -> Path:
        """Write the vectors in the form that another program reads, as `Embeddings.export` does.

        Raises:
            SettingError: there is no such form, or its package is missing.
            RunError: the run is not finished, something stands there already, or it cannot be written.
        """
        path = None if out is None else Path(out)
        return export(self.embeddings, to, path, graph=self.graph, run=self.path, force=force)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return run_card(self)

    def check_finished(self) -> None:
        """Raise RunError unless training and encoding are over."""
        if not self.finished:
            raise RunError(f"The run in {self.path} is not finished.", remedy="Go on with its command and --resume.")

    def load_method(self) -> Method[Any]:
        """Return the trained method on the CPU.

        Raises:
            RunError: the run is not finished, or its weights are damaged or belong to other settings.
        """
        self.check_finished()
        path = self._checked("weights.safetensors")
        content = load_tensors(path)
        try:
            kind, config = get_method(self.config.method), self.config
            method = kind.build(config.settings, content.about["num_features"], config.seed)
            method.load_state_dict(content.tensors)
        except (KeyError, RuntimeError, TypeError, ValueError, MemoryError) as error:
            raise RunError(
                f"{path} does not fit the settings in config.yaml.", remedy="Put the right files back, or train anew."
            ) from error
        bad = first_not_finite(content.tensors)
        if bad is not None:
            raise RunError(
                f"{path} is of a training that diverged: {bad} is not finite.",
                remedy="Train anew with --force, at lower learning rates.",
            )
        return method.eval()

    def encode(
        self,
        graph: Graph,
        device: str = "cpu",
        *,
        parts: Path | None = None,
        force: bool = False,
        progress: StageProgress = silent,
    ) -> NodeVectors:
        """Embed another graph with the same feature columns, vectors on the host.

        Where the run was trained on parts of its graph, or the graph does not fit as a whole and the method can, it is
        embedded in parts, of which those in the folder `parts` are not made again.

        Raises:
            RunError: the graph has another number of features, memory runs out, a vector is not finite, or there are
                parts of other vectors.
        """
        method = self.load_method()
        if graph.num_features != method.num_features:
            raise RunError(
                f"Graph {graph.name!r} has {graph.num_features} features, the run has {method.num_features}.",
                remedy="Give the same columns, in the same order.",
            )
        target = resolve_device(device)
        too_large = RunError(
            f"Embedding {graph.name} ({graph.num_nodes:,} nodes) with the run in {self.path} does not fit in memory.",
            remedy="Use a device with more memory, or embed a smaller graph.",
        )
        kind, host = get_method(self.config.method), free_host_memory()
        columns = kind.vector_columns(self.config.settings, graph.num_features)
        if host is not None and 4 * columns * graph.num_nodes > host:
            raise too_large
        whole, free = whole_bytes(graph), free_memory(target)
        fits = free is None or whole <= free
        in_parts = (self.config.is_sampled or not fits) and why_whole(method) is None
        if not fits and not in_parts:
            raise too_large
        with lack_of_memory_as(too_large):
            method = method.to(target)
            if in_parts:
                identity = f"{graph.fingerprint} {self.config.identity} {weights_digest(method)}"
                if parts is not None and not force:
                    refuse_other_parts(parts, identity)
                encoded = embed_in_parts(method, graph, target, parts, identity, progress)
            else:
                encoded = method.encode(method.prepare(graph, target)).on_host()
        wrong = not_finite(embeddings_of(graph.ids, encoded))
        if wrong is not None:
            raise RunError(
                f"The run in {self.path} gives {graph.name} numbers that are not finite: {wrong}.",
                remedy="Scale features that are far larger than those it was trained on.",
            )
        return encoded

    def embed(
        self,
        source: Any,
        *,
        attach: bool = False,
        edges: str | Path | None = None,
        device: str = "cpu",
        out: str | Path | None = None,
        force: bool = False,
        progress: StageProgress = silent,
    ) -> NewEmbeddings:
        """Embed other nodes with the trained method; nothing is trained again.

        Args:
            source: a graph with the columns of the one it was trained on, in any form that `fossil.open_graph` takes;
                with `attach`, a folder or a node table.
            attach: `source` holds new nodes, whose edges may name nodes of the run's graph; they are embedded in the
                union of both graphs, and the vectors of the new ones are returned.
            edges: edge table, when `source` is a node table.
            device: `cpu`, `cuda` or `auto`.
            out: folder to write the vectors to; nothing is written when None.
            force: replace vectors that were written there before.
            progress: is told how far an embedding in parts is; one that was stopped goes on with the same call.

        Raises:
            GraphError: the source cannot be read, or has columns where the run has a feature matrix.
            RunError: the run is not finished, the graph has other features, or `out` is taken.
        """
        folder = None if out is None else Path(out)
        if folder is not None:
            claim_vectors_folder(folder, force=force)
        graph, first = self._graph_of(source, None if edges is None else Path(edges), attach)
        with vectors_folder(folder, force=force):
            parts = None if folder is None else folder / PARTS
            encoded = self.encode(graph, device, parts=parts, force=force, progress=progress)
            vectors, fusion, channels = as_arrays(encoded, first)
            found = NewEmbeddings(graph.ids[first:], vectors, fusion, graph, channels=channels)
            if folder is not None:
                named = str(source) if isinstance(source, str | Path) else type(source).__name__
                about = {"run": str(self.path), "source": named, "attached": attach, "weights": self.config.identity}
                write_embeddings(folder, found)
                write_json(folder / ABOUT_VECTORS, about)
                remove_parts(folder / PARTS)  # last: whoever is killed before goes on with them
        return found

    def _graph_of(self, source: Any, edges: Path | None, attach: bool) -> tuple[Graph, int]:
        """Return the graph to encode and the row at which what the caller asked for begins."""
        treatment = self.config.treatment
        if attach:
            self._check_attaching()
            union = attach_tables(self.graph, self.plan, source, edges, treatment=treatment)
            return union, sum(key in self.graph for key in union.ids.tolist())
        options: dict[str, Any] = {} if self.plan is None else {"plan": self.plan}
        if isinstance(source, str | Path) and DiskFolder.accepts(Path(source)):
            if read_encoding(Path(source)) != self.plan:
                raise GraphError(
                    f"{source} was converted by itself, and its columns are encoded otherwise than those of the run in "
                    f"{self.path}.",
                    remedy="Give the tables that it was converted from: they are encoded like the run's, in memory.",
                )
            options = {}
        loaded = open_graph(source, treatment=treatment, edges=edges, **options)
        if loaded.plan is not None and self.plan is None:
            raise GraphError(
                f"{source} has columns, but the run in {self.path} was trained on a feature matrix.",
                remedy="Give the graph in the form the run was trained on.",
            )
        return loaded.graph, 0

    def _check_attaching(self) -> None:
        """Refuse to join new nodes to a converted graph that does not fit in memory: the union is made there."""
        need, free = 2 * whole_bytes(self.graph), free_host_memory()
        if isinstance(self.graph, DiskGraph) and free is not None and need > free:
            raise RunError(
                f"New nodes are joined to {self.graph.name} ({self.graph.num_nodes:,} nodes) in memory, which takes "
                f"{in_bytes(need)}, and {in_bytes(free)} are free.",
                remedy="Use a machine with more memory, embed the new nodes without the old ones (leave out --attach), "
                "or convert all nodes together and train on that.",
            )


@dataclass(frozen=True, eq=False, repr=False)
class NewEmbeddings(Embeddings):
    """Vectors of other nodes than a run was trained on.

    Attributes:
        graph: what was encoded: the other graph, or with `attach` the union of both.
    """

    graph: Graph


def _embeddings(arrays: dict[str, Array], path: Path | None = None) -> Embeddings:
    channels = {name.removeprefix(CHANNEL): each for name, each in arrays.items() if name.startswith(CHANNEL)}
    return Embeddings(arrays["ids"], arrays["vectors"], arrays.get("fusion"), channels=channels or None, path=path)


def _foreign(path: Path, why: str) -> RunError:
    return RunError(
        f"{path} is not the file that this run wrote: {why}.",
        remedy="Put the right file back, or make it again with the run's command and --resume.",
    )
