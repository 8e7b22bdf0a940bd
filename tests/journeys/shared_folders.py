"""Run `fossil` in several processes at once, or tell one of them to end by a signal.

Processes are forked from one that has imported everything, so that they really meet and importing is paid for once.

Usage: python shared_folders.py STEPS.json, which prints one list of results a step. A step is a mapping with
`arguments`, `copies` (how many processes run them at once), `out` and `signal`: None, or what is sent as soon as the
history in `out` has three lines. A result has `pid`, `status` and `err`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from killed_runs import NEEDED

from fossil.cli.main import run


def start(arguments: list[str], err: Any) -> int:
    """Run `fossil` in a child; return its number."""
    child = os.fork()
    if child:
        return child
    code: Any = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(err.fileno(), 2)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored under nohup
        sys.argv = ["fossil", *arguments]
        try:
            run()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        sys.stderr.flush()
    finally:
        os._exit(int(code))


def play(step: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one step."""
    errs = [tempfile.TemporaryFile("w+") for _ in range(step["copies"])]  # noqa: SIM115 - until they are read below
    children = [start(step["arguments"], err) for err in errs]
    if step["signal"] is not None:
        history, deadline = Path(step["out"]) / "history.jsonl", time.monotonic() + 300
        while not (history.exists() and history.read_text().count("\n") >= 3) and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(children[0], step["signal"])
    results = []
    for child, err in zip(children, errs, strict=True):
        _, status = os.waitpid(child, 0)
        err.seek(0)
        results.append({"pid": child, "status": os.waitstatus_to_exitcode(status), "err": err.read()})
    return results


def main() -> None:
    """Play the steps of a file and print their results."""
    for module in NEEDED:
        importlib.import_module(module)
    print(json.dumps([play(step) for step in json.loads(Path(sys.argv[1]).read_text())]))


if __name__ == "__main__":
    main()
