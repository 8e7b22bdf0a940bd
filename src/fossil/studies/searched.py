"""What the searches of a study found, as its plan and its tables read it: settings by row and graph, once frozen.

STORE/searches/STUDY/GRAPH--ROW/   the folder of one search (`fossil.studies.search`)
STORE/searches/STUDY/frozen.json   the settings that were found, from `fossil study freeze` on
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fossil.errors import RunError, SettingError
from fossil.storage import read_json, write_json
from fossil.studies.sealed import Openings
from fossil.studies.space import build_space, read_space

if TYPE_CHECKING:
    from fossil.studies.file import SearchEntry
    from fossil.studies.rows import Row

SUFFIX = " (searched)"
"""What the title of a row ends in whose settings were found by a search."""


@dataclass(frozen=True)
class Searched:
    """Settings that were found and frozen.

    Attributes:
        settings: by the title of the row and of the graph.
        how: in words, how they were found, with the budget that all methods had.
        openings: how often test labels were opened.
    """

    settings: Mapping[str, Mapping[str, Mapping[str, Any]]]
    how: str
    openings: int

    def note(self) -> str:
        """Return what belongs under every table of the study."""
        times = f"{self.openings} time{'' if self.openings == 1 else 's'}"
        return f"Rows that end in{SUFFIX}: {self.how} Test labels of these searches were opened {times}."


def folder_of_search(searches: Path, graph: str, row: str) -> Path:
    """Return the folder of one search, by the titles of graph and row."""
    return searches / f"{_plain(graph)}--{_plain(row)}"


def read_searched(searches: Path) -> Searched | None:
    """Return what was found and frozen; None before that.

    Raises:
        RunError: the file is damaged.
    """
    file = searches / "frozen.json"
    if not file.exists():
        return None
    values = read_json(file)
    try:
        found = Searched(values["settings"], values["how"], 0)
        folders = [folder_of_search(searches, graph, row) for row, of_row in found.settings.items() for graph in of_row]
    except (TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{file} is damaged.", remedy="Freeze the study again.") from error
    return Searched(found.settings, found.how, max((len(Openings(one).all) for one in folders), default=0))


def write_searched(searches: Path, settings: Mapping[str, Mapping[str, Mapping[str, Any]]], how: str) -> None:
    """Keep what was found."""
    write_json(searches / "frozen.json", {"how": how, "settings": settings})


def check_spaces(asked: SearchEntry, rows: Sequence[Row], file: Path) -> None:
    """Raise SettingError where a row of a study has nothing to search, or values outside a setting's bounds."""
    for row in rows:
        try:
            build_space(row.kind, row.preset, row.settings, read_space(asked.space.get(row.method, {})))
        except SettingError as error:
            raise SettingError(f"{file}, search of {row.title}: {error.what}", remedy=error.remedy) from error


def searched_rows(rows: Sequence[Row], searched: Searched | None) -> tuple[Row, ...]:
    """Return a further row for each one that was searched, with what was found and without recipes."""
    found = {} if searched is None else searched.settings
    return tuple(
        replace(row, title=row.title + SUFFIX, recipe=False, printed={}, found=found[row.title])
        for row in rows
        if row.title in found
    )


def _plain(title: str) -> str:
    return re.sub(r"[^\w.=+-]+", "_", title).strip("_") or "row"
