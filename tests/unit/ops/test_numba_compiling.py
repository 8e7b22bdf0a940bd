"""What is said while kernels are compiled, and where their machine code is kept."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")

from numba import njit

from fossil.ops.numba.compiling import entry

SOURCES = Path(__file__).parents[3] / "src"

SOLVING = """
import torch
from fossil.transport import BAPG, FusedProblem
generator = torch.Generator().manual_seed(0)
cost = torch.rand(40, 12, 12, generator=generator).requires_grad_()
problem = FusedProblem.uniform(cost, cost + cost.mT, cost + cost.mT, 0.5)
solution = BAPG(step=0.5, iterations=20, tolerance=None, symmetric=True)(problem)
solution.value.sum().backward()
print(solution.value.sum().item(), cost.grad.abs().sum().item())
"""


def solve(cache: Path) -> tuple[str, str]:
    """Solve and differentiate in a process of its own; return what it prints and what it says beside."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("TRITON_INTERPRET", "NUMBA_CACHE_DIR")
    }
    environment["XDG_CACHE_HOME"] = str(cache)
    command = [sys.executable, "-c", SOLVING]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def kept(folder: Path) -> set[Path]:
    return set(folder.rglob("*.nb[ic]"))


def test_the_first_process_says_once_that_it_compiles_and_the_next_one_finds_the_machine_code(tmp_path: Path) -> None:
    beside = kept(SOURCES)
    found, said = solve(tmp_path)
    assert said.count("compiling the CPU solver") == 1
    files = kept(tmp_path)
    assert {path.relative_to(tmp_path).parts[:2] for path in files} == {("fossil", "numba")}
    assert {path.name.partition("_kernel")[0] for path in files} == {"bapg.solve", "envelope.gradient"}
    assert kept(SOURCES) == beside
    again, said = solve(tmp_path)
    assert again == found
    assert "compiling" not in said
    assert kept(tmp_path) == files


def double_of(module: str | None, path: str = "/no/such/folder/source.py") -> Callable[[int], int]:
    """Return a function that nobody wrote in a module of this name, or in none, and in a file of this path."""
    namespace: dict[str, Any] = {} if module is None else {"__name__": module}
    exec(compile("def double(x):\n    return 2 * x\n", path, "exec"), namespace)
    made: Callable[[int], int] = namespace["double"]
    return made


def test_machine_code_that_cannot_be_kept_is_made_anyway() -> None:
    assert entry(double_of(None))(21) == 42


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, file = tmp_path / "source.py", tmp_path / "file"
    source.touch()
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))  # no folder can be made in it
    assert entry(double_of("somewhere", str(source)))(21) == 42


def test_nothing_is_said_of_functions_that_others_compile(caplog: pytest.LogCaptureFixture) -> None:
    for module in ("somewhere", "fossilised.elsewhere", None):
        assert njit(double_of(module))(21) == 42
    assert not caplog.records
