"""A run folder: what a training leaves behind, readable without executing anything.

config.yaml             what was asked for, every setting resolved
environment.json        versions and device
graph.npz               the graph as it was trained on, labels included for evaluation
encoding.json           how columns became features, where the input had columns
history.jsonl           one record an epoch
checkpoint.safetensors  everything needed to go on
weights.safetensors     the trained method
embeddings.npz          ids, vectors, fusion (and .parquet where pyarrow is installed)
summary.json            written last: a folder that has it is finished
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fossil.errors import RunError, SettingError
from fossil.graph.encoding import EncodingPlan
from fossil.graph.findings import Treatment
from fossil.graph.formats import read_npz, write_npz
from fossil.graph.graph import Array, Graph
from fossil.methods.base import Encoding, Method
from fossil.methods.registry import get_method
from fossil.settings import Settings
from fossil.storage import read_arrays, read_json, write_arrays, write_atomically, write_json, write_yaml
from fossil.training.checkpoint import load_tensors
from fossil.training.runtime import lack_of_memory_as, resolve_device
from fossil.training.trainer import TrainingSettings

FORMAT = 1
FILES = (
    "config.yaml",
    "environment.json",
    "graph.npz",
    "encoding.json",
    "history.jsonl",
    "checkpoint.safetensors",
    "weights.safetensors",
    "embeddings.npz",
    "embeddings.parquet",
    "summary.json",
    "map.png",
)


@dataclass(frozen=True)
class RunConfig:
    """What a run was asked to do, every setting resolved."""

    method: str
    preset: str
    settings: Settings
    training: TrainingSettings
    seed: int
    graph: str
    fingerprint: str
    source: str = ""
    treatment: Treatment = field(default_factory=Treatment)

    @property
    def identity(self) -> str:
        """Hash of all that the trained weights depend on; epochs, device and bookkeeping are left out."""
        parts = [self.method, self.settings.model_dump(), self.training.precision, self.seed, self.fingerprint]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `config.yaml`."""
        return {
            "format": FORMAT,
            "method": self.method,
            "preset": self.preset,
            "seed": self.seed,
            "graph": {"name": self.graph, "fingerprint": self.fingerprint, "source": self.source},
            "treatment": self.treatment.model_dump(),
            "training": self.training.model_dump(),
            "settings": self.settings.model_dump(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """Read what `to_dict` wrote."""
        return cls(
            method=values["method"],
            preset=values["preset"],
            settings=get_method(values["method"]).Config.build(values["settings"]),
            training=TrainingSettings.build(values["training"]),
            seed=values["seed"],
            graph=values["graph"]["name"],
            fingerprint=values["graph"]["fingerprint"],
            source=values["graph"]["source"],
            treatment=Treatment.build(values["treatment"]),
        )


def _reason(error: Exception) -> str:
    """Return in one line why a configuration cannot be read."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return f"there is no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())


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
        """`ids`, `vectors` and, where the method has it, `fusion`; RunError where the run is not finished."""
        self.check_finished()
        path = self.path / "embeddings.npz"
        arrays = read_arrays(path)
        if not {"ids", "vectors"} <= arrays.keys():
            raise RunError(f"{path} holds no embeddings.", remedy="Make it again with --resume.")
        return arrays

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

    def encode(self, graph: Graph, device: str = "cpu") -> Encoding:
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
        return Encoding(encoded.vectors.cpu(), None if encoded.fusion is None else encoded.fusion.cpu())


def check_intent(*, resume: bool, force: bool) -> None:
    """Raise SettingError where a run is to be continued and replaced at once."""
    if resume and force:
        raise SettingError(
            "--resume and --force contradict each other.",
            remedy="Give --resume to go on with the run, or --force to replace it.",
        )


def claim_folder(path: Path, *, resume: bool, force: bool) -> bool:
    """Make sure `path` may be written to; return whether there is a run in it to go on with.

    Raises:
        RunError: something stands there already and nobody said what to do about it.
    """
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file.", remedy="Choose another --out.")
    content = [entry for entry in path.iterdir() if not entry.name.endswith(".part")] if path.is_dir() else []
    if not content:
        return False
    if not (path / "config.yaml").is_file():
        raise RunError(
            f"{path} exists and holds files that are not a run (for example {content[0].name}).",
            remedy="Choose another --out; nothing was touched.",
        )
    if resume:
        return True
    if not force:
        raise RunError(
            f"{path} already holds a run.",
            remedy="Go on with --resume, replace it with --force, or choose another --out.",
        )
    # The configuration goes last, so that a half-emptied folder is still known as a run.
    withdraw_results(path)
    for name in reversed(FILES):
        (path / name).unlink(missing_ok=True)
    return False


def withdraw_results(path: Path) -> None:
    """Mark the run in `path` as unfinished, before its weights change: its summary and scores no longer hold."""
    (path / "summary.json").unlink(missing_ok=True)
    for scores in path.glob("scores-*.json"):
        scores.unlink()


def _sweep(path: Path) -> None:
    """Remove the half-written neighbours of our own files, which a killed run leaves behind."""
    for name in FILES:
        for part in path.glob(f".{name}.*.part"):
            part.unlink(missing_ok=True)


def write_inputs(path: Path, config: RunConfig, environment: dict[str, Any], graph: Graph, plan: Any) -> None:
    """Write what is known before training."""
    _sweep(path)
    write_yaml(path / "config.yaml", config.to_dict())
    write_json(path / "environment.json", environment)
    if plan is not None:
        write_json(path / "encoding.json", plan.to_json())
    write_npz(path / "graph.npz", graph)


def write_embeddings(path: Path, ids: Array, vectors: Array, fusion: Array | None) -> None:
    """Write embeddings keyed by node id as NPZ, and as Parquet where pyarrow is installed."""
    arrays = {"ids": ids, "vectors": vectors} | ({} if fusion is None else {"fusion": fusion})
    write_arrays(path / "embeddings.npz", arrays, compress=False)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    columns = {"id": ids} | {f"v{i}": np.ascontiguousarray(column) for i, column in enumerate(vectors.T)}
    if fusion is not None:
        columns["fusion"] = fusion
    write_atomically(path / "embeddings.parquet", lambda stream: pq.write_table(pa.table(columns), stream))
