from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from ring_graph import fit_ring, ring

import fossil
from fossil.errors import FossilWarning
from fossil.graph.findings import Finding
from fossil.runs.summary import small

BLOCKS = "csbm:nodes=200,homophily=0.8,features=12"
SMALL = {"hidden": 32, "width": 16, "num_anchors": 40, "subgraph_size": 5}


def test_a_collapse_is_explained_by_what_was_found_about_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ring()
    found = (Finding("self loops", 2, "removed"), Finding("zero feature rows", 3, "kept", ("n1",)))
    object.__setattr__(loaded.graph, "findings", found)
    monkeypatch.setattr("fossil.runs.summary.effective_rank", lambda vectors: torch.tensor(1.0))
    with pytest.warns(FossilWarning, match=r"\(3 zero feature rows: kept \(for example n1\)\)"):
        fit_ring(loaded)


def test_edges_that_are_ignored_are_a_finding(tmp_path: Path) -> None:
    with pytest.warns(FossilWarning, match="FOSSIL hardly uses the edges of csbm") as caught:
        result = fossil.embed(BLOCKS, method="fossil", settings=SMALL, epochs=80, device="cpu", out=tmp_path / "run")
    summary = fossil.load(tmp_path / "run").summary
    assert result.fusion is not None
    at = summary["lambda"]["percentiles"]
    assert at == pytest.approx({rank: np.percentile(result.fusion, int(rank)) for rank in at})
    assert summary["structure_share"]["mean"] < 0.05
    [finding] = summary["findings"]
    # A folder speaks the language of the command line, a warning that of its caller.
    assert finding.replace("--set encoder=gcn", "settings={'encoder': 'gcn'}") == str(caught[0].message)
    assert (
        f"λ, the weight of structure, is {small(at['50'])} on the median node" in finding and "encoder=gcn" in finding
    )


def test_edges_that_are_used_are_no_finding(tmp_path: Path) -> None:
    kept = SMALL | {"fusion_l2": 0.0, "fusion_mean": 1e6}  # nothing draws λ to zero; any warning is an error here
    fossil.embed(BLOCKS, method="fossil", settings=kept, epochs=80, device="cpu", out=tmp_path / "run")
    summary = fossil.load(tmp_path / "run").summary
    assert summary["findings"] == [] and summary["structure_share"]["mean"] > 0.2


def test_an_encoder_without_lambda_has_no_share_of_structure(tmp_path: Path) -> None:
    fossil.embed(
        BLOCKS, method="fossil", settings=SMALL | {"encoder": "gcn"}, epochs=3, device="cpu", out=tmp_path / "run"
    )
    assert not {"lambda", "structure_share"} & set(fossil.load(tmp_path / "run").summary)
