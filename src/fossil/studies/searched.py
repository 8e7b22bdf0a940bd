"""What the searches of a study found, as its plan and its tables read it: settings by row and graph, once frozen.

STORE/searches/STUDY/GRAPH--ROW/   the folder of one search (`fossil.studies.search`)
STORE/searches/STUDY/frozen.json   the settings that were found and how accuracy spread, from `fossil study freeze` on
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from fossil.errors import RunError, SettingError
from fossil.storage import read_json, write_json
from fossil.studies.plain import STRICT, rebuilt
from fossil.studies.sealed import Openings
from fossil.studies.space import build_space, read_space
from fossil.studies.spread import FIGURES, Figures

if TYPE_CHECKING:
    from fossil.studies.entries import SearchEntry, Study
    from fossil.studies.rows import Row

SUFFIX = " (searched)"
"""What the title of a row ends in whose settings were found by a search."""


@dataclass(frozen=True)
class Searched:
    """What the searches of a study found.

    Attributes:
        settings: that were found and frozen, by the title of the row and of the graph; none before that.
        how: in words, how they are found, with the budget that all methods have.
        openings: how often test labels were opened.
        spread: how validation accuracy spread over the settings that were tried (`fossil.studies.spread`), likewise.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    settings: Mapping[str, Mapping[str, Mapping[str, Any]]]
    how: str
    openings: int
    spread: Mapping[str, Mapping[str, Figures]] = field(default_factory=dict)

    def note(self) -> str:
        """Return what belongs under every table of the study."""
        about = f"Rows that end in{SUFFIX}:" if self.settings else "No settings are frozen yet; asked for are"
        times = f"opened {self.openings} time{'' if self.openings == 1 else 's'}"
        state = f"were {times}" if self.settings or self.openings else f"are sealed: {times}"
        return f"{about} {self.how} Test labels of these searches {state}."


SEARCHED = TypeAdapter(Searched)


def how_searched(study: Study) -> str:
    """Return in words how the settings of a study are found: by what, and with what budget for every method."""
    asked = study.search
    assert asked is not None
    limits = {"trials": asked.trials, "minutes": asked.minutes}
    budget = " and ".join(f"{value:g} {unit}" for unit, value in limits.items() if value is not None)
    most = {"seconds": asked.max_seconds, "GiB of memory": asked.max_memory}
    kept = " and ".join(f"{value:g} {unit}" for unit, value in most.items() if value is not None)
    return (
        f"settings chosen on each graph by validation accuracy under `{asked.protocol or study.protocols[0]}`, of "
        f"{budget} for every method (all settings, where a method has fewer), {asked.encoders} encoders each, "
        f"{f'of those whose training takes at most {kept}, ' if kept else ''}with test labels sealed."
    )


def folder_of_search(searches: Path, graph: str, row: str) -> Path:
    """Return the folder of one search, by the titles of graph and row."""
    return searches / f"{_plain(graph)}--{_plain(row)}"


def read_searched(searches: Path, how: str) -> Searched:
    """Return what was found and frozen, and how often test labels were opened; before that no settings.

    Args:
        searches: the folder of a study's searches.
        how: they are found, in words, as the study asks for it now.

    Raises:
        RunError: the file is damaged.
    """
    file = searches / "frozen.json"
    if not file.exists():  # a command that was killed while it froze them has opened labels all the same
        return Searched({}, how, _most_openings(path.parent for path in searches.glob("*/openings.jsonl")))
    values = read_json(file)
    try:
        found = rebuilt(SEARCHED, {**values, "spread": _spread(values.get("spread", {})), "openings": 0})
        folders = [folder_of_search(searches, graph, row) for row, of_row in found.settings.items() for graph in of_row]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{file} is damaged.", remedy="Freeze the study again.") from error
    return replace(found, openings=_most_openings(folders))


def _most_openings(folders: Iterable[Path]) -> int:
    return max((len(Openings(one).all) for one in folders), default=0)


def _spread(values: Any) -> dict[str, dict[str, Figures]]:
    return {
        row: {
            graph: {"trials": int(of["trials"]), **{name: of[name] for name in FIGURES}} for graph, of in of_row.items()
        }
        for row, of_row in values.items()
    }


def write_searched(searches: Path, found: Searched) -> None:
    """Keep what was found; openings are counted beside each search."""
    write_json(searches / "frozen.json", {"how": found.how, "settings": found.settings, "spread": found.spread})


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
