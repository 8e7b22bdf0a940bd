"""`fossil explore` as a user has it: a process that prints an address, answers there, and ends when it is told to."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from command import PROGRAM, environment, here


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, one that is not finished, and something else."""
    folder = tmp_path_factory.mktemp("explored")
    for name in ("run", "unfinished"):
        done = here("embed", "csbm:nodes=200,degree=12", "--method", "features", "--out", name, cwd=folder)
        assert done.status == 0, done.err
    (folder / "unfinished" / "summary.json").unlink()
    (folder / "notes").mkdir()
    return folder


@contextmanager
def exploring(place: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command; yields it and the address that it prints first."""
    command = [*PROGRAM, "explore", "run", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=place, env=environment(), text=True, **pipes)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_it_prints_an_address_answers_there_and_ends_in_peace(place: Path, number: signal.Signals) -> None:
    with exploring(place) as (process, address):
        assert address.startswith("http://127.0.0.1:") and address.endswith("/")
        with urlopen(f"{address}api/meta") as reply:
            assert json.load(reply)["runs"][0]["nodes"] == 200
        with urlopen(address) as reply:
            assert reply.read().startswith(b"<!doctype html>")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out.endswith("stopped\n") and err == ""
    port = int(address.split(":")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port)):
        pass  # it is free again
    assert not (place / "run" / "run.lock").exists()


def test_two_servers_of_one_run_answer_side_by_side(place: Path) -> None:
    with exploring(place) as (_, first), exploring(place) as (_, second):
        assert first != second
        for address in (first, second):
            with urlopen(f"{address}api/ids?run=0&rows=3") as reply:
                assert json.load(reply) == ["3"]


def test_a_port_is_used_if_it_is_free_and_named_if_it_is_not(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = here("explore", "run", "--port", port, cwd=place)
    assert refused.status == 2 and refused.line("error") == f"Port {port} of 127.0.0.1 is in use."
    assert refused.line("remedy") == "Choose another --port, or leave it out for a free one." and refused.out == ""
    with exploring(place, "--port", port) as (_, address):
        assert address.startswith(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("unfinished",), "The run in unfinished is not finished."),
        (("notes",), "notes is not a run folder."),
        (("nowhere",), "nowhere is not a run folder."),
        (("run", "--port", "65536"), "Invalid value for '--port'"),
    ],
)
def test_what_cannot_be_explored_is_said_in_one_message(place: Path, arguments: tuple[str, ...], said: str) -> None:
    done = here("explore", *arguments, cwd=place)
    assert done.status == 2 and done.line("error").startswith(said) and done.out == ""


def test_an_index_without_its_package_is_refused_with_what_to_install(place: Path) -> None:
    (place / "hidden" / "usearch").mkdir(parents=True)
    (place / "hidden" / "usearch" / "__init__.py").write_text("raise ImportError('not here')\n")
    command = [*PROGRAM, "explore", "run", "--no-exact"]
    env = environment()
    env["PYTHONPATH"] = f"{place / 'hidden'}:{env.get('PYTHONPATH', '')}"
    done = subprocess.run(command, cwd=place, env=env, text=True, capture_output=True, timeout=120)
    assert done.returncode == 2 and "needs usearch, which is not installed" in done.stderr
    assert "pip install 'fossil-gnn[neighbours]'" in done.stderr
