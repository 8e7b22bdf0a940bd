"""Studies that take a second: random graphs of a few dozen nodes, few epochs, narrow vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fossil.studies.execute import run_study
from fossil.studies.plan import StudyPlan, open_study
from fossil.studies.record import Record
from fossil.studies.results import Results
from fossil.studies.store import Store
from fossil.studies.work import Options, Reporter

GRAPH = "csbm:nodes=60,features=8,degree=6"
DGI = {"method": "dgi", "title": "DGI", "epochs": 3, "settings": {"width": 8}}
CPU = Options(device="cpu")


def values(**changes: Any) -> dict[str, Any]:
    """Return the content of a small study file."""
    base: dict[str, Any] = {
        "name": "small",
        "graphs": [GRAPH],
        "methods": ["features", DGI],
        "seeds": 2,
        "splits": 2,
        "protocols": ["paper"],
    }
    return base | changes


def write(folder: Path, **changes: Any) -> Path:
    """Write a small study file."""
    file = folder / f"{changes.get('name', 'small')}.yaml"
    file.write_text(yaml.safe_dump(values(**changes)), encoding="utf-8")
    return file


class Seen:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.finished_keys: list[str] = []

    def started(self, cell: object) -> None:
        pass

    def finished(self, cell: Any, record: Record) -> None:
        self.finished_keys.append(cell.key)

    def waiting(self, cells: int) -> None:
        pass


def run(file: Path, options: Options = CPU, reporter: Reporter | None = None) -> Results:
    """Do what is missing of a study, and return its results."""
    plan, graphs = open_study(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    run_study(plan, graphs, store, options, reporter)
    return Results(plan, store)


def trained(file: Path, options: Options = CPU) -> list[str]:
    """Do what is missing, and return the keys of what was trained."""
    seen = Seen()
    run(file, options, seen)
    return seen.finished_keys


def planned(file: Path) -> StudyPlan:
    """Plan a study."""
    return open_study(file)[0]
