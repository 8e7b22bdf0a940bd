"""What is particular to FOSSIL; what all methods share is tested as a contract."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.errors import FossilError
from fossil.graph.graph import Graph
from fossil.methods.base import Objective
from fossil.methods.fossil import Fossil, FossilV2
from fossil.methods.fossil.stages import Compared, FossilGraph, Pairs
from fossil.nn.encoders import DecoupledEncoder
from fossil.ops.infonce import node_contrast
from fossil.sampling.subgraphs import Subgraphs
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
SMALL = {"hidden": 12, "width": 6, "num_anchors": 20, "subgraph_size": 4}


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(count: int) -> Subgraphs:
    return Subgraphs.of(torch.zeros(count, 4, dtype=torch.int64))


def graph(nodes: int = 40, joined: int = 40, zero: int = 0) -> Graph:
    """Edges among the first `joined` nodes; the last `zero` nodes have no features."""
    draw = np.random.default_rng(0)
    edges = np.triu(draw.random((nodes, nodes)) < 0.3, 1)
    edges[joined:] = edges[:, joined:] = False
    features = draw.random((nodes, 5), dtype=np.float32)
    features[nodes - zero :] = 0
    return Graph("g", sp.csr_array((edges | edges.T).astype(np.float32)), features, np.arange(nodes))


def make(given: Graph | None = None, kind: type[Fossil] = Fossil, **changes: Any) -> tuple[Fossil, FossilGraph]:
    method = kind.build(kind.configure(None, SMALL, changes), 5, 0)
    return method, method.prepare(given or graph(), CPU)


def test_the_other_subgraph_is_never_the_same_and_uniform_among_the_rest() -> None:
    count, draws = 5, 4000
    seen = torch.zeros(count, count)
    generator = random()
    for _ in range(draws):
        seen[torch.arange(count), rows(count).others(generator)] += 1
    assert seen.diagonal().sum() == 0
    rest = seen[~torch.eye(count, dtype=torch.bool)] / draws
    assert ((rest - 0.25).abs() < 5 * (0.25 * 0.75 / draws) ** 0.5).all()
    assert rows(2).others(generator).tolist() == [1, 0]


def contrast(method: Fossil, prepared: FossilGraph) -> Objective:
    return next(method.step(prepared, random()))


def total(objective: Objective) -> torch.Tensor:
    return torch.stack(list(objective.terms.values())).sum()


@pytest.mark.parametrize(
    ("similarity", "weight"),
    [("fused_gromov_wasserstein", 0.3), ("wasserstein", 1.0), ("gromov_wasserstein", 0.0), ("pooled_cosine", 0.3)],
)
def test_feature_weight_follows_the_similarity(similarity: str, weight: float) -> None:
    assert make(similarity=similarity, alpha=0.3)[0].feature_weight == weight


def test_wasserstein_is_the_fused_distance_at_the_ends_of_alpha() -> None:
    for similarity, alpha in (("wasserstein", 1.0), ("gromov_wasserstein", 0.0)):
        losses = []
        for changes in ({"similarity": similarity, "alpha": 0.4}, {"alpha": alpha}):
            method, prepared = make(**changes)
            losses.append(contrast(method, prepared).terms["ot"])
        torch.testing.assert_close(losses[0], losses[1])


def test_pooled_subgraphs_are_compared_by_the_cosine_of_their_means_with_both_negatives_from_one_subgraph() -> None:
    tau = 0.6
    method, _ = make(similarity="pooled_cosine", temperature=tau)
    first, second = torch.randn(2, 9, 6, generator=random(1), dtype=torch.float64)
    nodes, a, b = (
        torch.tensor([[0, 1, 2, 3], [2, 5, 6, 7], [8, 4, 0, 6]]),
        torch.tensor([1, 2, 0]),
        torch.tensor([2, 0, 1]),
    )
    found, solution = method.similarity(Compared(first, second, nodes, None), Pairs(Subgraphs.of(nodes), a, b, None))
    original, generated = ([view[rows].mean(0) for rows in nodes] for view in (first, second))
    partners = [*generated, *(original[j] for j in a), *(generated[j] for j in a)]
    expected = [
        torch.exp(one @ other / (one.norm() * other.norm()) / tau)
        for one, other in zip(original * 3, partners, strict=True)
    ]
    assert solution is None
    torch.testing.assert_close(found, torch.stack(expected))


def test_subgraphs_reach_as_far_as_the_setting_says() -> None:
    # On a path two hops reach five nodes at most, six hops thirteen.
    path = sp.diags_array([np.ones(29), np.ones(29)], offsets=[-1, 1], format="csr", dtype=np.float32)
    given = Graph("path", sp.csr_array(path), graph(30).features, np.arange(30))
    for reach, size, fits in (("two_hop", 5, True), ("two_hop", 6, False), ("six_hop", 6, True)):
        method, prepared = make(given, reach=reach, subgraph_size=size)
        anchors = torch.arange(10, 20)
        assert int(prepared.sampler.sample(anchors, random()).count) == (10 if fits else 0)
        if fits:
            method.check_trainable(prepared)


def test_the_fusion_layer_is_drawn_to_one_minus_the_weight_of_the_features() -> None:
    for similarity, alpha, wanted in (
        ("fused_gromov_wasserstein", 0.2, 0.8),
        ("wasserstein", 0.2, 0.0),
        ("gromov_wasserstein", 0.2, 1.0),
    ):
        method, prepared = make(similarity=similarity, alpha=alpha, fusion_mean=3.0)
        with torch.no_grad():
            record = contrast(method, prepared).diagnose()
        expected = 3 * abs(float(record["lambda_mean"]) - wanted)
        assert float(record["fusion_mean"]) == pytest.approx(expected, rel=1e-4)


def test_trained_apart_the_contrast_moves_the_encoder_alone_and_the_penalty_the_gate_alone() -> None:
    method, prepared = make(fusion_pass="second")
    touched = []
    for objective in method.step(prepared, random()):
        method.zero_grad(set_to_none=True)
        total(objective).backward()
        touched.append({name.split(".")[0] for name, p in method.named_parameters() if p.grad is not None})
    assert touched == [{"encoder", "generator"}, {"fusion"}]


def test_a_shared_pass_gives_the_encoder_and_the_gate_the_gradients_of_their_own_loss() -> None:
    method, prepared = make(fusion_pass="shared")
    passes: list[int] = []
    method.encoder.register_forward_hook(lambda *_: passes.append(1))
    (objective,) = method.step(prepared, random())
    assert objective.groups == ("encoder", "fusion") and len(passes) == 1
    names, weights = zip(*method.named_parameters(), strict=True)

    def touched(*losses: Any) -> dict[str, torch.Tensor]:
        gradients = torch.autograd.grad(losses, weights, allow_unused=True, retain_graph=True)
        return {name: each for name, each in zip(names, gradients, strict=True) if each is not None}

    together = touched(total(objective))
    apart = touched(objective.terms["ot"], objective.terms["node"]), touched(objective.terms["fusion"])
    assert not set(apart[0]) & set(apart[1]) and {name.split(".")[0] for name in apart[1]} == {"fusion"}
    for name, value in (apart[0] | apart[1]).items():
        torch.testing.assert_close(together[name], value)


def test_after_shared_passes_the_gate_takes_closing_steps_of_its_own() -> None:
    for which, epochs, steps in (("shared", 300, 30), ("shared", 29, 2), ("shared", 1, 1), ("second", 300, 0)):
        method, prepared = make(fusion_pass=which)
        passes: list[int] = []
        method.encoder.register_forward_hook(lambda *_, passes=passes: passes.append(1))
        phases = method.closing(epochs)
        assert [phase.steps for phase in phases] == ([steps] if steps else [])
        for phase in phases:
            assert [each.groups for each in phase.step(prepared, random())] == [("fusion",)] and len(passes) == 1


def test_a_gate_that_was_left_behind_finds_back_on_closing() -> None:
    method, prepared = make(fusion_learning_rate=0.01, fusion_l2=100)
    trainer = Trainer(method, prepared, 0, CPU)

    def weight_of_structure() -> float:
        fusion = method.encode(prepared).fusion
        assert fusion is not None
        return fusion.mean().item()

    assert method.fusion is not None
    with torch.no_grad():
        method.fusion.join.weight.zero_()
        method.fusion.join.bias.fill_(4)
    assert weight_of_structure() > 0.9
    trainer.steps = 300
    trainer.close()
    assert weight_of_structure() < 0.1


@pytest.mark.parametrize(
    ("training", "which", "expected"),
    [
        ("separate", "second", [["ot", "node"], ["fusion"]]),
        ("separate", "shared", [["ot", "node", "fusion"]]),
        ("joint", "shared", [["ot", "node", "fusion"]]),
    ],
)
def test_the_terms_of_a_step(training: str, which: str, expected: list[list[str]]) -> None:
    method, prepared = make(fusion_training=training, fusion_pass=which)
    assert [list(objective.terms) for objective in method.step(prepared, random())] == expected
    objective = contrast(method, prepared)
    torch.testing.assert_close(objective.diagnose()["contrast"], objective.terms["ot"] + objective.terms["node"])


def test_trained_jointly_one_objective_moves_everything() -> None:
    method, prepared = make(fusion_training="joint")
    (objective,) = method.step(prepared, random())
    total(objective).backward()
    assert objective.groups == ("encoder", "fusion")
    assert all(p.grad is not None for p in method.parameters())


@pytest.mark.parametrize("encoder", ["gcn", "gcnii"])
def test_without_a_feature_branch_there_is_no_gate(encoder: str) -> None:
    method, prepared = make(encoder=encoder)
    (objective,) = method.step(prepared, random())
    assert method.fusion is None and set(method.parameter_groups()) == {"encoder"}
    assert method.encode(prepared).fusion is None and "lambda_mean" not in objective.diagnose()
    assert list(objective.terms) == ["ot", "node"]


def test_presets_differ_in_every_switch_between_code_and_paper() -> None:
    released, paper = (Fossil.configure(preset).model_dump() for preset in ("released", "paper"))
    different = {key: paper[key] for key in paper if paper[key] != released[key]}
    assert different == dict(Fossil.presets["paper"])
    assert len(different) == 13


def test_version_two_contrasts_the_nodes_of_the_subgraphs_alone() -> None:
    assert {FossilV2.configure(preset).node_contrast for preset in FossilV2.presets} == {"subgraph_nodes"}  # type: ignore[attr-defined]
    subgraphs = Subgraphs.of(torch.tensor([[0, 1, 2, 3], [2, 3, 4, 9]]))
    for kind, nodes in ((Fossil, list(range(40))), (FossilV2, [0, 1, 2, 3, 4, 9])):
        method, prepared = make(kind=kind)
        tensors = prepared.tensors
        branches = method.encoder(tensors.features, tensors.propagation)
        H, _ = method.fuse(branches, tensors.centrality, None)
        H_hat, _ = method.fuse(method.generator(branches, tensors, None), tensors.centrality, None)
        found = method.node_loss(method.compared(H, H_hat, subgraphs))
        torch.testing.assert_close(found, node_contrast(H[nodes], H_hat[nodes], 0.8))


def test_shared_negatives_come_from_one_subgraph(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(subgraphs: Subgraphs, generator: torch.Generator) -> torch.Tensor:
        calls.append(len(subgraphs.nodes))
        return others(subgraphs, generator)

    others = Subgraphs.others
    monkeypatch.setattr(Subgraphs, "others", counted)
    for negatives, expected in (("independent", 2), ("shared", 1)):
        calls.clear()
        method, prepared = make(negatives=negatives)
        contrast(method, prepared)
        assert len(calls) == expected


def test_diagnostics_count_what_was_sampled() -> None:
    method, prepared = make(graph(40, joined=30), num_anchors=40)
    with torch.no_grad():
        record = contrast(method, prepared).diagnose()
    assert record["skipped_isolated"] == 10 and record["subgraphs"] + record["skipped_too_small"] == 30
    assert 0 < float(record["lambda_mean"]) < 1 and 1 <= float(record["effective_rank"]) <= 6


def test_encoder_and_generator_share_one_slope_which_is_optimised_once() -> None:
    method, _ = make(activation="prelu")
    assert isinstance(method.encoder, DecoupledEncoder)
    assert method.encoder.activation is method.generator.activation
    parameters = method.parameter_groups()["encoder"].parameters
    assert len(parameters) == len({id(p) for p in parameters})


@pytest.mark.parametrize("node_contrast", ["all_nodes", "subgraph_nodes", "none"])
def test_steps_in_which_no_subgraph_can_be_filled_do_not_end_the_training(node_contrast: str) -> None:
    # Six nodes in two hundred have neighbours: most draws of two anchors meet none of them.
    given = graph(200, joined=0)
    clique = np.zeros((200, 200), np.float32)
    clique[:6, :6] = 1 - np.eye(6)
    given = Graph("g", sp.csr_array(clique), given.features, given.ids)
    method, prepared = make(given, num_anchors=2, node_contrast=node_contrast)
    method.check_trainable(prepared)
    records: list[dict[str, float]] = []
    Trainer(method, prepared, 0, CPU).run(
        5,
        lambda epoch, record: bool(records.append({k: float(v) for k, v in record.items()})),  # type: ignore[func-returns-value]
    )
    assert 0 in [record["subgraphs"] for record in records]
    assert all(math.isfinite(value) for record in records for value in record.values())


def test_a_graph_without_edges_is_refused_before_training() -> None:
    method, prepared = make(graph(joined=0))
    with pytest.raises(FossilError, match="40 have no neighbour"):
        method.check_trainable(prepared)


def test_isolated_nodes_without_features_do_not_drown_the_gradient() -> None:
    # Such nodes have embedding zero at first. A zero vector has no direction that could be learnt.
    largest = []
    for zero in (0, 3):
        method, prepared = make(graph(40, joined=37, zero=zero))
        total(contrast(method, prepared)).backward()
        largest.append(max(float(p.grad.abs().max()) for p in method.parameters() if p.grad is not None))
    assert largest[1] < 1e3 * largest[0]


def test_tiles_of_the_node_loss_shrink_to_a_least_size_and_stay_there() -> None:
    method, _ = make()
    found = [(method.shrink(), method.tile_rows) for _ in range(5)]
    assert found == [(True, 2048), (True, 1024), (True, 512), (True, 256), (False, 256)]
