"""What was learnt, in numbers, and a warning where it is nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from fossil.errors import FossilWarning
from fossil.methods.base import NodeVectors
from fossil.methods.registry import Kind
from fossil.nn.contrast import effective_rank
from fossil.runs.embeddings import FitResult

_COLLAPSED = 1.5


def summarize(result: FitResult, encoded: NodeVectors, epochs: int, preset: str) -> dict[str, Any]:
    """Return what was learnt in numbers, and warn about a collapse."""
    rank = float(effective_rank(encoded.vectors))
    if rank < _COLLAPSED and not result.method.needs_labels:  # the scores of two classes do lie on a line
        _warn_of_collapse(result, rank, preset)
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
    if result.fusion is not None:
        quartiles = np.percentile(result.fusion, [25, 50, 75])
        summary["lambda"] = {
            "mean": float(result.fusion.mean()),
            "median": float(quartiles[1]),
            "quartiles": [float(quartiles[0]), float(quartiles[2])],
            "std": float(result.fusion.std()),
        }
    return summary


def or_released(kind: Kind, preset: str) -> str:
    """Return the advice to use the released preset, where the method has one and another is in use."""
    return ", or use the released preset" if "released" in kind.presets and preset != "released" else ""


def _warn_of_collapse(result: FitResult, rank: float, preset: str) -> None:
    """Warn about vectors that all lie on a line, with what there is to do about it."""
    graph = result.graph
    odd = [str(finding) for finding in graph.findings if "feature" in finding.kind or "in column" in finding.kind]
    warnings.warn(
        f"The embeddings of {graph.name} collapsed: their effective rank is {rank:.2f}. "
        f"Check that the features differ between nodes{f' ({odd[0]})' if odd else ''}, try a lower learning rate or "
        f"another number of epochs{or_released(type(result.method), preset)}.",
        FossilWarning,
        stacklevel=4,
    )
