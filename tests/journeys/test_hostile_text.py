"""No text of others acts on a terminal, none is taken for markup, and no encoding of a terminal ends a command."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from command import PROGRAM, QUICK, environment, here, in_process
from hostile import CLEAR, NAME, TITLE, acting, walk, write_graph
from people import write_town


def test_no_command_lets_text_of_others_act(tmp_path: Path) -> None:
    env = {"FOSSIL_DATA": str(tmp_path / NAME)}
    seen = 0
    for command, status in walk(tmp_path):
        outcome = here(*command, env=env)
        assert outcome.status == status, (command, outcome)
        assert not acting(outcome.out + outcome.err), (command, outcome)
        assert not re.search("^(error|remedy): (fake|curl)", outcome.err, re.MULTILINE), outcome.err
        seen += "[red]x[/" in outcome.out + outcome.err
    assert seen > 20  # it was there to be seen, as it is written


def test_programs_get_the_values_as_they_are(tmp_path: Path) -> None:
    town, run = write_graph(tmp_path / NAME), tmp_path / "run"
    label = next(csv.reader((town / "nodes.csv").open(newline="", encoding="utf-8")))[-1]
    assert here("embed", town, "--label", label, "--method", "features", "--out", run).status == 0
    score = ("evaluate", run, "--splits", "2", "--nodes-per-class", "5", "--device", "cpu", "--format")
    [row] = json.loads(here(*score, "json").out)
    assert row["graph"] == NAME
    [row] = csv.DictReader(io.StringIO(here(*score, "csv").out, newline=""))
    assert row["graph"] == NAME


def on_a_terminal(*arguments: str | Path, env: dict[str, str]) -> tuple[int, bytes]:
    """Run the command on a terminal of its own; return its status and all bytes that reach it."""
    ours, theirs = pty.openpty()
    command = [*PROGRAM, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment(env), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's end of a terminal
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return process.wait(timeout=120), seen


# What Rich writes: colours, the cursor hidden and shown, lines and the screen behind the cursor taken away.
OUR_OWN = re.compile(r"\x1b\[(\d*(;\d+)*m|\?25[lh]|2K|\d*A|\d*G)|\r")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_terminal_gets_no_escape_sequence_but_our_own(tmp_path: Path, encoding: str) -> None:
    town = write_graph(tmp_path / NAME)
    env = {"PYTHONIOENCODING": encoding, "TERM": "xterm-256color"}
    train = ("embed", town, "--method", "dgi", "--epochs", "3", "--device", "cpu", "--out", tmp_path / f"run{NAME}")
    status, seen = on_a_terminal(*train, env=env)
    assert status == 0, seen
    text = seen.decode(encoding)
    assert "training" in text and "\x1b[?25l" in text  # the bar was there
    assert TITLE not in text and CLEAR not in text
    assert not acting(OUR_OWN.sub("", text))


PAPER = ("--method", "fossil")  # whose λ is printed
COMMANDS = (
    ("--help",),
    ("embed", "--help"),
    ("methods",),
    ("methods", "--method", "fossil"),
    ("methods", "--method", "muse", "--format", "csv"),
    ("data", "list"),
    ("data", "formats"),
    ("doctor",),
    ("data", "describe", "{town}", "--label", "label"),
    ("data", "describe", "{town}", "--label", "λ"),
    ("embed", "{town}", "--label", "label", "--epochs", "2", *PAPER, *QUICK, "--out", "{run}", "--map"),
    ("evaluate", "{run}", "--splits", "2", "--features", "--device", "cpu"),
    ("evaluate", "{run}", "--splits", "2", "--device", "cpu", "--format", "json"),
    ("evaluate", "{run}", "--splits", "2", "--device", "cpu", "--format", "csv"),
    ("embed", "{town}", "--run", "{run}", "--out", "{run}-2", "--device", "cpu"),
    ("map", "{run}", "--force"),
)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_no_encoding_of_a_terminal_ends_a_command(tmp_path: Path, encoding: str) -> None:
    town = write_town(tmp_path / "Łódź → λ", 60)
    for command in COMMANDS:
        words = [word.format(town=town, run=tmp_path / "Läufe") for word in command]
        outcome = streamed(words, encoding)
        assert outcome[0] == (2 if "λ" in command else 0), (command, outcome)
        assert "Traceback" not in outcome[2]
        if "embed" in command and "--map" in command:
            assert "\\u0141\\xf3d\\u017a -> lambda:" in outcome[1].replace("ó", "\\xf3")
            assert "lambda (weight of structure per node)" in outcome[1]


def streamed(words: list[str], encoding: str) -> tuple[int, str, str]:
    """Run the command in this process with streams of that encoding, as strict as Python makes standard output."""
    import contextlib
    import sys
    import warnings
    from unittest import mock

    from fossil.cli.main import run

    raw = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(one, encoding=encoding, errors="strict") for one in raw)
    status: object = 0
    with (
        mock.patch.dict(os.environ, environment()),
        mock.patch.object(sys, "argv", ["fossil", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        try:
            run()
        except SystemExit as end:
            status = end.code
        out.flush()
        err.flush()
        return int(str(status or 0)), *(one.getvalue().decode(encoding) for one in raw)


def test_a_pipe_without_unicode_is_none_the_worse(tmp_path: Path) -> None:
    town = write_town(tmp_path / "Łódź", 40)
    env = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    train = ("embed", town, "--method", "dgi", "--epochs", "1", "--device", "cpu", "--out", tmp_path / "run")
    done = in_process(*train, env=env)
    assert done.status == 0, done.err
    assert "->" in done.out and done.out.isascii()
