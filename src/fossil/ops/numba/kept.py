"""Machine code that is kept between processes: used where it is whole and one's own, and made again where not.

Numba's own files are unpickled as they are found, so that a damaged one ends the process, or runs. Here a file holds
one compiled function behind the digest of its bytes. The digest tells damage; against others, a file counts only where
it belongs to the user or to the administrator, and not everybody may write it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from fossil.errors import RunError
from fossil.storage import write_bytes

_DIGEST = hashlib.sha256().digest_size


class KeptCode(FunctionCache):
    """The cache of one function; what cannot be used or written leaves the function to be compiled."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _Files(Path(self.cache_path), self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for these types of arguments, None where there is none that can be used."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever unpickling and linking raise
            self._cache_file.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code for the next process, if it can be written."""
        with suppress(OSError, RunError):
            super().save_overload(sig, data)


class _Files:
    """One file for each combination of types and processor, in place of Numba's index and data files."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder, self.base = folder, base

    def load(self, key: Any) -> Any:
        """Return what was saved under this key; a file that is not whole is removed."""
        path = self._path(key)
        try:
            content = _read_own(path)
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                raise ValueError("damaged")
            saved_under, data = pickle.loads(content[_DIGEST:])
        except FileNotFoundError:
            return None
        except Exception:  # a pickle of another version of Python or NumPy raises what it likes
            _remove(path)
            return None
        return data if saved_under == key else None

    def save(self, key: Any, data: Any) -> None:
        """Save under this key."""
        content: bytes = dumps((key, data))
        write_bytes(self._path(key), hashlib.sha256(content).digest() + content)

    def flush(self) -> None:
        """Forget everything about this function."""
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            _remove(path)

    def _path(self, key: Any) -> Path:
        return self.folder / f"{self.base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"


def _read_own(path: Path) -> bytes:
    """Read a file that nobody else can have written."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe in its place is not waited for
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("no file")
        if hasattr(os, "getuid") and (found.st_uid not in (0, os.getuid()) or found.st_mode & stat.S_IWOTH):
            raise ValueError("somebody else's")
        return stream.read()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
