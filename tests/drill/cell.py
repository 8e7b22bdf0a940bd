"""A cell for cases: a fork of this process, with a clock, a scale, and an eye on what it opens.

The process that forks has PyTorch and fossil imported already, so that a case costs some hundredths of a second, and
has started no thread of its own. Cases are judged inside their cell; a cell in which one hangs, or whose resident
memory passes the limit, is ended from outside, along with every process it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MEMORY = 2 * 2**30  # bytes resident in all, of which PyTorch and its company take about 0.4 GB
GOOD = ("refused", "equal", "fine", "other", "skipped")
BAD = ("traceback", "hang", "memory", "silent", "differs", "trespass")

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_STARTING = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "socket.connect")
_CHANGING = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink")


@dataclass(frozen=True)
class Verdict:
    """How a case ended.

    Attributes:
        outcome: one of `GOOD` or `BAD`.
        detail: what was said, in one line, or where it went wrong.
        told: further counts, such as how many signals were sent.
    """

    outcome: str
    detail: str = ""
    told: dict[str, int] | None = None


class Cell:
    """A process in which cases run, one after the other.

    Args:
        plays: judge a case each; called in the new process.
        seconds: after which a case counts as hanging.
        memory: bytes that may be resident.

    Attributes:
        over: the process has ended; where it had to be ended, the cases after the last verdict were not tried.
        began: when the case under way began.
    """

    def __init__(self, plays: Sequence[Callable[[], Verdict]], seconds: float, memory: int = MEMORY) -> None:
        self.seconds, self.memory, self.began, self.over = seconds, memory, time.monotonic(), False
        self._left, self._said = len(plays), b""
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._process = os.fork()
        if self._process == 0:
            os.close(self._reading)
            _live(plays, memory, writing)
        os.close(writing)

    def poll(self) -> list[tuple[Verdict, float]]:
        """Return the verdicts that have come in, each with the seconds that its case took."""
        too_much = resident(self._process) > self.memory
        ended, status = os.waitpid(self._process, os.WNOHANG)
        found = self._listen()
        if ended:
            self._close()
            if self._left:
                found.append(
                    self._stopped("traceback", f"the process ended with status {os.waitstatus_to_exitcode(status)}")
                )
        elif too_much:
            self.end()
            found.append(self._stopped("memory", f"more than {self.memory / 2**30:.2g} GiB resident"))
        elif time.monotonic() - self.began > self.seconds:
            self.end()
            found.append(self._stopped("hang", f"more than {self.seconds:g} seconds"))
        return found

    def end(self) -> None:
        """End the process, whatever it is doing."""
        _end_group(self._process)
        os.waitpid(self._process, 0)
        self._close()

    def _stopped(self, outcome: str, detail: str) -> tuple[Verdict, float]:
        return Verdict(outcome, detail), time.monotonic() - self.began

    def _close(self) -> None:
        _end_group(self._process)  # what it may have left running
        os.close(self._reading)
        self.over = True

    def _listen(self) -> list[tuple[Verdict, float]]:
        """Return what the process has said since the last time."""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self._reading, 2**16):
                self._said += more
        *lines, self._said = self._said.split(b"\n")
        found = []
        for line in lines:
            now = time.monotonic()
            found.append((Verdict(**json.loads(line)), now - self.began))
            self.began, self._left = now, self._left - 1
        return found


def _end_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _live(plays: Sequence[Callable[[], Verdict]], memory: int, report: int) -> None:
    """Judge the cases in this process, a fork, and end it."""
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        for play in plays:
            Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
            try:
                verdict = play()
            except Exception as error:  # of the drill itself as well: nothing goes by unseen
                verdict = Verdict("traceback", where(error))
            if peak() > memory:
                verdict = Verdict("memory", f"{peak() / 2**30:.1f} GiB resident")
            os.write(report, json.dumps(asdict(verdict)).encode() + b"\n")
    finally:
        os._exit(0)


def where(error: BaseException) -> str:
    """Return an error in one line, with the last place in fossil that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if f"{os.sep}fossil{os.sep}" in frame.filename] or frames
    place = f"{Path(inside[-1].filename).name}:{inside[-1].lineno}" if inside else "nowhere"
    message = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__} at {place}: {message}"[:300]


def resident(process: int) -> int:
    """Return the bytes of a process that are in memory, 0 for one that has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def peak() -> int:
    """Return the most bytes that this process had in memory at once since its peak was last counted anew."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """Yield a list that fills with what nobody who only reads files in `folder` has any business to do."""
    noticed: list[str] = []
    inside, watching = os.path.realpath(folder) + os.sep, True

    def eye(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching:
            return
        if event in _STARTING:
            noticed.append(f"{event} {arguments[:2]}"[:200])
        elif event in _CHANGING or (event == "open" and (arguments[2] or 0) & _WRITING):
            path = str(Path(os.fsdecode(arguments[0])).absolute()) if isinstance(arguments[0], str | bytes) else ""
            if path and path != os.devnull and not path.startswith(inside):
                noticed.append(f"{event} {path}"[:200])

    sys.addaudithook(eye)
    try:
        yield noticed
    finally:
        watching = False
