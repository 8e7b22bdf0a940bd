"""A study as somebody writes it: one YAML file, every key declared, unknown ones refused with the nearest name.

Nothing here knows PyTorch: whether a method has such a setting is found out when the study is planned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import field_validator

from fossil.datasets import catalog
from fossil.errors import DataError, SettingError, nearest
from fossil.evaluation.protocol import PROTOCOLS
from fossil.graph.findings import Treatment
from fossil.settings import LARGEST_SEED, Settings, setting
from fossil.studies.bounded_yaml import read_yaml

Published: TypeAlias = float | tuple[float, float]
"""A printed figure in percent, or one with the half width printed beside it."""

Quantity: TypeAlias = Literal[
    "accuracy", "macro_f1", "test_maximum", "seconds", "epoch_seconds", "memory", "lambda_mean", "effective_rank"
]
NEITHER_GOOD_NOR_BAD = ("lambda_mean", "effective_rank")
"""Quantities of which more is neither better nor worse."""

Precision: TypeAlias = Literal["float32", "tf32", "bfloat16"]
Keep: TypeAlias = Literal["nothing", "vectors", "run"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_REQUIRED: Any = ...
_WAYS = {"keep": "", "symmetrize": " ↔", "reverse": " ←"}


class GraphEntry(Settings):
    """One graph: a column of the tables."""

    input: str = setting(_REQUIRED, "a catalogue name, or a path seen from the study file; {seed} stands for the seed")
    title: str = setting("", "what tables call it")
    treatment: dict[str, Any] = setting({}, "what is done about oddities, such as direction: symmetrize")
    label: str | None = setting(None, "the column of classes, for files of one's own")
    edges: str | None = setting(None, "the edge table, where the input is a node table")
    structural_features: bool = setting(False, "make features from the edges")
    optional: bool = setting(False, "leave the graph out, and say so, where its files are not there")

    def reading(self, folder: Path) -> dict[str, Any]:
        """Return how a graph of one's own is read."""
        given = {"label": self.label, "structural_features": self.structural_features}
        edges = None if self.edges is None else folder / self.edges
        return {name: value for name, value in (given | {"edges": edges}).items() if value}

    @property
    def heading(self) -> str:
        """What tables call it."""
        if self.title:
            return self.title
        name, _, parameters = self.input.partition(":")
        way = _WAYS.get(str(self.treatment.get("direction", "keep")), "")
        if self.is_named:
            return f"{catalog.find(name).title}{f' {parameters}' if parameters else ''}{way}"
        return f"{Path(name).name}{way}"

    @property
    def is_named(self) -> bool:
        """Whether it is in the catalogue."""
        try:
            catalog.find(self.input.partition(":")[0])
        except DataError:
            return False
        return True

    def is_there(self, folder: Path) -> bool:
        """Whether it is in the catalogue, or a path that exists."""
        return self.is_named or (folder / self.input).exists()

    def source(self, folder: Path, seed: int) -> str:
        """Return what `open_graph` takes: a catalogue name, or a path that is relative to the study's folder."""
        text = self.input.replace("{seed}", str(seed))
        return text if self.is_named else str(folder / text)


class Variation(Settings):
    """What is changed of a method."""

    title: str = setting("", "what tables call it")
    preset: str | None = setting(None, "named set of switches; the method's first when nothing is said")
    settings: dict[str, Any] = setting({}, "single settings of the method")
    epochs: int | None = setting(
        None, "training steps; those of the recipe or of the method when nothing is said", ge=1
    )
    recipe: bool | None = setting(None, "use the settings that are kept for the graph; true when nothing is said")
    published: dict[str, Published] = setting({}, "printed figures in percent, by the input of the graph")


class MethodEntry(Variation):
    """One method, with what is changed of it."""

    method: str = setting(_REQUIRED, "name of the method")


class Sweep(Settings):
    """One setting that takes several values in turn."""

    name: str = setting(_REQUIRED, "name of the setting")
    values: tuple[Any, ...] = setting(_REQUIRED, "its values", min_length=1, max_length=1000)


