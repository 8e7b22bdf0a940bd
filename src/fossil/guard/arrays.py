"""NPZ files read one array at a time, each only when it is asked for, and only if it fits."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from fossil.errors import FossilError, GraphError
from fossil.guard.boundary import check_regular
from fossil.guard.budget import check_need

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_SUFFIX = ".npy"
_MEMBER_HEAD = 30  # bytes in front of a member's name in a ZIP file; the last four tell the lengths of what follows
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Arrays(Mapping[str, Array]):
    """The arrays of an NPZ file by name. Nothing in the file is executed, and what nobody asks for is not read.

    A damaged archive raises whatever `zipfile` and NumPy raise: use it inside `fossil.guard.boundary.reading`.

    Args:
        path: of the file.
        kind: of the error.

    Raises:
        GraphError: or another kind; the file is missing or no plain file, or an array holds Python objects, is not as
            long as it says, or is too large.
    """

    def __init__(self, path: Path, kind: type[FossilError] = GraphError) -> None:
        check_regular(path, kind)
        self.path, self._kind = path, kind
        self._archive = zipfile.ZipFile(path)
        for member in self._archive.infolist():
            self._archive.open(member).close()  # compares its two names, of which a damaged one would hide it
        self._members = {
            member.filename.removesuffix(_SUFFIX): member
            for member in self._archive.infolist()
            if member.filename.endswith(_SUFFIX)
        }
        self._read: dict[str, Array] = {}
        self._taken = 0

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            self._read[name] = self._load(name, self._members[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members  # without reading it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._archive.close()

    def mapped(self, name: str) -> Array:
        """Return an array that stands in the file as it is, read from there only where it is looked at.

        Nobody compares it with the archive's checksum: the caller has to know that the file is whole.

        Raises:
            GraphError: or another kind; the array is compressed, or holds Python objects, or is not as long as it says.
        """
        member = self._members[name]
        what = f"Array {name!r} of {self.path}"
        if member.compress_type != zipfile.ZIP_STORED:
            raise self._kind(f"{what} is compressed.", remedy="Write it with NumPy's savez.")
        with self._archive.open(member) as content:
            _checked_size(content, member.file_size, what, self._kind)
            content.seek(0)
            version = np.lib.format.read_magic(content)
            shape, columns_first, dtype = _HEADERS[version](content)
            header = content.tell()
        start = self._start_of(member) + header
        return np.memmap(self.path, dtype, "r", start, shape, "F" if columns_first else "C")

    def _start_of(self, member: zipfile.ZipInfo) -> int:
        """Return where in the file a member's content begins: after a head of 30 bytes, its name, and extra fields."""
        with self.path.open("rb") as stream:
            stream.seek(member.header_offset)
            head = stream.read(_MEMBER_HEAD)
        name, extra = struct.unpack("<HH", head[-4:])
        return int(member.header_offset + _MEMBER_HEAD + name + extra)

    def _load(self, name: str, member: zipfile.ZipInfo) -> Array:
        with self._archive.open(member) as stream:
            self._taken += _checked_size(stream, member.file_size, f"Array {name!r} of {self.path}", self._kind)
        check_need(self.path, self._taken, f"Array {name!r}", self._kind)  # beside those that were read before
        with self._archive.open(member) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def read_array(path: Path, kind: type[FossilError] = GraphError) -> Array:
    """Return the array of an NPY file, as `Arrays` does those of an NPZ.

    Raises:
        GraphError: or another kind; as for `Arrays`.
    """
    check_regular(path, kind)
    with path.open("rb") as stream:
        check_need(path, _checked_size(stream, path.stat().st_size, str(path), kind), kind=kind)
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _checked_size(stream: IO[bytes], stored: int, what: str, kind: type[FossilError]) -> int:
    """Return how many bytes an array takes in memory, once its header and the length of the file agree.

    Raises:
        GraphError: or another kind; they do not, or the array holds Python objects.
    """
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise kind(f"{what} is of version {version}.", remedy="Write it with NumPy's save or savez.")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise kind(
            f"{what} holds Python objects.",
            remedy="Save plain arrays of numbers and strings with numpy.savez; pickled data is never loaded.",
        )
    count = math.prod(shape)
    stated, held = count * dtype.itemsize, stored - stream.tell()
    if count < 0 or stated != held:
        raise kind(
            f"{what} has the shape {shape}, which takes {stated:,} bytes, but holds {held:,}.",
            remedy="The file is damaged: copy or write it again.",
        )
    # Numbers of another kind are copied as float32 or int64.
    return int(stated + (0 if dtype == np.float32 else 8 * count))


def checked_csr(data: Array, indices: Array, indptr: Array, shape: Sequence[int]) -> sp.csr_array:
    """Return the sparse matrix of parts that a file holds, once it is sure that none points outside another.

    SciPy's own check passes over row pointers that end at zero or below, and its loops then read and write wherever the
    others point (SciPy 1.17).

    Raises:
        ValueError: the parts do not form a matrix.
    """
    rows, columns = (int(length) for length in shape)
    parts = {"data": data, "indices": indices, "indptr": indptr}
    for name, part in parts.items():
        if part.ndim != 1 or part.dtype.kind not in ("iu" if part is not data else "iufb"):
            raise ValueError(f"{name} of a sparse matrix has {part.ndim} dimensions and type {part.dtype}")
    if rows < 0 or columns < 0 or len(indptr) != rows + 1 or len(indices) != len(data):
        raise ValueError(
            f"{len(indptr):,} row pointers, {len(indices):,} indices and {len(data):,} values are no sparse matrix of "
            f"{rows:,} rows"
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("the row pointers of a sparse matrix do not rise from 0 to the number of its indices")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise ValueError(f"the indices of a sparse matrix are not all from 0 to {columns - 1:,}")
    wide = np.int64 if max(len(indices), rows, columns) > np.iinfo(np.int32).max else np.int32
    return sp.csr_array((data, indices.astype(wide), indptr.astype(wide)), shape=(rows, columns))
