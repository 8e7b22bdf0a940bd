"""Build wheel and source archive, install the wheel into an environment that has nothing else, and try it there.

    python tests/distribution/fresh.py

`make try-dist` does that, and prints sizes and times; `test_distribution.py` holds it to what it should be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EMBED = ("embed", "csbm:nodes=200,features=8", "--epochs", "3", "--device", "cpu", "--out", "run")
COMMANDS = (
    ("--help",),
    EMBED,
    ("evaluate", "run"),
    ("export", "run", "--to", "csv"),
    ("report", "run", "--out", "report.html"),
)
_NO_INDEX = ("No matching distribution found", "Could not find a version", "Connection", "Temporary failure")


class NoIndexError(Exception):
    """pip cannot have the packages that the wheel needs."""


@dataclass(frozen=True)
class Tried:
    """What a command said, and how long it took."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str
    seconds: float


def build(folder: Path) -> tuple[Path, Path]:
    """Return the wheel and the source archive, built without the network and without isolation."""
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=ROOT)
    [wheel], [archive] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel and what it needs, without extras, into a new environment; return its Python.

    Raises:
        NoIndexError: pip finds no packages here.
    """
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    words = ("-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    done = subprocess.run([python, *words], capture_output=True, text=True, check=False, env=_environment())
    if done.returncode and any(sign in done.stderr for sign in _NO_INDEX):
        raise NoIndexError(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return python


def tried(python: Path, folder: Path) -> list[Tried]:
    """Run the commands in `folder`, as somebody who has just installed the package."""
    found = []
    for words in COMMANDS:
        began = time.perf_counter()
        done = subprocess.run(
            [python.with_name("fossil"), *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
        )
        found.append(Tried(words, done.returncode, done.stdout, done.stderr, time.perf_counter() - began))
    return found


def _environment() -> dict[str, str]:
    """The environment of this process without what would lead back to the sources."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FOSSIL_DATA")}


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def main() -> None:
    """Build, install, try, and print what it took."""
    dist = ROOT / "dist"
    for file in build(dist):
        print(f"{file.name}  {file.stat().st_size / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        python = install(next(dist.glob("*.whl")), Path(folder) / "fresh")
        print(f"installed without extras in {time.perf_counter() - began:.0f} s")
        for one in tried(python, Path(folder)):
            first = "  (time to the first vector)" if one.words == EMBED else ""
            print(f"fossil {' '.join(one.words)}: status {one.status}, {one.seconds:.1f} s{first}")
            if one.status:
                sys.exit(one.err)


if __name__ == "__main__":
    main()
