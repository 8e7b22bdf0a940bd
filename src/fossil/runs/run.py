"""A run that was made: its configuration, its vectors, its trained method, and vectors of further nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from fossil.errors import GraphError, RunError
from fossil.graph.graph import Array, Graph
from fossil.methods.base import Method, NodeVectors
from fossil.methods.registry import get_method
from fossil.readers.attach import attach_tables
from fossil.readers.encoding import EncodingPlan
from fossil.readers.npz import read_npz
from fossil.readers.source import open_graph
from fossil.runs.config import FORMAT, RunConfig
from fossil.runs.embeddings import Embeddings, as_arrays
from fossil.runs.folder import CHANNEL, claim_vectors_folder, write_embeddings
from fossil.storage import read_arrays, read_json, write_json
from fossil.training.capabilities import lack_of_memory_as
from fossil.training.checkpoint import load_tensors
from fossil.training.devices import resolve_device


@dataclass(frozen=True, eq=False)
class Run:
    """An existing run folder."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Return the run in `path`.

        Raises:
            RunError: there is no run in that folder.
        """
        folder = Path(path)
        if not (folder / "config.yaml").is_file():
            raise RunError(f"{folder} is not a run folder.", remedy="Make one with: fossil embed INPUT --out DIR")
        return cls(folder)

    @cached_property
    def config(self) -> RunConfig:
        """What the run was asked to do."""
        try:
            values = yaml.safe_load((self.path / "config.yaml").read_text())
            if values["format"] != FORMAT:
                raise RunError(
                    f"{self.path} has format {values['format']}, this version reads format {FORMAT}.",
                    remedy="Use the version of fossil-gnn that wrote it.",
                )
            return RunConfig.from_dict(values)
        except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.path / 'config.yaml'} is damaged ({_reason(error)}).", remedy="Start anew with --force."
            ) from error

    @property
    def finished(self) -> bool:
        """Whether training and encoding are over."""
        return (self.path / "summary.json").is_file()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What was learnt, in numbers."""
        summary: dict[str, Any] = read_json(self.path / "summary.json")
        return summary

    @cached_property
    def graph(self) -> Graph:
        """The graph as it was trained on."""
        return read_npz(self.path / "graph.npz")

    @cached_property
    def plan(self) -> EncodingPlan | None:
        """How columns became features; None where there were no columns."""
        path = self.path / "encoding.json"
        return EncodingPlan.from_json(read_json(path)) if path.exists() else None

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """`ids`, `vectors`, and `fusion` or `channel_NAME` where the method has it; RunError for an unfinished run."""
        self.check_finished()
        path = self.path / "embeddings.npz"
        arrays = read_arrays(path)
        if not {"ids", "vectors"} <= arrays.keys():
            raise RunError(f"{path} holds no embeddings.", remedy="Make it again with --resume.")
        return arrays

    @property
    def embeddings(self) -> Embeddings:
        """The vectors of the graph's nodes; RunError where the run is not finished."""
        ids, vectors, fusion = self.arrays["ids"], self.arrays["vectors"], self.arrays.get("fusion")
        channels = {name.removeprefix(CHANNEL): each for name, each in self.arrays.items() if name.startswith(CHANNEL)}
        return Embeddings(ids, vectors, fusion, channels=channels or None)

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
        path = self.path / "weights.safetensors"
        content = load_tensors(path)
        try:
            method = get_method(self.config.method)(self.config.settings, content.about["num_features"])
            method.load_state_dict(content.tensors)
        except (KeyError, RuntimeError) as error:
            raise RunError(
                f"{path} does not fit the settings in config.yaml.", remedy="Put the right files back, or train anew."
            ) from error
        return method.eval()

    def encode(self, graph: Graph, device: str = "cpu") -> NodeVectors:
        """Embed another graph with the same feature columns, vectors on the host.

        Raises:
            RunError: the graph has another number of features, or memory runs out.
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
        with lack_of_memory_as(too_large):
            encoded = method.to(target).encode(method.prepare(graph, target))
        return encoded.on_host()

    def embed(
        self,
        source: Any,
        *,
        attach: bool = False,
        edges: str | Path | None = None,
        device: str = "cpu",
        out: str | Path | None = None,
        force: bool = False,
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

        Raises:
            GraphError: the source cannot be read, or has columns where the run has a feature matrix.
            RunError: the run is not finished, the graph has other features, or `out` is taken.
        """
        folder = None if out is None else Path(out)
        if folder is not None:
            claim_vectors_folder(folder, force=force)
        graph, first = self._graph_of(source, None if edges is None else Path(edges), attach)
        encoded = self.encode(graph, device)
        vectors, fusion, channels = as_arrays(encoded, first)
        found = NewEmbeddings(graph.ids[first:], vectors, fusion, graph, channels=channels)
        if folder is not None:
            write_embeddings(folder, found)
            named = str(source) if isinstance(source, str | Path) else type(source).__name__
            about = {"run": str(self.path), "source": named, "attached": attach, "weights": self.config.identity}
            write_json(folder / "about.json", about)
        return found

    def _graph_of(self, source: Any, edges: Path | None, attach: bool) -> tuple[Graph, int]:
        """Return the graph to encode and the row at which what the caller asked for begins."""
        treatment = self.config.treatment
        if attach:
            union = attach_tables(self.graph, self.plan, source, edges, treatment=treatment)
            return union, sum(key in self.graph for key in union.ids.tolist())
        options: dict[str, Any] = {} if self.plan is None else {"plan": self.plan}
        loaded = open_graph(source, treatment=treatment, edges=edges, **options)
        if loaded.plan is not None and self.plan is None:
            raise GraphError(
                f"{source} has columns, but the run in {self.path} was trained on a feature matrix.",
                remedy="Give the graph in the form the run was trained on.",
            )
        return loaded.graph, 0


@dataclass(frozen=True, eq=False, repr=False)
class NewEmbeddings(Embeddings):
    """Vectors of other nodes than a run was trained on.

    Attributes:
        graph: what was encoded: the other graph, or with `attach` the union of both.
    """

    graph: Graph


def _reason(error: Exception) -> str:
    """Return in one line why a configuration cannot be read."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return f"there is no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
