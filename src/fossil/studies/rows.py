"""The rows of a study's tables: every method with every variant and value of a sweep, and those that were searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fossil.errors import SettingError
from fossil.methods.registry import Kind, get_method, recipes
from fossil.settings import spelt
from fossil.studies.entries import GraphEntry, MethodEntry, Published, Study, Variation
from fossil.studies.file import refuse_alike
from fossil.studies.searched import SUFFIX, Searched, check_spaces, folder_of_search, searched_rows


@dataclass(frozen=True)
class Row:
    """One method with what is changed of it: a row of the tables.

    Attributes:
        title: what tables call it.
        method: name of the method.
        preset: the preset asked for, if any.
        settings: single settings asked for.
        epochs: epochs asked for, if any.
        recipe: whether the settings that are kept for a graph apply.
        printed: figures of the study file, by the input of the graph.
        swept: value of the swept setting, where there is one.
        series: the title without the swept setting.
        found: settings that a search found, by the title of the graph; empty for a row that was not searched.
    """

    title: str
    method: str
    preset: str | None
    settings: dict[str, Any] = field(hash=False)
    epochs: int | None
    recipe: bool
    printed: dict[str, Published] = field(hash=False)
    swept: Any = None
    series: str = ""
    found: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    @property
    def kind(self) -> Kind:
        """The method."""
        return get_method(self.method)

    @property
    def is_plain(self) -> bool:
        """Whether nothing of the method is changed."""
        changed = self.settings or self.found or self.epochs is not None or not self.recipe
        return not changed and self.preset in (None, self._first_preset)

    @property
    def _first_preset(self) -> str:
        return next(iter(self.kind.presets))

    def published(self, graph: GraphEntry) -> tuple[float, float | None] | None:
        """Return the printed figure for this row on a graph and what is printed after ±, where there is one."""
        if graph.treatment:
            return None
        found = self.printed.get(graph.input)
        if found is not None:
            return found if isinstance(found, tuple) else (found, None)
        recipe = recipes(self.method).get(graph.input) if self.is_plain else None
        return (recipe.published, recipe.interval) if recipe and recipe.published is not None else None


def rows_of(study: Study, file: Path, searched: Searched | None = None) -> tuple[Row, ...]:
    """Return the rows of a study, those with searched settings last.

    Raises:
        SettingError: a method is unknown, two rows have one title, or the space of a search is not accepted.
    """
    rows = tuple(_rows(study, file))
    titles = [row.title for row in rows]
    if study.search is None:
        refuse_alike(titles, "rows", file)
        return rows
    refuse_alike(titles + [title + SUFFIX for title in titles], "rows", file)
    folders = [folder_of_search(Path(), graph, title).name for graph in study.columns for title in titles]
    refuse_alike(folders, "folders of searches", file)
    check_spaces(study.search, rows, file)
    return rows + searched_rows(rows, searched)


def _rows(study: Study, file: Path) -> Iterator[Row]:
    values: tuple[Any, ...] = (None,) if study.sweep is None else study.sweep.values
    for entry in study.methods:
        try:
            kind = get_method(entry.method)
        except SettingError as error:
            raise SettingError(f"{file}: {error.what}", remedy=error.remedy) from error
        for variant in study.variants or (Variation(),):
            settings = entry.settings | variant.settings
            series = _title(kind, entry, variant, alone=len(study.methods) == 1)
            for value in values:
                swept = {} if study.sweep is None else {study.sweep.name: value}
                shown = f" {study.sweep.name}={spelt(value)}" if study.sweep is not None else ""
                recipe = variant.recipe if variant.recipe is not None else entry.recipe
                yield Row(
                    title=series + shown,
                    method=kind.name,
                    preset=variant.preset or entry.preset,
                    settings=settings | swept,
                    epochs=variant.epochs or entry.epochs,
                    recipe=recipe is not False,
                    printed=variant.published or entry.published,
                    swept=value,
                    series=series,
                )


def _title(kind: Kind, entry: MethodEntry, variant: Variation, *, alone: bool) -> str:
    """Return a row's title: the method's, unless it is the only one, and the variant's; else what is changed."""
    own = entry.title or " ".join([kind.title, *_changes(entry)])
    of_variant = variant.title or " ".join(_changes(variant))
    return of_variant if alone and variant.title else f"{own} {of_variant}".strip()


def _changes(variation: Variation) -> list[str]:
    changed = [] if variation.preset is None else [f"({variation.preset})"]
    changed += [f"{name}={spelt(value)}" for name, value in variation.settings.items()]
    changed += [] if variation.epochs is None else [f"epochs={variation.epochs}"]
    return changed + (["without recipe"] if variation.recipe is False else [])
