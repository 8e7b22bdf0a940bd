"""Run folders to damage: one that is finished, one that stopped half-way, and what people do with each."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import samples

from fossil.methods.registry import Kind, get_method
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.runs.run import Run

HALF, WHOLE = 3, 5
METHOD = "muse"  # it has λ as well as vectors, and needs nothing compiled


def small(kind: Kind) -> dict[str, Any]:
    """Return settings of a method for a graph of a few dozen nodes."""
    free = {name: value for name, value in kind.small.items() if name not in kind.filled_in}
    return {name: value for name, value in free.items() if not kind.Config.conditions(name)}


def train(folder: Path, epochs: int, *, method: str = METHOD, seed: int = 0, resume: bool = False) -> Any:
    """Train on the town in `folder` into its folder `run`."""
    training = {"device": "cpu", "checkpoint_seconds": 0} | ({"epochs": epochs} if get_method(method).trained else {})
    settings = small(get_method(method))
    plan = plan_run(
        folder / "nodes.csv",
        method=method,
        settings=settings,
        training=training,
        seed=seed,
        out=folder / "run",
        resume=resume,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(plan)


def finished(folder: Path, seed: int) -> None:
    """Make a run that is over; another graph and another seed for another `seed`."""
    samples.town(folder, seed=seed)
    train(folder, HALF, seed=seed)


def stopped(folder: Path, seed: int) -> None:
    """Make a run that stopped after some epochs: what a kill leaves behind."""
    finished(folder, seed)
    for name in ("summary.json", "weights.safetensors", "embeddings.npz", "embeddings.parquet"):
        (folder / "run" / name).unlink(missing_ok=True)


def open_whole(folder: Path) -> object:
    """Open the run and ask for all that it holds."""
    run = Run.open(folder / "run")
    found = run.embeddings
    return {
        "config": run.config.to_dict(),
        "summary": run.summary,
        "graph": run.graph,
        "plan": None if run.plan is None else run.plan.to_json(),
        "embeddings": [found.ids, found.vectors, found.fusion, found.channels],
        "weights": run.load_method().state_dict(),
    }


def resume_whole(folder: Path) -> object:
    """Go on with the run to its last epoch, and return what the folder holds then."""
    train(folder, WHOLE, resume=True)
    return {"run": open_whole(folder), "history": history(folder / "run")}


def history(run: Path) -> list[dict[str, Any]]:
    """Return the records of a run, without the time they took."""
    records = map(json.loads, (run / "history.jsonl").read_text().splitlines())
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]
