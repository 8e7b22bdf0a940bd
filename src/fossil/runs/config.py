"""What a run was asked to do, as `config.yaml` keeps it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from fossil.graph.findings import Treatment
from fossil.methods.registry import get_method
from fossil.settings import Settings
from fossil.training.trainer import TrainingSettings

FORMAT = 1


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

    def flat(self) -> dict[str, Any]:
        """Return by name what two runs of one folder must agree on."""
        named = {"method": self.method, "seed": self.seed, "precision": self.training.precision}
        return named | self.settings.model_dump()

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
