"""Accuracy of methods on the paper's graphs, beside the published figures.

Trains one encoder per seed, scores it on several splits under one protocol or several, and appends one record per
encoder and protocol to a JSON-lines file. What the file already holds is not trained again, so that a long table can be
made in several sittings:

    python benchmarks/accuracy.py --seeds 5 --device cuda --precision tf32
    python benchmarks/accuracy.py --preset paper --seeds 3 --device cuda --precision tf32
    python benchmarks/accuracy.py --methods all --device cuda --results benchmarks/results/comparison.jsonl
    python benchmarks/accuracy.py --table-only

Intervals are over encoders: each encoder counts with its mean over splits. A method that trains on labels is scored
on the split of its own seed alone, which must be one of the protocol asked for (`--set split=paper` for `paper`).
With `--methods all` and a `--preset`, methods that have no such preset are left out; with `--direction symmetrize`,
those that make every graph undirected themselves are, because they have that row already.

Features and propagated features, for which nothing is trained, are methods like the others. † marks who does not beat
the better of the two on the same graph, direction and protocol: the difference is paired encoder by encoder, on the
same splits, and its interval must lie above zero; with fewer than three encoders the mean must.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

import fossil
from beating import MARK, floors_of, mark
from fossil.datasets.catalog import known_name
from fossil.evaluation.evaluate import score_result
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.methods.registry import get_method, methods, recipes
from fossil.readers.source import open_graph
from fossil.runs.plan import resolve_epochs
from fossil.settings import parse_assignments
from fossil.training.devices import describe_device, resolve_device
from records import read_records

GRAPHS = ["cora", "citeseer", "pubmed", "coauthor_cs", "actor", "chameleon", "squirrel"]
_WHOLE_TABLE = 5  # encoders
_FOLDER = ("graph", "method", "preset", "direction", "precision", "seed")
RESULTS = Path(__file__).parent / "results" / "accuracy.jsonl"


def main() -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--methods", nargs="+", default=["fossil"], help="names, or all")
    parser.add_argument("--preset", help="the method's first when nothing is said")
    parser.add_argument("--set", dest="assignments", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--direction", default="keep", choices=["keep", "symmetrize", "reverse"])
    parser.add_argument("--protocol", nargs="+", default=["released"], dest="protocols", help="one or several")
    parser.add_argument("--seeds", type=int, default=5, help="encoders")
    parser.add_argument("--first-seed", type=int, default=0, help="that of the first encoder, to share a table out")
    parser.add_argument("--splits", type=int, default=20, help="splits per encoder")
    parser.add_argument("--epochs", type=int, help="those of the recipe, or the method's own, when nothing is said")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further training after this long")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, help="also keep each encoder's run folder below this one")
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument(
        "--overview",
        action="store_true",
        help="print accuracy, time and memory, a row per method and a column per graph",
    )
    arguments = parser.parse_args()
    if arguments.methods == ["all"]:
        arguments.methods = [name for name in sorted(methods()) if _is_new(name, arguments.preset, arguments.direction)]

    try:
        records = read_records(arguments.results, key_of)
    except ValueError as error:
        parser.error(str(error))
    done = {key_of(record) for record in records}
    began = time.perf_counter()
    first = arguments.first_seed
    for seed in range(first, first + (0 if arguments.table_only else arguments.seeds)):
        for graph in arguments.graphs:
            for method in arguments.methods:
                wanted = {
                    "graph": graph,
                    "method": method,
                    "preset": arguments.preset or first_preset(method),
                    "set": parse_assignments(arguments.assignments),
                    "direction": arguments.direction,
                    "epochs": resolve_epochs(
                        get_method(method), graph_of(graph, arguments.direction), arguments.epochs
                    ),
                    "splits": arguments.splits,
                    "precision": arguments.precision,
                    "seed": seed,
                }
                missing = [name for name in arguments.protocols if key_of(wanted | {"protocol": name}) not in done]
                if not missing or time.perf_counter() - began > arguments.seconds:
                    continue
                found = [wanted | one for one in measure(wanted, missing, arguments.device, arguments.runs)]
                records += found
                arguments.results.parent.mkdir(parents=True, exist_ok=True)
                with arguments.results.open("a") as stream:
                    stream.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in found)
                for record in found:
                    name = f"{graph:28}{method:20}{wanted['preset']:9} seed {seed} {record['protocol']}"
                    print(f"{name}: {_outcome(record)}", flush=True)
    (print_overview if arguments.overview else print_table)(records)


def _is_new(method: str, preset: str | None, direction: str) -> bool:
    """Tell whether a method has a row of its own under this preset and direction."""
    kind = get_method(method)
    return preset in (None, *kind.presets) and not (kind.undirected and direction == "symmetrize")


@cache
def graph_of(name: str, direction: str) -> Graph:
    """Read a graph once."""
    return open_graph(name, treatment=Treatment(direction=direction)).graph


def measure(
    wanted: dict[str, Any], protocols: Sequence[str], device: str, runs: Path | None
) -> Iterator[dict[str, Any]]:
    """Train one encoder, and yield what is to be recorded of it under each protocol."""
    where = resolve_device(device)
    graph = graph_of(wanted["graph"], wanted["direction"])
    if where.type == "cuda":
        gc.collect()  # captured steps of earlier trainings hold memory until then
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(where)
    began = time.perf_counter()
    try:
        result = fossil.embed(
            graph,
            method=wanted["method"],
            preset=wanted["preset"],
            settings=wanted["set"],
            seed=wanted["seed"],
            epochs=wanted["epochs"],
            device=device,
            precision=wanted["precision"],
            checkpoint_seconds=600,
            out=None if runs is None else runs / "-".join(str(wanted[name]) for name in _FOLDER),
            force=True,
        )
    except fossil.FossilError as error:
        # A method that fails on a graph has that as its result; the table says why.
        failure = {"accuracy": None, "test_maximum": None, "failed": str(error)}
        failure |= {"seconds": round(time.perf_counter() - began, 2)} | _circumstances(where)
        yield from (failure | {"protocol": name} for name in protocols)
        return
    last = result.history[-1] if result.history else {}
    training = {
        "seconds": round(time.perf_counter() - began, 2),
        "lambda_mean": None if result.fusion is None else float(result.fusion.mean()),
        "effective_rank": last.get("effective_rank"),
        "subgraphs": last.get("subgraphs"),
        "marginal_error": last.get("marginal_error"),
        "peak_memory_gb": torch.cuda.max_memory_allocated(where) / 1e9 if where.type == "cuda" else None,
    } | _circumstances(where)
    for name in protocols:
        began = time.perf_counter()
        rule = protocol(name)
        seeds = rule.rule(known_name(graph)).seeds(wanted["seed"], wanted["splits"], graph.published_splits)
        scores = score_result(result, rule, seeds, str(where))
        maxima = [value.test_maximum for value in scores if value.test_maximum is not None]
        yield training | {
            "protocol": name,
            "accuracy": mean([value.accuracy for value in scores]),
            "validation_accuracy": mean([value.validation_accuracy for value in scores]),
            "macro_f1": mean([value.macro_f1 for value in scores]),
            "majority": mean(score.accuracy for score in NodeClassification(rule).baseline(graph, seeds)),
            "test_nodes": scores[0].test_nodes,
            "test_maximum": mean(maxima) if maxima else None,
            "accuracies": [round(value.accuracy, 5) for value in scores],
            "test_maxima": [round(value, 5) for value in maxima],
            "evaluation_seconds": round(time.perf_counter() - began, 2),
        }


def _circumstances(device: torch.device) -> dict[str, str]:
    return {"device": describe_device(device), "torch": torch.__version__}


def _outcome(record: dict[str, Any]) -> str:
    if "failed" in record:
        return f"failed: {record['failed']}"
    maximum = f" (test maximum {100 * record['test_maximum']:.2f})" if record["test_maximum"] is not None else ""
    return f"{100 * record['accuracy']:.2f}{maximum} in {record['seconds']:.1f} s"


def key_of(record: dict[str, Any]) -> str:
    """Return what makes two records the same measurement."""
    names = ("graph", "method", "preset", "set", "direction", "protocol", "epochs", "splits", "precision", "seed")
    return json.dumps([*(record[name] for name in names), record.get("code")], sort_keys=True)


def print_table(records: list[dict[str, Any]]) -> None:
    """Print a Markdown table: a row per graph, method and settings."""
    rows, floors = defaultdict(dict), floors_of(records)
    for record in records:
        extras = [f"{key}={value}" for key, value in record["set"].items()]
        extras += [record["direction"]] if record["direction"] != "keep" else []
        extras += [record["precision"]] if record["precision"] != "tf32" else []
        extras += [f"({record['code']})"] if "code" in record else []
        variant = " ".join([record["preset"], *extras])
        rows[record["method"], variant, record["protocol"], record["graph"]][record["seed"]] = record  # a seed once
    header = "method|variant|protocol|graph|encoders × splits|accuracy|test maximum|published|seconds|peak GB|λ mean"
    print("| " + " | ".join(header.split("|")) + " |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (method, variant, name, graph), by_seed in rows.items():
        rule, group = protocol(name), list(by_seed.values())
        failed = [record["failed"] for record in group if "failed" in record]
        kept = [record for record in group if "failed" not in record]
        if not kept:
            print(f"| {method} | {variant} | {name} | {graph} | {len(group)} | failed: {failed[0]} | | | | | |")
            continue
        maxima = [record["test_maximum"] for record in kept if record["test_maximum"] is not None]
        recipe = recipes(method).get(graph)
        lambdas = [record["lambda_mean"] for record in kept if record["lambda_mean"] is not None]
        cells = [
            method,
            variant,
            name,
            graph,
            f"{len(kept)} × {len(kept[0].get('accuracies', [])) or kept[0]['splits']}"
            + (f" ({len(failed)} failed)" if failed else ""),
            rule.summarize([record["accuracy"] for record in kept]).percent() + mark(kept, floors),
            rule.summarize(maxima).percent() if maxima else "",
            f"{recipe.published:.2f}" if recipe and recipe.published else "",
            f"{sum(record['seconds'] for record in kept) / len(kept):.1f}",
            f"{max(record['peak_memory_gb'] or 0 for record in kept):.2f}",
            f"{sum(lambdas) / len(lambdas):.2g}" if lambdas else "",
        ]
        print("| " + " | ".join(cells) + " |")
    print(f"\n{MARK} does not beat the better of features and propagated features, for which nothing is trained")


def print_overview(records: list[dict[str, Any]]) -> None:
    """Print accuracy under each protocol, time and memory: a row per method and preset, a column per graph.

    A directed graph has two columns, edges as the files have them and edges in both directions.
    """
    usual = [record for record in records if not record["set"]]
    both = {record["graph"] for record in usual if record["direction"] == "symmetrize"}
    graphs = [graph for graph in GRAPHS if any(record["graph"] == graph for record in usual)]
    columns = [(graph, way) for graph in graphs for way in (("keep", "symmetrize") if graph in both else ("keep",))]
    heads = [
        {"keep": f"{graph} →", "symmetrize": f"{graph} ↔"}[way] if graph in both else graph for graph, way in columns
    ]
    cells = defaultdict(dict)
    for record in usual:
        way = (
            "symmetrize" if record["graph"] in both and get_method(record["method"]).undirected else record["direction"]
        )
        row = record["method"], record["preset"]
        cells[record["protocol"], row, record["graph"], way][record["seed"]] = record  # a seed counts once
    rows = sorted({row for _, row, _, _ in cells}, key=lambda row: (row[1] != first_preset(row[0]), row[0]))
    protocols = list(dict.fromkeys(record["protocol"] for record in usual))
    for name in protocols:
        bracket = ", [published]" if protocol(name).optimistic else ""
        print(f"Accuracy in percent under `{name}`, ± half its 95 % interval over encoders{bracket}:\n")
        _print_columns(heads)
        majority = [_majority(records, name, graph) for graph, _ in columns]
        print("| majority | " + " | ".join("–" if one is None else f"{100 * one:.1f}" for one in majority) + " |")
        groups = {(row, column): list(cells[name, row, *column].values()) for row in rows for column in columns}
        floors = floors_of(usual)
        unlabelled = [row for row in rows if not get_method(row[0]).needs_labels]
        best = {column: max(unlabelled, key=lambda row: _mean_of(groups[row, column])) for column in columns}
        for row in rows:
            found = [
                accuracy_cell(row, column[0], groups[row, column], best[column] == row)
                + mark([one | {"direction": column[1]} for one in groups[row, column] if "failed" not in one], floors)
                for column in columns
            ]
            print(f"| {_row_title(row)} | {' | '.join(found)} |")
        print()
    for title, cell in (
        ("Seconds of a training, median", seconds_cell),
        ("Peak memory in GB, the least over encoders", memory_cell),
    ):
        print(f"{title}:\n")
        _print_columns(heads)
        for row in rows:
            found = [cell(list(cells[protocols[0], row, *column].values())) for column in columns]
            print(f"| {_row_title(row)} | {' | '.join(found)} |")
        print()


def _print_columns(heads: Sequence[str]) -> None:
    print("| method | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 1) + "|")


def _row_title(row: tuple[str, str]) -> str:
    """Return a method's title, its preset unless it is the first, and a mark where that is not the official code."""
    (method, preset), kind = row, get_method(row[0])
    if preset != first_preset(method):
        return f"{kind.title}, {preset}"
    return f"{kind.title} *" if "released" in kind.presets and preset != "released" else kind.title


