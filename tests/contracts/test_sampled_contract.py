"""Every method can be trained on parts of a graph, or says why not, and what the whole takes, before it takes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse as sp
from typer.testing import CliRunner

from fossil.cli.main import app
from fossil.errors import GraphError, SettingError
from fossil.graph.graph import Graph
from fossil.methods.base import Method
from fossil.methods.registry import get_method, methods
from fossil.runs import preparation
from fossil.runs.fit import fit
from fossil.runs.plan import Plan, plan_run

# Two epochs on a random graph leave λ and the rank of vectors where they may be.
pytestmark = pytest.mark.filterwarnings("ignore:.*(hardly uses the edges|collapsed)")

SAMPLED = {"bgrl", "bnll", "dgi", "fossil_channels_v2", "fossil_v2", "grace"}
METHODS = sorted(name for name in methods() if get_method(name).__module__.startswith("fossil."))
BATCHES = ["bgrl", "bnll", "dgi", "grace"]


def graph() -> Graph:
    edges = np.triu(np.random.default_rng(0).random((60, 60)) < 0.2, 1)
    features = np.random.default_rng(1).random((60, 5), dtype=np.float32)
    adjacency = sp.csr_array((edges | edges.T).astype(np.float32))
    return Graph("g", adjacency, features, np.arange(60), labels=np.arange(60) % 3)


def planned(name: str, **training: object) -> Plan:
    kind = get_method(name)
    settings = {
        key: value for key, value in kind.small.items() if key in kind.Config.model_fields and key != "gcnii_layers"
    }
    wanted = {"device": "cpu", **({"epochs": 2} if kind.trained else {}), **training}
    return plan_run(graph(), method=name, settings=settings, training=wanted)


def trained(name: str, **training: object) -> np.ndarray:
    return fit(planned(name, **training)).vectors


@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_on_samples_or_says_why_it_needs_the_whole_graph(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in SAMPLED:
        vectors = trained(name, sampled="always", fan_out=2, batch_nodes=7)
        assert vectors.shape[0] == 60 and np.isfinite(vectors).all()
        return
    plan = planned(name, sampled="always")
    for made in ("prepare", *(("build",) if preparation.can_sample(get_method(name)) is False else ())):
        monkeypatch.setattr(get_method(name), made, lambda *_: pytest.fail("something was made before it was refused"))
    with pytest.raises(SettingError, match="needs the whole graph at every step") as refused:
        fit(plan)
    assert "cannot be trained on samples" in refused.value.what
    assert "60 nodes" in refused.value.what and "alone take" in refused.value.what
    assert "method" in refused.value.remedy and refused.value.exit_status == 2


@pytest.mark.parametrize("name", sorted(set(METHODS) - SAMPLED))
def test_a_graph_that_does_not_fit_is_refused_before_anything_is_made(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "whole_bytes", lambda _: 1 << 60)
    monkeypatch.setattr(get_method(name), "prepare", lambda *_: pytest.fail("the graph was moved"))
    with pytest.raises(GraphError, match=r"needs the whole graph on cpu.*alone take.*are free") as refused:
        trained(name)
    assert "--method bgrl, bnll, dgi, fossil_channels_v2" in refused.value.remedy


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_of_all_nodes_trains_as_the_whole_graph_does(name: str) -> None:
    whole, parts = trained(name, sampled="never"), trained(name, sampled="always", fan_out=0, batch_nodes=60)
    np.testing.assert_allclose(parts, whole, rtol=1e-3, atol=1e-4)
    assert not np.allclose(trained(name, sampled="always", fan_out=0, batch_nodes=20), whole, rtol=1e-3, atol=1e-4)


def test_the_command_ends_with_status_two_and_one_message(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["embed", "csbm:nodes=80,features=6", "--method", "muse", "--sampled", "--out", str(tmp_path / "run")]
    )
    assert isinstance(done.exception, SettingError) and done.exception.exit_status == 2
    assert "MUSE needs the whole graph at every step" in done.exception.what and not (tmp_path / "run").exists()


def test_every_method_that_refuses_has_a_reason_of_its_own() -> None:
    refusing = {name for name in METHODS if not preparation.can_sample(get_method(name))}
    assert refusing == set(METHODS) - SAMPLED - {"fossil", "fossil_channels"}
    assert all(get_method(name).whole_because != Method.whole_because for name in refusing)
