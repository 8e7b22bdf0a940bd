"""Fuzzing: every format that fossil reads, damaged in every way we know, read as its users read it.

What is read is boiled down to a digest. A damaged file that gives the digest of the whole one is `equal`; one that is
refused with a `FossilError` is `refused`; anything else that loads is `other`. Where the format carries a checksum, or
the file an identity, and the damage happened below it, `other` is a silent change; where a well-formed file was
written with another content, or the format has no checksum (CSV, TSV, GraphML, Parquet as it is usually written,
Planetoid's pickles read without the catalogue), it is what it says.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import run_samples
import samples
from cell import Verdict, watched, where
from containers import NPZ, PARQUET, PICKLE, SAFETENSORS, inside_gzip
from damage import BYTES, Trick, untouched
from digests import digest
from wording import JSON, JSON_LINES, TEXT, YAML, deep, yaml_words

from fossil.datasets.catalog import load
from fossil.datasets.ogb import read_ogb
from fossil.datasets.planetoid import read_planetoid
from fossil.datasets.webgraphs import read_benchmark_npz, read_geom_gcn, read_heterophilous_npz, read_wordnet
from fossil.errors import FossilError
from fossil.graph.assemble import assemble
from fossil.readers.read import read_graph
from fossil.settings import parse_assignments

SECONDS = 30.0
NOTE = "DAMAGE.txt"  # beside the sample: which file, which trick, whether it must be told
_GZIPPED = (*BYTES, *map(inside_gzip, TEXT))


@dataclass(frozen=True)
class Format:
    """A format to fuzz.

    Attributes:
        name: its row in the table.
        make: writes a valid sample to an empty folder, another one for another seed.
        damaged: the files of the sample to damage, by a pattern.
        read: what is done with the folder; its result is boiled down to a digest.
        tricks: ways to damage it.
        guarded: what tells of damage: nothing, a checksum, or an identity that ties the file to its neighbours, so that
            even the whole file of another run is out of place.
    """

    name: str
    make: Callable[[Path, int], object]
    damaged: str
    read: Callable[[Path], object]
    tricks: tuple[Trick, ...]
    guarded: Literal["", "checksum", "identity"] = ""


def _table(suffix: str) -> Callable[[Path], object]:
    return lambda folder: read_graph(folder / f"nodes{suffix}").graph


def _read_npz(folder: Path) -> object:
    return read_graph(folder / "graph.npz").graph


def _assembled(read: Callable[[Path], Any]) -> Callable[[Path], object]:
    return lambda folder: assemble(read(folder))


def _assignments(folder: Path) -> object:
    from fossil.methods.registry import get_method

    lines = (folder / "settings.txt").read_bytes().decode("utf-8", "surrogateescape").split("\n")
    return (
        get_method("fossil").configure(None, parse_assignments([line for line in lines if line.strip()])).model_dump()
    )


def _write_assignments(folder: Path, seed: int) -> None:
    (folder / "settings.txt").write_text(
        f"alpha=0.{seed + 3}\nencoder=gcn\nwidth=1{seed}\nlearning_rate=1e-3\ncontrast_temperature=null\n"
    )


def _published(folder: Path, seed: int) -> None:
    """Copy the files of two graphs of the catalogue; there is one such sample alone."""
    for place in ("Planetoid/Cora", "WebKB/texas"):
        if seed == 0:
            shutil.copytree(Path(os.environ["FOSSIL_DATA"]) / place, folder / place, copy_function=shutil.copyfile)


def _load_published(folder: Path) -> object:
    return [load(name, data_root=folder, download=False) for name in ("cora", "texas")]


PUBLISHED = Format(
    "published files of the catalogue", _published, "raw/*", _load_published,
    tuple(replace(trick, told=True) for trick in PICKLE),
    guarded="checksum",
)  # fmt: skip
"""Needs the files, below the folder that `$FOSSIL_DATA` names."""

FORMATS = (
    Format(
        "CSV", lambda folder, seed: samples.town(folder, ".csv", seed), "*.csv", _table(".csv"), (*BYTES, *TEXT, *TEXT)
    ),
    Format(
        "TSV", lambda folder, seed: samples.town(folder, ".tsv", seed), "*.tsv", _table(".tsv"), (*BYTES, *TEXT, *TEXT)
    ),
    Format(
        "CSV, gzipped",
        lambda folder, seed: samples.town(folder, ".csv.gz", seed),
        "*.gz",
        _table(".csv.gz"),
        _GZIPPED,
        guarded="checksum",
    ),
    Format(
        "Parquet", lambda folder, seed: samples.town(folder, ".parquet", seed), "*.parquet", _table(".parquet"), PARQUET
    ),
    Format("NPZ of others", samples.foreign_npz, "*.npz", _read_npz, NPZ, guarded="checksum"),
    Format("NPZ of our own", samples.own_npz, "*.npz", _read_npz, NPZ, guarded="checksum"),
    Format(
        "GraphML",
        samples.graphml,
        "*.graphml",
        lambda folder: read_graph(folder / "graph.graphml").graph,
        (*BYTES, *TEXT),
    ),
    Format(
        "Planetoid",
        samples.planetoid,
        "ind.*",
        _assembled(lambda folder: read_planetoid(folder, "cora")),
        (*PICKLE, *TEXT[:4]),
    ),
    Format(
        "OGB", samples.ogb, "*.gz", _assembled(lambda folder: read_ogb(folder, "small")), _GZIPPED, guarded="checksum"
    ),
    Format(
        "geom-gcn",
        samples.geom_gcn,
        "*",
        _assembled(lambda folder: read_geom_gcn(folder, "small", "values", ["split_0.npz"])),
        (*BYTES, *TEXT),
    ),
    Format(
        "gnn-benchmark NPZ",
        samples.benchmark_npz,
        "*",
        _assembled(lambda folder: read_benchmark_npz(folder / "graph.npz", "small")),
        NPZ,
        guarded="checksum",
    ),
    Format(
        "heterophilous NPZ",
        samples.heterophilous_npz,
        "*",
        _assembled(lambda folder: read_heterophilous_npz(folder / "graph.npz", "small", directed=True)),
        NPZ,
        guarded="checksum",
    ),
    Format(
        "WordNet NPZ",
        samples.wordnet_npz,
        "*",
        _assembled(lambda folder: read_wordnet(folder / "wordnet30.npz", "small")),
        NPZ,
        guarded="checksum",
    ),
    Format(
        "settings of --set",
        _write_assignments,
        "*",
        _assignments,
        (*BYTES, *TEXT[:5], Trick("yaml_words", yaml_words), Trick("deep", deep)),
    ),
    *(
        Format(f"run: {file}", run_samples.finished, file, run_samples.open_whole, tricks, guarded="identity")
        for file, tricks in {
            "config.yaml": (*BYTES, *YAML, *YAML),
            "encoding.json": (*BYTES, *JSON, *JSON),
            "summary.json": (*BYTES, *JSON),
            "graph.npz": NPZ,
            "embeddings.npz": NPZ,
            "weights.safetensors": SAFETENSORS,
        }.items()
    ),
    *(
        Format(f"resumed: {file}", run_samples.stopped, file, run_samples.resume_whole, tricks, guarded="identity")
        for file, tricks in {
            "config.yaml": (*BYTES, *YAML, *YAML),
            "history.jsonl": (*BYTES, *JSON_LINES),
            "checkpoint.safetensors": SAFETENSORS,
        }.items()
    ),
    *([PUBLISHED] if os.environ.get("FOSSIL_DATA") else []),
)


@dataclass
class Shelf:
    """The samples of a format in memory, and the digest of the first.

    Attributes:
        files: content by name, of the sample to damage.
        others: content of another sample, for splices.
        expected: digest of what is read from the sample when it is whole.
    """

    files: dict[str, bytes]
    others: dict[str, bytes]
    expected: str


@dataclass(frozen=True)
class Fuzz:
    """One damaged file."""

    format: Format
    number: int
    shelf: Shelf = field(repr=False)

    @property
    def key(self) -> str:
        return f"fuzz/{self.format.name}/{self.number:05d}"

    @property
    def row(self) -> str:
        return self.format.name

    seconds = SECONDS
    together = 12

    def prepare(self, folder: Path) -> None:
        """Write the sample with one of its files damaged, and a note that says how."""
        shelf, draw = self.shelf, random.Random(self.key)
        for name, content in shelf.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        paths = sorted(path for path in folder.rglob(self.format.damaged) if path.is_file())
        path, trick = draw.choice(paths), draw.choice(self.format.tricks)
        name = str(path.relative_to(folder))
        other = shelf.others.get(name, b"")
        damaged = trick.play(draw, shelf.files[name], other)
        path.write_bytes(damaged)
        # A ZIP file is read from its end: another whole one after this one is that other one.
        told = trick.told and (self.format.guarded == "identity" or not damaged.endswith(other or b"\0"))
        (folder / NOTE).write_text(f"{name}\n{trick.name}\n{told}\n")

    def play(self, folder: Path) -> Verdict:
        """Read the folder and judge what came of it."""
        name, trick, told = (folder / NOTE).read_text().splitlines()
        with warnings.catch_warnings(), watched(folder) as noticed:
            warnings.simplefilter("ignore")
            verdict = self._judge(folder, f"{name}, {trick}", told == "True")
        if trick == untouched.__name__ and verdict.outcome != "equal":
            return Verdict("differs", f"a whole file was not read as it is: {verdict.detail}")
        return Verdict("trespass", noticed[0]) if noticed else verdict

    def _judge(self, folder: Path, what: str, told: bool) -> Verdict:
        try:
            found = digest(self.format.read(folder))
        except FossilError as error:
            return Verdict("refused", f"{what}: {str(error)[:160]}")
        except BaseException as error:
            return Verdict("traceback", f"{what}: {where(error)}")
        if found == self.shelf.expected:
            return Verdict("equal")
        return Verdict("silent" if self.format.guarded and told else "other", what)


def stock(folder: Path, formats: tuple[Format, ...] = FORMATS) -> None:
    """Make two samples of every format below `folder`, and write down what is read from the first."""
    for form in formats:
        places = [folder / _slug(form) / str(seed) for seed in (0, 1)]
        if (folder / _slug(form) / "expected").exists():
            continue
        for seed, place in enumerate(places):
            place.mkdir(parents=True)
            form.make(place, seed)
        with tempfile.TemporaryDirectory(dir=folder) as copy:  # reading may write, as a run that goes on does
            shutil.copytree(places[0], copy, dirs_exist_ok=True)
            (folder / _slug(form) / "expected").write_text(digest(form.read(Path(copy))))


def shelves(folder: Path, formats: tuple[Format, ...] = FORMATS) -> dict[str, Shelf]:
    """Return the samples that `stock` made."""
    return {
        form.name: Shelf(
            _content(folder / _slug(form) / "0"),
            _content(folder / _slug(form) / "1"),
            (folder / _slug(form) / "expected").read_text(),
        )
        for form in formats
    }


def _slug(form: Format) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in form.name)


def _content(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def cases(count: int, stocked: Mapping[str, Shelf], formats: tuple[Format, ...] = FORMATS) -> Iterator[Fuzz]:
    """Yield so many damaged files in all, formats taking turns."""
    for number in range(count):
        form = formats[number % len(formats)]
        yield Fuzz(form, number // len(formats), stocked[form.name])
