"""A small town as two tables: people in communities, who know mostly their own kind."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

CITIES = ("Lyon", "Oslo", "Turin")
GROUPS = ("bakers", "joiners", "smiths")
HEADER = ("id", "city", "age", "member", "label")


def person(number: int, prefix: str = "user") -> str:
    return f"{prefix}-{number:03d}"


def rows(numbers: Iterable[int], prefix: str = "user", seed: int = 0) -> list[list[str]]:
    """One row a person: the community shows in city and age, not perfectly."""
    random = np.random.default_rng(seed)
    table = []
    for number in numbers:
        group = number % 3
        city = CITIES[group if random.random() < 0.7 else int(random.integers(3))]
        age = round(float(random.normal(30 + 10 * group, 8)), 1)
        table.append([person(number, prefix), city, str(age), str(random.random() < 0.5).lower(), GROUPS[group]])
    return table


def ties(count: int, prefix: str = "user", seed: int = 0) -> list[tuple[str, str]]:
    """Both directions of a ring through each community, and of a few random acquaintances."""
    random = np.random.default_rng(seed)
    pairs = {(number, (number + 3) % count) for number in range(count)}
    for number in range(count):
        friend = int(random.integers(count // 3)) * 3 + number % 3
        if friend < count and friend != number:
            pairs.add((number, friend))
    both = sorted(pairs | {(b, a) for a, b in pairs})
    return [(person(a, prefix), person(b, prefix)) for a, b in both]


def write_table(path: Path, header: Sequence[str], table: Iterable[Sequence[str]]) -> None:
    """Write CSV, TSV or Parquet, as the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = list(table)
    if path.suffix == ".parquet":
        import pandas as pd

        frame = pd.DataFrame(lines, columns=list(header))
        if "age" in frame:
            frame["age"] = frame["age"].astype(float)
        frame.to_parquet(path, index=False)
        return
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(header)
        writer.writerows(lines)


def write_town(folder: Path, count: int = 200, suffix: str = ".csv", prefix: str = "user", seed: int = 0) -> Path:
    write_table(folder / f"nodes{suffix}", HEADER, rows(range(count), prefix, seed))
    write_table(folder / f"edges{suffix}", ("source", "target"), ties(count, prefix, seed))
    return folder
