"""Run `fossil` step by step, each step in a process that may be killed at a chosen change on the disk.

What a killed run leaves behind changes only when a file is opened for writing, renamed or removed. Python announces
these moments to audit hooks, so a step can end itself with SIGKILL exactly there, on every machine alike.

Usage: python killed_runs.py STEPS.json [MODULE ...], which prints one result a step. A step is a mapping with `out`
(the folder that is watched), `arguments` and `kill`: None, the number of the change to die at, or a fraction of the
changes that the first step made. The modules are imported once, before the first step.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

from fossil.cli.main import run

# What a step would import; done once, before the first.
FOSSIL = ("fossil.runs.fit", "fossil.readers.source", "fossil.methods.fossil")
NEEDED = (*FOSSIL, "torch._dynamo", "pandas", "pyarrow.parquet")
WRITING = os.O_WRONLY | os.O_RDWR
CHANGES = ("open", "os.rename", "os.remove")


class Watch:
    """Counts the changes below a folder and kills this process at one of them."""

    def __init__(self, folder: str, kill_at: int | None) -> None:
        self.folder, self.kill_at, self.count = folder + os.sep, kill_at, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES or not str(arguments[0]).startswith(self.folder):
            return
        if event == "open" and not arguments[2] & WRITING:
            return
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def play(step: dict[str, Any], kill_at: int | None) -> dict[str, Any]:
    """Run one step in a child; return its status, the number of changes (where it lived) and the files it left."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _live(step, kill_at, writing)
    os.close(writing)
    with os.fdopen(reading) as stream:
        changes = stream.read()
    _, status = os.waitpid(child, 0)
    files = {
        str(path.relative_to(step["out"])): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(step["out"]).rglob("*"))
        if path.is_file()
    }
    return {"status": os.waitstatus_to_exitcode(status), "changes": int(changes or 0), "files": files}


def _live(step: dict[str, Any], kill_at: int | None, report: int) -> None:
    code: Any = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        sys.argv = ["fossil", *step["arguments"]]
        watch = Watch(step["out"], kill_at)
        sys.addaudithook(watch)
        try:
            run()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        os.write(report, str(watch.count).encode())
    finally:
        os._exit(int(code))


def main() -> None:
    """Play the steps of a file and print their results."""
    for module in (*NEEDED, *sys.argv[2:]):
        importlib.import_module(module)
    results: list[dict[str, Any]] = []
    for step in json.loads(Path(sys.argv[1]).read_text()):
        kill = step["kill"]
        if isinstance(kill, float):
            kill = max(1, math.ceil(kill * results[0]["changes"]))
        results.append(play(step, kill))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
