"""Somebody sets methods beside one of them, in records that were made before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

from scipy import stats

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "paired.py"


def record(method: str, seed: int, accuracies: list[float], **changes: object) -> str:
    preset = "released" if method == "fossil" else "default"
    fixed = {"graph": "cora", "preset": preset, "set": {}, "direction": "keep", "protocol": "converged"}
    rest = {"epochs": 1, "splits": len(accuracies), "precision": "tf32", "seed": seed, "accuracies": accuracies}
    return json.dumps(fixed | rest | {"method": method} | changes)


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(path), *arguments], capture_output=True, text=True, check=False
    )


def test_differences_are_paired_by_seed_on_the_splits_that_both_have(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    own = {0: [0.60, 0.70, 0.9], 1: [0.64, 0.72, 0.9], 2: [0.70, 0.80, 0.9]}  # the third split is not the other's
    other = {0: [0.50, 0.60], 1: [0.62, 0.66], 2: [0.60, 0.60], 3: [0.1, 0.1]}  # the last seed is not one's own
    lines = [record("dgi", seed, one) for seed, one in own.items()]
    lines += [record("fossil", seed, one) for seed, one in other.items()]
    lines += [record("fossil", seed, [0.1, 0.1], set={"alpha": 0.3}) for seed in range(2)]
    path.write_text("\n".join(lines) + "\n")
    done = run(path, "--reference", "fossil")
    assert done.returncode == 0, done.stderr
    differences = [mean(own[seed][:2]) - mean(other[seed]) for seed in range(3)]
    half = stats.t.ppf(0.975, 2) * stdev(differences) / 3**0.5
    text = f"{100 * mean(differences):+.1f} ± {100 * half:.1f}"
    assert f"| DGI | **{text}** |" in done.stdout
    assert "| FOSSIL alpha=0.3 | -49.5 |" in done.stdout  # two seeds have no interval, and are not marked


def test_a_reference_without_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(record("dgi", 0, [0.5]) + "\n")
    done = run(path, "--reference", "fossil")
    assert done.returncode == 2 and "no record of fossil" in done.stderr
