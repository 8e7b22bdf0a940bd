"""Find the members of a karate club again in a renumbered and altered copy of it.

Both graphs have 34 nodes with two attributes each. In the copy the nodes are in another order, three edges are gone,
three are new, and the attributes are noisy. Neither the attributes nor the edges alone say who is who.

    python examples/match_two_graphs.py --out matching.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from fossil.transport import Solution, fused_gromov_wasserstein

CHANGED_EDGES = 3
NOISE = 0.1
ALPHAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
DRAWN = 0.25

Array = NDArray[Any]


def main() -> None:
    """Match for several weights of the attributes, then draw one matching."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("matching.png"), help="picture to write")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # one problem of this size is too small to share
    generator = np.random.default_rng(arguments.seed)

    club = nx.karate_club_graph()
    attributes = generator.random((len(club), 2))
    copy, copied_attributes, counterpart = altered_copy(club, attributes, generator)

    print("alpha weighs the attributes, 1 - alpha the paths.")
    for alpha in ALPHAS:
        solution = match(club, attributes, copy, copied_attributes, alpha)
        found = solution.plan.argmax(1).numpy()
        right = int((found == counterpart).sum())
        print(
            f"alpha {alpha:<4}  {right:2d} of {len(club)} found ({right / len(club):.0%})"
            f"  value {solution.value:.4f}  row error {solution.row_error:.3f}"
        )
        if alpha == DRAWN:
            draw(arguments.out, club, copy, solution.plan.numpy(), counterpart)
    print(f"The matching for alpha {DRAWN} is drawn in {arguments.out}.")


def altered_copy(graph: nx.Graph, attributes: Array, generator: np.random.Generator) -> tuple[nx.Graph, Array, Array]:
    """Return a renumbered copy with some edges exchanged and noisy attributes, and the new number of each node."""
    counterpart = generator.permutation(len(graph))
    copy = nx.Graph(nx.relabel_nodes(graph, dict(enumerate(counterpart.tolist()))))
    absent = sorted(nx.non_edges(copy))
    # An edge on a cycle can go without taking the graph apart.
    spare = sorted(set(copy.edges) - set(nx.minimum_spanning_edges(copy, data=False)))
    copy.remove_edges_from([spare[i] for i in generator.choice(len(spare), CHANGED_EDGES, replace=False)])
    copy.add_edges_from([absent[i] for i in generator.choice(len(absent), CHANGED_EDGES, replace=False)])
    copied = np.empty_like(attributes)
    copied[counterpart] = attributes + NOISE * generator.standard_normal(attributes.shape)
    return copy, copied, counterpart


def match(
    first: nx.Graph, first_attributes: Array, second: nx.Graph, second_attributes: Array, alpha: float
) -> Solution:
    """Compare two graphs by their attributes and by the lengths of their shortest paths."""
    attribute_cost = torch.cdist(torch.from_numpy(first_attributes), torch.from_numpy(second_attributes)) ** 2
    return fused_gromov_wasserstein(attribute_cost, path_lengths(first), path_lengths(second), alpha=alpha)


def path_lengths(graph: nx.Graph) -> torch.Tensor:
    """Return the numbers of edges between nodes, divided by the largest, so that the default step suits them."""
    lengths = nx.floyd_warshall_numpy(graph, nodelist=range(len(graph)), weight=None)
    return torch.from_numpy(lengths / lengths.max())


def draw(path: Path, first: nx.Graph, second: nx.Graph, plan: Array, counterpart: Array) -> None:
    """Draw both graphs with a line from each node to its match, and the plan beside them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    places = nx.spring_layout(first, seed=1)
    # The copy is laid out like the original, so that a right match is a horizontal line.
    copied_places = {int(counterpart[node]): place + np.array([3, 0]) for node, place in places.items()}
    for node, partner in enumerate(plan.argmax(1).tolist()):
        ends = np.stack([places[node], copied_places[partner]])
        hit = partner == counterpart[node]
        left.plot(*ends.T, color="tab:blue" if hit else "tab:red", linewidth=0.7 if hit else 2, zorder=0)
    for graph, layout, colour in ((first, places, "lightskyblue"), (second, copied_places, "navajowhite")):
        nx.draw_networkx(graph, layout, ax=left, node_size=150, font_size=7, node_color=colour, edge_color="grey")
    left.set_title("club and altered copy: right matches blue, wrong ones thick and red")
    left.set_axis_off()
    image = right.imshow(plan[:, counterpart], cmap="Blues", vmin=0)
    right.set(title="plan, copy in the true order", xlabel="node of the copy", ylabel="node of the club")
    figure.colorbar(image, ax=right, label="mass", shrink=0.7)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
