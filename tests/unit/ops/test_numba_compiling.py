"""What is said while kernels are compiled, and where their machine code is kept."""

import importlib.util
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import njit

from fossil.ops.dispatch import seconds_compiling
from fossil.ops.numba.compiling import entry, inner

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
    for file in files:
        flip(file, 0.5)
    again, said = solve(tmp_path)
    assert again == found and said.count("compiling the CPU solver") == 1
    assert kept(tmp_path) == files


def double_of(module: str | None, path: str = "/no/such/folder/source.py") -> Callable[[int], int]:
    """Return a function that nobody wrote in a module of this name, or in none, and in a file of this path."""
    namespace: dict[str, Any] = {} if module is None else {"__name__": module}
    exec(compile("def double(x):\n    return 2 * x\n", path, "exec"), namespace)
    made: Callable[[int], int] = namespace["double"]
    return made


def test_the_time_that_compiling_takes_is_known() -> None:
    before = seconds_compiling()
    double = inner(double_of("fossil.made"))
    assert double(3) == 6
    compiled = seconds_compiling()
    assert compiled > before
    assert double(4) == 8 and seconds_compiling() == compiled


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


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 0x10
    path.write_bytes(content)


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_full_folder(path: Path) -> None:
    become_folder(path)
    (path / "file").touch()


def become_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def become_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def give_away(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        path.chmod(0o666)


class Marks:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def another_pickle(path: Path) -> None:
    content = pickle.dumps(Marks(path.parent / "ran"))
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "one byte": lambda path: path.write_bytes(b"x"),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "last byte gone": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "zeros at the end": lambda path: path.write_bytes(path.read_bytes()[:-4096] + bytes(4096)),
    "more at the end": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "text": lambda path: path.write_text("not machine code\n" * 100),
    "another pickle": another_pickle,
    "a bit of the digest": lambda path: flip(path, 0),
    "a bit near the start": lambda path: flip(path, 0.01),
    "a bit in the middle": lambda path: flip(path, 0.5),
    "a bit near the end": lambda path: flip(path, 0.99),
    "a folder": become_folder,
    "a folder with a file": become_full_folder,
    "a pipe": become_pipe,
    "a link to nothing": become_link,
    "unreadable": lambda path: path.chmod(0),
    "somebody else's": give_away,
    "anybody's": lambda path: path.chmod(0o666),
}

SHARED = """
import sys
from fossil.ops.dispatch import seconds_compiling
from fossil.ops.numba.compiling import entry, inner

@entry
def total(numbers):
    found = 0.0
    for number in numbers:
        found += number * number
    return found
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """What makes the same function anew, as the next process does, with a cache of its own."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "kernels.py"
    source.write_text(SHARED)

    def load() -> Any:
        spec = importlib.util.spec_from_file_location("kernels", source)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "kernels", module)
        spec.loader.exec_module(module)
        return module.total

    return load


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_machine_code_is_made_again(
    damage: Callable[[Path], object], kernel: Callable[[], Any], tmp_path: Path
) -> None:
    numbers = np.arange(10.0)
    first = kernel()
    assert first(numbers) == 285 and hits(first) == 0
    again = kernel()
    assert again(numbers) == 285 and hits(again) == 1
    [file] = kept(tmp_path)
    damage(file)
    hurt = kernel()
    assert hurt(numbers) == 285
    assert hits(hurt) == int(damage is DAMAGES["unreadable"] and os.geteuid() == 0)  # root reads all the same
    assert not list(tmp_path.rglob("ran"))
    mended = kernel()
    assert mended(numbers) == 285
    assert hits(mended) == int(damage is not become_full_folder)  # whose content nobody removes


def test_other_types_have_other_files(kernel: Callable[[], Any], tmp_path: Path) -> None:
    for numbers in (np.arange(10.0), np.arange(10)):
        assert kernel()(numbers) == 285
    assert len(kept(tmp_path)) == 2
    again = kernel()
    assert again(np.arange(10)) == again(np.arange(10.0)) == 285 and hits(again) == 2


def test_a_full_disk_costs_only_the_cache(
    kernel: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = kernel()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of which half would be written
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        assert function(np.arange(10.0)) == 285
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert not kept(tmp_path) and not list(tmp_path.rglob("*.part"))
