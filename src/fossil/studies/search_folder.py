"""The folder of a search: whose it is, who writes in it, and Optuna's journal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fossil.errors import RunError
from fossil.runs.lock import holding
from fossil.storage import read_yaml, write_yaml

if TYPE_CHECKING:
    import optuna

_NAME = "search"  # of the one study in the journal
FORMAT = 2


class SearchFolder:
    """A folder that one search at a time writes to.

    Args:
        path: it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def claimed(self, identity: Mapping[str, Any]) -> Iterator[Self]:
        """Hold the folder for a search, or raise where it is another one's.

        Raises:
            RunError: it holds other files or another search, or another process holds it.
        """
        self._check(identity)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"Could not make {self.path}: {error.strerror}.", remedy="Choose another --out.") from error
        with holding(self.path / ".lock"):
            self._check(identity)
            write_yaml(self.path / "search.yaml", {"format": FORMAT, **identity})
            self._mend()
            yield self

    def _check(self, identity: Mapping[str, Any]) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file.", remedy="Choose another --out.")
        content = (
            [one.name for one in self.path.iterdir() if not one.name.startswith(".")] if self.path.is_dir() else []
        )
        if not content:
            return
        before = self.read()
        if before is None:
            raise RunError(
                f"{self.path} exists and holds files that are not a search (for example {sorted(content)[0]}).",
                remedy="Choose another --out; nothing was touched.",
            )
        if before.get("format") != FORMAT:
            raise RunError(
                f"The search in {self.path} has format {before.get('format')!r}, and this version writes {FORMAT}.",
                remedy="Choose another --out, or go on with the version that began it.",
            )
        there, here = dict(_flat(before)), dict(_flat(identity))
        for name in [*here, *there.keys() - here.keys() - {"format"}]:
            if there.get(name) != here.get(name):
                raise RunError(
                    f"{self.path} holds another search: its {name} is {there.get(name)}, here it is {here.get(name)}.",
                    remedy="Choose another --out, or give the command that began it; nothing was touched.",
                )

    def read(self) -> dict[str, Any] | None:
        """Return what is searched in the folder; None where there is no search.

        Raises:
            RunError: the file is damaged.
        """
        file = self.path / "search.yaml"
        if not file.exists():
            return None
        found = read_yaml(file)
        if not isinstance(found, dict):
            raise RunError(f"{file} is damaged.", remedy="Choose another --out.")
        return found

    @property
    def journal(self) -> Path:
        """Where Optuna keeps the trials."""
        return self.path / "journal.log"

    @cached_property
    def study(self) -> optuna.Study:
        """The trials, as Optuna keeps them.

        Raises:
            RunError: the journal cannot be read.
        """
        import optuna
        from optuna.storages.journal import JournalFileBackend

        lock: Any = _AlreadyHeld()
        try:
            return optuna.create_study(
                storage=optuna.storages.JournalStorage(JournalFileBackend(str(self.journal), lock)),
                sampler=optuna.samplers.RandomSampler(),  # never asked: what is proposed is given with each trial
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=0),
                study_name=_NAME,
                direction="maximize",
                load_if_exists=True,
            )
        except (ValueError, KeyError) as error:
            raise RunError(
                f"{self.journal} is damaged ({error}).", remedy="Choose another --out; nothing was touched."
            ) from error

    def _mend(self) -> None:
        """Take off the half of a line that a full disk or a power cut left at the end of the journal."""
        if not self.journal.exists():
            return
        content = self.journal.read_bytes()
        if content and not content.endswith(b"\n"):
            os.truncate(self.journal, content.rfind(b"\n") + 1)


class _AlreadyHeld:
    """Optuna's own lock outlives a process that is killed, and the folder is held already."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield plain values with their names, those of nested ones with a point between."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
