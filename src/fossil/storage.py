"""Files that are either whole or absent.

A reader never sees half a file: content goes to a temporary neighbour, reaches the disk, and takes the final
name in one step. When the disk is full the neighbour is removed and the previous file is still there.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import yaml

from fossil.errors import RunError


def user_cache(name: str) -> Path:
    """Return the folder of this package's cache for one purpose, in `$XDG_CACHE_HOME/fossil` or `~/.cache/fossil`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fossil" / name


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`.

    Raises:
        RunError: the operating system refused (disk full, no permission, path not writable).
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(descriptor, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise RunError(
            f"Could not write {path}: {error.strerror or error}.",
            remedy="Make room there or choose another folder; whatever stood there before is untouched.",
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


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
    write_text(path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]], *, compress: bool = True) -> None:
    """Write named arrays as NPZ, atomically; object arrays are refused, so that no pickle is ever written."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise RunError(f"Array {name!r} holds Python objects.", remedy="Convert it to numbers or strings.")
    save: Any = np.savez_compressed if compress else np.savez
    write_atomically(path, lambda stream: save(stream, **arrays))


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Read an NPZ file without executing anything in it.

    Raises:
        RunError: the file is missing, damaged, or holds pickled objects.
    """
    try:
        content = np.load(path, allow_pickle=False)
        if not isinstance(content, np.lib.npyio.NpzFile):
            raise ValueError("a single array, no archive of arrays")
        with content:
            return {name: content[name] for name in content.files}
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing.", remedy="The run is not finished: go on with --resume.") from error
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(f"{path} is damaged ({error}).", remedy="Make it again with --resume or --force.") from error


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        RunError: the file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing.", remedy="The run is not finished: go on with --resume.") from error
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise RunError(
            f"{path} is not valid JSON ({error}).", remedy="The file was damaged after it was written."
        ) from error
