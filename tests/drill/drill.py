"""Damage files, kill trainings, and start two at once, until something gives way: `make drill`.

    python tests/drill/drill.py                           # everything: 10,000 files, 100 kills, 50 signals, ...
    python tests/drill/drill.py --only 'kill/*' 'pair*'   # some of it
    python tests/drill/drill.py --cases 2000 --seconds 600
    python tests/drill/drill.py --replay 'fuzz/CSV/00012' # one case again, with its traceback
    python tests/drill/drill.py --table                   # what the records say, without running anything

Every case has a name, and all that is random in it is derived from that name. It runs in a fork of this process, which
has PyTorch and fossil loaded already. How it went is kept as a line of a records file beside a fingerprint of the
sources: a case is not tried again until they change. What a bad case worked on is left in a folder. The exit status is
1 if anything bad was found.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, Protocol

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # a process with threads cannot be forked safely
    os.environ[f"{_library}_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True

from cell import BAD, Cell, Verdict  # noqa: E402
from reliability import table, write_page  # noqa: E402

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "drill"


class Case(Protocol):
    """One thing that is tried."""

    @property
    def key(self) -> str:
        """Its name, from which all randomness is derived."""

    @property
    def row(self) -> str:
        """The row of the table that counts it."""

    @property
    def seconds(self) -> float:
        """After which it counts as hanging."""

    @property
    def together(self) -> int:
        """How many such cases may share a process, one after the other."""

    def prepare(self, folder: Path) -> None:
        """Put what it works on into an empty folder."""

    def play(self, folder: Path) -> Verdict:
        """Do it, and judge what came of it."""


def fingerprint() -> str:
    """Return a digest of the sources under test and of the drill."""
    found = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *Path(__file__).parent.glob("*.py")]):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


class Records:
    """What is known about cases, a line each."""

    def __init__(self, path: Path, tree: str) -> None:
        self.path, self.tree = path, tree
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        known = [record for record in map(json.loads, lines) if record["tree"] == tree]
        self.known: dict[str, dict[str, Any]] = {record["key"]: record for record in known}

    def add(self, case: Case, verdict: Verdict, seconds: float) -> None:
        """Write down how a case went."""
        record = {
            "key": case.key,
            "row": case.row,
            "outcome": verdict.outcome,
            "detail": verdict.detail,
            "told": verdict.told or {},
            "seconds": round(seconds, 2),
            "tree": self.tree,
        }
        self.known[case.key] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def scratch() -> Path:
    """Return where the cases work: in memory, where the machine has such a place."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="fossil-drill-", dir=shared if os.access(shared, os.W_OK) else None))


def run(cases: Sequence[Case], records: Records, *, workers: int, seconds: float, failed: Path) -> None:
    """Try the cases that nothing is known about."""
    untried = [case for case in cases if case.key not in records.known]
    print(f"{len(cases)} cases, {len(cases) - len(untried)} of them known", flush=True)
    waiting, running = batches(untried), list[tuple[Cell, list[Case]]]()
    work, began, done, bad = scratch(), time.monotonic(), 0, 0
    try:
        while True:
            while waiting and len(running) < workers and time.monotonic() - began < seconds:
                batch = waiting.popleft()
                plays = [partial(_play, case, _folder(work, case)) for case in batch]
                running.append((Cell(plays, batch[0].seconds), batch))
            if not running:
                break
            for cell, batch in running:
                for verdict, took in cell.poll():
                    case = batch.pop(0)
                    done += 1
                    records.add(case, verdict, took)
                    if verdict.outcome in BAD:
                        bad += 1
                        _keep(case, failed)
                        print(f"\r\033[K{verdict.outcome:10} {case.key}  {verdict.detail}", flush=True)
                    shutil.rmtree(_folder(work, case), ignore_errors=True)
                if cell.over and batch:
                    waiting.appendleft(batch)
            running = [(cell, batch) for cell, batch in running if not cell.over]
            _progress(done, len(untried), bad, time.monotonic() - began)
            time.sleep(0.005)
    finally:
        for cell, _ in running:
            cell.end()
        shutil.rmtree(work, ignore_errors=True)


