"""Protocols: how splits are drawn, which interval is given, and what is said about it."""

import subprocess
import sys

import numpy as np
import pytest

from fossil.errors import EvaluationError, SettingError
from fossil.evaluation.protocol import PROTOCOLS, protocol
from fossil.evaluation.statistics import summarize


@pytest.mark.parametrize(("graph_name", "size"), [("cora", 60), ("PubMed", 60), ("actor", 1440)])
def test_citation_graphs_train_on_twenty_nodes_per_class(graph_name, size):
    labels = np.arange(3000) % 3
    assert len(protocol("paper").draw(labels, 0, graph_name).train) == size


def test_description_names_sizes_selection_evaluator_and_interval():
    labels = np.arange(3000) % 3
    parts = np.repeat([0, 1, 2], 1000)[None]
    for name, rule in PROTOCOLS.items():
        split = rule.draw(labels, 0, "cora", {"public": parts, "geom_gcn": parts})
        text, published = rule.describe("cora", split), name in ("public", "geom_gcn")
        for part in (repr(name), f"{split.sizes[2]:,} test", "validation accuracy", "95 %", "1,000"):
            assert part in text
        assert ("20 per class" in text, "published with the graph" in text) == (not published, published)
        same = f"the same {split.sizes[2]:,} test nodes: the interval does not include" in text
        assert same == (name != "geom_gcn") != ("Each split has test nodes of its own" in text)
        assert ("over splits where there is a single encoder" in text) == (name != "public")
    assert "optimistic" in protocol("released").describe()
    assert "optimistic" not in protocol("paper").describe()
    assert "per class" not in protocol("paper").describe("actor")


@pytest.mark.parametrize("name", ["public", "geom_gcn"])
def test_published_splits_have_the_probe_of_converged_and_no_number_per_class(name):
    expected = protocol("converged").updated({"name": name, "split": name})
    assert protocol(name) == expected
    with pytest.raises(EvaluationError, match="per class cannot be chosen"):
        protocol(name).per_class_everywhere(5)


def test_an_unknown_protocol_offers_the_nearest():
    with pytest.raises(EvaluationError, match="Did you mean 'paper'"):
        protocol("papr")


@pytest.mark.parametrize("strengths", [(), (1.0, 0.5), (0.0, 1.0), (1.0, 1.0)])
def test_impossible_strengths_are_refused(strengths):
    with pytest.raises(SettingError, match="strengths"):
        protocol("paper").updated({"strengths": strengths})


def test_summary_uses_the_interval_of_the_protocol():
    values = np.random.default_rng(0).random(30).tolist()
    wide, narrow = (protocol("paper").updated({"confidence": c}).summarize(values) for c in (0.99, 0.5))
    assert wide.half_width > narrow.half_width
    assert (wide.interval.confidence, narrow.interval.confidence) == (0.99, 0.5)
    assert wide.values == narrow.values


def test_the_number_of_resamples_counts_where_there_is_a_bootstrap():
    values = np.random.default_rng(0).random(100).tolist()
    few, many = (protocol("paper").updated({"resamples": r}).summarize(values) for r in (10, 1000))
    assert few.interval != many.interval == summarize(values).interval


def test_protocols_can_be_read_without_loading_torch():
    code = "import sys, fossil.evaluation.protocol, fossil.graph.splits; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
