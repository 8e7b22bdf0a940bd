"""A study as somebody writes it: one YAML file, every key declared, unknown ones refused with the nearest name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fossil.datasets import catalog
from fossil.errors import SettingError, nearest
from fossil.evaluation.protocol import PROTOCOLS
from fossil.graph.findings import Treatment
from fossil.settings import LARGEST_SEED, Settings
from fossil.studies.bounded_yaml import read_yaml
from fossil.studies.entries import (
    NAME,
    NEITHER_GOOD_NOR_BAD,
    FigureEntry,
    GraphEntry,
    MethodEntry,
    SearchEntry,
    Study,
    Sweep,
    TableEntry,
    Variation,
)
from fossil.studies.spread import SPREAD

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
            items = _listed(given[name], f"{where}, {name}", may_be_empty=not Study.model_fields[name].is_required())
            given[name] = tuple(_part(kind, item, short, f"{where}, {name}[{i}]") for i, item in enumerate(items))
    if given.get("sweep") is not None:
        given["sweep"] = _part(Sweep, given["sweep"], "name", f"{where}, sweep")
    if given.get("search") is not None:
        given["search"] = _part(SearchEntry, given["search"], "protocol", f"{where}, search")
    if "protocols" in given:
        given["protocols"] = tuple(_listed(given["protocols"], f"{where}, protocols", may_be_empty=False))
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


def _listed(value: Any, where: str, *, may_be_empty: bool) -> list[Any]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise SettingError(f"{where} is {_kind(value)}.", remedy="Write a list.")
    if not found and not may_be_empty:
        raise SettingError(f"{where} is an empty list.", remedy="Name at least one.")
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
    _check_published(study, where)
    # By name they are files, of which some file systems take a capital for a small letter.
    tables = [name.lower() for table in study.wanted_tables() for name in table.made]
    _refuse_twice([*tables, *([] if study.search is None else [SPREAD])], "table", where)
    _refuse_twice([figure.name.lower() for figure in study.figures], "figure", where)
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
        under = wanted.protocol or study.protocols[0]
        if wanted.value == "test_maximum" and not PROTOCOLS[under].optimistic:
            having = [name for name, rule in PROTOCOLS.items() if rule.optimistic]
            raise SettingError(
                f"{where}: {wanted.name!r} asks for test_maximum under {under!r}, which has none.",
                remedy=f"Use protocol: {' or '.join(having)}.",
            )
        if not NAME.fullmatch(wanted.name):
            raise SettingError(f"{where}: {wanted.name!r} is no name.", remedy="Use letters, digits, - and _.")
    ranked: list[TableEntry | FigureEntry] = [table for table in study.wanted_tables() if table.ranks]
    for wanted in [*ranked, *(figure for figure in study.figures if figure.kind == "ranks")]:
        _check_ranks(study, wanted, where)
    _check_search(study, where)
    if study.sweep is None and any(figure.kind == "sweep" for figure in study.figures):
        raise SettingError(
            f"{where}: a figure draws a sweep, and the study has none.", remedy="Add sweep, or kind: growth."
        )


def _check_published(study: Study, where: str) -> None:
    """Raise SettingError where a figure is printed for a graph that is neither in the study nor known."""
    inputs = [entry.input for entry in study.graphs]
    variations: list[Variation] = [*study.methods, *study.variants]
    for name in (name for one in variations for name in one.published):
        if name not in inputs and name not in catalog.names():
            raise SettingError(
                f"{where}: a figure is published for {name!r}, which is no input of a graph.",
                remedy=nearest(name, [*inputs, *catalog.names()]),
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
