"""Trainings that are killed, told to stop, started twice at once, or run out of disk; each must come out as if alone.

A training is the command itself, `fossil embed`, in a fork of the cell. What a run comes to is compared with a lone run
of the same method: configuration, graph, vectors, weights and history, bit for bit.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import run_samples
import samples
from cell import Verdict
from digests import digest

from fossil.cli.ending import Status
from fossil.methods.registry import get_method, methods

EPOCHS = 20
# How a training may end after a signal: as a shell counts it, or by the signal itself where nothing heard it yet.
_SIGNALS = {number: (128 + number, -number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
_PATIENCE = 60.0  # seconds that one training may take on a busy machine


def trained() -> list[str]:
    """Return the methods that are trained, by name."""
    return sorted(name for name, kind in methods().items() if kind.trained and kind.__module__.startswith("fossil."))


def arguments(folder: Path, method: str, *further: str, out: str = "run") -> list[str]:
    """Return the command that trains on the town in `folder`."""
    settings = [f"--set={name}={value}" for name, value in run_samples.small(get_method(method)).items()]
    fixed = ("--device", "cpu", "--epochs", str(EPOCHS), "--method", method)
    return ["embed", str(folder / "nodes.csv"), "--out", str(folder / out), *fixed, *settings, *further]


class Training:
    """`fossil` with some arguments, in a fork of this process.

    Args:
        words: the arguments.
        said: file that gets what it prints.
        before: called in the new process, first.
    """

    def __init__(self, words: list[str], said: Path, before: Callable[[], object] = lambda: None) -> None:
        self.said, self.began, self.status = said, time.monotonic(), None
        said.touch()  # a signal may come before the new process has opened it
        self.process = os.fork()
        if self.process == 0:
            _train(words, said, before)

    status: int | None

    def over(self) -> bool:
        """Tell whether it has ended."""
        if self.status is None:
            ended, status = os.waitpid(self.process, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if ended else None
        return self.status is not None

    def wait(self, seconds: float = _PATIENCE) -> bool:
        """Wait until it has ended, so long at most, and tell whether it has."""
        limit = time.monotonic() + seconds
        while not self.over() and time.monotonic() < limit:
            time.sleep(0.002)
        return self.over()

    def send(self, number: int) -> None:
        """Send it a signal."""
        if not self.over():
            os.kill(self.process, number)

    @property
    def words(self) -> str:
        """What it printed."""
        return self.said.read_text(errors="replace")

    @property
    def error(self) -> str:
        """The line in which it says what was wrong."""
        found = [line for line in self.words.splitlines() if line.startswith(("error:", "interrupted:"))]
        return found[0] if found else ""

    def fault(self) -> Verdict | None:
        """Return what is wrong with the way it ended, whatever it was told."""
        if self.status is None:
            return Verdict("hang", "the training did not end")
        if "Traceback (most recent" in self.words or self.status == Status.FAULT:
            last = [line for line in self.words.splitlines() if line.strip()]
            return Verdict("traceback", last[-1][:200])
        return None


def _train(words: list[str], said: Path, before: Callable[[], object]) -> None:
    from fossil.cli.main import run

    code: object = 1
    try:
        target = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(target, descriptor)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()
        sys.argv = ["fossil", *words]
        try:
            run()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else 1)


def outcome(folder: Path, out: str = "run") -> str:
    """Return the digest of a finished run and its history."""
    run = folder / out
    view = folder / "view"  # what `open_whole` opens is called `run`
    view.mkdir(exist_ok=True)
    link = view / "run"
    link.unlink(missing_ok=True)
    link.symlink_to(run)
    return digest([run_samples.open_whole(view), run_samples.history(run)])


@dataclass(frozen=True)
class Lone:
    """How a method does when nobody disturbs it.

    Attributes:
        digest: of what it comes to.
        seconds: that it takes.
    """

    digest: str
    seconds: float


def stock(folder: Path, share: float) -> None:
    """Train every method that such a share of the trials uses once, and write down what it came to."""
    path = folder / "lone.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    wanted = trained()[: max(round(share * count) for count in COUNTS.values())]
    if path.exists() and set(wanted) <= set(found):
        return
    town = folder / "lone"
    town.mkdir(parents=True, exist_ok=True)
    samples.town(town)
    for method in wanted:
        training = Training(arguments(town, method, "--force", out=method), town / "said.txt")
        training.wait()
        seconds = time.monotonic() - training.began
        if training.status != 0:
            raise RuntimeError(f"{method}: {training.words}")
        found[method] = [outcome(town, method), seconds]
    path.write_text(json.dumps(found))


def lone(folder: Path) -> dict[str, Lone]:
    """Return what `stock` wrote down."""
    return {name: Lone(*values) for name, values in json.loads((folder / "lone.json").read_text()).items()}


@dataclass(frozen=True)
class Trial:
    """A training that is disturbed; all of them share how it is made and compared."""

    method: str
    number: int
    alone: Lone

    kind: ClassVar[str]
    row: ClassVar[str]
    seconds: ClassVar[float] = 4 * _PATIENCE
    together: ClassVar[int] = 1

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.method}/{self.number:03d}"

    def prepare(self, folder: Path) -> None:
        """Write the tables to train on."""
        samples.town(folder)

    def play(self, folder: Path) -> Verdict:
        """Disturb a training."""
        return self.disturb(folder, random.Random(self.key))

    def disturb(self, folder: Path, draw: random.Random) -> Verdict:
        raise NotImplementedError

    def start(
        self, folder: Path, *further: str, before: Callable[[], object] = lambda: None, said: str = "said.txt"
    ) -> Training:
        return Training(arguments(folder, self.method, *further), folder / said, before)

    def finish(self, folder: Path, told: dict[str, int], *further: str) -> Verdict:
        """Go on with the run until it is over, and compare."""
        last = self.start(folder, "--resume", *further)
        last.wait()
        fault = last.fault()
        if fault is not None:
            return fault
        if last.status != 0:
            return Verdict("differs", f"the resume ended with {last.status}: {last.error}", told)
        return self.compare(folder, told)

    def compare(self, folder: Path, told: dict[str, int]) -> Verdict:
        if outcome(folder) != self.alone.digest:
            return Verdict("differs", "vectors, weights, graph or history differ from those of a lone run", told)
        left = [path.name for path in (folder / "run").iterdir() if path.name.endswith(".part")]
        return Verdict("differs", f"{left[0]} is left", told) if left else Verdict("equal", "", told)


class Kill(Trial):
    """SIGKILL at a random moment, once or several times; then to the end."""

    kind, row = "kill", "SIGKILL, then resumed"

    def disturb(self, folder: Path, draw: random.Random) -> Verdict:
        pace = ("--checkpoint-seconds", draw.choice(["0", "0.05", "15"]))
        kills, wanted = 0, draw.choice([1, 1, 1, 2, 3])
        for attempt in range(8):
            if kills == wanted:
                break
            training = self.start(folder, "--resume", *pace)
            training.wait(draw.uniform(0.0, 1.1 * self.alone.seconds) / (1 + attempt / 2))
            training.send(signal.SIGKILL)
            training.wait()
            kills += training.status == -signal.SIGKILL
            if training.status == 0 and attempt < 7:  # it was quicker: another folder
                (folder / "run").rename(folder / f"early{attempt}")
        return self.finish(folder, {"kills": kills}, *pace)


class Signal(Trial):
    """SIGINT, SIGTERM or SIGHUP at a random moment; it ends by itself, says so, and goes on."""

    kind, row = "signal", "SIGINT, SIGTERM, SIGHUP, then resumed"

    def disturb(self, folder: Path, draw: random.Random) -> Verdict:
        number = draw.choice(list(_SIGNALS))
        for attempt in range(8):
            training = self.start(folder, "--resume")
            training.wait(draw.uniform(0.0, 1.1 * self.alone.seconds) / (1 + attempt / 2))
            training.send(number)
            if not training.wait(20):
                training.send(signal.SIGKILL)
                training.wait()
                return Verdict("hang", f"it went on for 20 seconds after {number.name}")
            fault = training.fault()
            if fault is not None:
                return fault
            if training.status != 0:
                break
            (folder / "run").rename(folder / f"early{attempt}")
        told = {number.name: int(training.status != 0)}
        if training.status not in (0, *_SIGNALS[number]):
            return Verdict("differs", f"{number.name}: status {training.status}, {training.error}", told)
        run = folder / "run"
        begun = (run / "history.jsonl").exists() and (run / "history.jsonl").stat().st_size
        if begun and not (run / "checkpoint.safetensors").exists():
            return Verdict("differs", f"{number.name} lost epochs that were trained: {training.error}", told)
        return self.finish(folder, told)


class Pair(Trial):
    """Two processes with one `--out`: one of them trains, the other is told so; or one comes after the other."""

    kind, row = "pair", "two starts at once"
    further: ClassVar[tuple[str, ...]] = ()

    def disturb(self, folder: Path, draw: random.Random) -> Verdict:
        self.begin(folder)
        pause = draw.choice([0.0, 0.0, draw.uniform(0, 0.05), draw.uniform(0, self.alone.seconds)])
        first = self.start(folder, *self.further, said="first.txt")
        time.sleep(pause)
        second = self.start(folder, *self.further, said="second.txt")
        both = (first, second)
        for training in both:
            training.wait()
        for training in both:
            fault = training.fault()
            if fault is not None:
                return fault
        statuses = sorted(training.status or 0 for training in both)
        loser = next((training.error for training in both if training.status == 2), "")
        told = {
            "refused while the other trained": int("process" in loser),
            "one after the other": int("process" not in loser),
        }
        if statuses not in self.accepted():
            return Verdict("differs", f"statuses {statuses}: {loser}", told)
        verdict = self.compare(folder, told)
        return Verdict(verdict.outcome, verdict.detail or loser[:200], told)

    def begin(self, folder: Path) -> None:
        """Leave what both find."""

    def accepted(self) -> list[list[int]]:
        """Return how both may end."""
        return [[0, 2]]


class PairOfResumes(Pair):
    """Two processes that go on with one run."""

    kind, row, further = "pair-of-resumes", "two resumes at once", ("--resume",)

    def begin(self, folder: Path) -> None:
        training = self.start(folder, "--checkpoint-seconds", "0")
        history = folder / "run" / "history.jsonl"
        while not training.over() and not (history.exists() and history.stat().st_size):
            time.sleep(0.002)
        training.send(signal.SIGKILL)
        training.wait()

    def accepted(self) -> list[list[int]]:
        """Return how both may end; one that comes late finds a finished run, and nothing to do."""
        return [[0, 2], [0, 0]]


class SmallFiles(Trial):
    """Files that cannot grow beyond a size; then without that limit."""

    kind, row = "largest-file", "full disk (limit of a file), then resumed"

    def disturb(self, folder: Path, draw: random.Random) -> Verdict:
        size = int(2 ** draw.uniform(12, 17))  # what it prints goes to a file as well
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))  # noqa: E731
        training = self.start(folder, "--checkpoint-seconds", "0", before=limit)
        training.wait()
        fault = training.fault()
        if fault is not None:
            return fault
        if training.status not in (0, 2):
            return Verdict("differs", f"status {training.status} at {size} bytes: {training.error}")
        return self.finish(folder, {"refused": int(training.status == 2)})


class SmallDisk(Trial):
    """A file system of some kilobytes; then of more."""

    kind, row = "disk", "full disk (file system), then resumed"

    def disturb(self, folder: Path, draw: random.Random) -> Verdict:
        size, run = 4 * draw.randint(1, 60), folder / "run"
        run.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(run)]
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode != 0:
            return Verdict("skipped", f"no file system can be mounted here: {done.stderr.strip()}")
        try:
            training = self.start(folder, "--checkpoint-seconds", "0")
            training.wait()
            fault = training.fault()
            if fault is not None:
                return fault
            if training.status not in (0, 2):
                return Verdict("differs", f"status {training.status} at {size} kB: {training.error}")
            subprocess.run(["mount", "-o", "remount,size=16m", str(run)], check=True, capture_output=True)
            return self.finish(folder, {"refused": int(training.status == 2)})
        finally:
            subprocess.run(["umount", "--lazy", str(run)], capture_output=True)


COUNTS: dict[type[Trial], int] = {Kill: 100, Signal: 50, Pair: 60, PairOfResumes: 60, SmallFiles: 30, SmallDisk: 20}


def cases(share: float, alone: dict[str, Lone]) -> Iterator[Trial]:
    """Yield the trials, methods taking turns."""
    names = [name for name in trained() if name in alone]
    for kind, count in COUNTS.items():
        for number in range(round(share * count)):
            method = names[number % len(names)]
            yield kind(method, number, alone[method])
