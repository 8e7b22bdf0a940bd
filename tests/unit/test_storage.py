import errno
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import yaml

from fossil.errors import RunError
from fossil.storage import (
    read_arrays,
    read_bytes,
    read_json,
    read_yaml,
    sha256,
    write_arrays,
    write_atomically,
    write_bytes,
    write_json,
    write_text,
    write_yaml,
)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize(
    ("failure", "seen"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), RunError),
        (ValueError("not a disk matter"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failing_writer_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: BaseException, seen: type[BaseException]
) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write(stream: BinaryIO) -> None:
        stream.write(b"half of the new")
        raise failure

    with pytest.raises(seen):
        write_atomically(path, write)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_full_disk_is_named_with_path_reason_and_remedy(tmp_path: Path) -> None:
    def write(_: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(RunError) as caught:
        write_atomically(tmp_path / "new.txt", write)
    assert str(tmp_path / "new.txt") in caught.value.what and "No space left" in caught.value.what
    assert "room" in caught.value.remedy
    assert names(tmp_path) == []


def test_a_failing_rename_leaves_no_part_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inner").touch()
    with pytest.raises(RunError):
        write_bytes(tmp_path / "taken", b"x")
    assert names(tmp_path) == ["taken"]


def test_a_file_in_the_way_of_the_folder_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError):
        write_text(tmp_path / "file" / "below.txt", "x")


def test_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.bin"
    write_bytes(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert names(path.parent) == ["c.bin"]


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077])
def test_umask_says_who_may_read_a_file(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_bytes(tmp_path / "new.bin", b"x")
        (tmp_path / "plain.bin").write_bytes(b"x")
    finally:
        os.umask(before)
    found, plain = ((tmp_path / name).stat().st_mode & 0o777 for name in ("new.bin", "plain.bin"))
    assert found == plain == 0o666 & ~mask


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, bytes]] = []
    sync, replace = os.fsync, Path.replace

    def syncing(descriptor: int) -> None:
        done.append(("synced", Path(f"/proc/self/fd/{descriptor}").read_bytes()))
        sync(descriptor)

    def replacing(path: Path, target: Path) -> Path:
        done.append(("named", path.read_bytes()))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "replace", replacing)
    write_bytes(tmp_path / "c.bin", b"all of it")
    assert done == [("synced", b"all of it"), ("named", b"all of it")]


def test_the_old_file_stands_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = []

    def write(stream: BinaryIO) -> None:
        stream.write(b"new")
        seen.append(path.read_bytes())

    write_atomically(path, write)
    assert (seen, path.read_bytes()) == ([b"old"], b"new")


def test_text_json_and_yaml_come_back(tmp_path: Path) -> None:
    value = {"λ": [1, 0.5, None], "a": {"b": "ü"}}
    write_text(tmp_path / "t", "λ\n")
    write_json(tmp_path / "j", value)
    write_yaml(tmp_path / "y", value)
    assert (tmp_path / "t").read_bytes() == "λ\n".encode()
    assert read_json(tmp_path / "j") == value
    assert list(yaml.safe_load((tmp_path / "y").read_text(encoding="utf-8")).items()) == list(value.items())


def test_json_without_a_json_form_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "j", 1)
    with pytest.raises(ValueError):
        write_json(tmp_path / "j", float("nan"))
    assert read_json(tmp_path / "j") == 1
    assert names(tmp_path) == ["j"]


@pytest.mark.parametrize("compress", [True, False])
def test_arrays_come_back_with_names_and_types(tmp_path: Path, compress: bool) -> None:
    arrays = {
        "vectors": np.arange(6, dtype=np.float32).reshape(2, 3),
        "ids": np.array(["a", "ü"]),
        "none": np.zeros((0, 4)),
    }
    write_arrays(tmp_path / "a.npz", arrays, compress=compress)
    found = read_arrays(tmp_path / "a.npz")
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


@pytest.mark.parametrize(
    "array", [np.array([{}, 1], dtype=object), np.zeros(2, dtype=[("a", object)])], ids=["object", "record"]
)
def test_arrays_of_objects_are_refused_and_nothing_is_written(tmp_path: Path, array: Any) -> None:
    with pytest.raises(RunError, match="'ids' holds Python objects"):
        write_arrays(tmp_path / "a.npz", {"ids": array})
    assert names(tmp_path) == []


def test_pickles_in_an_archive_are_never_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.array([print], dtype=object))
    with pytest.raises(RunError, match="damaged"):
        read_arrays(tmp_path / "a.npz")


def test_missing_files_are_named(tmp_path: Path) -> None:
    for read in (read_arrays, read_json):
        with pytest.raises(RunError, match=r"no\.file is missing"):
            read(tmp_path / "no.file")


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_truncated_archives_are_run_errors(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.random.default_rng(0).random(200)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RunError, match="damaged"):
        read_arrays(path)


def test_flipped_bytes_in_an_archive_are_run_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.random.default_rng(0).random(200)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(RunError, match="damaged"):
        read_arrays(path)


def test_an_array_for_which_there_is_no_memory_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path / "a.npz", {"a": np.arange(3)})

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 256. MiB")

    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", refuse)
    with pytest.raises(MemoryError, match="256"):
        read_arrays(tmp_path / "a.npz")


def test_a_single_array_in_place_of_an_archive_is_a_run_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as stream:
        np.save(stream, np.arange(3))
    with pytest.raises(RunError, match="damaged"):
        read_arrays(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"{'a': 1}"])
def test_damaged_json_is_a_run_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(RunError, match="not valid JSON"):
        read_json(tmp_path / "j")


def test_a_folder_in_place_of_a_json_file_is_a_run_error(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        read_json(tmp_path)


@pytest.mark.parametrize("read", [read_arrays, read_json, read_yaml, read_bytes, sha256])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "dangling", "missing", "long"])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, read: Any, kind: str) -> None:
    path = tmp_path / ("x" * 300 if kind == "long" else kind)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError) as caught:
        read(path)
    assert str(path) in caught.value.what and caught.value.remedy


def test_yaml_comes_back_without_aliases(tmp_path: Path) -> None:
    shared = [1, 2]
    value = {"first": shared, "second": shared, "text": "λ", "none": None}
    write_yaml(tmp_path / "c.yaml", value)
    assert read_yaml(tmp_path / "c.yaml") == value and "&" not in (tmp_path / "c.yaml").read_text()


@pytest.mark.parametrize("content", [b"[" * 9000, b'{"a": ' * 9000, b"1" * 5000, b"\xff", b"", b"{"])
def test_json_that_is_none_is_one_message(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(RunError, match="is not valid JSON"):
        read_json(tmp_path / "x.json")


def test_a_digest_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")  # the example of FIPS 180-2
    assert sha256(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
