"""A graph with channels on a device: edges that a view is without."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from directed_town import NODES, make_graph

from fossil.graph.channels import CHANNELS, operator
from fossil.nn.channel_tensors import ChannelTensors

WIDTH = 4
CPU = torch.device("cpu")


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
