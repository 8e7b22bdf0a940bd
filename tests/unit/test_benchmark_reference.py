"""What the step benchmark measures against computes FOSSIL's own losses and follows the released sampling rule."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.fossil import Fossil, FossilV2
from fossil.sampling.subgraphs import Subgraphs

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "reference.py"
NODES, FEATURES = 40, 9
SMALL = {"hidden": 12, "width": 8, "fusion_hidden": 5, "subgraph_size": 5, "num_anchors": 15}
STILL = {"dropout": 0.0, "fusion_dropout": 0.0}
VARIANTS: dict[str, dict[str, object]] = {
    "defaults": {},
    "relu": {"activation": "relu", "alpha": 0.2, "temperature": 0.5},
    "features alone": {"alpha": 1.0, "bapg_step": 0.1},
    "structure alone": {"alpha": 0.0, "bapg_step": 2.0},
}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_reference", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = load()


def graph(directed: bool = False, sparse_features: bool = False) -> Graph:
    random = np.random.default_rng(7)
    edges = random.random((NODES, NODES)) < 0.06
    np.fill_diagonal(edges, False)
    edges[17] = edges[:, 17] = False  # no neighbour at all
    matrix = (edges if directed else edges | edges.T).astype(np.float32)
    features = random.standard_normal((NODES, FEATURES)).astype(np.float32)
    return Graph("small", sp.csr_array(matrix), sp.csr_array(features) if sparse_features else features, np.arange(40))


def pair(kind: type[Fossil], of: Graph, **changes: object) -> tuple[Any, Fossil]:
    """Return the reference and the library's method with equal weights, away from their first values."""
    config = kind.configure("released", SMALL, changes)
    method = kind.build(config, FEATURES, seed=3)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=random))
    plain = reference.Reference(config, of, torch.device("cpu"))
    plain.load_state_dict(method.state_dict())
    return plain, method


def losses_of_both(
    kind: type[Fossil], of: Graph, monkeypatch: pytest.MonkeyPatch, **changes: object
) -> tuple[dict[str, Tensor], dict[str, Any], Callable[[str], tuple[Tensor, Tensor]]]:
    plain, method = pair(kind, of, **STILL, **changes)
    subgraphs = plain.sample()
    negatives = plain._others(len(subgraphs)), plain._others(len(subgraphs))
    views = plain()
    found = {
        "ot": plain.subgraph_loss(views, subgraphs, negatives),
        "node": plain.node_loss(views, subgraphs),
        "fusion": plain.fusion_loss(views),
    }
    turns = iter(negatives)
    monkeypatch.setattr(Subgraphs, "others", lambda *_: next(turns))
    prepared = method.prepare(of, torch.device("cpu"))
    tensors = prepared.tensors
    branches = method.encoder(tensors.features, tensors.propagation)
    H, gate = method.fuse(branches, tensors.centrality, None)
    H_hat, _ = method.fuse(method.generator(branches, tensors, None), tensors.centrality, None)
    pairs = method.pair(Subgraphs.of(subgraphs), prepared.sampler, torch.Generator().manual_seed(0))
    compared = method.compared(H, H_hat, pairs.subgraphs)
    ot, node = method.subgraph_loss(compared, pairs)[0], method.node_loss(compared)
    assert gate is not None and node is not None
    expected = {"ot": ot, "node": node, "fusion": method.fusion_loss(gate, branches).total}

    def gradients(name: str) -> tuple[Tensor, Tensor]:
        (mine,) = torch.autograd.grad(found["ot"] + found["node"], [plain.get_parameter(name)], retain_graph=True)
        (theirs,) = torch.autograd.grad(ot + node, [method.get_parameter(name)], retain_graph=True)
        return mine, theirs

    return found, expected, gradients


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("kind", [Fossil, FossilV2], ids=["v1", "v2"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_those_of_the_library(
    monkeypatch: pytest.MonkeyPatch, kind: type[Fossil], variant: str, directed: bool
) -> None:
    found, expected, _ = losses_of_both(kind, graph(directed), monkeypatch, **VARIANTS[variant])
    for name, value in found.items():
        assert value.item() == pytest.approx(expected[name].item(), rel=1e-4), name


def test_gradients_are_those_of_the_library_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, gradients = losses_of_both(Fossil, graph(), monkeypatch, solver_gradient="unrolled")
    for name in ("encoder.first.weight", "encoder.second.weight", "generator.weight"):
        mine, theirs = gradients(name)
        torch.testing.assert_close(mine, theirs, rtol=2e-3, atol=2e-4 * float(theirs.abs().max()))


def test_sparse_features_make_no_difference() -> None:
    dense, _ = pair(Fossil, graph(), **STILL)
    sparse, _ = pair(Fossil, graph(sparse_features=True), **STILL)
    torch.testing.assert_close(sparse().original, dense().original)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_subgraphs_can_be_filled_where_the_library_says_so(directed: bool) -> None:
    of = graph(directed)
    plain, method = pair(Fossil, of)
    filled = method.prepare(of, torch.device("cpu")).sampler.plan.frontiers.filled
    for anchor in range(NODES):
        members = plain.subgraph(anchor)
        assert bool(members) == bool(filled[anchor])
        if members:
            assert members[-1] == anchor and len(set(members)) == SMALL["subgraph_size"]
    assert 0 < int(filled.sum()) < NODES


def test_negatives_are_other_subgraphs() -> None:
    plain, _ = pair(Fossil, graph())
    for count in (2, 3, 10):
        others = plain._others(count)
        assert ((others != torch.arange(count)) & (others >= 0) & (others < count)).all()


def test_a_step_moves_every_weight_and_lowers_the_losses() -> None:
    plain, _ = pair(Fossil, graph(), learning_rate=0.01, fusion_learning_rate=0.01)
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    losses = [plain.step() for _ in range(30)]
    assert all(not torch.equal(value, before[name]) for name, value in plain.state_dict().items())
    assert losses[-1]["node"] < losses[0]["node"]
    assert losses[-1]["fusion"] < losses[0]["fusion"]


def test_other_readings_of_the_paper_are_refused() -> None:
    config = Fossil.configure("paper", SMALL)
    with pytest.raises(ValueError, match="released settings"):
        reference.Reference(config, graph(), torch.device("cpu"))