def _majority(records: list[dict[str, Any]], name: str, graph: str) -> float | None:
    """Return the accuracy of the most frequent training class on the splits of a protocol."""
    found = [
        one["majority"] for one in records if (one["protocol"], one["graph"]) == (name, graph) and "majority" in one
    ]
    return mean(found) if found else None


def first_preset(method: str) -> str:
    """Return the preset that a method has when nothing is said."""
    return next(iter(get_method(method).presets))


def accuracy_cell(row: tuple[str, str], graph: str, group: list[dict[str, Any]], is_best: bool) -> str:
    """Return the mean over encoders with its interval, their number unless it is five, and the published figure.

    The published figure stands beside the first preset under the protocol that has a test maximum, which it is one of.
    """
    if not group:
        return "–"
    rule, recipe = protocol(group[0]["protocol"]), recipes(row[0]).get(graph)
    comparable = rule.optimistic and row[1] == first_preset(row[0])
    published = f" [{recipe.published:.1f}]" if comparable and recipe and recipe.published else ""
    kept = [record["accuracy"] for record in group if "failed" not in record]
    if not kept:
        return "failed" + published
    found = rule.summarize(kept)
    mark = "**" if is_best else ""
    spread = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    count = f" ({len(kept)})" if len(kept) != _WHOLE_TABLE else ""
    return f"{mark}{100 * found.mean:.1f}{mark}{spread}{count}{published}"


def _mean_of(group: list[dict[str, Any]]) -> float:
    return mean([record["accuracy"] for record in group if "failed" not in record] or [0.0])


def seconds_cell(group: list[dict[str, Any]]) -> str:
    """Return the median time of a training: the first of a process also compiles kernels."""
    return f"{median(record['seconds'] for record in group):.1f}" if group else "–"


def memory_cell(group: list[dict[str, Any]]) -> str:
    """Return the least peak: others may include what earlier trainings had not given back."""
    peaks = [record["peak_memory_gb"] for record in group if record.get("peak_memory_gb")]
    return f"{min(peaks):.2f}" if peaks else "–"


if __name__ == "__main__":
    main()
