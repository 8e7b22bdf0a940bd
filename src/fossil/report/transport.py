"""The transport plan between the subgraphs of two nodes, and pairs that are worth a look.

After training there is one vector for each node, so that a plan is one between two subgraphs of the graph, as for the
negatives (G_i, G_a) of Section 4.6.1, solved with the run's own settings on the run's final vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fossil.graph.graph import Array
from fossil.graph.structure import undirected
from fossil.methods.fossil.parts import make_solver
from fossil.methods.fossil.settings import ContrastSettings
from fossil.ops.costs import exponential_cost, thresholded
from fossil.ops.unit import unit_vectors
from fossil.report.columns import has_classes
from fossil.report.contract import Pair, Plan, brief
from fossil.report.subgraphs import NodeSubgraphs, as_subgraph, settings_of
from fossil.runs.run import Run
from fossil.seeding import numpy_generator
from fossil.transport import FusedProblem

_OF_EACH_KIND = 6
_CANDIDATES = 300  # pairs that are solved to find the hardest


def problem_between(
    settings: ContrastSettings, vectors: Array, first: NodeSubgraphs, second: NodeSubgraphs
) -> FusedProblem:
    """Return the problems of subgraphs G_i and G_a, pair by pair (Eq. 1 and 10).

    Args:
        settings: of the comparison.
        vectors: N×D.
        first: B subgraphs.
        second: B subgraphs.
    """
    X, Y = (torch.from_numpy(vectors[part.nodes]).float() for part in (first, second))  # B×K×D
    U, V = (unit_vectors(X), unit_vectors(Y)) if settings.cost_similarity == "cosine" else (X, Y)
    within = [torch.exp(-torch.from_numpy(part.adjacency).float() / settings.temperature) for part in (first, second)]
    if settings.structure_cost == "product":
        source, target = _cost(settings, U, U) * within[0], _cost(settings, V, V)
    else:
        source, target = within
    alpha = {"wasserstein": 1.0, "gromov_wasserstein": 0.0}.get(settings.similarity, settings.alpha)
    return FusedProblem.uniform(_cost(settings, U, V), source, target, alpha=alpha)


def _cost(settings: ContrastSettings, first: Tensor, second: Tensor) -> Tensor:
    return thresholded(exponential_cost(first, second, settings.temperature), settings.cost_threshold)


def solve(run: Run, first: NodeSubgraphs, second: NodeSubgraphs, page_rows: Array) -> list[Plan]:
    """Return the plans between paired subgraphs, all of them filled.

    Args:
        run: whose vectors and settings are taken.
        first: B subgraphs.
        second: B subgraphs.
        page_rows: the page's row of each node of the graph (N), -1 where it has none.
    """
    settings, whose = settings_of(run)
    graph = run.graph
    problem = problem_between(settings, run.embeddings.vectors, first, second)
    solver = make_solver(settings)
    with torch.no_grad():
        solution = solver(problem)
        feature = (problem.feature_cost * solution.plan).sum((1, 2))
        structure = replace(problem, alpha=0.0).objective(solution.plan, settings.solver_marginals)
    about = (
        f"Fused Gromov-Wasserstein of the final vectors, α = {problem.alpha:g}, τ = {settings.temperature:g}; "
        f"BAPG with β = {settings.bapg_step:g}, {settings.solver_iterations} iterations. {whose}"
    )
    labels = graph.labels if has_classes(graph) else None

    def classes(nodes: Array) -> list[int]:
        return [-1] * len(nodes) if labels is None else labels[nodes].tolist()

    return [
        Plan(
            source=as_subgraph(graph, first.nodes[i], first.adjacency[i], page_rows),
            target=as_subgraph(graph, second.nodes[i], second.adjacency[i], page_rows),
            source_labels=classes(first.nodes[i]),
            target_labels=classes(second.nodes[i]),
            mass=[round(value, 7) for value in solution.plan[i].flatten().tolist()],
            alpha=problem.alpha,
            feature_cost=float(feature[i]),
            structure_cost=float(structure[i]),
            value=float(solution.value[i]),
            row_error=float(solution.row_error[i]),
            column_error=float(solution.column_error[i]),
            about=about,
        )
        for i in range(problem.batch)
    ]


def chosen_pairs(
    run: Run, subgraphs: NodeSubgraphs, anchors: Array, near: Array, page_rows: Array
) -> tuple[list[tuple[Pair, Plan]], str]:
    """Return positive pairs and the hardest negative ones with their plans, and how they were chosen.

    Args:
        run: a finished run.
        subgraphs: one for each anchor.
        anchors: A nodes of the graph.
        near: the nearest nodes of each anchor by their vectors, as nodes of the graph: A×k.
        page_rows: the page's row of each node of the graph (N), -1 where it has none.
    """
    graph = run.graph
    labels = graph.labels if has_classes(graph) else None
    place = np.full(graph.num_nodes, -1)
    place[anchors] = np.arange(len(anchors))
    edges = undirected(graph.adjacency)

    def usable(pairs: Array) -> Array:
        at = place[pairs]
        ok = (at >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])
        ok &= subgraphs.filled[np.maximum(at, 0)].all(axis=1)
        found: Array = pairs[ok]
        return found

    def of_kind(pairs: Array, *, alike: bool) -> Array:
        """Return the pairs that have an edge and one class, or neither; without classes edges alone tell."""
        if not len(pairs):  # SciPy looks up no empty list
            return pairs
        kept = (np.asarray(edges[pairs[:, 0], pairs[:, 1]]).ravel() > 0) == alike
        if labels is not None:
            kept &= (labels[pairs] >= 0).all(axis=1)
            kept &= (labels[pairs[:, 0]] == labels[pairs[:, 1]]) == alike
        found: Array = pairs[kept]
        return found

    random = numpy_generator(0, "report", "pairs")
    source, target = edges[anchors][:, anchors].nonzero()
    linked = of_kind(usable(np.stack([anchors[source], anchors[target]], axis=1)), alike=True)
    positive = _apart(random.permutation(linked)) if len(linked) else []
    close = usable(np.stack([np.repeat(anchors, near.shape[1]), near.ravel()], axis=1))
    close = of_kind(close, alike=False)
    anywhere = of_kind(usable(random.choice(anchors, size=(4 * _CANDIDATES, 2))), alike=False)
    close = np.concatenate([random.permutation(close), anywhere])[:_CANDIDATES]  # classes may lie far apart
    found = _solved(run, subgraphs, place, positive, "positive", page_rows)
    rivals = _solved(run, subgraphs, place, close.tolist(), "negative", page_rows)
    rivals.sort(key=lambda pair: pair[0].value)
    hardest: list[tuple[Pair, Plan]] = []
    seen: set[int] = set()
    for pair, plan in rivals:
        if len(hardest) < _OF_EACH_KIND and not {pair.a, pair.b} & seen:
            seen |= {pair.a, pair.b}
            hardest.append((pair, plan))
    by_class = "of one class" if labels is not None else "whatever they are"
    of_other = "of different classes, without an edge between them" if labels is not None else "without an edge"
    about = (
        f"Positive pairs: neighbours {by_class}, drawn at random. Hardest negatives: nodes {of_other}; "
        f"of {len(close):,} such pairs, drawn at random among nodes near by their vectors and, where these are too "
        "few, among all, those whose subgraphs are cheapest to transport."
    )
    return [*found, *hardest], about


def _apart(pairs: Array) -> list[tuple[int, int]]:
    """Return the first few pairs that have no node in common."""
    seen, found = set[int](), []
    for a, b in pairs.tolist():
        if not {a, b} & seen:
            seen |= {a, b}
            found.append((a, b))
        if len(found) == _OF_EACH_KIND:
            break
    return found


def _solved(
    run: Run,
    subgraphs: NodeSubgraphs,
    place: Array,
    pairs: Sequence[Sequence[int]],
    kind: str,
    page_rows: Array,
) -> list[tuple[Pair, Plan]]:
    if not len(pairs):
        return []
    at = place[np.asarray(pairs)]
    plans = solve(run, taken(subgraphs, at[:, 0]), taken(subgraphs, at[:, 1]), page_rows)
    return list(_paired(run, pairs, plans, kind, page_rows))


def _paired(
    run: Run, pairs: Sequence[Sequence[int]], plans: Sequence[Plan], kind: str, page_rows: Array
) -> Iterator[tuple[Pair, Plan]]:
    ids = run.graph.ids
    for (a, b), plan in zip(pairs, plans, strict=True):
        about = "neighbours" if kind == "positive" else "no neighbours"
        yield (
            Pair(
                a=int(page_rows[a]),
                b=int(page_rows[b]),
                a_id=brief(str(ids[a])),
                b_id=brief(str(ids[b])),
                kind="positive" if kind == "positive" else "negative",
                about=about,
                value=plan.value,
            ),
            plan,
        )


def taken(subgraphs: NodeSubgraphs, rows: Array) -> NodeSubgraphs:
    """Return some of the subgraphs, in this order."""
    return NodeSubgraphs(subgraphs.nodes[rows], subgraphs.filled[rows], subgraphs.adjacency[rows])
