import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GCNConv

from fossil.graph.structure import symmetric_normalized
from fossil.nn.convolution import GraphConvolution
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

NODES = 12


def directed_graph() -> sp.csr_array:
    edges = np.random.default_rng(0).random((NODES, NODES)) < 0.2
    np.fill_diagonal(edges, False)
    edges[5] = edges[:, 5] = False
    return sp.csr_array(edges.astype(np.float32))


@pytest.mark.parametrize("kind", ["tensor", "dense features", "sparse features"])
@pytest.mark.parametrize(("inward", "outward"), [(7, 3), (3, 7), (4, 4)])
def test_convolution_and_its_gradients_are_those_of_pyg(inward: int, outward: int, kind: str) -> None:
    adjacency = directed_graph()
    propagation = SparseMatrix.from_scipy(symmetric_normalized(adjacency, self_loops=True))
    x = np.random.default_rng(1).random((NODES, inward)).astype(np.float32)
    ours = GraphConvolution(inward, outward)
    theirs = GCNConv(inward, outward)
    with torch.no_grad():
        theirs.bias.normal_()
        ours.weight.copy_(theirs.lin.weight.T)
        assert ours.bias is not None
        ours.bias.copy_(theirs.bias)
    given = {
        "tensor": torch.from_numpy(x),
        "dense features": FeatureMatrix.from_host(x),
        "sparse features": FeatureMatrix.from_host(sp.csr_array(x)),
    }[kind]
    # Row i of A lists what i gathers from: the source of a message in PyG.
    target, source = adjacency.nonzero()
    edges = torch.from_numpy(np.stack([source, target])).long()
    found, expected = ours(given, propagation), theirs(torch.from_numpy(x), edges)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.lin.weight.grad.T)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_gradient_reaches_the_input_either_way_round() -> None:
    propagation = SparseMatrix.from_scipy(symmetric_normalized(directed_graph(), self_loops=True))
    dense = propagation.matmul(torch.eye(NODES))
    for inward, outward in ((5, 2), (2, 5)):
        convolution = GraphConvolution(inward, outward)
        x = torch.randn(NODES, inward, requires_grad=True)
        convolution(x, propagation).square().sum().backward()
        twin = x.detach().clone().requires_grad_()
        (dense @ twin @ convolution.weight.detach()).square().sum().backward()
        torch.testing.assert_close(x.grad, twin.grad)


def test_weights_start_within_glorots_bound_and_the_bias_at_zero() -> None:
    convolution = GraphConvolution(30, 20)
    bound = (6 / 50) ** 0.5
    assert 0.9 * bound < convolution.weight.abs().max() <= bound
    assert convolution.bias is not None and not convolution.bias.any()


def test_bias_can_be_left_out() -> None:
    convolution = GraphConvolution(3, 2, bias=False)
    assert [name for name, _ in convolution.named_parameters()] == ["weight"]
    propagation = SparseMatrix.from_scipy(symmetric_normalized(directed_graph(), self_loops=True))
    assert not convolution(torch.zeros(NODES, 3), propagation).any()
