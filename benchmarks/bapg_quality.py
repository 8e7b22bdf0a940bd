"""How far BAPG's values are from a distance: the tables of docs/is-bapg-a-distance.md.

    python benchmarks/bapg_quality.py

The reference is POT's conditional gradient in float64, the best of many starts: BAPG from the product of the masses is
compared with the lowest value that a feasible plan was seen to reach. Needs POT and NetworkX.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import ot
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor

from fossil.seeding import numpy_generator
from fossil.transport import BAPG, Feasible, FusedProblem, Solution, to_pot_alpha

Array = NDArray[np.float64]
Pairs = Sequence[tuple["Attributed", "Attributed"]]

STEPS = (0.01, 0.1, 1.0, 5.0)
ITERATIONS = (20, 50, 200, 1000)
FEASIBLE = ((0.1, 50), (0.1, 200), (0.1, 1000), (1.0, 200), (1.0, 1000))
SIZES = (8, 12)
EQUAL = 1e-9  # values closer than this are the same


@dataclass(frozen=True)
class Attributed:
    """A graph as the fused problem sees it.

    Attributes:
        structure: n×n numbers of edges between nodes, divided by the diameter.
        features: n×2 positions in the unit square.
    """

    structure: Array
    features: Array


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--families", type=int, default=5, help="graphs of the pool, each with three changed copies")
    parser.add_argument("--starts", type=int, default=500, help="starts of the reference")
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    exact = Reference(arguments.alpha, arguments.starts, arguments.seed)
    print_against_reference(draw_pairs(arguments.pairs, arguments.seed), exact)
    pool = draw_pool(arguments.families, arguments.seed)
    print_axioms(pool, exact)
    print_parts(pool, exact)
    print_cycle()
    print(f"\n{time.perf_counter() - began:.0f} s")


# --- graphs ---------------------------------------------------------------------------------------------------------


def draw_graph(generator: np.random.Generator) -> nx.Graph:
    """Draw a connected graph of 8 to 12 nodes: a random tree, a small world or a graph with a few hubs."""
    n, kind, seed = (
        int(generator.integers(*SIZES, endpoint=True)),
        generator.integers(3),
        int(generator.integers(2**31)),
    )
    if kind == 0:
        return nx.random_labeled_tree(n, seed=seed)
    if kind == 1:
        return nx.connected_watts_strogatz_graph(n, 4, 0.3, seed=seed)
    return nx.barabasi_albert_graph(n, 2, seed=seed)


def attributed(graph: nx.Graph, features: Array) -> Attributed:
    """Measure a graph by the lengths of its shortest paths."""
    lengths = np.asarray(nx.floyd_warshall_numpy(graph, nodelist=range(len(graph))))
    return Attributed(lengths / lengths.max(), features)


def changed_copy(graph: nx.Graph, features: Array, generator: np.random.Generator) -> tuple[nx.Graph, Array]:
    """Renumber the nodes, add one edge and move the features a little."""
    order = generator.permutation(len(graph))
    copy = nx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    absent = sorted(nx.non_edges(copy))
    copy.add_edge(*absent[generator.integers(len(absent))])
    moved = np.empty_like(features)
    moved[order] = features + 0.05 * generator.standard_normal(features.shape)
    return copy, moved


def draw_pairs(count: int, seed: int) -> list[tuple[Attributed, Attributed]]:
    """Draw pairs: every third is a graph and its changed copy, the others have nothing in common."""
    pairs = []
    for index in range(count):
        generator = numpy_generator(seed, "pair", index)
        graph = draw_graph(generator)
        features = generator.random((len(graph), 2))
        if index % 3 == 0:
            other, other_features = changed_copy(graph, features, generator)
        else:
            other = draw_graph(generator)
            other_features = generator.random((len(other), 2))
        pairs.append((attributed(graph, features), attributed(other, other_features)))
    return pairs


def draw_pool(families: int, seed: int) -> list[Attributed]:
    """Draw graphs, each with a changed copy, a changed copy of that and one more, so that some triangles are thin."""
    pool = []
    for index in range(families):
        generator = numpy_generator(seed, "pool", index)
        graph = draw_graph(generator)
        features = generator.random((len(graph), 2))
        for _ in range(4):
            pool.append(attributed(graph, features))
            graph, features = changed_copy(graph, features, generator)
    return pool


def feature_cost(a: Attributed, b: Attributed) -> Array:
    """Return half the squared distances: at most 1, and the square of a distance, as the triangle inequality needs."""
    return np.asarray(((a.features[:, None] - b.features[None]) ** 2).sum(2) / 2)


# --- the two solvers ------------------------------------------------------------------------------------------------


def as_batch(pairs: Pairs, alpha: float) -> FusedProblem:
    """Put pairs of different sizes into one batch, with nodes of zero mass."""
    batch, size = len(pairs), max(len(graph.features) for pair in pairs for graph in pair)
    cost, source, target = (torch.zeros(batch, size, size, dtype=torch.float64) for _ in range(3))
    source_mass, target_mass = (torch.zeros(batch, size, dtype=torch.float64) for _ in range(2))
    for index, (a, b) in enumerate(pairs):
        n, m = len(a.features), len(b.features)
        cost[index, :n, :m] = torch.from_numpy(feature_cost(a, b))
        source[index, :n, :n], target[index, :m, :m] = torch.from_numpy(a.structure), torch.from_numpy(b.structure)
        source_mass[index, :n], target_mass[index, :m] = 1 / n, 1 / m
    return FusedProblem(cost, source, target, source_mass, target_mass, alpha)


@dataclass(frozen=True)
class Reference:
    """The lowest value of a feasible plan that conditional gradient finds from the product and from random vertices."""

    alpha: float
    starts: int
    seed: int

    def __call__(self, a: Attributed, b: Attributed) -> tuple[float, Array]:
        """Return the value and the plan."""
        cost, mu, nu = feature_cost(a, b), ot.unif(len(a.features)), ot.unif(len(b.features))
        generator = numpy_generator(self.seed, "starts")
        best, best_plan = np.inf, np.empty(0)
        for index in range(self.starts):
            start = np.outer(mu, nu) if index == 0 else ot.emd(mu, nu, generator.random(cost.shape))
            plan, log = ot.gromov.fused_gromov_wasserstein(
                cost, a.structure, b.structure, mu, nu, alpha=to_pot_alpha(self.alpha), G0=start, log=True, max_iter=500
            )
            if log["fgw_dist"] < best:
                best, best_plan = float(log["fgw_dist"]), plan
        return best, best_plan


@dataclass(frozen=True)
class Setting:
    """A solver with its step and its fixed number of iterations."""

    step: float
    iterations: int
    feasible: bool = False

    def __call__(self, problem: FusedProblem) -> Solution:
        """Solve."""
        kind = Feasible if self.feasible else BAPG
        return kind(step=self.step, iterations=self.iterations, tolerance=None, gradient="none")(problem)

    def cells(self) -> tuple[str, str, str]:
        """Return the first cells of a row."""
        return "feasible" if self.feasible else "BAPG", f"{self.step:g}", str(self.iterations)


SETTINGS = [
    *(Setting(step, iterations) for step in STEPS for iterations in ITERATIONS),
    *(Setting(step, iterations, feasible=True) for step, iterations in FEASIBLE),
]


# --- the tables -----------------------------------------------------------------------------------------------------


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def print_against_reference(pairs: Pairs, exact: Reference) -> None:
    """Print how BAPG's values and gradients compare with the reference, over pairs."""
    found = [exact(a, b) for a, b in pairs]
    reference = np.array([value for value, _ in found])
    single = np.array([Reference(exact.alpha, 1, exact.seed)(a, b)[0] for a, b in pairs])
    unrelated = np.arange(len(pairs)) % 3 != 0
    print(
        f"Reference over {len(pairs)} pairs: mean {reference.mean():.4f}; copies {reference[~unrelated].mean():.4f}, "
        f"others {reference[unrelated].mean():.4f}. One start alone: {single.mean() - reference.mean():+.4f}, "
        f"higher on {100 * np.mean(single > reference + EQUAL):.0f} % of pairs, "
        f"Spearman of the others {spearmanr(single[unrelated], reference[unrelated])[0]:.3f}."
    )
    problem = as_batch(pairs, exact.alpha)
    direction = feature_gradient(problem, pairs, padded_plans(found, problem))
    rows = []
    for setting in SETTINGS:
        solution = setting(problem)
        value = solution.value.numpy()
        gap = value - reference
        cosine = torch.cosine_similarity(feature_gradient(problem, pairs, solution.plan), direction)
        rows.append(
            (
                *setting.cells(),
                f"{gap.mean():+.4f}",
                f"{gap.min():+.3f} to {gap.max():+.3f}",
                f"{100 * np.mean(gap < -EQUAL):.0f} %",
                f"{solution.row_error.mean():.3f} ({solution.row_error.max():.2f})",
                f"{np.corrcoef(value, reference)[0, 1]:.3f}",
                f"{spearmanr(value, reference)[0]:.3f}",
                f"{spearmanr(value[unrelated], reference[unrelated])[0]:.3f}",
                f"{cosine.mean():.2f} ({cosine.min():.2f})",
            )
        )
    header = [
        "solver",
        "step",
        "iterations",
        "value − reference",
        "range",
        "below",
        "row error (worst)",
        "Pearson",
        "Spearman",
    ]
    print_table("Value", [*header, "Spearman, others", "gradient cosine (worst)"], rows)


