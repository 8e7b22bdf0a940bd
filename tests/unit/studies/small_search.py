"""A graph and a search that take a fraction of a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.evaluation.protocol import protocol
from fossil.graph.graph import Graph
from fossil.methods.registry import get_method
from fossil.studies.objectives import Objective, ValidationAccuracy
from fossil.studies.sealed import seal
from fossil.studies.search import search
from fossil.studies.search_plan import Budget, SearchPlan, plan_search
from fossil.studies.space import Choices
from fossil.studies.trials import Found

NODES = 90
SPACE = {
    "width": Choices((4, 8, 16)),
    "learning_rate": Choices((1e-4, 1e-3, 1e-2)),
    "dropout": Choices((0.0, 0.2, 0.5)),
}
TRAINING = {"epochs": 2, "device": "cpu"}


def communities(seed: int = 0, labels: bool = True, noise: float = 1.0) -> Graph:
    """Three communities whose features say, not too clearly, which is which."""
    random = np.random.default_rng(seed)
    classes = np.arange(NODES) % 3
    joined = random.random((NODES, NODES)) < np.where(classes[:, None] == classes, 0.12, 0.02)
    joined = np.triu(joined, 1)
    features = random.normal(scale=noise, size=(NODES, 8)) + np.eye(3, 8)[classes]
    return Graph(
        "communities",
        sp.csr_array((joined | joined.T).astype(np.float32)),
        features.astype(np.float32),
        np.arange(NODES),
        classes if labels else None,
    )


def sealed_accuracy(graph: Graph | None = None, encoders: int = 2, rule: str = "paper", **how: Any) -> Objective:
    return ValidationAccuracy(seal(graph or communities(), protocol(rule), range(encoders), **how))


def small_plan(objective: Objective | None = None, **asked: Any) -> SearchPlan:
    encoders = asked.pop("encoders", 2)
    given: dict[str, Any] = {"method": "dgi", "space": SPACE, "training": TRAINING, "encoders": encoders}
    config = get_method(asked.get("method", "dgi")).Config
    others = config.search_space().keys() - asked.get("space", SPACE).keys()
    fixed = {name: config.model_fields[name].default for name in sorted(others)}
    return plan_search(objective or sealed_accuracy(encoders=encoders), **{**given, "settings": fixed, **asked})


def run_search(out: Path, trials: int = 6, plan: SearchPlan | None = None, listener: Any = None) -> Found:
    return search(plan or small_plan(), out, Budget(trials=trials), listener)


def outcome(found: Found) -> list[tuple[Any, ...]]:
    """All that a search decided, and nothing of how long it took."""
    return [(one.number, one.state, dict(one.chosen), one.values) for one in found.trials]
