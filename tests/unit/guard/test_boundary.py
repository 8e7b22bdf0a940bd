from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fossil.errors import DataError, FossilError, GraphError, SettingError
from fossil.guard.boundary import check_regular, reading
from fossil.readers.folder import read_frame
from fossil.readers.read import read_graph
from fossil.readers.source import open_graph


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OverflowError("too large"), r"f\.x cannot be read \(OverflowError: too large\)"),
        (SystemError("a bad call"), r"f\.x cannot be read \(SystemError: a bad call\)"),
        (LookupError(), r"f\.x cannot be read \(LookupError\)"),
        (ValueError("two\nlines"), r"f\.x cannot be read \(ValueError: two lines\)"),
        (ValueError("x" * 5000), r"f\.x cannot be read \(ValueError: x{197}\.\.\.\)"),
        (MemoryError(), r"f\.x does not fit in memory"),
        (RecursionError("maximum recursion"), r"f\.x is nested too deeply"),
        (PermissionError(13, "Permission denied"), r"f\.x cannot be read \(Permission denied\)"),
    ],
)
def test_whatever_a_file_raises_becomes_one_message_and_keeps_its_cause(error: Exception, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught, reading("f.x", DataError):
        raise error
    assert caught.value.__cause__ is error
    assert caught.value.remedy


def test_what_this_package_says_itself_passes() -> None:
    with pytest.raises(SettingError, match=r"^as it was"), reading("f.x"):
        raise SettingError("as it was")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), reading("f.x"):
        raise error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "is a named pipe, not a file"),
        (Path.mkdir, "has none of nodes"),  # a folder of tables may be called so
        (lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
        (lambda path: path.symlink_to("/dev/urandom"), "is a device, not a file"),
        (lambda path: path.symlink_to(path.name), "is no existing file|Too many levels|cannot be read"),
        (lambda path: path.symlink_to("nowhere"), "is no existing file|does not exist"),
    ],
)
@pytest.mark.parametrize("name", ["g.graphml", "g.npz", "g.csv", "g.parquet", "g.tsv.gz"])
def test_what_is_no_plain_file_is_refused_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], object], message: str, name: str
) -> None:
    make(tmp_path / name)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            read_graph(tmp_path / name)
        except BaseException as error:
            raised.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    assert not reader.is_alive()
    assert isinstance(raised[0], GraphError)
    with pytest.raises(GraphError, match=message):
        raise raised[0]


def test_a_pipe_in_a_folder_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nodes.csv")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(GraphError, match=r"nodes\.csv is a named pipe, not a file"):
        read_graph(tmp_path)


@pytest.mark.parametrize("path", ["n" * 5000 + ".csv", "a\0b.csv", "deep/" * 2000 + "g.npz"])
def test_a_path_that_no_file_can_have_is_not_there(path: str) -> None:
    for read in (read_graph, open_graph):
        with pytest.raises(GraphError, match=r"no existing file|nor an existing path"):
            read(path)
    with pytest.raises(GraphError, match="cannot be read"):
        read_frame(Path("n" * 5000 + ".csv"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="whoever is root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    for name in ("g.npz", "g.graphml", "g.csv", "g.parquet"):
        (tmp_path / name).write_bytes(b"content")
        (tmp_path / name).chmod(0)
        with pytest.raises(FossilError, match=f"{name} cannot be read .*Permission denied"):
            read_graph(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="does not exist"):
        check_regular(tmp_path / "absent")
