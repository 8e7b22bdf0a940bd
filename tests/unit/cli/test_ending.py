"""How the command ends when something ends it that nobody foresaw."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

import fossil.cli.main as main
from fossil.cli.ending import Status, explained
from fossil.errors import FossilError, GraphError
from fossil.studies.execute import StudyInterruptedError

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "what-can-go-wrong.md"


def end(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str]:
    """Let a command raise `error`; return the status of the process and what it says."""

    def command() -> None:
        raise error

    app = typer.Typer()
    app.command()(command)
    monkeypatch.setattr(main, "app", app)
    monkeypatch.setattr(sys, "argv", ["fossil", *words])
    with pytest.raises(SystemExit) as ended:
        main.run()
    seen = capsys.readouterr()
    assert not seen.out and "Traceback" not in seen.err
    return int(str(ended.value.code)), seen.err


@pytest.mark.parametrize(
    "error",
    [
        TypeError("wrong \x1b[2J"),
        RuntimeError("two\nlines"),
        RecursionError("too deep"),
        KeyError("k"),
        AssertionError(),
        EOFError("ran out"),  # which Typer calls Abort
        SystemError("odd"),
        OSError("without a number"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        BaseException("not even an Exception"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_is_owned_up_to_and_its_details_are_kept(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    status, said = end(error, monkeypatch, capsys)
    assert status == Status.FAULT == 70
    what, details, remedy = said.strip().splitlines()  # before an EOFError, Typer ends the line
    assert what.startswith("error: this is a fault of fossil-gnn: ") and type(error).__name__ in what
    assert remedy.startswith("remedy: Report it") and "\x1b" not in said
    [file] = tmp_path.iterdir()
    assert details == f"details: {file}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = file.read_text()
    assert "Traceback (most recent call last)" in kept and "test_ending.py" in kept and "\x1b" not in kept
    assert f"python: {sys.version.split()[0]}" in kept and f"torch {torch.__version__}" in kept
    assert re.search(r"^command: fossil$", kept, re.MULTILINE)


def test_every_fault_has_a_file_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(3):
        end(TypeError("again"), monkeypatch, capsys)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_fault_is_told_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no such folder"))
    status, said = end(TypeError("wrong"), monkeypatch, capsys)
    assert status == Status.FAULT and "TypeError: wrong" in said
    assert "details: could not be written (No such file or directory)" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "There is not enough memory."),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
            "not enough memory (CUDA out of memory",
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "Could not read or write: No space left on device."),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/x"), "write out/x: No space left on device."),
        (PermissionError(errno.EACCES, "Permission denied", "secret"), "secret: Permission denied."),
        (OSError(errno.EROFS, "Read-only file system", b"cd\xff"), "cd\\udcff: Read-only file system."),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), "File name too long."),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "town"), "town: Is a directory."),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "gone"), "gone: No such file"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files."),
        (GraphError("No nodes.", remedy="Add some."), "No nodes."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_lies_outside_the_package_has_a_message_of_its_own(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    status, printed = end(error, monkeypatch, capsys)
    assert status == Status.REFUSED == 2
    first, second = printed.splitlines()
    assert first.startswith("error: ") and said in first
    assert second.startswith("remedy: ")
    assert not list(tmp_path.iterdir())


def test_real_lacks_of_memory_are_known() -> None:
    for allocate in (lambda: np.ones(2**50), lambda: torch.ones(2**50)):
        with pytest.raises(Exception) as caught:
            allocate()
        told = explained(caught.value)
        assert told is not None and "not enough memory" in told.what


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ImportError("half a class")], ids=["plain", "wrapped"])
def test_an_interrupt_is_no_fault(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not isinstance(error, KeyboardInterrupt):
        error.__cause__ = KeyboardInterrupt()
    status, said = end(error, monkeypatch, capsys)
    assert status == Status.INTERRUPTED == 130
    assert said == "interrupted: what is on disk is whole; the same command goes on, for a run with --resume\n"


def test_an_error_that_tells_its_own_interrupt_keeps_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = StudyInterruptedError("Stopped.", remedy="Go on.")
    error.__cause__ = KeyboardInterrupt()
    assert end(error, monkeypatch, capsys) == (130, "error: Stopped.\nremedy: Go on.\n")


def test_a_status_that_something_leaves_with_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(SystemExit(7), monkeypatch, capsys) == (7, "")


def test_only_indented_lines_are_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    error = FossilError("2 troubles:\n  1. a\nremedy: fake\n  2. b", remedy="One.\nerror: fake")
    _, said = end(error, monkeypatch, capsys)
    assert said == "error: 2 troubles:\n  1. a\\nremedy: fake\n  2. b\nremedy: One.\\nerror: fake\n"


def listening(lines: int, *words: str) -> tuple[int, str]:
    """Run the command with a reader that goes away after so many lines; return its status and what it says."""
    command = [sys.executable, "-m", "fossil", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    for _ in range(lines):
        process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    return process.wait(timeout=120), said


@pytest.mark.parametrize("words", [("data", "list"), ("data", "list", "--format", "json")])
def test_a_reader_that_goes_away_is_no_news(words: tuple[str, ...]) -> None:
    assert listening(0, *words) == (Status.UNHEARD, "")


def test_closed_streams_are_no_fault() -> None:
    for closing, words, status in (
        (">&-", "data list", Status.DONE),
        ("2>&-", "data describe nothing", Status.REFUSED),
    ):
        command = f"{sys.executable} -m fossil {words} {closing}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_a_full_disk_behind_the_output_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fossil", "data", "list", "--format", "json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == Status.REFUSED
    assert done.stderr.startswith("error: Could not read or write: No space left on device.")
    assert "Exception" not in done.stderr


def test_the_guide_lists_the_statuses() -> None:
    section = GUIDE.read_text(encoding="utf-8").partition("## Exit statuses")[2].partition("\n## ")[0]
    listed = [int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert listed == sorted(listed) and set(listed) == set(map(int, Status))