def print_axioms(pool: Sequence[Attributed], exact: Reference) -> None:
    """Print whether the values behave like a distance, over a pool of graphs."""
    ordered = [(a, b) for a in pool for b in pool]
    problem, shape = as_batch(ordered, exact.alpha), (len(pool), len(pool))
    rows = [("reference", "", "", *axioms(np.array([exact(a, b)[0] for a, b in ordered]).reshape(shape)))]
    rows += [(*setting.cells(), *axioms(setting(problem).value.numpy().reshape(shape))) for setting in SETTINGS]
    header = ["solver", "step", "iterations", "D(a, a) (largest)", "nearest is itself", "asymmetry (largest)"]
    triangles = ["broken by √D", "√D, worst order", "tightest", "broken by D"]
    print_table(f"Axioms over {len(pool)} graphs", [*header, *triangles], rows)


def axioms(values: Array) -> tuple[str, ...]:
    """Say how far a matrix of values between all graphs is from one of squared distances."""
    values = values.clip(min=0)  # zeros come with rounding error
    count, own = len(values), np.diag(values)
    itself = np.mean(own < np.where(np.eye(count, dtype=bool), np.inf, values).min(1))
    upper = np.triu_indices(count, 1)
    asymmetry = (np.abs(values - values.T) / ((values + values.T) / 2 + EQUAL))[upper]
    a, b, c = np.array(list(itertools.permutations(range(count), 3))).T
    # By Minkowski's inequality the root of the exact optimum is a distance; the optimum itself is only a squared one.
    root = np.sqrt(values)
    low, high = np.minimum(root, root.T), np.maximum(root, root.T)
    return (
        f"{own.mean():.4f} ({own.max():.4f})",
        f"{100 * itself:.0f} %",
        f"{100 * asymmetry.mean():.1f} % ({100 * asymmetry.max():.0f} %)",
        f"{100 * np.mean(root[a, c] > root[a, b] + root[b, c] + EQUAL):.2f} %",
        f"{100 * np.mean(high[a, c] > low[a, b] + low[b, c] + EQUAL):.2f} %",
        f"{np.max(root[a, c] / (root[a, b] + root[b, c])):.2f}",
        f"{100 * np.mean(values[a, c] > values[a, b] + values[b, c] + EQUAL):.1f} %",
    )


