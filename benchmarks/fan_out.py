"""How far a step with a fan-out is from the exact one: embeddings, losses and gradients on real graphs.

    python benchmarks/fan_out.py --graphs pubmed wordnet --fan-outs 2 5 10 20

One encoder is trained for `--epochs` steps on the whole graph first, so that weights are not random. Then the same
subgraphs are drawn for each fan-out and for all neighbours, without dropout. Printed for each fan-out, over `--draws`
draws of neighbours: how far H is from the exact one, relative to its length, by one draw and by the mean of all (what
is left of that as draws grow is bias); the same of the gradient of the encoder's first weight; and the losses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.registry import get_method
from fossil.readers.source import open_graph
from fossil.sampling.store import GraphStore
from fossil.training.trainer import Trainer
from measuring import Ledger, Record, parser, ready, table

METHODS = ("fossil_v2", "fossil_channels_v2")


def main() -> None:
    """Print a table for all graphs."""
    made = parser(__doc__, results="fan_out.jsonl")
    made.add_argument("--graphs", nargs="+", default=["pubmed", "coauthor_cs", "wordnet"])
    made.add_argument("--methods", nargs="+", default=METHODS)
    made.add_argument("--fan-outs", type=int, nargs="+", default=[2, 5, 10, 20])
    made.add_argument("--epochs", type=int, default=50)
    made.add_argument("--draws", type=int, default=30)
    made.add_argument("--hidden", type=int, default=256)
    made.add_argument("--width", type=int, default=128)
    arguments = made.parse_args()
    device = ready(arguments, made)
    ledger = Ledger(arguments, ("graph", "method", "epochs", "draws", "fan_outs", "hidden", "width"))
    rows: list[list[object]] = []
    for name in arguments.graphs:
        for method in arguments.methods:
            wanted: Record = {"graph": name, "method": method}
            wanted |= {key: getattr(arguments, key) for key in ("epochs", "draws", "fan_outs", "hidden", "width")}
            found = ledger.obtain(wanted, lambda w=wanted: measure(w, device, arguments.seed))  # type: ignore[misc]
            for one in (found or {}).get("rows", []):
                rows.append([name, method, *one.values()])
                print(rows[-1], flush=True)
    header = ["graph", "method", "fan-out", "nodes read", "H, one draw", "H, mean", "gradient, one draw"]
    print(f"\n{ledger}\n")
    print(table([*header, "gradient, mean", "ot", "node", "exact ot", "exact node"], rows))


def measure(wanted: Record, device: torch.device, seed: int) -> Record:
    """Return a row for each fan-out on one graph."""
    graph = open_graph(wanted["graph"]).graph
    kind = get_method(wanted["method"])
    sizes = {"hidden": wanted["hidden"], "width": wanted["width"]}
    certain = {"dropout": 0.0} | ({"fusion_dropout": 0.0} if "fusion_dropout" in kind.Config.model_fields else {})
    if "edge_dropout" in kind.Config.model_fields:
        certain |= {"edge_dropout": 0.0, "untrained": 0}
    method = kind.build(kind.complete(kind.configure(None, sizes, certain), graph, seed), graph.num_features, seed)
    method.to(device)
    trainer = Trainer(method, method.prepare(graph, device), seed, device)
    trainer.run(wanted["epochs"], lambda step, record: False)
    store = GraphStore.of(graph)
    for name in ("edges", "features"):
        store = store.moved(name, device)
    exact = method.prepare_sampled(store, device, None)  # type: ignore[attr-defined]
    rows = [compared(method, exact, fan_out, wanted["draws"], seed) for fan_out in wanted["fan_outs"]]
    return {"rows": rows, "mean_degree": graph.num_edges / graph.num_nodes}


def compared(method: Any, exact: SampledGraph, fan_out: int, draws: int, seed: int) -> Record:
    """Return how far steps with a fan-out are from the exact one on the same subgraphs."""
    target, slope, losses, _ = looked_at(method, exact, seed, 0)
    given = replace(exact, fan_out=fan_out)
    found = [looked_at(method, given, seed, draw + 1) for draw in range(draws)]
    H, slopes = torch.stack([each[0] for each in found]), torch.stack([each[1] for each in found])
    terms = torch.tensor([each[2] for each in found]).mean(0).tolist()
    return {
        "fan_out": fan_out,
        "read": round(sum(each[3] for each in found) / draws),
        "one": float(((H - target).norm(dim=(1, 2)) / target.norm()).mean()),
        "mean": float((H.mean(0) - target).norm() / target.norm()),
        "slope_one": float(((slopes - slope).norm(dim=(1, 2)) / slope.norm()).mean()),
        "slope_mean": float((slopes.mean(0) - slope).norm() / slope.norm()),
        "ot": terms[0],
        "node": terms[1],
        "exact_ot": losses[0],
        "exact_node": losses[1],
    }


def looked_at(method: Any, graph: SampledGraph, seed: int, draw: int) -> tuple[Tensor, Tensor, list[float], int]:
    """Return H, the gradient of the first weight, the two losses and the nodes read, with neighbours of this draw."""
    device = graph.device
    batch = method.draw_batch(graph, torch.Generator(device).manual_seed(seed))
    random = torch.Generator(device).manual_seed(1_000 + draw)
    if hasattr(method, "generator"):
        block = method.surroundings(graph, batch.targets, 3, random)
        branches = method.encoder(block.features, block.propagation, random)
        generated = method.generator(branches, block, random)
        H, _ = method.fuse(branches.leading(block.num_nodes), block.centrality, random)
        H_hat, _ = method.fuse(generated, block.centrality, random)
        first = method.encoder.first.weight
    else:
        block = method.surroundings(graph, batch.targets, random)
        H, H_hat, first = method.view(block, random), method.view(block, random), method.encoder.first
    compared = method.compared(H, H_hat, batch.pairs.subgraphs)
    terms = [method.subgraph_loss(compared, batch.pairs)[0], method.node_loss(compared)]
    method.zero_grad()
    torch.stack(terms).sum().backward()
    return H.detach(), first.grad.clone(), [float(term) for term in terms], block.features.shape[0]


if __name__ == "__main__":
    main()
