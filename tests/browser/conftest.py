from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fossil
from browser import BROWSER, DRIVER, MISSING, chromium
from fossil.datasets.synthetic import csbm
from fossil.errors import FossilWarning
from fossil.report.page import write_report
from fossil.runs.run import Run

NODES = 300
SMALL = {"hidden": 16, "width": 8, "subgraph_size": 5, "num_anchors": 20}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("selenium")
    if BROWSER is None or DRIVER is None:
        pytest.skip(MISSING)
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about two runs of one small graph."""
    folder = tmp_path_factory.mktemp("report")
    graph = csbm(NODES, degree=8, features=6, homophily=0.8, signal=900.0, seed=1)
    for method in ("fossil", "fossil_channels"):
        small = SMALL | ({} if method == "fossil" else {"untrained": 4})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FossilWarning)  # FOSSIL hardly uses these edges, which the page then says
            fossil.embed(graph, method=method, epochs=3, settings=small, out=folder / method)
    runs = [Run.open(folder / method) for method in ("fossil", "fossil_channels")]
    write_report(folder / "report.html", runs, splits=3, device="cpu")
    return folder / "report.html"
