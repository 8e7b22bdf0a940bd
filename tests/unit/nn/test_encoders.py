import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCN2Conv, GCNConv

from fossil.graph.structure import symmetric_normalized
from fossil.nn.encoders import (
    Activation,
    Branches,
    DecoupledEncoder,
    Encoder,
    GCNEncoder,
    GCNIIEncoder,
    activation_module,
)
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

NODES, FEATURES, HIDDEN, WIDTH = 14, 6, 9, 5


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def adjacency(directed: bool = False) -> Tensor:
    edges = torch.rand(NODES, NODES, generator=random(1)) < 0.25
    edges.fill_diagonal_(False)
    edges[3] = edges[:, 3] = False  # an isolated node
    return (edges if directed else edges | edges.T).float()


def sparse(matrix: Tensor) -> SparseMatrix:
    return SparseMatrix.from_scipy(sp.csr_array(matrix.numpy()))


def features() -> Tensor:
    return torch.randn(NODES, FEATURES, generator=random(2))


def shaken(module: Encoder) -> Encoder:
    """Give every parameter a value that no initialisation would, so that a forgotten bias or slope shows."""
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=random(10 + index)))
    return module


def build(kind: type[Encoder], activation: Activation = "prelu", drop: float = 0.0) -> Encoder:
    if kind is GCNIIEncoder:
        return shaken(GCNIIEncoder(FEATURES, WIDTH, 4, drop))
    return shaken(kind(FEATURES, HIDDEN, WIDTH, activation_module(activation), drop))


def plain_layer(x: Tensor, spread: Tensor, weights: dict[str, Tensor], layer: str) -> Tensor:
    value = spread @ x @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"]
    return torch.where(value >= 0, value, weights[f"{layer}.prelu.weight"] * value)


def plain_activation(value: Tensor, name: Activation, weights: dict[str, Tensor]) -> Tensor:
    if name == "none":
        return value
    slope = weights["activation.weight"] if name == "prelu" else torch.zeros(1, dtype=value.dtype)
    return torch.where(value >= 0, value, slope * value)