class SearchEntry(Settings):
    """A search for settings, of every method on every graph with the same budget."""

    trials: int | None = setting(None, "settings to try in all", ge=1)
    minutes: float | None = setting(None, "time of all trials together", gt=0)
    encoders: int = setting(2, "encoders that each setting is tried with", ge=1, le=1000)
    seed: int = setting(0, "of what is proposed", ge=0, le=LARGEST_SEED)
    protocol: str | None = setting(None, "whose validation nodes choose; the study's first when nothing is said")
    max_seconds: float | None = setting(None, "longest training to choose", gt=0)
    max_memory: float | None = setting(None, "GiB of the GPU, or of the process on a CPU, to choose at most", gt=0)
    prune: bool = setting(True, "give up settings whose first encoders are below the median of the others")
    space: dict[str, dict[str, Any]] = setting(
        {}, "values or ranges in place of the declared ones, by method and setting"
    )


class TableEntry(Settings):
    """One table that is wanted."""

    name: str = setting("", "what to call its file; the value and the protocol when nothing is said")
    title: str = setting("", "what stands above it")
    value: Quantity = setting("accuracy", "what its cells hold")
    protocol: str | None = setting(None, "whose scores; the study's first when nothing is said")
    columns: Literal["graphs", "methods"] = setting("graphs", "what its columns are")
    reference: str | None = setting(None, "title of the row that others are set beside, paired by seed")
    published: bool = setting(True, "show published figures in brackets")
    letters: bool = setting(True, "letters of significance groups after accuracies, from three encoders on")
    ranks: bool = setting(False, "a further table of mean ranks over graphs")
    digits: int = setting(1, "digits after the point", ge=0, le=6)


class FigureEntry(Settings):
    """One figure that is wanted."""

    name: str = setting(_REQUIRED, "what to call its files")
    title: str = setting("", "what stands above it")
    kind: Literal["sweep", "growth", "ranks"] = setting(
        "sweep",
        "a value against the swept setting, a panel for each graph; against the number of nodes; or mean ranks over "
        "graphs with their critical difference",
    )
    value: Quantity = setting("accuracy", "what is drawn upwards, or ranked")
    protocol: str | None = setting(None, "whose scores; the study's first when nothing is said")


class Study(Settings):
    """Graphs × methods × variants × seeds, and what is wanted of them."""

    name: str = setting(_REQUIRED, "what to call it: letters, digits, - and _", max_length=80)
    title: str = setting("", "what it is about")
    note: str = setting("", "what a reader of its tables should know")
    graphs: tuple[GraphEntry, ...] = setting(_REQUIRED, "the graphs", min_length=1)
    methods: tuple[MethodEntry, ...] = setting(_REQUIRED, "the methods", min_length=1)
    variants: tuple[Variation, ...] = setting((), "changes that are made to every method in turn")
    sweep: Sweep | None = setting(None, "one setting that takes several values in turn, in every method and variant")
    search: SearchEntry | None = setting(None, "a search for settings before tables are made")
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "how many encoders, from seed 0 on; or a list of seeds")
    protocols: tuple[str, ...] = setting(("converged",), "how they are scored", min_length=1)
    splits: int = setting(10, "splits that each encoder is scored on", ge=1, le=1000)
    precision: Precision = setting("float32", "of products outside the solver: float32, tf32 or bfloat16")
    keep: Keep = setting("nothing", "what is kept beside the scores: nothing, vectors, or the whole run folder")
    store: str | None = setting(None, "folder of the records, seen from the study file; NAME.results beside it")
    tables: tuple[TableEntry, ...] = setting((), "the tables; one for each protocol when nothing is said")
    figures: tuple[FigureEntry, ...] = setting((), "the figures")

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("use letters, digits, - and _")
        return name

    @property
    def columns(self) -> tuple[str, ...]:
        """What tables call the graphs, in order."""
        return tuple(entry.heading for entry in self.graphs)

    def folder_of_records(self, file: Path) -> Path:
        """Return where records are kept."""
        return file.parent / (self.store or f"{self.name}.results")

    def folder_of_searches(self, file: Path) -> Path:
        """Return where its searches are kept; several studies may share a folder of records."""
        return self.folder_of_records(file) / "searches" / self.name

    def wanted_tables(self) -> tuple[TableEntry, ...]:
        """Return the tables, each with a name and a protocol."""
        asked = self.tables or tuple(TableEntry(protocol=name) for name in self.protocols)
        found = []
        for entry in asked:
            protocol = entry.protocol or self.protocols[0]
            usual = entry.value if len(self.protocols) == 1 else f"{entry.value}-{protocol}"
            found.append(entry.updated({"protocol": protocol, "name": entry.name or usual}))
        return tuple(found)


