"""The encoder along channels beside dense matrices in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from directed_town import FEATURES, NODES, make_graph
from sklearn.preprocessing import normalize
from torch import nn

from fossil.graph.channels import CHANNELS, operator
from fossil.graph.graph import Array
from fossil.nn.channel_encoder import ChannelEncoder
from fossil.nn.channel_tensors import ChannelTensors
from fossil.ops.features import FeatureMatrix

HIDDEN, WIDTH = 9, 4
CPU = torch.device("cpu")


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


def test_weights_begin_as_glorot_has_them_and_biases_at_zero() -> None:
    encoder = ChannelEncoder(40, [CHANNELS["identity"], CHANNELS["out"]], 60, 20, 0.5)
    assert not encoder.first_bias.any() and not encoder.second_bias.any()
    for weight in (encoder.first.detach(), *(each.detach() for each in encoder.second)):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.9 * bound < float(weight.abs().max()) <= bound and abs(float(weight.mean())) < 0.1 * bound


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
