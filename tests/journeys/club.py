"""A club as its secretary keeps it: two tables with everything wrong that tables have, and the way to scored vectors.

`python club.py` prints every command and what it answers, as a terminal shows it.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from command import QUICK, Outcome, here, in_process

MEMBERS = 150
NAMES = ("Zoë", "Łukasz", "Ōta", "Åsa", "Nguyễn")
SECTIONS = ("chœur", "échecs", "vélo")
HEADER = ("", "member", "joined", "born", "grade", "city", "section")
ENDS = ("", "from", "to", "letters")


def name(number: int) -> str:
    return f"{NAMES[number % len(NAMES)]} {number:03d}"


def members() -> list[list[str]]:
    """One row a member; section, grade and year of birth go together, not perfectly."""
    random = np.random.default_rng(0)
    table = []
    for number in range(MEMBERS):
        section = number % 3
        day, month = int(random.integers(1, 29)), int(random.integers(1, 13))
        grade = section + 1 if random.random() < 0.6 else int(random.integers(1, 5))
        born = round(1960 + 12 * section + 8 * random.standard_normal())
        city = ("Orléans", "Kraków", "東京")[int(random.integers(3))]
        joined = f"{day:02d}/{month:02d}/{2010 + int(random.integers(10))}"
        table.append([str(number), name(number), joined, str(born), str(grade), city, SECTIONS[section]])
    for number in (4, 17, 60, 91):
        table[number][3] = ""  # nobody asked
    table[33][3] = "NA"
    table[25][2] = "long ago"
    table[70][5] = ""
    table.append(["150", *table[12][1:]])  # the same member a second time
    return table


def letters() -> list[list[str]]:
    """Who writes to whom, each pair once, with the number of letters; two have left the club."""
    random = np.random.default_rng(1)
    pairs = {(a, (a + 3) % MEMBERS) for a in range(MEMBERS)}
    pairs |= {(a, int(random.integers(MEMBERS // 3)) * 3 + a % 3) for a in range(MEMBERS) for _ in range(2)}
    chosen = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    table = [[name(a), name(b), str(int(random.integers(1, 9)))] for a, b in chosen]
    table[10][1] = table[99][0] = "Éloïse 900"
    table[40][0] = "Ugo 901"
    return [[str(row), *cells] for row, cells in enumerate(table)]


def write_table(path: Path, header: Sequence[str], table: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *table])


def write_club(folder: Path) -> Path:
    """Write both tables as they were kept."""
    write_table(folder / "nodes.csv", HEADER, members())
    write_table(folder / "edges.csv", ENDS, letters())
    return folder


def mend(folder: Path) -> None:
    """Do by hand what no option does: the second row of a member goes, and a date is looked up."""
    table = members()[:-1]
    table[25][2] = "14/02/2011"
    write_table(folder / "nodes.csv", HEADER, table)


CHOICES = ("--missing", "median", "--missing-indicator", "--unknown-edges", "drop", "--edge-weights", "ignore")
SAID = ("--label", "section", "--column", "grade=categorical", "--column", "joined=calendar", *CHOICES)
SAID = (*SAID, "--direction", "symmetrize")

PAPER = ("--method", "fossil")  # which ends with advice on such a graph
# What is typed, in turn, or done by hand.
STEPS: tuple[tuple[str, ...] | Callable[[Path], None], ...] = (
    ("data", "describe", "club"),
    mend,
    ("data", "describe", "club", *CHOICES),
    ("data", "describe", "club", *SAID),
    ("embed", "club", *SAID, *PAPER, "--epochs", "40", *QUICK, "--out", "run"),
    ("evaluate", "run", "--splits", "3", "--features"),
    ("embed", "club", *SAID, *PAPER, "--epochs", "40", *QUICK, "--set", "encoder=gcn", "--out", "advised"),
    ("evaluate", "run", "advised", "--splits", "3"),
)


def travel(folder: Path, run: Callable[..., Outcome] = here) -> list[Outcome]:
    """Take every step in `folder`, and return what the commands answered."""
    write_club(folder / "club")
    outcomes = []
    for step in STEPS:
        if isinstance(step, tuple):
            outcomes.append(run(*step, cwd=folder))
        else:
            step(folder / "club")
    return outcomes


def main() -> None:
    """Print every command and what it answers."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = iter(travel(Path(folder), in_process))
    for step in STEPS:
        if isinstance(step, tuple):
            print(f"$ fossil {' '.join(step)}")
            outcome = next(outcomes)
            print(f"{outcome.out}{outcome.err}[exit status {outcome.status}]\n")
        else:
            print(f"(by hand: {' '.join((step.__doc__ or '').split())})\n")


if __name__ == "__main__":
    sys.exit(main())
