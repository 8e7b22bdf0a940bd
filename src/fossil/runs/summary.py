"""What was learnt, in numbers, and findings: what a user should know before relying on the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fossil.errors import warn_the_caller
from fossil.graph.graph import Array
from fossil.methods.base import NodeVectors
from fossil.methods.registry import Kind
from fossil.nn.effective_rank import effective_rank
from fossil.runs.embeddings import FitResult

_COLLAPSED = 1.5
# Mean share of structure in a vector, below which its edges are as good as ignored: it is far below where the fusion
# loss has driven λ to zero, and a fifth or more where it has not.
_IGNORED = 0.05
_NOTHING = 1e-6
_PERCENTILES = (1, 10, 25, 50, 75, 90, 99)


def summarize(result: FitResult, encoded: NodeVectors, epochs: int, preset: str) -> dict[str, Any]:
    """Return what was learnt in numbers; findings are part of it, and warned of."""
    rank = float(effective_rank(encoded.vectors))
    last = result.history[-1] if result.history else {}
    summary: dict[str, Any] = {
        "epochs": epochs,
        "seconds": last.get("seconds", 0.0),
        "nodes": len(result.ids),
        "width": int(result.vectors.shape[1]),
        "effective_rank": round(rank, 3),
        "last": last,
    }
    if torch.cuda.is_available() and encoded.vectors.is_cuda:
        summary["peak_memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 3)
    findings = []
    if rank < _COLLAPSED and not result.method.needs_labels:  # the scores of two classes do lie on a line
        findings.append(_collapsed(result, rank, preset))
    if result.fusion is not None:
        summary["lambda"] = _distribution(result.fusion)
    if encoded.structure_share is not None and result.graph.num_edges:
        summary["structure_share"] = _distribution(encoded.structure_share.cpu().numpy())
        if summary["structure_share"]["mean"] < _IGNORED:
            findings.append(_edges_ignored(result, summary["lambda"], summary["structure_share"]["mean"]))
    if result.channels is not None and encoded.channel_shares is not None:
        first = np.argmax(list(result.channels.values()), axis=0)
        places = {name: place for place, name in enumerate(result.channels)}
        summary["channels"] = {
            name: {
                "share": share,
                "first_of": float((first == places[name]).mean()),
                **_distribution(result.channels[name]),
            }
            for name, share in encoded.channel_shares.items()
        }
    for finding in findings:
        warn_the_caller(finding)
    return summary | {"findings": findings}


def small(value: float) -> str:
    """Return a number of two digits, or how small it is where nobody wants to know exactly.

    >>> small(0.0312), small(0.0), small(3e-21)
    ('0.031', '0', 'below 1e-06')
    """
    return f"below {_NOTHING:g}" if 0 < value < _NOTHING else f"{value:.2g}"


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.214), percent(0.998), percent(0.0123), percent(1e-9), percent(0.0)
    ('21 %', '99.8 %', '1.2 %', 'less than 0.01 %', '0 %')
    """
    if 0 < share < 1e-4:
        return "less than 0.01 %"
    if share >= 0.99:
        return f"{100 * share:.3g} %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def or_released(kind: Kind, preset: str) -> str:
    """Return the advice to use the released preset, where the method has one and another is in use."""
    return ", or use the released preset" if "released" in kind.presets and preset != "released" else ""


def _distribution(values: Array) -> dict[str, Any]:
    """Return mean, spread and percentiles of a number per node."""
    percentiles = np.percentile(values, _PERCENTILES)
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "percentiles": {str(rank): float(value) for rank, value in zip(_PERCENTILES, percentiles, strict=True)},
    }


def _collapsed(result: FitResult, rank: float, preset: str) -> str:
    """Return the finding that all vectors lie on a line, with what there is to do about it."""
    graph = result.graph
    odd = [str(finding) for finding in graph.findings if "feature" in finding.kind or "in column" in finding.kind]
    return (
        f"The embeddings of {graph.name} collapsed: their effective rank is {rank:.2f}. "
        f"Check that the features differ between nodes{f' ({odd[0]})' if odd else ''}"
        + (
            f", try a lower learning rate or another number of epochs{or_released(type(result.method), preset)}."
            if result.method.trained
            else "."
        )
    )


def _edges_ignored(result: FitResult, fusion: dict[str, Any], share: float) -> str:
    """Return the finding that the vectors are made of features alone, with what there is to do about it."""
    kind, at = type(result.method), fusion["percentiles"]
    switch = (
        "--set encoder=gcn makes every vector read them, and so do" if "encoder" in kind.Config.model_fields else "try"
    )
    return (
        f"{kind.title} hardly uses the edges of {result.graph.name}: λ, the weight of structure, is {small(at['50'])} "
        f"on the median node and {small(at['99'])} at the 99th percentile, so that structure makes up {percent(share)} "
        "of a vector on average, and the rest comes from the node's own features. Where neighbours tell something "
        f"about a node, {switch} methods such as bgrl and grace; score both before you choose."
    )
