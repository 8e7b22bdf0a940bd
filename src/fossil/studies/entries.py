"""What may stand in a study file, key by key: graphs, methods, variants, tables, figures and a search.

Nothing here knows PyTorch: whether a method has such a setting is found out when the study is planned.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, field_validator

from fossil.datasets import catalog
from fossil.errors import DataError
from fossil.settings import LARGEST_SEED, Settings, setting

Published: TypeAlias = float | tuple[float, float]
"""A printed figure in percent, or one with the half width printed beside it."""

Quantity: TypeAlias = Literal[
    "accuracy", "macro_f1", "test_maximum", "seconds", "epoch_seconds", "memory", "lambda_mean", "effective_rank"
]
NEITHER_GOOD_NOR_BAD = ("lambda_mean", "effective_rank")
"""Quantities of which more is neither better nor worse."""


def _is_a_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("a path is not empty, and has no NUL in it")
    return text


PathText: TypeAlias = Annotated[str, AfterValidator(_is_a_path)]
"""What may be a path."""

Precision: TypeAlias = Literal["float32", "tf32", "bfloat16"]
Keep: TypeAlias = Literal["nothing", "vectors", "run"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_REQUIRED: Any = ...
_WAYS = {"keep": "", "symmetrize": " ↔", "reverse": " ←"}


class GraphEntry(Settings):
    """One graph: a column of the tables."""

    input: PathText = setting(
        _REQUIRED, "a catalogue name, or a path seen from the study file; {seed} stands for the seed"
    )
    title: str = setting("", "what tables call it")
    treatment: dict[str, Any] = setting({}, "what is done about oddities, such as direction: symmetrize")
    label: str | None = setting(None, "the column of classes, for files of one's own")
    edges: PathText | None = setting(None, "the edge table, where the input is a node table")
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

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the tables that come of it, of which its own is the first."""
        further = {"difference": self.reference is not None, "ranks": self.ranks}
        return (self.name, *(f"{self.name}-{what}" for what, is_asked in further.items() if is_asked))


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
    store: PathText | None = setting(None, "folder of the records, seen from the study file; NAME.results beside it")
    tables: tuple[TableEntry, ...] = setting((), "the tables; one for each protocol when nothing is said")
    figures: tuple[FigureEntry, ...] = setting((), "the figures")

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
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
