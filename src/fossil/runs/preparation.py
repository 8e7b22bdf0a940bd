"""The whole graph on the device, or parts of it as they are needed: decided, and said, before anything is trained."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import torch

from fossil.errors import GraphError, SettingError
from fossil.graph.graph import Graph
from fossil.guard.budget import in_bytes
from fossil.methods.base import Method
from fossil.methods.registry import Kind, methods
from fossil.ops.memory import free_memory
from fossil.ops.ranks import ALONE, Ranks
from fossil.training.capabilities import DrawsBatches, TrainsOnSamples, is_out_of_memory, step_memory
from fossil.training.distributed import all_reduce_max
from fossil.training.placement import Placed, host_store, place
from fossil.training.trainer import TrainingSettings

_WHOLE_BY_DEFAULT = ("fossil", "fossil_channels")  # they contrast a node with all others; their v2 does not


class Prepared(NamedTuple):
    """A graph as a method trains on it.

    Attributes:
        graph: what the method's `prepare` or `prepare_sampled` returned.
        is_sampled: whether it was the latter.
        places: where its arrays lie, if it was.
        reason: why steps read parts of the graph, in words, where nobody asked for it.
    """

    graph: Any
    is_sampled: bool = False
    places: tuple[Placed, ...] = ()
    reason: str = ""

    def describe(self, fan_out: int) -> str:
        """Return in a line how sampled steps are taken."""
        neighbours = f"{fan_out} neighbours of a node at most" if fan_out else "all neighbours of a node"
        batch = getattr(self.graph, "batch_nodes", None)
        nodes = "the sampled nodes" if batch is None else f"{min(batch, self.graph.num_nodes):,} nodes drawn uniformly"
        because = f", because {self.reason}" if self.reason else ""
        where = "; ".join(map(str, self.places))
        return f"sampled: steps read the surroundings of {nodes}, {neighbours}{because}; {where}"


def prepare(
    model: Method[Any], graph: Graph, training: TrainingSettings, device: torch.device, ranks: Ranks = ALONE
) -> Prepared:
    """Bring a graph to where a method trains on it: in every one of several processes in the same way.

    Raises:
        SettingError: it is to be trained on samples, and cannot be.
        GraphError: the whole graph does not fit, and there is no other way; before any memory is taken.
    """
    if training.sampled == "always":
        return _prepare_sampled(model, graph, training, device, ranks)
    needs_whole, free = why_whole(model), free_memory(device)
    if training.sampled == "never" or needs_whole is not None:
        if free is not None and whole_bytes(graph) > free:
            raise _does_not_fit(type(model), graph, device, free, needs_whole)
        return Prepared(model.prepare(graph, device))
    whole, reason = _try_whole(model, graph, device, free, ranks)
    # Steps on all and steps on parts draw other numbers: where one process has no room for all, none takes it.
    if not all_reduce_max(ranks, int(whole is None)):
        return Prepared(whole)
    whole = None
    gc.collect()
    reason = reason or "the whole graph does not fit beside another process of this training"
    return _prepare_sampled(model, graph, training, device, ranks, reason)


def _try_whole(
    model: Method[Any], graph: Graph, device: torch.device, free: int | None, ranks: Ranks
) -> tuple[Any | None, str]:
    """Return the whole graph as a method trains on it; or None where it or a step on it does not fit, and why."""
    least = whole_bytes(graph)
    if free is not None and least > free:
        return None, f"the whole graph takes {in_bytes(least)}"
    try:
        whole = model.prepare(graph, device)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return None, "the whole graph does not fit"
    needed = ranks.co_located * (step_memory(model, whole) or 0.0)
    if free is not None and needed > (left := free_memory(device) or 0):
        together = "" if ranks.co_located == 1 else f" in {ranks.co_located} processes"
        there = f"{needed / 2**30:,.1f} GiB{together} and {left / 2**30:,.1f} are free"
        return None, f"a step on the whole graph takes {there}"
    return whole, ""


def _prepare_sampled(
    model: Method[Any],
    graph: Graph,
    training: TrainingSettings,
    device: torch.device,
    ranks: Ranks,
    reason: str = "",
) -> Prepared:
    """Place the arrays of a graph where there is room for them beside a step on parts of it."""
    check_whole(type(model), graph, training, device)
    assert isinstance(model, TrainsOnSamples)
    try:
        model.check_sampled()
    except SettingError as error:
        raise SettingError(f"{error.what} {_size_of(graph)}", remedy=error.remedy) from error
    if isinstance(model, DrawsBatches):
        model.batch_nodes = training.batch_nodes
    if graph.num_features == 0:
        raise GraphError(
            f"{graph.name} has no features.", remedy="Make some from the edges with --structural-features."
        )
    store, mapped = host_store(graph, model.edge_directions)
    fan_out = training.fan_out or None
    on_host = model.prepare_sampled(store, device, fan_out)  # tells what a step takes
    store, places = place(store, device, step_memory(model, on_host) or 0.0, mapped=mapped, ranks=ranks)
    prepared = on_host if device.type == "cpu" else model.prepare_sampled(store, device, fan_out)
    return Prepared(prepared, True, tuple(places), reason)


# Which methods need the whole graph, and what it takes.


def can_sample(kind: Kind) -> bool:
    """Tell whether a method can be trained on samples, with some settings at least."""
    return all(hasattr(kind, name) for name in ("edge_directions", "check_sampled", "prepare_sampled", "inference"))


def why_whole(model: Method[Any]) -> str | None:
    """Return why a model has to have the whole graph, in words; None where it can be trained on samples."""
    if not isinstance(model, TrainsOnSamples):
        return model.whole_because
    try:
        model.check_sampled()
    except SettingError as error:
        return error.what.removesuffix(".")
    return None


def whole_bytes(graph: Graph) -> int:
    """Return what features and edges of a graph take at least where a method has them all."""
    features = 12 * graph.features.nnz if graph.has_sparse_features else 4 * graph.num_nodes * graph.num_features
    return features + 12 * graph.num_edges


def check_whole(kind: Kind, graph: Graph, training: TrainingSettings, device: torch.device) -> None:
    """Refuse a method that has to have the whole graph where it is told otherwise, or where that does not fit.

    Nothing is allocated before: not the graph on the device, and not the weights.

    Raises:
        SettingError: it is to be trained on samples.
        GraphError: features and edges take more than is free.
    """
    if can_sample(kind):
        return
    if training.sampled == "always":
        raise SettingError(
            f"{kind.title} needs the whole graph at every step, and cannot be trained on samples: "
            f"{kind.whole_because}. {_size_of(graph)}",
            remedy=f"{_how_to_sample()} Or leave --sampled out.",
        )
    free = free_memory(device)
    if free is not None and whole_bytes(graph) > free:
        raise _does_not_fit(kind, graph, device, free, kind.whole_because)


def _does_not_fit(kind: Kind, graph: Graph, device: torch.device, free: int, needs_whole: str | None) -> GraphError:
    """Return what to raise where the whole graph does not fit.

    Args:
        kind: the method.
        graph: the graph.
        device: where it should be.
        free: bytes there.
        needs_whole: why the method has to have it; None where it was only told not to train on samples.
    """
    return GraphError(
        f"{kind.title} needs the whole graph on {device}: {needs_whole or 'it was told not to train on samples'}. "
        f"{_size_of(graph)} {in_bytes(free)} are free.",
        remedy=_how_to_sample()
        if needs_whole
        else "Leave --no-sampled out. Studies take no samples: they need a device with more memory.",
    )


def _how_to_sample() -> str:
    names = sorted(name for name, kind in methods().items() if can_sample(kind) and name not in _WHOLE_BY_DEFAULT)
    return f"Use a method that can train on parts of a graph (--method {', '.join(names)})."


def _size_of(graph: Graph) -> str:
    return (
        f"Features and edges of {graph.name} ({graph.num_nodes:,} nodes, {graph.num_edges:,} edges) alone take "
        f"{in_bytes(whole_bytes(graph))}."
    )
