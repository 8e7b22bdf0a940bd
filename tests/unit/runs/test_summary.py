from __future__ import annotations

import pytest
import torch
from ring_graph import fit_ring, ring

from fossil.errors import FossilWarning
from fossil.graph.findings import Finding


def test_a_collapse_is_explained_by_what_was_found_about_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ring()
    found = (Finding("self loops", 2, "removed"), Finding("zero feature rows", 3, "kept", ("n1",)))
    object.__setattr__(loaded.graph, "findings", found)
    monkeypatch.setattr("fossil.runs.summary.effective_rank", lambda vectors: torch.tensor(1.0))
    with pytest.warns(FossilWarning, match=r"\(3 zero feature rows: kept \(for example n1\)\)"):
        fit_ring(loaded)