@pytest.mark.parametrize("activation", ["none", "relu", "prelu"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_decoupled_encoder_is_the_written_formula(activation: Activation, directed: bool, layout: str) -> None:
    encoder = build(DecoupledEncoder, activation)
    weights = {name: value.double() for name, value in encoder.state_dict().items()}
    spread, x = adjacency(directed), features()
    host = sp.csr_array(x.numpy()) if layout == "sparse" else x.numpy()
    found = encoder(FeatureMatrix.from_host(host), sparse(spread))
    for branch, matrix in ((found.feature, torch.eye(NODES)), (found.structure, spread)):
        hidden = plain_activation(plain_layer(x.double(), matrix.double(), weights, "first"), activation, weights)
        expected = plain_layer(hidden, matrix.double(), weights, "second")
        torch.testing.assert_close(branch.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [DecoupledEncoder, GCNEncoder])
def test_saved_weights_keep_their_names(kind: type[Encoder]) -> None:
    layers = [f"{layer}.{name}" for layer in ("first", "second") for name in ("weight", "bias", "prelu.weight")]
    assert sorted(build(kind, "prelu").state_dict()) == sorted([*layers, "activation.weight"])
    assert sorted(build(kind, "relu").state_dict()) == sorted(layers)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_gradients_of_the_decoupled_encoder_are_those_of_the_written_formula(layout: str) -> None:
    encoder = build(DecoupledEncoder)
    weights = {name: value.detach().double().requires_grad_() for name, value in encoder.named_parameters()}
    spread, x = adjacency(directed=True), features()
    found = encoder(
        FeatureMatrix.from_host(sp.csr_array(x.numpy()) if layout == "sparse" else x.numpy()), sparse(spread)
    )
    (found.feature.square().sum() + found.structure.square().sum()).backward()
    total = torch.zeros((), dtype=torch.float64)
    for matrix in (torch.eye(NODES).double(), spread.double()):
        hidden = plain_activation(plain_layer(x.double(), matrix, weights, "first"), "prelu", weights)
        total = total + plain_layer(hidden, matrix, weights, "second").square().sum()
    total.backward()  # type: ignore[no-untyped-call]
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None and weights[name].grad is not None
        torch.testing.assert_close(parameter.grad.double(), weights[name].grad, rtol=1e-4, atol=1e-4)


def test_bfloat16_autocast_gives_nearly_the_same_embeddings() -> None:
    encoder, x, spread = build(DecoupledEncoder), FeatureMatrix(features()), sparse(adjacency())
    expected = encoder(x, spread)
    with torch.autocast("cpu", torch.bfloat16):
        found = encoder(x, spread)
        (found.feature.float().square().mean() + found.structure.float().square().mean()).backward()
    for branch, wanted in zip(found, expected, strict=True):
        assert (branch.float() - wanted).norm() < 0.02 * wanted.norm()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_feature_branch_is_the_structure_branch_of_the_identity_graph() -> None:
    encoder = build(DecoupledEncoder)
    x = FeatureMatrix(features())
    on_identity = encoder(x, sparse(torch.eye(NODES)))
    torch.testing.assert_close(on_identity.structure, on_identity.feature)
    torch.testing.assert_close(encoder(x, sparse(adjacency())).feature, on_identity.structure)


@pytest.mark.parametrize("kind", [DecoupledEncoder, GCNEncoder])
def test_initial_weights_are_xavier_uniform_and_biases_zero(kind: type[DecoupledEncoder]) -> None:
    torch.manual_seed(0)
    encoder = kind(300, 200, 100, nn.PReLU(), 0.0)
    for layer, inward, out in ((encoder.first, 300, 200), (encoder.second, 200, 100)):
        bound = (6 / (inward + out)) ** 0.5
        assert layer.weight.shape == (inward, out)
        assert 0.99 * bound < layer.weight.abs().max().item() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
        assert layer.bias.abs().max().item() == 0 and layer.prelu.weight.item() == 0.25


def both_ways(matrix: Tensor) -> Tensor:
    return matrix.nonzero().T.flip(0)


def test_gcn_encoder_is_two_gcnconv_layers() -> None:
    encoder = build(GCNEncoder)
    assert isinstance(encoder, GCNEncoder)
    matrix, x = adjacency(), features()
    convolutions = [GCNConv(FEATURES, HIDDEN), GCNConv(HIDDEN, WIDTH)]
    for convolution, layer in zip(convolutions, (encoder.first, encoder.second), strict=True):
        convolution.lin.weight.data = layer.weight.data.T.clone()
        convolution.bias.data = layer.bias.data.clone()
    hidden = encoder.activation(encoder.first.prelu(convolutions[0](x, both_ways(matrix))))
    expected = encoder.second.prelu(convolutions[1](hidden, both_ways(matrix)))
    normalised = symmetric_normalized(sp.csr_array(matrix.numpy()), self_loops=True)
    found = encoder(FeatureMatrix(x), SparseMatrix.from_scipy(normalised))
    assert found.feature is None
    torch.testing.assert_close(found.structure, expected, rtol=1e-4, atol=1e-5)


def test_gcnii_encoder_is_a_stack_of_gcn2conv_layers() -> None:
    encoder = build(GCNIIEncoder)
    assert isinstance(encoder, GCNIIEncoder)
    matrix, x = adjacency(), features()
    start = state = torch.relu(encoder.inward(x))
    for depth, weight in enumerate(encoder.weights, start=1):
        convolution = GCN2Conv(WIDTH, alpha=0.1, theta=0.5, layer=depth)
        convolution.weight1.data = weight.data.clone()
        state = torch.relu(convolution(state, start, both_ways(matrix)))
    normalised = symmetric_normalized(sp.csr_array(matrix.numpy()), self_loops=True)
    found = encoder(FeatureMatrix(x), SparseMatrix.from_scipy(normalised))
    assert found.feature is None
    torch.testing.assert_close(found.structure, state, rtol=1e-4, atol=1e-5)


KINDS = [DecoupledEncoder, GCNEncoder, GCNIIEncoder]


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_needs_a_generator_and_follows_it(kind: type[Encoder]) -> None:
    encoder, x, spread = build(kind, drop=0.4), FeatureMatrix(features()), sparse(adjacency())
    still = encoder(x, spread).structure
    assert torch.equal(still, encoder.train()(x, spread).structure)
    dropped = encoder(x, spread, random(1)).structure
    assert not torch.equal(dropped, still)
    assert torch.equal(dropped, encoder(x, spread, random(1)).structure)
    assert not torch.equal(dropped, encoder(x, spread, random(2)).structure)


def test_both_branches_see_the_same_dropped_features() -> None:
    encoder, x = build(DecoupledEncoder, drop=0.5), FeatureMatrix(features())
    found = encoder(x, sparse(torch.eye(NODES)), random(1))
    torch.testing.assert_close(found.feature, found.structure)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_gradient(kind: type[Encoder]) -> None:
    encoder = copy.deepcopy(build(kind))
    found = encoder(FeatureMatrix(features()), sparse(adjacency()))
    loss = found.structure.square().sum() + (0 if found.feature is None else found.feature.square().sum())
    loss.backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_detached_branches_hold_the_same_numbers_as_constants() -> None:
    branches = Branches(torch.ones(2, 2, requires_grad=True) * 2, torch.ones(2, 2, requires_grad=True) * 3)
    detached = branches.detached()
    assert detached.feature is not None and not detached.feature.requires_grad
    assert not detached.structure.requires_grad
    torch.testing.assert_close(detached, Branches(torch.full((2, 2), 2.0), torch.full((2, 2), 3.0)))
    assert Branches(None, branches.structure).detached().feature is None


def test_branches_of_one_tensor_are_its_halves_and_come_together_without_a_copy() -> None:
    stacked = torch.arange(12.0, requires_grad=True).view(6, 2)
    branches = Branches.of(stacked)
    assert branches.feature is not None and branches.together() is stacked
    assert branches.feature.tolist() == stacked[:3].tolist() and branches.structure.tolist() == stacked[3:].tolist()
    assert torch.equal(Branches(branches.feature, branches.structure).together(), stacked)
    detached = branches.detached()
    assert detached.stacked is not None and not detached.stacked.requires_grad
    assert detached.structure.data_ptr() == branches.structure.data_ptr()


def test_isolated_nodes_get_the_bias_alone() -> None:
    encoder = build(DecoupledEncoder)
    assert isinstance(encoder, DecoupledEncoder)
    found = encoder(FeatureMatrix(features()), sparse(adjacency()))
    expected = encoder.second.prelu(encoder.second.bias)
    torch.testing.assert_close(found.structure[3], expected)
    assert np.isfinite(found.structure.detach().numpy()).all()
