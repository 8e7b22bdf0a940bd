"""Where the records of a study are kept: one file a training, written by many processes without a server.

store.json            which version wrote it, and for which study files
cells/KEY.json        the record of one training with its scores; whole or absent
claims/KEY.lock       who is at it now; the operating system lets go of it when that process ends, however it ends
kept/KEY.npz          its vectors, where they are kept; `kept/KEY/` is the run folder
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from fossil.errors import FossilError, RunError, SettingError
from fossil.runs.lock import HeldError, holding, signature_of
from fossil.settings import Settings, setting
from fossil.storage import read_json, write_json
from fossil.studies.entries import PathText
from fossil.studies.file import read_study
from fossil.studies.record import ANEW, FORMAT, Record


class _Card(Settings):
    """What `store.json` says."""

    format: int = setting(FORMAT, "version of the layout")
    studies: dict[str, PathText] = setting({}, "the file of each study that keeps records here, by its name")


class Store:
    """The folder of records.

    Args:
        root: where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cells, self.claims, self.kept = root / "cells", root / "claims", root / "kept"

    @classmethod
    def open(cls, root: Path, name: str, file: Path, *, create: bool = False) -> Store:
        """Open the store of a study; without `create` one that does not exist is empty, and stays away.

        Raises:
            RunError: another version wrote it, or another study of the same name keeps its records there.
        """
        store, card = cls(root), root / "store.json"
        # In this order: another command may be making the store, and what describes it is there before all else.
        is_free = not root.exists() or _is_empty(root)
        if not card.exists():
            if not is_free:
                raise RunError(
                    f"{root} holds something else than records.", remedy="Name another folder with store: DIR."
                )
            found = _Card()
        else:
            found = store._read_card(card)
        # Paths are kept as seen from the store, so that both can be moved together.
        mine = os.path.relpath(file.resolve(), root.resolve())
        other = found.studies.get(name, mine)
        if other != mine and (root / other).resolve().exists() and _names(root / other) == name:
            raise RunError(
                f"{(root / other).resolve()} is a study called {name!r} too, and keeps its records in {root}.",
                remedy="Give one of the two another name.",
            )
        if create and (other != mine or name not in found.studies):
            write_json(card, {"format": FORMAT, "studies": {**found.studies, name: mine}})
        if create:
            store._make_folders()
        return store

    def _make_folders(self) -> None:
        try:
            for folder in (self.cells, self.claims):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self.root, error) from error

    def _read_card(self, card: Path) -> _Card:
        values = read_json(card)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            version = values.get("format") if isinstance(values, dict) else None
            raise RunError(
                f"{self.root} was written in format {version!r}; this version reads format {FORMAT}.",
                remedy="Use the version that wrote it, or name another folder with store: DIR; nothing was changed.",
            )
        try:
            return _Card.build(values)
        except SettingError as error:
            raise RunError(
                f"{card} is damaged: {error.what}",
                remedy='Write {"format": 1, "studies": {}} into it; records are untouched.',
            ) from error

    def path_of(self, key: str) -> Path:
        """Return the file of a record."""
        return self.cells / f"{key}.json"

    def read(self, key: str) -> Record | None:
        """Return a record, None where there is none.

        Raises:
            RunError: the file is damaged.
        """
        path = self.path_of(key)
        try:
            text = path.read_text(encoding="utf-8")
            values = json.loads(text)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"{path} is damaged ({error}).", remedy=ANEW) from error
        return Record.from_dict(values, str(path))

    def write(self, record: Record) -> None:
        """Write a record, whole or not at all.

        Raises:
            RunError: the operating system refused (disk full, no permission).
        """
        write_json(self.path_of(record.key), record.to_dict())

    @contextmanager
    def claim(self, key: str, what: str = "") -> Iterator[bool]:
        """Yield whether this process alone may work at a cell until the end of the block.

        The claim is a lock of the operating system on a file, so that no crash leaves one behind.
        """
        with ExitStack() as held:
            try:
                held.enter_context(holding(self._claim_of(key), what))
            except HeldError:
                mine = False
            else:
                mine = True
            yield mine

    def _claim_of(self, key: str) -> Path:
        return self.claims / f"{key}.lock"

    def running(self) -> dict[str, dict[str, Any]]:
        """Return what is being worked at now, by key: process, machine, since when, and what."""
        found = {}
        for path in sorted(self.claims.glob("*.lock")):
            with suppress(RunError), self.claim(path.stem) as nobody:  # a store of others may not be written to
                if not nobody:
                    found[path.stem] = signature_of(path)
        return found


def _is_empty(root: Path) -> bool:
    """Tell whether a folder has nothing in it but what a process left that was killed while it wrote the first file."""
    return root.is_dir() and all(path.name.endswith(".part") for path in root.iterdir())


def _names(file: Path) -> str | None:
    """Return the name of the study in a file, None where it is none."""
    try:
        return read_study(file.resolve()).name
    except FossilError:
        return None


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"Could not write {path}: {error.strerror or error}.",
        remedy="Make room there, or name another folder with store: DIR; whatever stood there before is untouched.",
    )
