"""What is particular to FOSSIL with channels; what all methods share is tested as a contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

import fossil
from fossil.errors import FossilWarning, GraphError, SettingError
from fossil.estimator import FossilEmbedder
from fossil.graph.channels import CHANNELS
from fossil.graph.graph import Graph
from fossil.methods.fossil_channels import ChannelSettings, FossilChannels, FossilChannelsV2
from fossil.nn.agreement import agreement, channel_weights
from fossil.nn.channel_tensors import untrained_rows
from fossil.ops.infonce import node_contrast
from fossil.report.map import draw_map
from fossil.runs.embeddings import FitResult
from fossil.runs.run import Run

CPU = torch.device("cpu")
SMALL = {"hidden": 12, "width": 6, "untrained": 4, "num_anchors": 20, "subgraph_size": 4}
NODES = 60
UNDIRECTED = ("identity", "low", "low2", "neighbours", "neighbours2")
DIRECTED = ("identity", "out", "out2", "in", "in2")


def make_graph(*, directed: bool = False, features: int = 8, nodes: int = NODES) -> Graph:
    random = np.random.default_rng(0)
    edges = random.random((nodes, nodes)) < 6 / nodes
    np.fill_diagonal(edges, False)
    values = random.normal(size=(nodes, features)).astype(np.float32)
    joined = edges if directed else edges | edges.T
    return Graph("town", sp.csr_array(joined.astype(np.float32)), values, np.arange(nodes))


def embed(graph: Graph, epochs: int | None = 2, method: str = "fossil_channels", **options: Any) -> FitResult:
    settings = (SMALL if method != "prop" else {}) | options.pop("settings", {})
    return fossil.embed(graph, method=method, settings=settings, epochs=epochs, device="cpu", **options)


def fitted(graph: Graph, kind: type[FossilChannels] = FossilChannels, **changes: Any) -> tuple[FossilChannels, Any]:
    config = kind.complete(kind.configure(None, SMALL, changes), graph, 0)
    method = kind.build(config, graph.num_features, 0)
    prepared = method.prepare(graph, CPU)
    method.fit(prepared, torch.Generator().manual_seed(0))
    return method, prepared


@pytest.mark.parametrize("directed", [False, True])
def test_channels_are_those_that_the_graph_calls_for(directed: bool) -> None:
    result = embed(make_graph(directed=directed))
    assert isinstance(result.config.settings, ChannelSettings)
    assert result.config.settings.channels == (DIRECTED if directed else UNDIRECTED)
    assert result.vectors.shape == (NODES, 5 * (6 + 4))


def test_channels_that_the_graph_has_not_are_left_out_and_said_so() -> None:
    with pytest.warns(FossilWarning, match="has no channel in, which is left out"):
        result = embed(make_graph(), settings={"channels": "low2, identity, in"})
    assert result.config.settings.channels == ("low2", "identity")
    with pytest.raises(SettingError, match="Unknown channel 'sideways'"):
        embed(make_graph(), settings={"channels": "sideways"})


@pytest.mark.parametrize("directed", [False, True])
def test_weights_are_the_mean_agreement_of_untrained_rows(directed: bool) -> None:
    method, prepared = fitted(make_graph(directed=directed))
    references = [*UNDIRECTED] if not directed else ["identity", "low", "low2", "out", "out2", "in", "in2"]
    chosen = [CHANNELS[name] for name in references]
    rows = untrained_rows(torch.tensor(make_graph(directed=directed).features), chosen, prepared.tensors)
    every = agreement(rows, chosen, torch.arange(NODES)).mean(0)
    mine = every[[references.index(channel.name) for channel in method.channels]]
    torch.testing.assert_close(method.weights, channel_weights(mine, method.channels, 2.0))
    torch.testing.assert_close(method.subgraph_weight, (2 * every[0].clamp_min(0)) ** 2)
    torch.testing.assert_close(method.edge_dropout, every[0].clamp(0, 0.5))
    assert float(method.weights.square().sum()) == pytest.approx(1)


def test_a_vector_is_trained_rows_and_untrained_ones_in_their_weights() -> None:
    graph = make_graph(directed=True)
    result = embed(graph, settings={"untrained": 8})
    method = result.method
    assert isinstance(method, FossilChannels)
    prepared = method.prepare(graph, CPU)
    with torch.no_grad():
        trained = method.encoder(prepared.tensors).numpy()
    adjacency = graph.adjacency.toarray()
    out, into = (normalize(matrix, norm="l1") for matrix in (adjacency, adjacency.T))
    seen = [graph.features, *(power @ graph.features for hop in (out, into) for power in (hop, hop @ hop))]
    vectors = result.vectors.reshape(NODES, 5, 6 + 8)
    for place, (weight, untrained) in enumerate(zip(method.weights.numpy(), seen, strict=True)):
        np.testing.assert_allclose(vectors[:, place, :6], weight * trained[:, place], atol=1e-6)
        np.testing.assert_allclose(vectors[:, place, 6:], weight * normalize(untrained), atol=1e-5)


def test_what_a_node_trusts_adds_up_to_one_and_is_kept(tmp_path: Path) -> None:
    graph = make_graph(directed=True)
    result = embed(graph, out=tmp_path / "run")
    assert result.channels is not None and tuple(result.channels) == DIRECTED
    np.testing.assert_allclose(sum(result.channels.values()), np.ones(NODES), rtol=1e-5)
    run = Run.open(tmp_path / "run")
    assert run.embeddings.channels is not None
    for name, shares in run.embeddings.channels.items():
        np.testing.assert_array_equal(shares, result.channels[name])
    summary = run.summary["channels"]
    assert sum(each["share"] for each in summary.values()) == pytest.approx(1)
    assert sum(each["first_of"] for each in summary.values()) == pytest.approx(1)
    first = np.argmax([result.channels[name] for name in DIRECTED], axis=0)
    assert summary["out"]["first_of"] == pytest.approx((first == 1).mean())


def test_a_map_says_which_channel_a_node_trusts_most(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = embed(make_graph(directed=True))
    draw_map(tmp_path / "map.svg", result, "channel")
    drawn = (tmp_path / "map.svg").read_text()
    assert result.channels is not None
    first = np.argmax(list(result.channels.values()), axis=0)
    for number, name in enumerate(result.channels):
        assert (f"<!-- {name} -->" in drawn) == (first == number).any()  # in the legend
    with pytest.raises(SettingError, match="needs channels, which is not there"):
        draw_map(tmp_path / "none.svg", embed(make_graph(), method="prop", settings={}, epochs=None), "channel")


def test_weights_of_each_node_its_own_or_none_at_all() -> None:
    graph = make_graph(directed=True)
    of_node, equal = (embed(graph, settings={"weighting": each}) for each in ("node", "equal"))
    for result in (of_node, equal):
        assert result.channels is not None
        lengths = np.linalg.norm(result.vectors.reshape(NODES, 5, 10), axis=2)
        trusted = np.stack(list(result.channels.values()), 1) if result is of_node else np.full((NODES, 5), 0.2)
        # Every channel has two rows of length one; nodes without neighbours along it have one that is zero.
        whole = np.isclose(lengths, np.sqrt(2 * trusted), rtol=1e-4, atol=1e-6)
        half = np.isclose(lengths, np.sqrt(trusted), rtol=1e-4, atol=1e-6)
        assert (whole | half).all() and whole.mean() > 0.9


def test_the_losses_are_those_of_two_views_under_the_weights() -> None:
    method, prepared = fitted(make_graph())
    random = torch.Generator().manual_seed(3)
    first, second = method.view(prepared.tensors, random), method.view(prepared.tensors, random)
    torch.testing.assert_close(first.norm(dim=1), torch.ones(NODES))
    [objective] = method.step(prepared, torch.Generator().manual_seed(3))
    assert list(objective.terms) == ["ot", "node"]
    torch.testing.assert_close(objective.terms["node"], node_contrast(first, second, 0.8))


def test_a_channel_without_weight_does_no_harm() -> None:
    method, prepared = fitted(make_graph())
    method.weights[2] = 0
    [objective] = method.step(prepared, torch.Generator().manual_seed(3))
    torch.stack(list(objective.terms.values())).sum().backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    assert not method.encoder.second[2].grad.any()


def test_the_subgraph_loss_has_the_weight_that_is_given_or_found() -> None:
    terms = {}
    for weight in (1.0, 3.0, None):
        method, prepared = fitted(make_graph(), subgraph_weight=weight)
        [objective] = method.step(prepared, torch.Generator().manual_seed(3))
        terms[weight] = objective.terms["ot"].item()
    assert terms[3.0] == pytest.approx(3 * terms[1.0])
    assert terms[None] == pytest.approx(float(method.subgraph_weight) * terms[1.0])


def test_a_view_is_without_as_many_edges_as_features_and_surroundings_agree() -> None:
    groups = np.arange(NODES) % 3
    edges = (groups[:, None] == groups) & ~np.eye(NODES, dtype=bool)
    alike = replace(make_graph(), adjacency=sp.csr_array(edges.astype(np.float32)))
    alike = replace(alike, features=np.eye(3, dtype=np.float32)[groups] + 0.1 * alike.features[:, :3])
    dropped = {}
    for wanted in (None, 0.3, 0):
        method, prepared = fitted(alike, edge_dropout=wanted, dropout=0)
        with torch.no_grad():
            first, second = (method.view(prepared.tensors, torch.Generator().manual_seed(seed)) for seed in (0, 1))
        dropped[wanted] = float(method.edge_dropout), bool(torch.equal(first, second))
    assert dropped[0] == (0, True)
    assert dropped[0.3] == (pytest.approx(0.3), False)
    assert dropped[None] == (0.5, False)  # at most a half


@pytest.mark.parametrize(
    ("changes", "terms"), [({"subgraph_weight": 0}, ["node"]), ({"node_contrast": "none"}, ["ot"])]
)
def test_either_loss_can_be_left_out(changes: dict[str, Any], terms: list[str]) -> None:
    method, prepared = fitted(make_graph(), **changes)
    [objective] = method.step(prepared, torch.Generator().manual_seed(3))
    assert list(objective.terms) == terms
    assert set(objective.diagnose()) >= {"contrast", "effective_rank"}


def test_a_training_without_any_loss_is_refused() -> None:
    with pytest.raises(SettingError, match="nothing to train"):
        embed(make_graph(), settings={"subgraph_weight": 0, "node_contrast": "none"})


def test_in_v2_the_node_loss_is_over_the_drawn_nodes_alone() -> None:
    method, prepared = fitted(make_graph(nodes=400), FossilChannelsV2)
    random = torch.Generator().manual_seed(0)
    views = method.view(prepared.tensors, random), method.view(prepared.tensors, random)
    pairs = method.sample(prepared.sampler, random)
    compared = method.compared(*views, pairs.subgraphs)
    assert compared.num_nodes is not None and int(compared.num_nodes) == len(pairs.subgraphs.nodes.unique())
    assert int(compared.num_nodes) <= 80 < 400


def test_subgraphs_follow_edges_of_either_direction() -> None:
    star = np.zeros((NODES, NODES), np.float32)
    star[1:, 0] = 1  # all point to one node, which points to nobody: along the edges a subgraph has two nodes
    graph = replace(make_graph(), adjacency=sp.csr_array(star))
    assert np.isfinite(embed(graph, settings={"reach": "two_hop"}).vectors).all()


def test_new_nodes_get_vectors_in_the_same_coordinates(tmp_path: Path) -> None:
    graph = make_graph(directed=True, features=200)  # wide enough to be reduced
    result = embed(graph, out=tmp_path / "run")
    found = Run.open(tmp_path / "run").embed(graph)
    np.testing.assert_allclose(found.vectors, result.vectors, atol=1e-6)
    assert found.channels is not None and result.channels is not None
    np.testing.assert_allclose(found.channels["out"], result.channels["out"], atol=1e-6)


@pytest.mark.parametrize("sampled", [False, True])
def test_new_nodes_are_read_in_the_numbers_that_were_trained_on(tmp_path: Path, sampled: bool) -> None:
    """What a node has no path to does not change its vector, however large the features there are."""
    town = make_graph()
    both = sp.block_diag([town.adjacency] * 2, format="csr")
    values = np.concatenate([town.features * 2.0**18, town.features * 2.0**25])
    graph = Graph("towns", sp.csr_array(both), values, np.arange(2 * NODES))
    asked = {"method": "fossil_channels_v2", "sampled": sampled, "fan_out": 0, "out": tmp_path / "run"}
    result = embed(graph, epochs=30, **asked)
    run = Run.open(tmp_path / "run")
    alone = run.encode(replace(town, features=values[:NODES])).vectors
    np.testing.assert_allclose(alone.numpy(), result.vectors[:NODES], atol=1e-5)


def test_a_run_of_an_earlier_version_reads_features_as_it_did(tmp_path: Path) -> None:
    result = embed(make_graph())
    before = result.method.state_dict()
    del before["exponent"]
    kind = type(result.method)
    method = kind(result.config.settings, result.graph.num_features)
    method.load_state_dict(before)
    vectors = method.encode(method.prepare(result.graph, CPU)).vectors
    np.testing.assert_allclose(vectors.numpy(), result.vectors, atol=1e-6)


def test_a_graph_without_edges_is_told_what_to_do() -> None:
    graph = replace(make_graph(), adjacency=sp.csr_array((NODES, NODES), dtype=np.float32))
    with pytest.raises(GraphError, match="Add edges"):
        embed(graph, allow_no_edges=True)


def test_the_estimator_has_the_channels() -> None:
    embedder = FossilEmbedder(method="fossil_channels", epochs=1, settings=SMALL, device="cpu")
    embedder.fit(make_graph())
    assert tuple(embedder.channels_) == UNDIRECTED


def test_signal_outweighs_noise() -> None:
    """Neighbours tell the class, features hardly: the graph's channels must have the greater share."""
    graph = fossil.open_graph("csbm:nodes=600,homophily=0.9,degree=10,features=30,signal=0.3").graph
    method, _ = fitted(graph)
    shares = dict(zip((channel.name for channel in method.channels), method.weights.square().tolist(), strict=True))
    assert shares["low2"] > 2 * shares["identity"]
