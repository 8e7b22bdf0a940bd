"""The encoder along channels beside dense matrices in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch import nn

from fossil.graph.channels import CHANNELS, operator
from fossil.graph.graph import Array, Graph
from fossil.nn.channel_encoder import ChannelEncoder
from fossil.nn.channel_tensors import ChannelTensors
from fossil.ops.features import FeatureMatrix

NODES, FEATURES, HIDDEN, WIDTH = 25, 6, 9, 4
CPU = torch.device("cpu")


def make_graph(*, sparse: bool = False) -> Graph:
    random = np.random.default_rng(0)
    edges = random.random((NODES, NODES)) < 0.15
    np.fill_diagonal(edges, False)
    features = random.normal(size=(NODES, FEATURES)).astype(np.float32)
    features[features < 0] = 0
    return Graph(
        "town", sp.csr_array(edges.astype(np.float32)), sp.csr_array(features) if sparse else features, np.arange(NODES)
    )


def prelu(values: Array, slope: float) -> Array:
    return np.where(values > 0, values, slope * values)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("names", [("identity", "out", "out2", "in", "in2"), ("in2", "identity", "low2", "neighbours")])
def test_rows_follow_the_equations(names: tuple[str, ...], sparse: bool) -> None:
    graph, channels = make_graph(sparse=sparse), [CHANNELS[name] for name in names]
    torch.manual_seed(0)
    encoder = ChannelEncoder(FEATURES, channels, HIDDEN, WIDTH, drop=0.5)
    with torch.no_grad():
        encoder.first_bias.normal_()
        encoder.second_bias.normal_()
        encoder.first_prelu.weight.fill_(0.1)
        encoder.second_prelu.weight.fill_(0.3)
        found = encoder(ChannelTensors.of(graph, channels, CPU))
    values = {name: value.detach().double().numpy() for name, value in encoder.named_parameters()}
    dense = make_graph().features.astype(np.float64)
    for place, channel in enumerate(channels):
        S = operator(graph.adjacency, channel.operator).toarray().astype(np.float64)
        first = prelu((S if channel.hops else np.eye(NODES)) @ dense @ values["first"] + values["first_bias"], 0.1)
        bias = values["second_bias"][place * WIDTH : (place + 1) * WIDTH]
        second = (S if channel.hops == 2 else np.eye(NODES)) @ first @ values[f"second.{place}"] + bias
        np.testing.assert_allclose(found[:, place], normalize(prelu(second, 0.3)), atol=1e-5)


def test_dropout_makes_two_views_and_none_makes_one() -> None:
    graph, channels = make_graph(), [CHANNELS["identity"], CHANNELS["out"]]
    encoder = ChannelEncoder(FEATURES, channels, HIDDEN, WIDTH, 0.5)
    tensors = ChannelTensors.of(graph, channels, CPU)
    random = torch.Generator().manual_seed(0)
    first, second = encoder(tensors, random), encoder(tensors, random)
    assert not torch.equal(first, second)
    assert torch.equal(encoder(tensors), encoder(tensors))
    again = torch.Generator().manual_seed(0)
    assert torch.equal(encoder(tensors, again), first)


def test_edge_dropout_leaves_some_of_the_edges_and_the_same_on_average() -> None:
    channels = [CHANNELS[name] for name in ("identity", "out2", "in")]
    whole = ChannelTensors.of(make_graph(), [*channels, CHANNELS["low"]], CPU)
    random = torch.Generator().manual_seed(0)
    thin = [whole.drop_edges(torch.tensor(0.25), channels, random) for _ in range(2000)]
    assert thin[0].features is whole.features and set(thin[0].operators) == {"out", "in"}
    for name in thin[0].operators:
        full, values = whole.operators[name].values, torch.stack([one.operators[name].values for one in thin])
        rows = sp.csr_array(operator(make_graph().adjacency, name))
        degree = torch.tensor(np.repeat(np.diff(rows.indptr), np.diff(rows.indptr)))
        remains = 1 - 0.25 * (1 - 1 / degree)
        assert (torch.isclose(values, full / remains) | (values == 0)).all()
        torch.testing.assert_close((values != 0).float().mean(0), remains.float(), rtol=0, atol=0.06)  # six errors
        torch.testing.assert_close(values.mean(0), full, rtol=0.1, atol=0)
        assert (degree == 1).any() and (values[:, degree == 1] != 0).all()
    assert not torch.equal(thin[0].operators["in"].values, thin[1].operators["in"].values)


def test_the_gradient_goes_along_the_edges_that_are_left() -> None:
    channel = CHANNELS["out2"]
    thin = ChannelTensors.of(make_graph(), [channel], CPU).drop_edges(
        torch.tensor(0.5), [channel], torch.Generator().manual_seed(0)
    )
    matrix = thin.operators["out"]
    dense = torch.tensor(sp.csr_array((matrix.values, matrix.col, matrix.crow), matrix.shape).toarray())
    target = torch.randn(NODES, WIDTH)
    found = torch.randn(NODES, WIDTH).requires_grad_()
    expected = found.detach().clone().requires_grad_()
    (thin.propagate(channel, found, 2) * target).sum().backward()
    (dense @ dense @ expected * target).sum().backward()
    torch.testing.assert_close(found.grad, expected.grad)


def test_every_parameter_has_a_gradient_that_finite_differences_confirm() -> None:
    graph, channels = make_graph(), [CHANNELS[name] for name in ("identity", "out2", "in")]
    torch.manual_seed(1)
    encoder = ChannelEncoder(FEATURES, channels, HIDDEN, WIDTH, 0.0).double()
    for bias in (encoder.first_bias, encoder.second_bias):  # no node at the bend of a PReLU
        nn.init.normal_(bias)
    single = ChannelTensors.of(graph, channels, CPU)
    operators = {name: matrix.with_values(matrix.values.double()) for name, matrix in single.operators.items()}
    assert isinstance(single.features.data, torch.Tensor)
    tensors = ChannelTensors(FeatureMatrix(single.features.data.double()), operators)
    target = torch.randn(NODES, len(channels), WIDTH, dtype=torch.float64)

    def loss() -> torch.Tensor:
        return (encoder(tensors) * target).sum()

    loss().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        direction = torch.randn_like(parameter)
        along = float((parameter.grad * direction).sum())
        with torch.no_grad():
            step = 1e-6 / direction.norm()
            parameter += step * direction
            above = float(loss())
            parameter -= 2 * step * direction
            below = float(loss())
            parameter += step * direction
        assert (above - below) / (2 * float(step)) == pytest.approx(along, rel=1e-4, abs=1e-5), name
