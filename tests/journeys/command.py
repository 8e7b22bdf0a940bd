"""The command line as tests call it: in a process of its own, or quickly in this one."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

# Small enough for a fraction of a second an epoch.
QUICK = ("--set", "hidden=32", "--set", "width=16", "--set", "subgraph_size=5", "--set", "num_anchors=20")
QUICK = (*QUICK, "--device", "cpu")
PROGRAM = (sys.executable, "-m", "fossil")


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def line(self, start: str) -> str:
        """The text after `start` on the one line of standard error that begins so, further lines included."""
        parts = re.split(r"^(\w+): ", self.err, flags=re.MULTILINE)
        found = [text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == start]
        assert len(found) == 1, self.err
        return found[0]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"} | dict(extra or {})


def in_process(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    largest_file: int | None = None,
) -> Outcome:
    """Run `fossil` as a user does; `largest_file` is the number of bytes at which a file can grow no more."""

    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    command = [*PROGRAM, *map(str, arguments)]
    # Python does not notice that half of a module's bytecode was written, and would stumble over it ever after.
    further = {} if largest_file is None else {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment({**(env or {}), **further}),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def here(*arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Outcome:
    """Run `fossil` inside this process: the same entry point, without the seconds that importing takes."""
    from fossil.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    hooks = sys.excepthook, warnings.showwarning
    status: object = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment(env)))
        stack.enter_context(mock.patch.object(sys, "argv", ["fossil", *map(str, arguments)]))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if cwd is not None:
            stack.enter_context(contextlib.chdir(cwd))
        try:
            run()
        except SystemExit as end:
            status = end.code
        finally:
            sys.excepthook, warnings.showwarning = hooks
    return Outcome(int(str(status or 0)), out.getvalue(), err.getvalue())
