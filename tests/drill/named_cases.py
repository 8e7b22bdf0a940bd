"""Cases that went wrong once, each by its name, and what the package says to it now.

    python tests/drill/named_cases.py              # a Markdown table: the case, how it ends, what it says
    python tests/drill/named_cases.py 'Downloads*' # some of them

Each is prepared and tried in a cell of the drill. It has to end with the status that stands beside it and with words
that fit, in one message and without a traceback; files that were there stay as they are, and a case that is refused
leaves no result and no part of a file. The exit status is 1 where any does not.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # a process with threads cannot be forked safely
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from cell import Cell, Verdict  # noqa: E402

SECONDS = 300.0  # after which a case counts as hanging; machines may be busy
RESULTS = ("summary.json", "weights.safetensors", "embeddings.npz", "embeddings.parquet", "map.png", "map.svg")


@dataclass(frozen=True)
class Said:
    """How something ended: the exit status, and all that was printed or raised."""

    status: int
    text: str


@dataclass(frozen=True)
class Named:
    """One case.

    Attributes:
        part: what it belongs to.
        name: what is wrong.
        make: puts the files that it needs into an empty folder.
        act: does it there.
        says: a regular expression for some of the words.
        status: the exit status: 2 where something is refused, 0 where it has to work.
    """

    part: str
    name: str
    make: Callable[[Path], object]
    act: Callable[[Path], Said]
    says: str
    status: int = 2

    @property
    def key(self) -> str:
        """Its part and its name."""
        return f"{self.part}: {self.name}"


def fossil(*words: str | Path, encoding: str = "utf-8", env: dict[str, str] | None = None) -> Callable[[Path], Said]:
    """Return what runs the command in a folder, inside the process that calls it, with streams of that encoding."""

    def act(folder: Path) -> Said:
        from fossil.cli.main import run

        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", write_through=True)
        status: object = 0
        os.environ.update({"COLUMNS": "200", **(env or {})})
        with contextlib.chdir(folder), contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            sys.argv = ["fossil", *map(str, words)]
            try:
                run()
            except SystemExit as end:
                status = end.code
        return Said(int(str(status or 0)), raw.getvalue().decode(encoding))

    return act


def drilled(part: str, case: Any, says: str, *, name: str = "", status: int = 2) -> Named:
    """Return a case of the drill as one of these."""

    def act(folder: Path) -> Said:
        verdict = case.play(folder)
        if verdict.outcome not in ("refused", "fine", "equal"):
            raise AssertionError(f"{verdict.outcome}: {verdict.detail}")
        refused = verdict.outcome == "refused"
        return Said(2 if refused else 0, f"error: {verdict.detail}" if refused else verdict.detail)

    return Named(part, name or case.name, case.prepare, act, says, status)


def _contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tried(case: Named, folder: Path) -> dict[str, Any]:
    """Prepare a case and do it; return how it ended, and what became of the files."""
    folder.mkdir()
    case.make(folder)
    before = _contents(folder)
    said = case.act(folder)
    after = _contents(folder)
    new = [name for name in after if name not in before]
    return {
        "status": said.status,
        "text": said.text,
        "changed": [name for name in before if after.get(name) != before[name]],
        "left": [name for name in new if name.endswith(".part") or Path(name).name in RESULTS],
    }


def faults(case: Named, found: dict[str, Any]) -> list[str]:
    """Return what is wrong with the way a case ended."""
    text, said = found["text"], []
    if found["status"] != case.status:
        said.append(f"status {found['status']} in place of {case.status}")
    if not re.search(case.says, text):
        said.append(f"no words like {case.says!r}")
    if "Traceback (most recent call last)" in text:
        said.append("a traceback")
    if case.status == 2:
        if len(re.findall(r"^error: ", text, re.MULTILINE)) != 1 or text.count("\nremedy: ") > 1:
            said.append("not one message")
        said += [f"{name} was changed" for name in found["changed"]]
        said += [f"{name} was left" for name in found["left"]]
    return said


def run(cases: list[Named], folder: Path) -> Iterator[tuple[Named, dict[str, Any], list[str]]]:
    """Try the cases one after the other; yield each with how it ended and what is wrong with that."""
    for number, case in enumerate(cases):
        place = folder / str(number)
        cell = Cell([lambda case=case, place=place: Verdict("fine", json.dumps(tried(case, place)))], SECONDS)  # type: ignore[misc]
        verdicts: list[Verdict] = []
        while not cell.over:
            verdicts += [verdict for verdict, _ in cell.poll()]
            time.sleep(0.002)
        shutil.rmtree(place, ignore_errors=True)
        if verdicts[0].outcome == "fine":
            found = json.loads(verdicts[0].detail)
            yield case, found, faults(case, found)
        else:
            yield case, {"status": "", "text": ""}, [f"{verdicts[0].outcome}: {verdicts[0].detail}"]


def message(case: Named, text: str) -> str:
    """Return what counts of what was printed, in one cell of a table: error and remedy, or the line looked for."""
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith("error:")), None)
    told = [line for line in lines if re.search(case.says, line)][:1] if start is None else lines[start:]
    joined = " ".join(" ".join(told).split()).replace("|", "\\|").replace("<", "&lt;")
    return joined if len(joined) <= 500 else joined[:500] + " …"


def main() -> None:
    """Try what is asked for and print the table."""
    sys.path.append(str(Path(__file__).parents[1] / "journeys"))
    from named_files import FILES
    from named_runs import RUNS

    from drill import scratch

    patterns = sys.argv[1:] or ["*"]
    chosen = [case for case in (*RUNS, *FILES) if any(fnmatch(case.key, pattern) for pattern in patterns)]
    folder, bad = scratch(), 0
    print("| case | status | what it says |\n|---|--:|---|")
    try:
        for case, found, wrong in run(chosen, folder):
            print(f"| {case.key} | {found['status']} | {message(case, found['text'])} |", flush=True)
            for fault in wrong:
                print(f"FAULT in {case.key}: {fault}\n{found['text'][:2000]}", flush=True)
            bad += bool(wrong)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{len(chosen)} cases, {bad} with a fault")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