def print_parts(pool: Sequence[Attributed], exact: Reference) -> None:
    """Print the value between a graph and the same graph without its last two nodes, in both orders."""
    pairs = [(graph, Attributed(graph.structure[:-2, :-2], graph.features[:-2])) for graph in pool]
    swapped = [(part, whole) for whole, part in pairs]
    reference = np.mean([exact(a, b)[0] for a, b in pairs])
    rows: list[tuple[str, ...]] = [("reference", "", "", f"{reference:.4f}", "0", f"{reference:.4f}", "0")]
    for setting in SETTINGS:
        if setting.iterations < ITERATIONS[-1]:
            continue
        one, other = (setting(as_batch(order, exact.alpha)) for order in (pairs, swapped))
        means = (x.mean() for x in (one.value, one.row_error, other.value, other.row_error))
        rows.append((*setting.cells(), *(f"{mean:.4f}" for mean in means)))
    header = ["solver", "step", "iterations", "D(whole, part)", "row error", "D(part, whole)", "row error"]
    print_table("A graph and a part of it", header, rows)


def print_cycle() -> None:
    """Print the value of a cycle with itself when nothing but the structure counts: all its nodes are alike."""
    cycle = attributed(nx.cycle_graph(10), np.zeros((10, 2)))
    rows = [(*s.cells(), f"{abs(s(as_batch([(cycle, cycle)], 0.0)).value.item()):.4f}") for s in SETTINGS]
    print_table("A cycle of 10 nodes with itself, alpha 0", ["solver", "step", "iterations", "D"], rows)


def padded_plans(found: Sequence[tuple[float, Array]], problem: FusedProblem) -> Tensor:
    """Put the reference plans into one tensor."""
    plans = torch.zeros_like(problem.feature_cost)
    for index, (_, plan) in enumerate(found):
        plans[index, : plan.shape[0], : plan.shape[1]] = torch.from_numpy(plan)
    return plans


def feature_gradient(problem: FusedProblem, pairs: Pairs, plans: Tensor) -> Tensor:
    """Return B×2n gradients of the value in the first graph's features, the plan held constant."""
    sides = [torch.zeros(len(pairs), plans.shape[1], 2, dtype=plans.dtype) for _ in range(2)]
    for index, pair in enumerate(pairs):
        for side, graph in zip(sides, pair, strict=True):
            side[index, : len(graph.features)] = torch.from_numpy(graph.features)
    source, target = sides
    return (problem.alpha * (plans.sum(2, keepdim=True) * source - plans @ target)).flatten(1)


if __name__ == "__main__":
    main()
