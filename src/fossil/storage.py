"""Files that are either whole or absent.

A reader never sees half a file: content goes to a temporary neighbour, reaches the disk, and takes the final
name in one step. When the disk is full the neighbour is removed and the previous file is still there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import yaml

from fossil.errors import RunError
from fossil.settings import plain_yaml


def user_cache(name: str) -> Path:
    """Return the folder of this package's cache for one purpose, in `$XDG_CACHE_HOME/fossil` or `~/.cache/fossil`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fossil" / name


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn whatever the operating system says inside the block about changing `path` into a RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"Could not write {path}: {error.strerror or error}.",
            remedy="Make room there or choose another folder; whatever stood there before is untouched.",
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever the operating system says inside the block about `path` into a RunError."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise RunError(f"Could not read {path}: {reason}.", remedy="Check the path and who may read it.") from error


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`; umask says who may read it.

    Raises:
        RunError: the operating system refused (disk full, no permission, path not writable).
    """
    made = False
    try:
        with writing(path):
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as stream:
                made = True
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
            made = False
    finally:
        if made:
            temporary.unlink(missing_ok=True)


@contextmanager
def taking_name(path: Path) -> Iterator[Path]:
    """Yield a free name beside `path` for a file or a folder to be written under; it takes the name `path` in the end.

    What stands at `path` is replaced then, and left as it is where the block raises.

    Raises:
        RunError: the operating system refused.
    """
    temporary, before = (path.with_name(f".{path.name}.{secrets.token_hex(6)}.{end}") for end in ("part", "old"))
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            _sync(temporary)
            if path.is_dir():  # no folder takes the name of one that is not empty
                path.rename(before)
            temporary.rename(path) if temporary.is_dir() else temporary.replace(path)
    except BaseException:
        if before.exists() and not path.exists():
            before.rename(path)
        raise
    finally:
        _remove(temporary)
        _remove(before)


def _sync(path: Path) -> None:
    """Have a file, or those of a folder, reach the disk."""
    for file in path.iterdir() if path.is_dir() else [path]:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically."""
    write_atomically(path, lambda stream: stream.write(content))


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically, in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_yaml(path: Path, value: object) -> None:
    """Write `value` as YAML with its keys in the given order, atomically."""
    write_text(path, yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]], *, compress: bool = True) -> None:
    """Write named arrays as NPZ, atomically; object arrays are refused, so that no pickle is ever written."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise RunError(f"Array {name!r} holds Python objects.", remedy="Convert it to numbers or strings.")
    save: Any = np.savez_compressed if compress else np.savez
    write_atomically(path, lambda stream: save(stream, **arrays))


def open_file(path: Path) -> io.BufferedReader:
    """Open a plain file for reading, through symbolic links; anything else is refused, and none is waited for.

    Raises:
        RunError: it is missing, cannot be read, or is a folder, a pipe or a device.
    """
    with reading(path):
        try:
            # Opening a pipe to which nobody writes would wait for ever.
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except FileNotFoundError as error:
            missing = "is a symbolic link to nothing" if path.is_symlink() else "is missing"
            raise RunError(f"{path} {missing}.", remedy="Put it back, or make it again with --resume.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunError(f"{path} is no plain file.", remedy="Put the file back, or make it again with --resume.")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path) -> bytes:
    """Return what is in a plain file; see `open_file` for what it raises."""
    with open_file(path) as stream, reading(path):
        return stream.read()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a plain file, in hexadecimal; see `open_file` for what it raises."""
    with open_file(path) as stream, reading(path):
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Read an NPZ file without executing anything in it.

    Raises:
        RunError: the file is missing, damaged, or holds pickled objects.
    """
    with open_file(path) as stream:
        try:
            content = np.load(stream, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("a single array, no archive of arrays")
            return {name: content[name] for name in content.files}
        except MemoryError:  # which says nothing about the file
            raise
        except Exception as error:  # NumPy and zipfile raise a dozen kinds of errors for a damaged file
            reason = " ".join(str(error).split()) or type(error).__name__
            raise RunError(
                f"{path} is damaged ({reason}).", remedy="Make it again with --resume or --force."
            ) from error


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        RunError: the file is missing or is not JSON.
    """
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise RunError(
            f"{path} is not valid JSON ({reason}).", remedy="The file was damaged after it was written."
        ) from error


def read_yaml(path: Path) -> Any:
    """Read a YAML file of plain values, of a mebibyte at most and without anchors, as `write_yaml` writes it.

    Raises:
        RunError: the file is missing or is something else.
    """
    content = read_bytes(path)
    try:
        if len(content) > _LARGEST_YAML:
            raise ValueError(f"{len(content):,} bytes, more than a configuration has")
        return plain_yaml(content.decode())
    except (yaml.YAMLError, ValueError) as error:
        raise RunError(f"{path} is damaged ({_yaml_reason(error)}).", remedy="Put the right file back.") from error


_LARGEST_YAML = 2**20


class _PlainDumper(yaml.SafeDumper):
    """Writes equal values twice in place of an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml_reason(error: Exception) -> str:
    """Return in one line why a file is no YAML of ours."""
    if isinstance(error.__cause__, RecursionError):
        return "nested too deeply"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())
