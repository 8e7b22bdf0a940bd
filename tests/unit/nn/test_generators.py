import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from fossil.graph.structure import symmetric_normalized
from fossil.nn.encoders import Branches, DecoupledEncoder, GCNEncoder
from fossil.nn.generators import (
    FeatureAttention,
    GATOnEmbeddings,
    GATOnFeatures,
    GCNOnEmbeddings,
    Generator,
    RandomEdgeDropping,
)
from fossil.nn.tensors import GraphTensors
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

NODES, FEATURES, WIDTH = 13, 6, 5


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense_adjacency(directed: bool) -> Tensor:
    edges = torch.rand(NODES, NODES, generator=random(1)) < 0.3
    edges.fill_diagonal_(False)
    edges[4] = edges[:, 4] = False  # an isolated node
    return (edges if directed else edges | edges.T).float()


def tensors(matrix: Tensor, propagation: Tensor | None = None) -> GraphTensors:
    adjacency = SparseMatrix.from_scipy(sp.csr_array(matrix.numpy()))
    spread = adjacency if propagation is None else SparseMatrix.from_scipy(sp.csr_array(propagation.numpy()))
    features = FeatureMatrix(torch.randn(len(matrix), FEATURES, generator=random(2)))
    return GraphTensors(features, adjacency, spread, centrality=None)


def branches(requires_grad: bool = False) -> Branches:
    made = [torch.randn(NODES, WIDTH, generator=random(seed)).requires_grad_(requires_grad) for seed in (3, 4)]
    return Branches(*made)


def shaken(generator: Generator) -> Generator:
    with torch.no_grad():
        for index, parameter in enumerate(generator.parameters()):
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=random(20 + index)))
    return generator


def towards_rows(matrix: Tensor) -> Tensor:
    """PyG sends messages from edge_index[0] to edge_index[1]; row i of our adjacency gathers from its columns."""
    rows, columns = matrix.nonzero().T
    return torch.stack([columns, rows])


def reference_gat(inward: int, weight: Tensor, bias: Tensor, attention: nn.Module) -> GATConv:
    convolution = GATConv(inward, WIDTH, heads=1, add_self_loops=False, negative_slope=0.2)
    convolution.lin.weight.data = weight.detach().T.clone()
    convolution.att_src.data = attention.to_neighbour.detach().view(1, 1, WIDTH).clone()  # type: ignore[operator]
    convolution.att_dst.data = attention.to_centre.detach().view(1, 1, WIDTH).clone()  # type: ignore[operator]
    convolution.bias.data = bias.detach().clone()
    return convolution


