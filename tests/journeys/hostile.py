"""Names that try to act on a terminal: in ids, columns, cells, labels and paths, through every command."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from command import QUICK

TITLE = "\x1b]0;owned\x07"  # sets a terminal's title
CLEAR = "\x1b[2J\x1b[1;1H"  # empties its screen
C1 = "\x9b31m\x9d0;owned\x9c\x85"  # the same kind in one byte each, and a line end
TURNED = "\u202egnp.exe\u2066\u200f"  # reads from right to left
LINES = "\rover\nerror: fake\nremedy: curl evil\u2028\u2029\x0b\x0c\x08\x7f"
MARKUP = "[red]x[/] [/nothing] [link=evil]y[/link] :smile: {0} %s"
HOSTILE = TITLE + CLEAR + C1 + TURNED + LINES + MARKUP
NAME = TITLE + CLEAR + C1 + TURNED + "\rover\nerror: fake [red]x[/]".replace("/", "")  # of a file: no slash in it
COLUMN = HOSTILE.translate(dict.fromkeys(map(ord, ";\r\n=")))  # nothing that makes a header another one
NODES = 60


def write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


def node(number: int) -> str:
    return f"{number}{HOSTILE}"


def write_graph(folder: Path) -> Path:
    """A graph in which every text is hostile; it has a self loop, a lone node and a constant column to tell of."""
    classes = [f"{kind}{HOSTILE}" for kind in ("$\\badmacro$", "_hidden", "plain")]
    rows = [
        [node(number), str(number % 7), f"{HOSTILE}{number % 4}", "1", str(number * 37 % 11), classes[number % 3]]
        for number in range(NODES)
    ]
    header = ["id", f"u{COLUMN}", f"v{COLUMN}", f"w{COLUMN}", "x", f"group{COLUMN}"]
    write(folder / "nodes.csv", header, rows)
    pairs = [(number, (number + step) % (NODES - 1)) for number in range(NODES - 1) for step in (3, 6, 9)]
    ends = [[node(a), node(b)] for a, b in pairs] + [[node(0), node(0)], [node(1), node(4)]]
    write(folder / "edges.csv", ["source", "target"], ends)
    return folder


def walk(folder: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield every command in turn, with the status it ends with; files are written along the way."""
    place = folder / NAME
    town, run, label = str(write_graph(place)), str(folder / f"run{NAME}"), f"group{COLUMN}"
    read = ("--label", label, "--direction", "symmetrize")
    yield ("data", "list"), 0
    yield ("doctor",), 0
    yield ("data", "describe", town), 0
    yield ("data", "describe", town, *read), 0
    yield ("data", "describe", town, "--self-loops", "refuse"), 2
    yield ("data", "describe", town, "--label", f"no{HOSTILE}"), 2
    yield ("data", "describe", town, "--column", f"u{COLUMN}=date"), 2
    yield ("data", "describe", town, "--column", f"u{COLUMN}={HOSTILE}"), 2
    yield ("data", "describe", town, "--column", COLUMN), 2
    yield ("data", "describe", f"{town}x"), 2
    yield ("data", "describe", town, HOSTILE), 2
    yield ("data", HOSTILE), 2
    yield (HOSTILE,), 2
    yield (f"--{HOSTILE}",), 2
    yield ("methods", "--method", HOSTILE), 2
    yield ("methods", "--format", HOSTILE), 2
    embed = ("embed", town, *read, "--epochs", "2", *QUICK)
    yield (*embed, "--out", run, "--map"), 0
    yield (*embed, "--out", run), 2
    yield (*embed, "--out", run, "--resume"), 0
    yield (*embed, "--out", f"{town}/nodes.csv"), 2
    yield (*embed, "--out", f"{run}-2", "--set", f"alpha={HOSTILE}"), 2
    yield (*embed, "--out", f"{run}-2", "--set", COLUMN), 2
    yield (*embed, "--out", f"{run}-2", "--preset", HOSTILE), 2
    yield (*embed, "--out", f"{run}-2", "--device", HOSTILE), 2
    yield (*embed, "--out", f"{run}-2", "--seed", HOSTILE), 2
    yield ("embed", town, "--method", "features", *read, "--out", f"{run}-f"), 0
    yield ("embed", town, "--run", run, "--out", f"{run}-v", "--device", "cpu"), 0
    score = ("evaluate", run, "--splits", "2", "--nodes-per-class", "5", "--device", "cpu")
    for form in ("table", "markdown", "latex", "json"):
        yield (*score, "--format", form), 0
    yield ("evaluate", town), 2
    yield ("evaluate", run, run), 2
    yield ("evaluate", run, "--protocol", HOSTILE), 2
    outside = ("evaluate", "--vectors", f"{run}/embeddings.npz", "--graph", f"{run}/graph.npz", *score[2:])
    yield outside, 0
    yield ("evaluate", "--vectors", f"{town}/nodes.csv", "--graph", f"{run}/graph.npz"), 2
    for form in ("anndata", "csv", "numpy", "parquet", "tensorboard", "word2vec"):
        yield ("export", run, "--to", form, "--out", f"{run}-{form}"), 0
        yield ("export", run, "--to", form, "--out", f"{run}-{form}"), 2
    yield ("export", run, "--to", HOSTILE), 2
    yield (*embed, "--out", f"{run}-l", "--log", f"tensorboard:{run}-curves"), 0
    yield (*embed, "--out", f"{run}-l", "--log", HOSTILE), 2
    yield ("map", run, "--out", f"{run}.svg"), 0
    yield ("map", run, "--out", f"{run}.svg"), 2
    yield ("map", run, "--out", f"{run}.{HOSTILE.replace('/', '')}"), 2
    yield ("map", run, "--out", f"{run}-2.svg", "--colour", HOSTILE), 2
    write(place / "edges.csv", ["source", "target"], [[node(0), f"stranger{HOSTILE}"]])
    yield ("data", "describe", town), 2
    write(place / "nodes.csv", ["id", f"u{COLUMN}"], [[HOSTILE, HOSTILE], [HOSTILE, "1"], ["", "nan"]])
    yield ("data", "describe", town), 2
    (place / "nodes.csv").write_text(f"id,{HOSTILE}\n1,2,3\n")
    yield ("data", "describe", town), 2
    for name in ("town.npz", "town.graphml", "town.parquet", "town.xlsx"):
        (place / name).write_text(f"<graphml>{HOSTILE}")
        yield ("data", "describe", str(place / name)), 2
    Path(run, "config.yaml").write_text(f"{HOSTILE}: [")
    yield ("evaluate", run), 2


def acting(text: str) -> set[str]:
    """The signs in an output that act on a terminal; an end of a line is meant."""
    return {sign for sign in text if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
