"""Every method on a published graph from the command line: two epochs with small widths, then a score."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from command import here

from fossil import Run
from fossil.methods.registry import get_method, methods

NODES, CLASSES = 2708, 7  # of Cora
CHANNELS = ("identity", "low", "low2", "neighbours", "neighbours2")  # of an undirected graph
CHANNEL_METHODS = ("fossil_channels", "fossil_channels_v2")
SMALL = {
    "hidden": 16,
    "width": 8,
    "untrained": 4,
    "projection": 8,
    "predictor_hidden": 16,
    "fusion_hidden": 5,
    "num_anchors": 20,
    "subgraph_size": 5,
    "context_size": 5,
    "batch_size": 50,
}

pytestmark = pytest.mark.skipif(not os.environ.get("FOSSIL_DATA"), reason="needs Cora: set FOSSIL_DATA to its folder")


def small(name: str) -> list[str]:
    fields = get_method(name).Config.model_fields
    return [word for key, value in SMALL.items() if key in fields for word in ("--set", f"{key}={value}")]


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_method_embeds_cora_and_is_scored(name: str, tmp_path: Path) -> None:
    kind, out = get_method(name), tmp_path / "run"
    length = ("--epochs", "2") if kind.trained else ()
    train = ("--method", name, *length, "--device", "cpu", *small(name))
    trained = here("embed", "cora", *train, "--out", out)
    assert trained.status == 0, trained.err
    said = "2 epochs" if kind.trained else "no training"
    assert f"{name}, preset {next(iter(kind.presets))}, seed 0, {said}" in trained.out
    assert ("epoch 2/2  loss " in trained.out) == kind.trained

    run = Run.open(out)
    of_channels = {"prop": SMALL["width"], **dict.fromkeys(CHANNEL_METHODS, SMALL["width"] + SMALL["untrained"])}
    of_all = len(CHANNELS) * of_channels[name] if name in of_channels else SMALL["width"]
    width = CLASSES if kind.needs_labels else of_all
    assert run.config.method == name
    assert run.arrays["vectors"].shape == (NODES, width) and np.isfinite(run.arrays["vectors"]).all()

    scored = here("evaluate", out, "--protocol", "released", "--splits", "1", "--device", "cpu", env={"COLUMNS": "200"})
    assert scored.status == 0, scored.err
    [score] = json.loads((out / "scores-released.json").read_text())["scores"]
    assert 0 < score["accuracy"] < 1
    [row] = [line for line in scored.out.splitlines() if f"{kind.title} " in line]
    assert f"{100 * score['accuracy']:.2f}" in row
