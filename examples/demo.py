"""Train on scikit-learn's handwritten digits, joined into a nearest-neighbour graph, and see what was learnt.

Run with `make demo`, or `python examples/demo.py --out demo-run`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import fossil
from fossil.errors import FossilError, RunError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.statistics import Summary, paired_difference
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.report.map import draw_map
from fossil.runs.interrupts import TrainingInterruptedError

SPLITS = range(10)
OWN_FOLDER = Path("demo-run")  # the demo may replace what it left there before, and nothing else


def main() -> None:
    """Run the demo; bad input ends with one message and status 2, as on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OWN_FOLDER, help="run folder")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--force", action="store_true", help=f"replace the run in --out, as is done in {OWN_FOLDER}")
    arguments = parser.parse_args()
    try:
        demonstrate(arguments.out, arguments.epochs, force=arguments.force or arguments.out == OWN_FOLDER)
    except TrainingInterruptedError as stopped:
        print(f"{stopped.what} The next run starts anew.", file=sys.stderr)
        sys.exit(stopped.exit_status)
    except FossilError as error:
        print(f"error: {error.what}", file=sys.stderr)
        print(f"remedy: {error.remedy}", file=sys.stderr)
        sys.exit(error.exit_status)


def demonstrate(out: Path, epochs: int, *, force: bool) -> None:
    """Embed, score, draw."""
    if not force and (out / "config.yaml").is_file():
        raise RunError(f"{out} already holds a run.", remedy="Replace it with --force, or choose another --out.")
    console, began = Console(), time.perf_counter()

    console.print("FOSSIL with channels on 1,797 handwritten digits; the labels are never seen in training.")
    result = fossil.embed(
        "digits",
        out=out,
        force=force,
        epochs=epochs,
        settings={"hidden": 256, "width": 64},
        progress=True,
    )
    console.print("scoring on 10 splits ...")
    rule = protocol("paper").updated({"nodes_per_class": 5, "per_class_graphs": ("digits",)})
    task = NodeClassification(rule)
    untrained = fossil.embed("digits", method="prop")
    inputs = {
        "raw pixels": result.graph.features,
        "pixels propagated along the edges": untrained.vectors,
        "FOSSIL with channels": result.vectors,
    }
    scores = {name: task.score(vectors, result.graph, SPLITS) for name, vectors in inputs.items()}

    table = Table(
        "input of the linear probe",
        "accuracy",
        "95 % t-interval over 10 splits",
        title="Test accuracy, 5 labels per digit",
    )
    accuracies = {name: [split.accuracy for split in found] for name, found in scores.items()}
    for name, values in accuracies.items():
        summary = rule.summarize(values)
        table.add_row(name, f"{100 * summary.mean:.2f} %", ends(summary, ".2f"))
    raw, propagated, learnt = accuracies.values()
    for name, others in {"gain over raw pixels": raw, "gain over propagated pixels": propagated}.items():
        gain = paired_difference(learnt, others)
        table.add_row(f"{name}, paired", f"{100 * gain.mean:+.2f}", ends(gain, "+.2f"))
    console.print(table)
    console.print(rule.describe("digits"), highlight=False)

    channels = fossil.load(out).summary["channels"]
    shares = ", ".join(f"{name} {100 * found['share']:.0f} %" for name, found in channels.items())
    console.print(f"Channels, ways to see a node's surroundings, by share of a vector: {shares}.", highlight=False)
    draw_map(out / "map.png", result)
    console.print(f"Embeddings, history and map.png are in {out}/ ({time.perf_counter() - began:.0f} s).")


def ends(summary: Summary, form: str) -> str:
    """Return the ends of the interval in percent."""
    assert summary.interval is not None  # ten splits have one
    return f"{100 * summary.interval.low:{form}} to {100 * summary.interval.high:{form}}"


if __name__ == "__main__":
    main()
