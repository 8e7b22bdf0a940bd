"""Where a run comes from: what was asked for, what differs from the defaults, how training went, versions."""

from __future__ import annotations

import json
import shlex
from typing import Any

from fossil.datasets.catalog import known_name
from fossil.errors import RunError
from fossil.methods import DEFAULT_METHOD
from fossil.methods.registry import get_method
from fossil.report.contract import Fact, Series, Setting, Training
from fossil.runs.plan import as_asked, resolve_epochs, resolve_settings
from fossil.runs.run import Run
from fossil.runs.summary import percent, small
from fossil.settings import exactly, meaning, spelt
from fossil.storage import read_bytes, read_json
from fossil.training.trainer import TrainingSettings

_LONGEST = 1000  # records of a curve; of longer histories every so many are kept


def changed_settings(run: Run) -> list[Setting]:
    """Return what sets a run apart from the method's own defaults on its graph."""
    config, graph = run.config, run.graph
    kind = get_method(config.method)
    _, expected = resolve_settings(kind, None, known_name(graph), {})
    usual = as_asked(kind, kind.complete(expected, graph, config.seed)).model_dump()
    actual = as_asked(kind, config.settings).model_dump()
    found = [
        Setting(name, exactly(value), exactly(usual[name]), meaning(kind.Config, name))
        for name, value in actual.items()
        if usual[name] != value
    ]
    epochs = resolve_epochs(kind, graph, None)
    if config.training.epochs != epochs:
        found.append(Setting("epochs", str(config.training.epochs), str(epochs), "how long to train"))
    return found


def same_command(run: Run) -> str:
    """Return a command that asks for the same training of the same source."""
    config, kind = run.config, get_method(run.config.method)
    words = ["fossil", "embed", config.source or config.graph]
    if config.method != DEFAULT_METHOD:
        words += ["--method", config.method]
    if config.preset != next(iter(kind.presets)):
        words += ["--preset", config.preset]
    for setting in changed_settings(run):
        words += (
            ["--epochs", setting.value] if setting.name == "epochs" else ["--set", f"{setting.name}={setting.value}"]
        )
    for name, value in config.treatment.model_dump(exclude_defaults=True).items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [flag, spelt(value)]
    if run.plan is not None:
        words += ["--structural-features"] if run.plan.structural else []
        words += ["--label", run.plan.label_column] if run.plan.label_column else []
        # Empty columns, which have a note, are left out by themselves.
        for column in (one for one in run.plan.columns if one.role == "drop" and not one.note):
            words += ["--column", f"{column.name}=drop"]
    if config.training.precision != TrainingSettings().precision:
        words += ["--precision", config.training.precision]
    return shlex.join([*words, "--seed", str(config.seed), "--out", "RUN"])


def provenance(run: Run) -> list[Fact]:
    """Return the command, the seed, versions and digests."""
    config = run.config
    facts = {
        "a command that asks for the same": same_command(run),
        "source": config.source,
        "method": get_method(config.method).paper or config.method,
        "preset": config.preset,
        "seed": str(config.seed),
        "precision": config.training.precision,
        "graph": f"{config.graph}, fingerprint {config.fingerprint}",
        "identity of the weights": config.identity,
    }
    facts |= {name: str(value) for name, value in _environment(run).items()}
    treated = config.treatment.model_dump()
    facts["treatment"] = ", ".join(f"{name}={spelt(value)}" for name, value in treated.items())
    for name, digest in run.summary.get("files", {}).items():
        facts[f"SHA-256 of {name}"] = str(digest)
    return [Fact(name, value) for name, value in facts.items() if value]


def _environment(run: Run) -> dict[str, Any]:
    try:
        found = read_json(run.path / "environment.json")
        return {name: found[name] for name in ("python", "platform", "device", "threads")} | dict(found["versions"])
    except (RunError, KeyError, TypeError, ValueError):
        return {"versions": "environment.json is missing or damaged"}


def summary_facts(run: Run) -> list[Fact]:
    """Return what was learnt, in numbers."""
    summary = run.summary
    facts = {
        "vectors": f"{summary['nodes']:,} of width {summary['width']}",
        "effective rank": f"{summary['effective_rank']}",
        "epochs": f"{summary['epochs']:,}" if run.config.training.epochs else "none, nothing is trained",
        "time of training": f"{summary['seconds']:.1f} s",
    }
    if "lambda" in summary:
        at = summary["lambda"]["percentiles"]
        facts["λ, weight of structure"] = (
            f"mean {small(summary['lambda']['mean'])}, median {small(at['50'])}, "
            f"{small(at['1'])} to {small(at['99'])} on 98 % of the nodes"
        )
    if "structure_share" in summary:
        facts["structure in a vector"] = percent(summary["structure_share"]["mean"])
    for name, each in summary.get("channels", {}).items():
        share, first_of = 100 * each["share"], 100 * each["first_of"]
        facts[f"channel {name}"] = f"{share:.1f} % of a vector, trusted most by {first_of:.1f} % of the nodes"
    return [Fact(name, value) for name, value in facts.items()]


def training_curves(run: Run) -> Training:
    """Return what was recorded, epoch by epoch; nothing where there is no history."""
    try:
        lines = read_bytes(run.path / "history.jsonl").splitlines()
        records = [json.loads(line) for line in lines]
        every = -(-len(records) // _LONGEST) or 1
        records = [*records[::every], *(records[-1:] if (len(records) - 1) % every else [])]
        names = dict.fromkeys(name for record in records for name in record if name not in ("epoch", "seconds"))
        series = [Series(name, [_number(record.get(name)) for record in records]) for name in names]
        return Training([int(record["epoch"]) for record in records], series)
    except (RunError, ValueError, TypeError, KeyError, AttributeError):
        return Training([], [])


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
