"""What a run was asked to do, as `config.yaml` keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import RunError, SettingError
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.methods.registry import Kind, get_method, methods
from fossil.settings import Settings, check_seed
from fossil.storage import read_yaml
from fossil.training.trainer import TrainingSettings

FORMAT = 1
CONFIG = "config.yaml"


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
    version: int = 1
    """Of the method; trainings of two versions give different numbers."""

    @property
    def identity(self) -> str:
        """Hash of all that the trained weights depend on; epochs, device and bookkeeping are left out."""
        parts: list[Any] = [self.method, self.settings.model_dump(), self.training.precision, self.seed]
        parts += [self.fingerprint, *(f"{name} {value}".replace("_", "-") for name, value in self._sampling().items())]
        if self.version > 1:  # checkpoints from before there were versions are of the first
            parts.append(f"version {self.version}")
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def flat(self) -> dict[str, Any]:
        """Return by name what two runs of one folder must agree on."""
        named = {"method": self.method, "version": self.version}
        named |= {"seed": self.seed, "precision": self.training.precision}
        return named | {"sampled": self.is_sampled} | self._sampling() | self.settings.model_dump()

    def _sampling(self) -> dict[str, int]:
        """Return by name what sampled steps depend on, where there are any."""
        if not self.is_sampled:
            return {}
        drawn = {"fan_out": self.training.fan_out}
        if hasattr(get_method(self.method), "batch_nodes"):
            drawn["batch_nodes"] = self.training.batch_nodes
        return drawn

    @property
    def is_sampled(self) -> bool:
        """Whether steps were taken on parts of the graph; what was left open is settled when training starts."""
        return self.training.sampled == "always"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `config.yaml`."""
        return {
            "format": FORMAT,
            "method": self.method,
            "version": self.version,
            "preset": self.preset,
            "seed": self.seed,
            "graph": {"name": self.graph, "fingerprint": self.fingerprint, "source": self.source},
            "treatment": self.treatment.model_dump(),
            "training": self.training.model_dump(),
            "settings": self.settings.model_dump(),
        }

    @classmethod
    def read(cls, folder: Path) -> RunConfig:
        """Return what the run in `folder` was asked to do.

        Raises:
            RunError: `config.yaml` is missing, damaged, or of another version.
            SettingError: there is no such method here.
        """
        path = folder / CONFIG
        values = read_yaml(path)
        try:
            if values["format"] != FORMAT:
                raise RunError(
                    f"{folder} has format {_brief(values['format'])}, this version reads format {FORMAT}.",
                    remedy="Use the version of fossil-gnn that wrote it.",
                )
            return cls.from_dict(values)
        except SettingError as error:
            if values["method"] not in methods():
                raise  # nothing is wrong with the file: the package that has the method is not installed
            raise RunError(f"{path} cannot be used: {error.what}", remedy=error.remedy) from error
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"there is no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise RunError(f"{path} is damaged ({reason}).", remedy="Start anew with --force.") from error

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """Read what `to_dict` wrote."""
        return cls(
            method=_text(values["method"]),
            preset=_text(values["preset"]),
            settings=get_method(_text(values["method"])).Config.build(_mapping(values["settings"])),
            training=TrainingSettings.build(_mapping(values["training"])),
            seed=check_seed(values["seed"]),
            graph=_text(values["graph"]["name"]),
            fingerprint=_text(values["graph"]["fingerprint"]),
            source=_text(values["graph"]["source"]),
            treatment=Treatment.build(_mapping(values["treatment"])),
            version=_count(values.get("version", 1)),
        )


def fingerprint(graph: Graph, kind: Kind, settings: Settings) -> str:
    """Return what tells this graph from others; labels, and published splits, count where they are trained on."""
    if graph.labels is None or not kind.needs_labels:
        return graph.fingerprint
    digest = hashlib.sha256(graph.fingerprint.encode() + graph.labels.astype(np.int64).tobytes())
    name = getattr(settings, "split", "")  # most rules draw one, whatever was published with the graph
    if name in graph.published_splits:
        parts = graph.published_splits[name]
        digest.update(f"{name}{parts.shape}".encode() + parts.tobytes())
    return digest.hexdigest()[:16]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{_brief(value)} in place of a word")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise TypeError(f"{_brief(value)} in place of a version, which is 1 or more")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not (isinstance(value, dict) and all(isinstance(key, str) for key in value)):
        raise TypeError(f"{_brief(value)} in place of names and values")
    return value


def _brief(value: object) -> str:
    return repr(value)[:60]
