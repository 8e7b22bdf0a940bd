"""What one process computes, or several together: usage `python divided_steps.py OUT.pt`, which the first one writes.

All of it in float64, so that the order of sums is far below what is compared.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.registry import get_method
from fossil.ops.features import FeatureMatrix
from fossil.ops.infonce import node_contrast
from fossil.ops.ranks import Ranks, all_gather, divided_among
from fossil.readers.source import open_graph
from fossil.sampling.store import GraphStore
from fossil.training.distributed import average_gradients, exit_process, process_group
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
SEED = 3
STEPS = 12
# 7 anchors are divided evenly by nothing; three problems each.
SMALL = {"num_anchors": 7, "subgraph_size": 4}
CONTRASTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "v2": ("fossil_v2", {}),
    "v1": ("fossil", {}),
    "the paper's letter": ("fossil_v2", {"structure_cost": "adjacency", "negatives": "shared"}),
    "unrolled": ("fossil_v2", {"solver_gradient": "unrolled"}),
    "pooled": ("fossil_v2", {"similarity": "pooled_cosine"}),
    "two subgraphs": ("fossil_v2", {"num_anchors": 2}),
}
TRAININGS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "fossil_v2": ("fossil_v2", {"hidden": 12, "width": 6, "fusion_hidden": 5}),
    "fossil_v2, second pass": ("fossil_v2", {"hidden": 12, "width": 6, "fusion_hidden": 5, "fusion_pass": "second"}),
    "fossil_channels_v2": ("fossil_channels_v2", {"hidden": 12, "width": 6, "untrained": 4}),
}

SAMPLED = TRAININGS


def losses(graph: Graph, name: str, further: dict[str, Any], ranks: Ranks) -> dict[str, Tensor]:
    """Return both losses of random embeddings, and the gradients that a step would take."""
    kind = get_method(name)
    config = kind.configure(None, SMALL | further)
    method = kind.build(kind.complete(config, graph, SEED), graph.num_features, SEED)
    prepared = method.prepare(graph, CPU)
    random = torch.Generator().manual_seed(SEED)
    H, H_hat = (
        torch.nn.Parameter(torch.randn(graph.num_nodes, 5, generator=random, dtype=torch.float64)) for _ in range(2)
    )
    with divided_among(ranks):
        pairs = in_float64(method.sample(prepared.sampler, random))
        compared = method.compared(H, H_hat, pairs.subgraphs)
        ot, solution = method.subgraph_loss(compared, pairs)
        node = method.node_loss(compared)
        torch.autograd.backward([ot, node])
    average_gradients(ranks, (H, H_hat))
    found = {"ot": ot.detach(), "node": node.detach(), "for H": H.grad, "for Ĥ": H_hat.grad}
    return found if solution is None else found | {"row error": solution.row_error}


def contrast_in_tiles(ranks: Ranks) -> dict[str, Tensor]:
    """Return the node loss alone, in tiles that are many and uneven, with rows that take no part."""
    random = torch.Generator().manual_seed(SEED)
    views = [torch.nn.Parameter(torch.randn(37, 3, generator=random, dtype=torch.float64)) for _ in range(2)]
    with divided_among(ranks):
        loss = node_contrast(*views, temperature=0.4, count=torch.tensor(31), tile_rows=5)
        loss.backward()
    average_gradients(ranks, views)
    return {"loss": loss.detach(), "for H": views[0].grad, "for Ĥ": views[1].grad}


def joined_shares(ranks: Ranks) -> dict[str, Tensor]:
    """Return 3 rows of which every rank has a share, some none, and the gradient of a sum that all ranks share."""
    weight = torch.nn.Parameter(torch.tensor([[2.0], [3.0], [5.0]], dtype=torch.float64))
    with divided_among(ranks):
        whole = all_gather(weight[ranks.share(3)] ** 2, 3)
        (whole * torch.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    average_gradients(ranks, [weight])
    return {"whole": whole.detach(), "gradient": weight.grad}


def trained(
    graph: Graph, name: str, further: dict[str, Any], ranks: Ranks, *, sampled: bool = False
) -> dict[str, Tensor]:
    """Return weights and vectors after some steps; every rank but the first begins with other weights."""
    kind = get_method(name)
    config = kind.complete(kind.configure(None, SMALL | further), graph, SEED)
    method = kind.build(config, graph.num_features, SEED + ranks.rank).double()
    whole = in_float64(method.prepare(graph, CPU))
    prepared = whole
    if sampled:
        parts = method.prepare_sampled(GraphStore.of(graph, method.edge_directions), CPU, 2)
        prepared = dataclasses.replace(parts, dtype=torch.float64)
    trainer = Trainer(method, prepared, SEED, CPU, ranks=ranks)
    losses = []
    trainer.run(STEPS, lambda _, record: losses.append(record["contrast"]) or False)
    trainer.close()
    return {**method.state_dict(), "vectors": method.eval().encode(whole).vectors, "losses": losses[-1]}


def in_float64(value: Any) -> Any:
    """Return a prepared graph with every number in float64."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, FeatureMatrix):
        return FeatureMatrix(in_float64(value.data))
    if isinstance(value, dict):
        return {name: in_float64(each) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(in_float64, value))
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(
            value, **{each.name: in_float64(getattr(value, each.name)) for each in dataclasses.fields(value)}
        )
    return value


def main(out: Path) -> None:
    graph = open_graph("csbm:nodes=60,features=8").graph
    with process_group() as processes:
        ranks = processes.join("cpu")
        found = {f"contrast/{case}": losses(graph, *chosen, ranks) for case, chosen in CONTRASTS.items()}
        found |= {f"training/{case}": trained(graph, *chosen, ranks) for case, chosen in TRAININGS.items()}
        found |= {f"sampled/{case}": trained(graph, *chosen, ranks, sampled=True) for case, chosen in SAMPLED.items()}
        found |= {"tiles": contrast_in_tiles(ranks), "shares": joined_shares(ranks)}
        if ranks.leads:
            torch.save({f"{case}/{name}": value for case, of in found.items() for name, value in of.items()}, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    exit_process()
