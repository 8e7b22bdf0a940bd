"""How far every method is from one of them, paired by seed, in records of `accuracy.py`.

    python benchmarks/paired.py benchmarks/results/comparison.jsonl --reference fossil
    python benchmarks/paired.py benchmarks/results/comparison.jsonl --reference dgi --graphs cora citeseer

An encoder counts with its mean over the splits that both were scored on; the difference of two encoders of one seed is
one value, and the interval is over seeds (Student's t, none below three). A row of changed settings is beside the
defaults of its method. Methods that make a directed graph undirected have one row, the others one for each direction.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

from accuracy import first_preset, key_of
from fossil.datasets.catalog import names
from fossil.evaluation.protocol import protocol
from fossil.evaluation.statistics import Summary
from fossil.methods.registry import get_method
from fossil.settings import spelt
from records import read_records

Row: TypeAlias = tuple[str, str, str, str]
"""Method, preset, changed settings and direction."""

BySeed: TypeAlias = dict[int, list[float]]


def main() -> None:
    """Print two Markdown tables for each protocol: accuracies, and differences from the reference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--reference", default="fossil", help="method that others are compared with")
    parser.add_argument("--methods", nargs="+", help="all that have records when nothing is said")
    parser.add_argument("--graphs", nargs="+", help="all that the reference was scored on when nothing is said")
    parser.add_argument("--protocols", nargs="+", help="all that the reference was scored under")
    arguments = parser.parse_args()
    records = [record for path in arguments.results for record in read_records(path, key_of) if "failed" not in record]
    cells = cells_of([one for one in records if arguments.methods is None or one["method"] in arguments.methods])
    reference = (arguments.reference, first_preset(arguments.reference), "", "keep")
    known = {(name, graph) for name, graph, row in cells if row == reference}
    if not known:
        parser.error(f"--reference: there is no record of {arguments.reference} with its default settings")
    for name in arguments.protocols or sorted({name for name, _ in known}):
        graphs = [one for one in names() if (name, one) in known and one in (arguments.graphs or names())]
        print_tables(name, graphs, cells, reference)


def cells_of(records: list[dict[str, Any]]) -> dict[tuple[str, str, Row], BySeed]:
    """Return the accuracies of every split by protocol, graph, row and seed."""
    found: dict[tuple[str, str, Row], BySeed] = defaultdict(dict)
    for one in records:
        changed = " ".join(f"{key}={spelt(value)}" for key, value in one["set"].items())
        row = (one["method"], one["preset"], changed, one["direction"])
        found[one["protocol"], one["graph"], row][one["seed"]] = one["accuracies"]
    return found


def difference(own: BySeed, other: BySeed) -> list[float]:
    """Return how far each encoder is above that of the same seed, on the splits that both have."""
    pairs = [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]
    return [mean(a[: min(len(a), len(b))]) - mean(b[: min(len(a), len(b))]) for a, b in pairs]


def print_tables(name: str, graphs: list[str], cells: dict[tuple[str, str, Row], BySeed], reference: Row) -> None:
    """Print what was reached, and how far that is from the reference."""
    rule = protocol(name)
    rows = sorted({row for found, graph, row in cells if found == name and graph in graphs}, key=_rank)
    head = "| method | " + " | ".join(graphs) + " |\n" + "|---" * (len(graphs) + 1) + "|"
    print(f"Accuracy in percent under `{name}`, ± half its 95 % interval over encoders:\n\n{head}")
    for row in rows:
        found = [cells.get((name, graph, row), {}) for graph in graphs]
        texts = [_text(rule.summarize([mean(one) for one in each.values()])) if each else "–" for each in found]
        print(f"| {_title(row)} | {' | '.join(texts)} |")
    print(
        f"\nDifference from {get_method(reference[0]).title}, in points, with its 95 % interval over seeds; "
        f"bold where that reaches zero or lies above it:\n\n{head}"
    )
    for row in rows:
        if row == reference:
            continue
        texts = []
        for graph in graphs:
            values = difference(cells.get((name, graph, row), {}), cells[name, graph, reference])
            texts.append(_signed(rule.summarize(values)) if values else "–")
        print(f"| {_title(row)} | {' | '.join(texts)} |")
    print()


def _rank(row: Row) -> tuple[bool, bool, str, str, str]:
    method, preset, changed, direction = row
    return get_method(method).trained, preset != first_preset(method), method, changed, direction


def _title(row: Row) -> str:
    method, preset, changed, direction = row
    parts = [get_method(method).title, *([preset] if preset != first_preset(method) else []), changed]
    return " ".join(part for part in [*parts, {"keep": "", "symmetrize": "↔", "reverse": "←"}[direction]] if part)


def _text(found: Summary) -> str:
    spread = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    return f"{100 * found.mean:.1f}{spread} ({found.n})"


def _signed(found: Summary) -> str:
    reaches = found.interval is not None and found.interval.high >= 0
    spread = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    text = f"{100 * found.mean:+.1f}{spread}"
    return f"**{text}**" if reaches else text


if __name__ == "__main__":
    main()