Part = TypeVar("Part", bound=Settings)


def read_study(file: Path) -> Study:
    """Read and check a study file.

    Raises:
        SettingError: the file cannot be read, is not YAML, or a key or value in it is not accepted.
    """
    values = read_yaml(file)
    if not isinstance(values, dict):
        raise SettingError(
            f"{file} holds no study: its content is {_kind(values)}.", remedy="Begin with a line such as name: mine."
        )
    return build_study(values, str(file), file.parent)


def build_study(values: Mapping[Any, Any], where: str = "the study", folder: Path = Path()) -> Study:
    """Make a study from plain values.

    Args:
        values: what the file holds.
        where: what to call it in messages.
        folder: where relative paths in it begin.

    Raises:
        SettingError: a key is unknown, or a value is not accepted; the message says where.
    """
    given = dict(values)
    _check_keys(Study, given, where)
    lists: dict[str, tuple[type[Settings], str]] = {
        "graphs": (GraphEntry, "input"), "methods": (MethodEntry, "method"), "variants": (Variation, "title"),
        "tables": (TableEntry, "value"), "figures": (FigureEntry, "name"),
    }  # fmt: skip
    for name, (kind, short) in lists.items():
        if name in given:
            items = _listed(given[name], f"{where}, {name}")
            given[name] = tuple(_part(kind, item, short, f"{where}, {name}[{i}]") for i, item in enumerate(items))
    if given.get("sweep") is not None:
        given["sweep"] = _part(Sweep, given["sweep"], "name", f"{where}, sweep")
    if given.get("search") is not None:
        given["search"] = _part(SearchEntry, given["search"], "protocol", f"{where}, search")
    if "protocols" in given:
        given["protocols"] = tuple(_listed(given["protocols"], f"{where}, protocols"))
    if "seeds" in given:
        given["seeds"] = _seeds(given["seeds"], where)
    study = _build(Study, given, where)
    _check(study, where, folder)
    return study


def _part(kind: type[Part], value: Any, short: str, where: str) -> Part:
    """Make an entry of a list; a text alone is its most important key."""
    given = {short: value} if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise SettingError(f"{where} is {_kind(value)}.", remedy=f"Write a name, or keys such as {short}: VALUE.")
    _check_keys(kind, given, where)
    return _build(kind, given, where)


def _check_keys(kind: type[Settings], given: Mapping[Any, Any], where: str) -> None:
    for key in given:
        if key not in kind.model_fields:
            raise SettingError(f"{where}: unknown key {str(key)!r}.", remedy=nearest(str(key), kind.model_fields))
    for name, field in kind.model_fields.items():
        if field.is_required() and name not in given:
            raise SettingError(f"{where}: {name} is missing.", remedy=f"Add {name}: {field.description}.")


def _build(kind: type[Part], given: Mapping[str, Any], where: str) -> Part:
    try:
        return kind.build(given)
    except SettingError as error:
        raise SettingError(f"{where}: {error.what}", remedy=error.remedy) from error


def _listed(value: Any, where: str) -> list[Any]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise SettingError(f"{where} is {_kind(value)}.", remedy="Write a list.")
    return list(found)


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    """Return the seeds that a number of encoders, or a list, stands for."""
    most = 10_000
    seeds = range(value) if type(value) is int and 1 <= value <= most else value
    if not isinstance(seeds, range | list) or not all(type(one) is int and 0 <= one <= LARGEST_SEED for one in seeds):
        raise SettingError(
            f"{where}: seeds={value!r} is not accepted.",
            remedy=f"Write how many encoders, 1 to {most:,}, or a list of seeds from 0 to {LARGEST_SEED}.",
        )
    if not seeds or len(set(seeds)) != len(seeds):
        raise SettingError(f"{where}: seeds={value!r} is empty or has one twice.", remedy="Name each seed once.")
    return tuple(seeds)


