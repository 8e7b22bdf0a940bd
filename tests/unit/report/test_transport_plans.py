"""Plans of the page against the method's own problems, and their costs against the plain sums of Eq. 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fossil
from fossil.datasets.synthetic import csbm
from fossil.graph.structure import undirected
from fossil.methods.fossil.settings import ContrastSettings
from fossil.methods.fossil.stages import Compared, Pairs
from fossil.neighbours.exact import ExactNeighbours
from fossil.report.subgraphs import sampler_of, settings_of, subgraphs_of
from fossil.report.transport import chosen_pairs, problem_between, solve, taken
from fossil.runs.run import Run
from fossil.sampling.subgraphs import Subgraphs

NODES = 120


@pytest.fixture(scope="module", params=["released", "paper"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    import warnings

    folder = tmp_path_factory.mktemp("plans") / "run"
    graph = csbm(NODES, degree=8, features=6, homophily=0.8, signal=500.0, seed=1)
    small = {"hidden": 16, "width": 8, "subgraph_size": 5, "num_anchors": 20, "temperature": 2.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fossil.embed(graph, method="fossil", preset=request.param, epochs=2, settings=small, out=folder)
    return Run.open(folder)


def test_problems_are_those_of_the_method_between_two_subgraphs(run: Run) -> None:
    sampler = sampler_of(run)
    found = subgraphs_of(sampler, np.arange(NODES))
    rows = np.flatnonzero(found.filled)[:6]
    first = taken(found, rows)
    second = taken(found, np.roll(rows, 1))
    settings, _ = settings_of(run)
    ours = problem_between(settings, run.embeddings.vectors, first, second)

    method = run.load_method()
    nodes, partner = torch.from_numpy(first.nodes), torch.roll(torch.arange(6), 1)
    vectors = torch.from_numpy(run.embeddings.vectors)
    within = torch.exp(-sampler.adjacency(nodes) / settings.temperature)
    pairs = Pairs(Subgraphs.of(nodes), partner, partner, within)
    theirs = method.problem(Compared(vectors, vectors, nodes, None), pairs, within).part(6, 12)  # the pairs (G_i, G_a)
    for name, tensor in theirs.tensors().items():
        torch.testing.assert_close(ours.tensors()[name], tensor, msg=name)
    assert ours.alpha == theirs.alpha


def test_costs_are_the_sums_of_equation_one(run: Run) -> None:
    found = subgraphs_of(sampler_of(run), np.arange(NODES))
    rows = np.flatnonzero(found.filled)[:4]
    first, second = taken(found, rows[:2]), taken(found, rows[2:])
    settings, _ = settings_of(run)
    problem = problem_between(settings, run.embeddings.vectors, first, second)
    for i, plan in enumerate(solve(run, first, second, np.arange(NODES))):
        T = np.array(plan.mass, np.float64).reshape(5, 5)
        M, C1, C2 = (
            tensor[i].double().numpy()
            for tensor in (problem.feature_cost, problem.source_structure, problem.target_structure)
        )
        assert plan.feature_cost == pytest.approx((M * T).sum(), rel=1e-4)
        assert plan.value == pytest.approx(
            plan.alpha * plan.feature_cost + (1 - plan.alpha) * plan.structure_cost, rel=1e-4, abs=1e-7
        )
        if settings.solver_marginals == "actual":
            gaps = (C1[:, None, :, None] - C2[None, :, None, :]) ** 2
            assert plan.structure_cost == pytest.approx(np.einsum("ijkl,ij,kl->", gaps, T, T), rel=1e-3, abs=1e-6)
        assert abs(T.sum() - 1) < 1e-3
        assert plan.source.ids == [str(node) for node in first.nodes[i]]


def test_every_subgraph_belongs_to_its_anchor_and_has_the_edges_of_the_graph(run: Run) -> None:
    anchors = np.array([7, 3, 99, 50])
    found = subgraphs_of(sampler_of(run), anchors)
    edges = undirected(run.graph.adjacency).toarray() > 0
    assert found.filled.any()
    for place in np.flatnonzero(found.filled):
        nodes = found.nodes[place]
        assert nodes[-1] == anchors[place] and len(set(nodes.tolist())) == 5
        np.testing.assert_array_equal(found.adjacency[place], edges[np.ix_(nodes, nodes)])


def test_pairs_are_what_they_are_said_to_be(run: Run) -> None:
    rows = np.arange(NODES)
    near, _ = ExactNeighbours(run.embeddings.vectors).nearest(rows, 10)
    pairs, about = chosen_pairs(run, subgraphs_of(sampler_of(run), rows), rows, near, rows)
    edges, labels = undirected(run.graph.adjacency).toarray() > 0, run.graph.labels
    kinds = [pair.kind for pair, _ in pairs]
    assert kinds.count("positive") == 6 and 1 <= kinds.count("negative") <= 6 and "hardest" in about.lower()
    for pair, plan in pairs:
        assert pair.value == plan.value
        assert bool(edges[pair.a, pair.b]) == (pair.kind == "positive")
        assert (labels[pair.a] == labels[pair.b]) == (pair.kind == "positive")
    hardest = [pair.value for pair, _ in pairs if pair.kind == "negative"]
    assert hardest == sorted(hardest)


def test_a_method_without_subgraphs_is_compared_by_fossils_defaults(tmp_path: Path) -> None:
    fossil.embed(csbm(60, degree=6, features=4, seed=0), method="features", out=tmp_path / "run")
    settings, said = settings_of(Run.open(tmp_path / "run"))
    assert settings == ContrastSettings() and "compares no subgraphs" in said


def test_as_many_pairs_are_said_to_be_tried_as_there_are(run: Run) -> None:
    rows = np.arange(NODES)
    alone = replace(subgraphs_of(sampler_of(run), rows), filled=rows < 1)
    pairs, about = chosen_pairs(run, alone, rows, np.roll(rows, 1)[:, None], rows)
    assert pairs == [] and "of 0 such pairs" in about