def batches(cases: Sequence[Case]) -> deque[list[Case]]:
    """Return the cases in lists, each for one process: those that only read share one with some others."""
    found = deque[list[Case]]()
    for case in cases:
        alike = found and found[-1][0].seconds == case.seconds and len(found[-1]) < case.together
        if alike and found[-1][0].together == case.together:
            found[-1].append(case)
        else:
            found.append([case])
    return found


def _folder(work: Path, case: Case) -> Path:
    return work / hashlib.sha256(case.key.encode()).hexdigest()[:16]


def _play(case: Case, folder: Path) -> Verdict:
    folder.mkdir()
    case.prepare(folder)
    return case.play(folder)


def _keep(case: Case, failed: Path) -> None:
    """Make what a bad case works on once more, and leave it."""
    place = failed / case.key
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)

    def prepare() -> Verdict:
        case.prepare(place)
        return Verdict("fine")

    cell = Cell([prepare], case.seconds)
    while not cell.over:
        cell.poll()
        time.sleep(0.005)


def _progress(done: int, left: int, bad: int, seconds: float) -> None:
    if sys.stderr.isatty() and done % 10 == 0:
        rate = done / max(seconds, 1e-9)
        bar = "█" * int(30 * done / max(left, 1))
        sys.stderr.write(
            f"\r\033[K{bar:30} {done}/{left}  {bad} bad  {(left - done) / max(rate, 1e-9) / 60:.0f} min to go"
        )


def replay(case: Case, failed: Path) -> Verdict:
    """Run one case in this process, on what it left when it failed."""
    place = failed / case.key
    if not place.exists():
        place.mkdir(parents=True)
        case.prepare(place)
    print(f"{case.key}: {place}")
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(place, copy, dirs_exist_ok=True)
        return case.play(Path(copy))


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="damaged files")
    parser.add_argument("--trials", type=float, default=1.0, help="share of the kills, signals, starts and full disks")
    parser.add_argument("--settings", type=float, default=1.0, help="share of the extreme settings")
    parser.add_argument("--short", action="store_true", help="a few hundred cases, as part of the tests")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="cases of such names")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing new after so long")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--build", type=Path, default=BUILD, help="where records, samples and bad cases are kept")
    parser.add_argument("--replay", metavar="KEY", help="one case again, on what it left")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="write the table to docs/reliability.md")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.cases, arguments.trials, arguments.settings = 160, 0.03, 0.004
    tree = fingerprint()
    records, failed = Records(arguments.build / "records.jsonl", tree), arguments.build / "failed"

    import everything

    cases = everything.cases(arguments.build / f"samples-{tree}", arguments.cases, arguments.trials, arguments.settings)
    if arguments.replay:
        os.environ["FOSSIL_DRILL_TRACEBACK"] = "1"
        verdict = replay(next(case for case in cases if case.key == arguments.replay), failed)
        print(verdict.outcome, verdict.detail)
        sys.exit(verdict.outcome in BAD)
    chosen = [case for case in cases if any(fnmatch(case.key, pattern) for pattern in arguments.only)]
    if not arguments.table:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which cleans up, as Ctrl-C does
        run(chosen, records, workers=arguments.workers, seconds=arguments.seconds, failed=failed)
    gc.unfreeze()  # what `everything` froze
    found = [records.known[case.key] for case in chosen if case.key in records.known]
    print(table(found))
    if arguments.write:
        write_page(ROOT / "docs" / "reliability.md", found)
    if len(found) < len(chosen):
        print(f"{len(chosen) - len(found)} cases were not tried; the same command goes on with them.")
    sys.exit(any(record["outcome"] in BAD for record in found))


if __name__ == "__main__":
    main()
