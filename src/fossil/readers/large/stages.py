"""Work in stages, each done once: a conversion that was stopped goes on with the first stage that is not done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fossil.errors import GraphError, RunError
from fossil.graph.disk import ENCODING, FORMAT_KEY, MANIFEST, OPTIONAL, REQUIRED
from fossil.graph.findings import Finding
from fossil.storage import read_json, reading, write_json, writing

PARTIAL = "partial"
LOCK = "convert.lock"
REPLACEMENT = "replacement"
"""Within the folder of a graph that is to be replaced, that of the new one until it is whole."""
_IDENTITY = "conversion.json"
_ARRAYS = {f"{name}.npy" for name in (*REQUIRED, *OPTIONAL)}
_OURS = {MANIFEST, ENCODING, PARTIAL, LOCK, REPLACEMENT, *_ARRAYS}


class Stages:
    """The stages of one conversion into a folder.

    A stage leaves its arrays in the folder, or in `partial`, and a record of what it found, written once the arrays
    are whole. Records belong to the input as it was: its files by path, size and time, and every choice.

    A graph that stands in the folder stays there, untouched, until the one that replaces it is whole.

    Attributes:
        folder: to write to; that of the graph, or within it that of what replaces the graph.
        scratch: for what is removed at the end.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, force: bool) -> None:
        self.out, self.folder = folder, _claim(folder, dict(identity), force=force)
        self.scratch = self.folder / PARTIAL

    def once(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the record of a stage: the one on disk, or that of the work now done."""
        path = self._record(name)
        if not path.exists():
            write_json(path, work())
        found: dict[str, Any] = read_json(path)
        return found

    def is_done(self, name: str) -> bool:
        """Tell whether a stage has its record."""
        return self._record(name).exists()

    def _record(self, name: str) -> Path:
        return self.scratch / f"{name}.json"

    def drop_arrays(self) -> None:
        """Remove the arrays that only stages read, all of which are done: their records tell so to who goes on."""
        with writing(self.scratch):
            for array in self.scratch.glob("*.npy"):
                array.unlink()

    def end(self) -> None:
        """Remove what only the conversion needed."""
        _drop_partial(self.scratch)
        _put_in_place(self.out)

    def abandon(self) -> None:
        """Remove everything that was written, but for the lock."""
        _empty(self.folder)
        if self.folder != self.out:
            with writing(self.folder):
                self.folder.rmdir()


def identity(files: Iterable[Path], choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells one conversion from another: the files as they are now, and the choices."""
    about = ((path, path.stat()) for path in files)
    return {"files": [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in about], **choices}


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as plain values."""
    return [asdict(finding) for finding in findings]


def from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Return the findings that `as_json` gave."""
    return tuple(Finding(**{**value, "examples": tuple(value["examples"])}) for value in values)


def check_room(folder: Path, need: int, what: str) -> None:
    """Raise RunError where an array that is about to be written does not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if need > free:
        raise RunError(
            f"{what} take {need / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free in {folder}.",
            remedy="Make room there, or choose another --out; what was converted so far is kept.",
        )


def check_folder(folder: Path, *, force: bool) -> None:
    """Make sure that a conversion may be written to `folder`, whatever was begun there.

    Raises:
        RunError: it holds other files, or a graph that may not be replaced.
    """
    with reading(folder):
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} is a file.", remedy="Choose another --out.")
        strange = _strange(folder)
    if strange:
        raise RunError(
            f"{folder} exists and holds files that are no converted graph (for example {strange[0]}).",
            remedy="Choose another --out; nothing was touched.",
        )
    if (folder / MANIFEST).exists() and not force:
        raise RunError(
            f"{folder} already holds a converted graph.", remedy="Replace it with --force, or choose another --out."
        )


def _strange(folder: Path) -> list[str]:
    """Return what stands in a folder and was written by no conversion."""
    content = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    marks = {name for name, is_ours in _MARKS.items() if name in content and is_ours(folder / name)}
    # Files of these names are anybody's, unless a conversion has left its mark beside them.
    ours = _OURS - (_MARKS.keys() - marks) if marks else {LOCK}
    return sorted(name for name in content - ours if not _is_half_written(name))


def _is_manifest(path: Path) -> bool:
    """Tell whether a file is the manifest of a graph, or may have been one before it was damaged."""
    try:
        found = read_json(path)
    except RunError:
        return path.is_file()
    return isinstance(found, dict) and FORMAT_KEY in found


def _is_partial(path: Path) -> bool:
    """Tell whether a folder is that of a conversion that was begun: who began it stands there first, and goes last."""
    return path.is_dir() and (
        (path / _IDENTITY).exists() or all(_is_half_written(each.name) for each in path.iterdir())
    )


_MARKS: dict[str, Callable[[Path], bool]] = {
    MANIFEST: _is_manifest,
    PARTIAL: _is_partial,
    REPLACEMENT: lambda path: path.is_dir() and not _strange(path),
}


def _claim(folder: Path, wanted: dict[str, Any], *, force: bool) -> Path:
    """Mark the folder as that of this conversion, unless it is so already; return where to write.

    Where a graph stands that may be replaced, that is a folder within; what was begun there is gone on with if it is
    this conversion, and thrown away if it is another.
    """
    _put_in_place(folder)
    check_folder(folder, force=force)
    if (folder / MANIFEST).exists():
        folder = folder / REPLACEMENT
        begun = folder / PARTIAL / _IDENTITY
        if begun.exists() and read_json(begun) == wanted:
            _sweep(folder)
            return folder
        _empty(folder)
        write_json(begun, wanted)
        return folder
    begun = folder / PARTIAL / _IDENTITY
    if begun.exists() and not force and not (folder / MANIFEST).exists():
        if read_json(begun) == wanted:
            _sweep(folder)
            return folder
        raise RunError(
            f"{folder} holds the beginning of a conversion of other files, or with other choices.",
            remedy="Begin anew with --force, or choose another --out.",
        )
    _empty(folder)
    write_json(begun, wanted)
    return folder


def _put_in_place(folder: Path) -> None:
    """Let the graph that is whole beside another one take its place; nothing where there is none.

    Whoever is stopped here goes on with it: the manifest moves last, and a folder without one passes for no graph.
    """
    new = folder / REPLACEMENT
    if not (new / MANIFEST).exists():
        return
    for each in (folder, new):
        _drop_partial(each / PARTIAL)
    with writing(folder):
        kept = {f"{name}.npy" for name in read_json(new / MANIFEST)["arrays"]} | {ENCODING}
        (folder / MANIFEST).unlink(missing_ok=True)
        for name in (_ARRAYS | {ENCODING}) - kept:
            (folder / name).unlink(missing_ok=True)
        for name in sorted(kept):
            if (new / name).exists():  # else it has moved already
                (new / name).replace(folder / name)
        (new / MANIFEST).replace(folder / MANIFEST)
        shutil.rmtree(new)


def _empty(folder: Path) -> None:
    """Remove what a conversion wrote."""
    with writing(folder):
        (folder / PARTIAL).mkdir(parents=True, exist_ok=True)  # stays to the last: what is half removed is known by it
        (folder / MANIFEST).unlink(missing_ok=True)  # first, so that what is half removed passes for nothing
        for entry in list(folder.iterdir()):
            if entry.name not in (LOCK, PARTIAL, REPLACEMENT):
                entry.unlink(missing_ok=True)
        if (folder / REPLACEMENT).exists():
            _empty(folder / REPLACEMENT)
            (folder / REPLACEMENT).rmdir()
        _remove_partial(folder / PARTIAL)


def _remove_partial(partial: Path) -> None:
    """Remove the folder of what only a conversion needs; what tells whose it is goes last (see `_is_partial`)."""
    for entry in sorted(partial.iterdir(), key=lambda entry: entry.name == _IDENTITY):
        entry.unlink(missing_ok=True)
    partial.rmdir()


def _drop_partial(partial: Path) -> None:
    """Do so where it stands; what cannot be removed stays, and harms nobody."""
    with suppress(OSError):
        _remove_partial(partial)


def _sweep(folder: Path) -> None:
    """Remove what a killed conversion was writing: it may take most of the room that is left."""
    with writing(folder):
        for entry in [*folder.iterdir(), *(folder / PARTIAL).iterdir()]:
            if _is_half_written(entry.name):
                entry.unlink(missing_ok=True)


def _is_half_written(name: str) -> bool:
    """Tell whether a file is one that takes its name once it is whole (see `fossil.storage`)."""
    return name.startswith(".") and name.endswith(".part")


def refuse_change(folder: Path, now: Mapping[str, Any]) -> None:
    """Raise GraphError where the input is not what it was when the conversion began."""
    if read_json(folder / PARTIAL / _IDENTITY) != dict(now):
        raise GraphError(
            "The input changed while it was converted.", remedy="Convert it again, once nobody writes it any more."
        )
