"""Plant faults in copies of this tree and see whether the tests notice: `make mutants`.

    python tests/mutants/mutate.py --sample 200             # the planted faults, then 200 sampled changes
    python tests/mutants/mutate.py --only 'src/fossil/transport/*' --sample 50
    python tests/mutants/mutate.py --table                  # what the records say, without running anything

A fault is planted in a copy of the tree in a temporary folder; there the tests that can see it run until the first of
them fails. Each run is a fork of this process, which has PyTorch and the test tools loaded already. What is known is
kept as a line of a records file: killed faults are not tried again, surviving ones are, because tests are added. The
exit status is 1 if a fault survives that nobody has explained (`planted.py`, `explained.json`).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from operators import changes, is_same_program
from planted import PLANTED
from seen import CORE, seen_by

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results" / "mutants.jsonl"
# Sampled changes that no test can notice, by key, with the reason.
EXPLAINED: dict[str, str] = json.loads((Path(__file__).parent / "explained.json").read_text(encoding="utf-8"))
_COPIED = ("src", "tests", "benchmarks", "docs", "examples", "studies", "pyproject.toml", "README.md", "Makefile")
_LEFT_OUT = {"studies": ("results", "*.results")}  # trainings that studies keep
_LOADED = ("torch", "scipy.optimize", "sklearn.linear_model", "torch_geometric.nn", "pandas", "hypothesis", "ot")
# Compiling kernels for a GPU takes long and sees nothing of the core.
_OPTIONS = (
    "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", "-k", "not hopper"
)  # fmt: skip
_PATIENCE = 4  # times as long as the tests take without a fault
_GRACE = 30.0  # seconds on top, for a machine that others use too


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes:
        key: what tells it from all others.
        file: which file, from the root of the tree.
        source: that file with the fault in it.
        tests: files that can see it.
        reason: why no test can see it, where that is known.
    """

    key: str
    file: str
    source: str
    tests: tuple[str, ...]
    reason: str | None = None


def planted(root: Path = ROOT) -> list[Mutant]:
    """Return the faults that somebody named."""
    return [
        Mutant(f"{each.file}: planted: {each.name}", each.file, each.applied(root), each.tests, each.reason)
        for each in PLANTED
    ]


def sampled(count: int, only: str = "*", root: Path = ROOT) -> list[Mutant]:
    """Return so many changes of the numerical core, the same ones each time; `only` is a pattern of files."""
    found, sources = [], {file: (root / file).read_text(encoding="utf-8") for file in CORE if fnmatch(file, only)}
    for file, source in sources.items():
        for change in changes(source):
            key = f"{file}: {change.key}"
            found.append(Mutant(key, file, change.source, seen_by(file), EXPLAINED.get(key)))
    found.sort(key=lambda mutant: hashlib.sha256(mutant.key.encode()).digest())
    others = (mutant for mutant in found if not is_same_program(mutant.source, sources[mutant.file]))
    return list(islice(others, count))


class Workshop:
    """A copy of a tree, in which one fault at a time is planted and tests are run.

    Args:
        root: the tree.
        folder: where to copy it.
        copied: what to copy, from its root.
    """

    def __init__(self, root: Path, folder: Path, copied: Sequence[str] = _COPIED) -> None:
        self.folder = folder
        for name in copied:
            source = root / name
            if source.is_dir():
                shutil.copytree(
                    source, folder / name, ignore=shutil.ignore_patterns("__pycache__", *_LEFT_OUT.get(name, ()))
                )
            else:
                shutil.copy(source, folder / name)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plant a fault for as long as the context lasts."""
        path = self.folder / mutant.file
        whole = path.read_text(encoding="utf-8")
        self._write(path, mutant.source)
        try:
            yield
        finally:
            self._write(path, whole)

    def test(self, tests: Sequence[str], limit: float) -> tuple[str, float]:
        """Run tests until one fails.

        Returns:
            `survived`, `killed: TEST` or `killed: time`, and how many seconds it took.
        """
        began, log = time.perf_counter(), self.folder / "log.txt"
        process = os.fork()
        if process == 0:
            self._child(tests, log)
        try:
            while (answer := os.waitpid(process, os.WNOHANG))[0] == 0:
                if time.perf_counter() - began > limit:
                    raise TimeoutError
                time.sleep(0.02)
        except BaseException as error:  # also when somebody interrupts: the fork is in a group of its own
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            if not isinstance(error, TimeoutError):
                raise
            return "killed: time", limit
        seconds = time.perf_counter() - began
        if os.waitstatus_to_exitcode(answer[1]) == pytest.ExitCode.OK:
            return "survived", seconds
        return f"killed: {_first_failure(log)}", seconds

    def _child(self, tests: Sequence[str], log: Path) -> None:
        """Run the tests in this process, a fork, and end it."""
        status = 70
        try:
            os.setpgid(0, 0)
            sys.stdout = sys.stderr = log.open("w", encoding="utf-8")
            for descriptor in (1, 2):
                os.dup2(sys.stdout.fileno(), descriptor)
            os.chdir(self.folder)
            source = str(self.folder / "src")
            sys.path[:] = [source, *(each for each in sys.path if Path(each) != Path(__file__).parent)]
            os.environ["PYTHONPATH"] = source
            for name in ("mutate", "operators", "planted", "seen"):
                sys.modules.pop(name, None)
            status = int(pytest.main([*_OPTIONS, f"--rootdir={self.folder}", "-o", "addopts=", "-rfE", *tests]))
            sys.stdout.flush()
        finally:
            os._exit(status)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()  # Python compares whole seconds and sizes alone, and may take the wrong one for current


def _first_failure(log: Path) -> str:
    """Return the name of the test that failed, or the last words where none is named."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].split(" - ")[0]
    return next((line.strip() for line in reversed(lines) if line.strip()), "no word")[:100]


