from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import yaml

from fossil.graph.graph import Graph
from fossil.methods.fossil.settings import FossilSettings
from fossil.methods.registry import get_method
from fossil.runs.config import RunConfig, fingerprint
from fossil.training.trainer import TrainingSettings

CONFIG = RunConfig("fossil", "paper", FossilSettings(alpha=0.3), TrainingSettings(), 7, "town", "abc", "./town")


def test_configuration_survives_yaml() -> None:
    assert RunConfig.from_dict(yaml.safe_load(yaml.safe_dump(CONFIG.to_dict()))) == CONFIG


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 8}, False),
        ({"version": 2}, False),
        ({"method": "fossil_v2"}, False),
        ({"fingerprint": "abd"}, False),
        ({"settings": FossilSettings(alpha=0.4)}, False),
        ({"training": TrainingSettings(precision="tf32")}, False),
        ({"training": TrainingSettings(epochs=9, device="cpu", checkpoint_seconds=0)}, True),
        ({"graph": "city", "source": "elsewhere", "preset": "released"}, True),
    ],
)
def test_identity_is_what_the_weights_depend_on(change: dict[str, object], same: bool) -> None:
    assert (replace(CONFIG, **change).identity == CONFIG.identity) is same  # type: ignore[arg-type]


def test_a_configuration_without_a_version_is_of_the_first() -> None:
    values = CONFIG.to_dict()
    assert values.pop("version") == 1
    assert RunConfig.from_dict(values) == CONFIG


def test_checkpoints_from_before_there_were_versions_are_of_the_first() -> None:
    parts = ["fossil", CONFIG.settings.model_dump(), "float32", 7, "abc"]
    expected = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    assert CONFIG.identity == expected


def test_fingerprint_counts_labels_and_splits_where_they_are_trained_on() -> None:
    graph = tiny_graph()
    others = [
        replace(graph, labels=np.array([0, 1, 1])),
        replace(graph, published_splits={"public": np.array([[1, 0, 2]])}),
        replace(graph, published_splits={}),
    ]
    supervised, free = get_method("fs_gcn"), get_method("fossil")
    published = supervised.configure(None, {"split": "public"})
    assert len({fingerprint(each, supervised, published) for each in (graph, *others)}) == 4
    assert {fingerprint(each, free, CONFIG.settings) for each in (graph, *others)} == {graph.fingerprint}


def test_published_splits_that_are_not_trained_on_leave_the_fingerprint_of_earlier_versions() -> None:
    graph, supervised = tiny_graph(), get_method("fs_gcn")
    earlier = hashlib.sha256(graph.fingerprint.encode() + np.array([0, 1, 0]).tobytes()).hexdigest()[:16]
    for split in ("released", "paper", "geom_gcn"):
        assert fingerprint(graph, supervised, supervised.configure(None, {"split": split})) == earlier


def tiny_graph() -> Graph:
    return Graph(
        "three",
        sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32)),
        np.eye(3, dtype=np.float32),
        np.arange(3),
        np.array([0, 1, 0]),
        published_splits={"public": np.array([[0, 1, 2]])},
    )