def _check(study: Study, where: str, folder: Path) -> None:
    """Raise SettingError where entries contradict each other, or name what is not there."""
    for number, entry in enumerate(study.graphs):
        here = f"{where}, graphs[{number}]"
        _build(Treatment, entry.treatment, here)
        if not (entry.optional or "{seed}" in entry.input or entry.is_there(folder)):
            raise SettingError(
                f"{here}: {entry.input!r} is neither a catalogue name nor a path that exists beside the study.",
                remedy=nearest(entry.input.partition(":")[0], catalog.names()),
            )
    _refuse_twice([entry.model_dump_json() for entry in study.graphs], "graph", where)
    refuse_alike(study.columns, "graphs", where)
    _refuse_twice([table.name for table in study.wanted_tables()], "table", where)
    _refuse_twice([figure.name for figure in study.figures], "figure", where)
    _refuse_twice(study.protocols, "protocol", where)
    for name in study.protocols:
        if name not in PROTOCOLS:
            raise SettingError(f"{where}: unknown protocol {name!r}.", remedy=nearest(name, PROTOCOLS))
    entries: list[TableEntry | FigureEntry] = [*study.wanted_tables(), *study.figures]
    for wanted in entries:
        if wanted.protocol is not None and wanted.protocol not in study.protocols:
            raise SettingError(
                f"{where}: {wanted.name!r} asks for protocol {wanted.protocol!r}, which the study does not score.",
                remedy=f"Use one of {', '.join(study.protocols)}, or add it to protocols.",
            )
        if not _NAME.fullmatch(wanted.name):
            raise SettingError(f"{where}: {wanted.name!r} is no name.", remedy="Use letters, digits, - and _.")
    ranked: list[TableEntry | FigureEntry] = [table for table in study.wanted_tables() if table.ranks]
    for wanted in [*ranked, *(figure for figure in study.figures if figure.kind == "ranks")]:
        _check_ranks(study, wanted, where)
    _check_search(study, where)
    if study.sweep is None and any(figure.kind == "sweep" for figure in study.figures):
        raise SettingError(
            f"{where}: a figure draws a sweep, and the study has none.", remedy="Add sweep, or kind: growth."
        )


def _check_ranks(study: Study, wanted: TableEntry | FigureEntry, where: str) -> None:
    """Raise SettingError where mean ranks would say nothing, whatever is measured."""
    asks = f"{where}: {wanted.name!r} asks for mean ranks"
    if len(study.graphs) == 1:
        raise SettingError(f"{asks} over one graph.", remedy="Add graphs, or leave it out.")
    if wanted.value in NEITHER_GOOD_NOR_BAD:
        raise SettingError(
            f"{asks} of {wanted.value}, of which more is neither better nor worse.", remedy="Rank another value."
        )


def _check_search(study: Study, where: str) -> None:
    """Raise SettingError where a search could not keep test labels sealed, or has no end."""
    if study.search is None:
        return
    here, asked = f"{where}, search", study.search
    if asked.trials is None and asked.minutes is None:
        raise SettingError(f"{here} has no end.", remedy="Add trials: 100, or minutes: 30.")
    chosen = asked.protocol or study.protocols[0]
    if chosen not in PROTOCOLS:
        raise SettingError(f"{here}: unknown protocol {chosen!r}.", remedy=nearest(chosen, PROTOCOLS))
    for name in (chosen, *study.protocols):
        if PROTOCOLS[name].split != PROTOCOLS[chosen].split or PROTOCOLS[name].split == "geom_gcn":
            raise SettingError(
                f"{where}: settings are searched under {chosen!r} and scored under {name!r}, whose test nodes are not "
                "those that a search puts aside.",
                remedy="Search and score under protocols of one split with one set of test nodes, such as converged.",
            )
    if study.sweep is not None or any("{seed}" in entry.input for entry in study.graphs):
        raise SettingError(
            f"{where}: a sweep, or a graph for each seed, cannot be searched.", remedy="Leave out one of the two."
        )
    known = [entry.method for entry in study.methods]
    for method in asked.space:
        if method not in known:
            raise SettingError(
                f"{here}: the space names {method!r}, no method of the study.", remedy=nearest(method, known)
            )


def refuse_alike(titles: Sequence[str], what: str, where: object) -> None:
    """Raise SettingError where two rows, or two graphs, have one title: records and searches go by them."""
    twice = [title for title, count in Counter(titles).items() if count > 1]
    if twice:
        raise SettingError(f"{where}: two {what} are called {twice[0]!r}.", remedy="Give one of them another title.")


def _refuse_twice(names: list[str] | tuple[str, ...], what: str, where: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise SettingError(f"{where}: the {what} {twice[0]} is there twice.", remedy="Keep one, or rename it.")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: f"the text {value!r}", type(None): "empty"}
    return names.get(type(value), repr(value))
