"""Arrays in files that are written block by block and read without being loaded.

A file is NPY, which any NumPy opens. It is written by appending, not through a memory map: a full disk is then an error
that can be told, where a memory map would end the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fossil.errors import GraphError
from fossil.graph.graph import Array
from fossil.storage import writing

ROWS_AT_ONCE = 1 << 20
"""How many rows are worked on at once where nothing else bounds them."""

_BYTES_AT_ONCE = 1 << 26


class Appended:
    """An array that grows by blocks of rows.

    Attributes:
        rows: how many there are so far.
    """

    def __init__(self, stream: BinaryIO, dtype: np.dtype[Any], columns: tuple[int, ...]) -> None:
        self._stream, self._dtype, self._columns = stream, dtype, columns
        self.rows = 0
        self._write_header()
        self._start = stream.tell()

    def append(self, block: Array) -> None:
        """Write the next rows.

        Raises:
            ValueError: they have another shape than those before.
        """
        if block.shape[1:] != self._columns:
            raise ValueError(f"a block of shape {block.shape} in an array with rows of shape {self._columns}")
        self._stream.write(np.ascontiguousarray(block, self._dtype).data.cast("B") if block.size else b"")
        self.rows += len(block)

    def close(self) -> None:
        """Write how many rows there are, and bring everything to the disk."""
        self._stream.seek(0)
        self._write_header()
        assert self._stream.tell() == self._start  # NumPy leaves room in the header for the number of rows to grow
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _write_header(self) -> None:
        described = np.lib.format.dtype_to_descr(self._dtype)
        about = {"descr": described, "fortran_order": False, "shape": (self.rows, *self._columns)}
        np.lib.format.write_array_header_1_0(self._stream, about)


@contextmanager
def appending(path: Path, dtype: Any, columns: tuple[int, ...] = ()) -> Iterator[Appended]:
    """Write the array in `path` block by block; under its name it stands once it is whole.

    Args:
        path: a file that ends in `.npy`.
        dtype: of its numbers.
        columns: the shape of a row; a single number when empty.

    Raises:
        RunError: the operating system refused (disk full, no permission).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with appending(Path(folder, "x.npy"), np.int32, (2,)) as array:
    ...         array.append(np.array([[1, 2]]))
    ...         array.append(np.array([[3, 4], [5, 6]]))
    ...     mapped(Path(folder, "x.npy")).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    part = path.with_name(f".{path.name}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as stream:
                array = Appended(stream, np.dtype(dtype), columns)
                yield array
                array.close()
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def mapped(path: Path) -> Array:
    """Return the array in an NPY file, read-only and left on disk.

    Raises:
        GraphError: the file is missing, damaged, cut short, or holds Python objects.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise GraphError(f"{path} is no whole array ({reason}).", remedy="Convert the graph again.") from error
    return array.view(np.ndarray) if array.size else np.asarray(array)


def blocks(rows: int, at_once: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Yield slices that cover so many rows.

    >>> list(blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for first in range(0, rows, at_once):
        yield slice(first, min(first + at_once, rows))


def rows_at_once(itemsize: int) -> int:
    """Return how many rows of so many bytes are worked on at once: one long id makes all of them wide.

    >>> rows_at_once(8), rows_at_once(1 << 20)
    (1048576, 64)
    """
    return max(1, min(ROWS_AT_ONCE, _BYTES_AT_ONCE // itemsize))


def index_dtype(largest: int) -> np.dtype[Any]:
    """Return int32 where it holds the number, else int64.

    >>> index_dtype(2**31 - 1).name, index_dtype(2**31).name
    ('int32', 'int64')
    """
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)