@pytest.mark.parametrize("directed", [False, True])
def test_gat_on_embeddings_is_gatconv_on_both_branches(directed: bool) -> None:
    generator = shaken(GATOnEmbeddings(WIDTH, nn.PReLU()))
    assert isinstance(generator, GATOnEmbeddings)
    reference = reference_gat(WIDTH, generator.weight, generator.bias, generator.attention)
    matrix, given = dense_adjacency(directed), branches()
    found = generator(given, tensors(matrix), None)
    for branch, source, graph in (
        (found.feature, given.feature, torch.eye(NODES)),
        (found.structure, given.structure, matrix),
    ):
        expected = generator.activation(reference(source, towards_rows(graph)))
        torch.testing.assert_close(branch, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
def test_gradients_are_those_of_gatconv(directed: bool) -> None:
    generator = shaken(GATOnEmbeddings(WIDTH, nn.Identity()))
    assert isinstance(generator, GATOnEmbeddings)
    reference = reference_gat(WIDTH, generator.weight, generator.bias, generator.attention)
    upstream = torch.randn(NODES, WIDTH, generator=random(9))
    ours, theirs = branches(True), branches(True)
    matrix = dense_adjacency(directed)
    generator(ours, tensors(matrix), None).structure.backward(upstream)
    reference(theirs.structure, towards_rows(matrix)).backward(upstream)
    pairs = [
        (ours.structure.grad, theirs.structure.grad),
        (generator.weight.grad, reference.lin.weight.grad.T),
        (generator.bias.grad, reference.bias.grad),
        (generator.attention.to_centre.grad, reference.att_dst.grad.view(1, WIDTH)),
        (generator.attention.to_neighbour.grad, reference.att_src.grad.view(1, WIDTH)),
    ]
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_on_the_identity_graph_attention_is_a_linear_layer() -> None:
    generator = shaken(GATOnEmbeddings(WIDTH, nn.PReLU()))
    assert isinstance(generator, GATOnEmbeddings)
    given = branches()
    found = generator(Branches(given.structure, given.structure), tensors(torch.eye(NODES)), None)
    torch.testing.assert_close(found.structure, found.feature)
    linear = generator.activation(given.structure @ generator.weight + generator.bias)
    torch.testing.assert_close(found.feature, linear)


@pytest.mark.parametrize("directed", [False, True])
def test_gat_on_features_is_gatconv_on_the_features(directed: bool) -> None:
    generator = shaken(GATOnFeatures(FEATURES, WIDTH, nn.PReLU()))
    assert isinstance(generator, GATOnFeatures)
    reference = reference_gat(FEATURES, generator.weight, generator.bias, generator.attention)
    matrix = dense_adjacency(directed)
    graph = tensors(matrix)
    found = generator(branches(), graph, None)
    for branch, edges in ((found.feature, torch.eye(NODES)), (found.structure, matrix)):
        expected = generator.activation(reference(graph.features.data, towards_rows(edges)))
        torch.testing.assert_close(branch, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
def test_feature_attention_weighs_embeddings_by_the_features_attention(directed: bool) -> None:
    generator = shaken(FeatureAttention(FEATURES, WIDTH, nn.PReLU()))
    assert isinstance(generator, FeatureAttention)
    matrix, given = dense_adjacency(directed), branches()
    graph = tensors(matrix)
    keyed = reference_gat(FEATURES, generator.key, generator.bias, generator.attention)
    _, (edges, alpha) = keyed(graph.features.data, towards_rows(matrix), return_attention_weights=True)
    attention = torch.zeros(NODES, NODES)
    attention[edges[1], edges[0]] = alpha.detach().squeeze(1)
    expected = generator.activation(attention @ given.structure @ generator.weight + generator.bias)
    found = generator(given, graph, None)
    torch.testing.assert_close(found.structure, expected, rtol=1e-4, atol=1e-5)
    assert given.feature is not None
    linear = generator.activation(given.feature @ generator.weight + generator.bias)
    torch.testing.assert_close(found.feature, linear)


def test_gcn_on_embeddings_is_gcnconv_with_the_layers_prelu() -> None:
    generator = shaken(GCNOnEmbeddings(WIDTH, nn.PReLU()))
    assert isinstance(generator, GCNOnEmbeddings)
    matrix, given = dense_adjacency(False), branches()
    normalised = symmetric_normalized(sp.csr_array(matrix.numpy()), self_loops=False)
    reference = GCNConv(WIDTH, WIDTH, add_self_loops=False)
    reference.lin.weight.data = generator.weight.detach().T.clone()
    reference.bias.data = generator.bias.detach().clone()
    found = generator(given, tensors(matrix, torch.from_numpy(normalised.toarray())), None)
    raw = reference(given.structure, towards_rows(matrix))
    torch.testing.assert_close(found.structure, generator.activation(generator.prelu(raw)), rtol=1e-4, atol=1e-5)
    assert given.feature is not None
    raw = given.feature @ generator.weight + generator.bias
    torch.testing.assert_close(found.feature, generator.activation(generator.prelu(raw)))


def test_saved_weights_keep_their_names() -> None:
    attention = {"weight", "bias", "attention.to_centre", "attention.to_neighbour"}
    assert set(GATOnEmbeddings(WIDTH, nn.PReLU()).state_dict()) == attention | {"activation.weight"}
    assert set(GATOnEmbeddings(WIDTH, nn.ReLU()).state_dict()) == attention
    expected = {"weight", "bias", "prelu.weight", "activation.weight"}
    assert set(GCNOnEmbeddings(WIDTH, nn.PReLU()).state_dict()) == expected


def test_bfloat16_autocast_gives_nearly_the_same_branches() -> None:
    generator, given = shaken(GATOnEmbeddings(WIDTH, nn.PReLU())), branches(True)
    graph = tensors(dense_adjacency(True))
    expected = generator(given, graph, None)
    with torch.autocast("cpu", torch.bfloat16):
        found = generator(given, graph, None)
        found.structure.float().square().mean().backward()
    for branch, wanted in zip(found, expected, strict=True):
        assert (branch.float() - wanted).norm() < 0.03 * wanted.norm()
    assert given.structure.grad is not None and given.structure.grad.isfinite().all()


@pytest.mark.parametrize(
    "generator",
    [
        GATOnEmbeddings(WIDTH, nn.PReLU()),
        GATOnFeatures(FEATURES, WIDTH, nn.PReLU()),
        FeatureAttention(FEATURES, WIDTH, nn.PReLU()),
        GCNOnEmbeddings(WIDTH, nn.PReLU()),
    ],
    ids=lambda generator: type(generator).__name__,
)
def test_without_a_feature_branch_the_structure_branch_stays_the_same(generator: Generator) -> None:
    given, graph = branches(), tensors(dense_adjacency(False))
    alone = generator(Branches(None, given.structure), graph, random())
    assert alone.feature is None
    assert torch.equal(alone.structure, generator(given, graph, random()).structure)
    assert torch.isfinite(alone.structure).all()


class Recording(GCNEncoder):
    """An encoder that remembers which matrix it was given."""

    seen: SparseMatrix

    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix, random: torch.Generator | None = None
    ) -> Branches:
        self.seen = propagation
        return super().forward(features, propagation, random)


def test_random_edge_dropping_drops_the_share_and_keeps_the_other_values() -> None:
    nodes, share = 300, 0.15
    matrix = torch.rand(nodes, nodes, generator=random(1))
    encoder = Recording(FEATURES, 4, WIDTH, nn.ReLU(), 0.0)
    RandomEdgeDropping(encoder, share)(branches(), tensors(matrix), random(2))
    full = SparseMatrix.from_scipy(sp.csr_array(matrix.numpy())).values
    dropped = encoder.seen.values == 0
    assert abs(dropped.double().mean().item() - share) < 5 * (share * (1 - share) / nodes**2) ** 0.5
    assert torch.equal(encoder.seen.values[~dropped], full[~dropped])


def test_random_edge_dropping_encodes_the_thinned_graph_with_the_encoders_weights() -> None:
    encoder = DecoupledEncoder(FEATURES, 7, WIDTH, nn.PReLU(), 0.0)
    generator = RandomEdgeDropping(encoder, 0.5)
    assert list(generator.parameters()) == [] and generator.state_dict() == {}
    graph = tensors(dense_adjacency(False))
    whole = encoder(graph.features, graph.propagation)
    still = generator(branches(), graph, None)
    torch.testing.assert_close(still, whole, rtol=0, atol=0)
    thinned = generator(branches(), graph, random(3))
    assert torch.equal(thinned.feature, whole.feature)
    assert not torch.equal(thinned.structure, whole.structure)
    assert torch.equal(thinned.structure, generator(branches(), graph, random(3)).structure)
    with torch.no_grad():
        encoder.first.weight.mul_(2)
    assert not torch.equal(still.structure, generator(branches(), graph, None).structure)