class Baselines:
    """How long test files take without a fault, each measured once; those that fail then would say nothing."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.seconds: dict[str, float] = {}

    def limit(self, tests: Sequence[str]) -> float:
        """Return how many seconds tests get.

        Raises:
            SystemExit: some fail without any fault.
        """
        for test in tests:
            if test not in self.seconds:
                outcome, self.seconds[test] = self.workshop.test([test], 1800.0)
                if outcome != "survived":
                    raise SystemExit(f"Without any fault: {outcome}. Mend that first.")
        return _PATIENCE * sum(self.seconds[test] for test in tests) + _GRACE


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the latest record of each fault by its key."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {record["key"]: record for record in map(json.loads, lines)}


def write(path: Path, records: dict[str, dict[str, Any]]) -> None:
    """Write one line a fault, in the order of their keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(records[key], ensure_ascii=False) + "\n" for key in sorted(records))
    path.write_text(text, encoding="utf-8")


def run(mutants: Sequence[Mutant], workshop: Workshop, path: Path) -> None:
    """Try what is not known to be killed, and record how it went."""
    records, baselines = read(path), Baselines(workshop)
    waiting = [mutant for mutant in mutants if not records.get(mutant.key, {}).get("outcome", "").startswith("killed")]
    print(f"{len(mutants)} faults, {len(mutants) - len(waiting)} of them known to be killed", flush=True)
    for number, mutant in enumerate(waiting, 1):
        limit = baselines.limit(mutant.tests)
        with workshop.planted(mutant):
            outcome, seconds = workshop.test(mutant.tests, limit)
        records[mutant.key] = {"key": mutant.key, "outcome": outcome, "seconds": round(seconds, 1)}
        write(path, records)
        print(f"{number:4}/{len(waiting)} {seconds:6.1f} s  {mutant.key}\n{'':17}{outcome}", flush=True)


def table(mutants: Sequence[Mutant], records: dict[str, dict[str, Any]]) -> int:
    """Print how many faults of each kind were killed, and those that were not; return how many nobody has explained."""
    print(f"\n{'':30}{'tried':>8}{'killed':>8}{'surviving':>11}{'explained':>11}")
    unexplained = 0
    kinds = {"planted by name": True, "sampled changes": False}
    for title, named in kinds.items():
        members = [mutant for mutant in mutants if (": planted: " in mutant.key) is named and mutant.key in records]
        alive = [mutant for mutant in members if records[mutant.key]["outcome"] == "survived"]
        known = sum(mutant.reason is not None for mutant in alive)
        unexplained += len(alive) - known
        print(f"{title:30}{len(members):8}{len(members) - len(alive):8}{len(alive):11}{known:11}")
        for mutant in alive:
            print(f"  {mutant.key}\n      {mutant.reason or 'NOBODY KNOWS WHY'}")
    untried = sum(mutant.key not in records for mutant in mutants)
    if untried:
        print(f"{untried} were not tried.")
    return unexplained


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, help="changes sampled over the numerical core")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="files to plant faults in")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--table", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    named = [mutant for mutant in planted() if fnmatch(mutant.file, arguments.only)]
    mutants = [*named, *sampled(arguments.sample, arguments.only)]
    if not arguments.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        for name in _LOADED:
            importlib.import_module(name)
        with tempfile.TemporaryDirectory(prefix="fossil-mutants-") as folder:
            run(mutants, Workshop(ROOT, Path(folder)), arguments.records)
    sys.exit(1 if table(mutants, read(arguments.records)) else 0)


if __name__ == "__main__":
    main()
