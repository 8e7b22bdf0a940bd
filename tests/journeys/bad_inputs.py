"""Everything a user can get wrong, and what the command says about it.

Each case prepares files in an empty folder and returns the command to run there. `python bad_inputs.py` prints the
messages as a Markdown table.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from command import QUICK, Outcome, here, in_process
from people import HEADER, person, rows, ties, write_table, write_town

NODES = 60
TRAIN = ("--epochs", "2", *QUICK)
ENDS = ("source", "target")
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9") | {"no_proxy": ""}

Prepare = Callable[[Path], list[str]]
Rows = list[list[str]]


@dataclass(frozen=True)
class Case:
    """One mistake.

    Attributes:
        name: what is wrong.
        prepare: writes the files into a folder and returns the arguments of `fossil`.
        env: environment variables.
        own_process: whether it has to run in a process of its own.
        troubles: how many things are wrong, all of which the message tells.
        largest_file: where a file can grow no more, in bytes.
    """

    name: str
    prepare: Prepare
    env: Mapping[str, str] = field(default_factory=dict)
    own_process: bool = False
    troubles: int = 1
    largest_file: int | None = None

    def run(self, folder: Path, arguments: list[str]) -> Outcome:
        """Run the command in `folder`."""
        if self.own_process:
            return in_process(*arguments, cwd=folder, env=self.env, largest_file=self.largest_file)
        return here(*arguments, cwd=folder, env=self.env)


CASES: list[Case] = []


# The four kinds of cases.


def case(name: str, **how: object) -> Callable[[Prepare], Prepare]:
    """Put the decorated function into the table."""

    def keep(prepare: Prepare) -> Prepare:
        CASES.append(Case(name, prepare, **how))  # type: ignore[arg-type]
        return prepare

    return keep


def asked(name: str, source: str, *further: str, **how: object) -> None:
    """Something that no files are needed for."""
    case(name, **how)(lambda folder: embed(source, *further))


def in_town(
    name: str,
    *further: str,
    edit: Callable[[Rows], object] | None = None,
    spoil: Callable[[Path], object] | None = None,
    **how: object,
) -> None:
    """Training on two tables: `edit` changes the rows of the nodes, `spoil` the folder."""

    def prepare(folder: Path) -> list[str]:
        path = town(folder, edit)
        if spoil is not None:
            spoil(path)
        return embed("town", *further)

    case(name, **how)(prepare)


def after_run(name: str, *arguments: str, spoil: Callable[[Path], object] | None = None) -> None:
    """A command that meets a finished run in `out`; `spoil` changes that folder."""

    def prepare(folder: Path) -> list[str]:
        finished(folder)
        if spoil is not None:
            spoil(folder / "out")
        return list(arguments)

    case(name)(prepare)


# What they are made of.


def embed(source: str, *further: str) -> list[str]:
    return ["embed", source, "--out", "out", *TRAIN, *further]


def with_method(source: str, method: str, *further: str) -> list[str]:
    return ["embed", source, "--out", "out", "--method", method, "--epochs", "2", "--device", "cpu", *further]


def use(source: str, *further: str, out: str = "vectors") -> list[str]:
    return ["embed", source, "--run", "out", "--out", out, *further]


def town(folder: Path, edit: Callable[[Rows], object] | None = None) -> Path:
    """Write the usual tables, the node rows changed by `edit`."""
    people = rows(range(NODES))
    if edit is not None:
        edit(people)
    write_table(folder / "town" / "nodes.csv", HEADER, people)
    write_table(folder / "town" / "edges.csv", ENDS, ties(NODES))
    return folder / "town"


def finished(folder: Path, source: str = "town", out: str = "out") -> None:
    """Make a finished run in `folder`, of a graph that is made if it is not there."""
    if not (folder / source).exists():
        write_town(folder / source, NODES)
    done = here("embed", f"./{source}", "--out", out, *TRAIN, cwd=folder)
    assert done.status == 0, done.err


def cell(row: int, column: str, value: str) -> Callable[[Rows], None]:
    def edit(people: Rows) -> None:
        people[row][HEADER.index(column)] = value

    return edit


def column(name: str, value: str) -> Callable[[Rows], None]:
    def edit(people: Rows) -> None:
        for row in people:
            row[HEADER.index(name)] = value

    return edit


def both(*edits: Callable[[Rows], None]) -> Callable[[Rows], None]:
    return lambda people: [edit(people) for edit in edits] and None


def messy(people: Rows) -> None:
    """A repeated id, an empty one, an empty number and a word among numbers."""
    for edit in (cell(7, "id", person(3)), cell(8, "id", ""), cell(4, "age", ""), cell(5, "age", "old")):
        edit(people)


def weighted(path: Path) -> None:
    """Give every edge a number of its own."""
    write_table(path / "edges.csv", (*ENDS, "weight"), [(*pair, str(i)) for i, pair in enumerate(ties(NODES))])


def edges(*pairs: tuple[str, str], header: tuple[str, str] = ENDS) -> Callable[[Path], None]:
    return lambda path: write_table(path / "edges.csv", header, pairs)


def halve(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return spoil


def cut(name: str, after: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.write_text(path.read_text().partition(after)[0] + after)

    return spoil


# What is asked for.

asked("a misspelt data set", "korra")
asked("a path that does not exist", "town/people.csv")
asked("an unknown setting", "digits", "--set", "alhpa=0.3")
asked("an impossible value", "digits", "--set", "alpha=2")
asked("a setting that has no effect beside the others", "digits", "--method", "fossil", "--set", "gcnii_layers=4")
asked("a word where a number belongs", "digits", "--set", "width=wide")
asked("`--set` without a value", "digits", "--set", "alpha")
asked("no epochs", "digits", "--epochs", "0")
asked("a seed out of range", "digits", "--seed", "-1")
asked("a width that is a mistake", "digits", "--set", "width=1000000000000000")
asked("a value that YAML cannot read", "digits", "--set", 'alpha=!!int ""')
asked("a value that refers to itself", "digits", "--set", "alpha=&a [*a]")
asked("a built-in graph that does not fit in memory", "csbm:nodes=1000000000,features=10000")
asked("an unknown preset", "digits", "--method", "fossil", "--preset", "papre")
asked("an unknown method", "digits", "--method", "fosil")
asked("a method whose name is like no other", "digits", "--method", "word2vec")
case("epochs for a method without training")(lambda folder: with_method("digits", "prop"))
case("an unknown channel")(
    lambda folder: ["embed", "digits", "--out", "out", "--method", "prop", "--set", "channels=identity,lwo"]
)
case("no channel that the graph has")(
    lambda folder: ["embed", "digits", "--out", "out", "--method", "prop", "--set", "channels=[in, out]"]
)
case("a setting of another method")(lambda folder: with_method("digits", "dgi", "--set", "alpha=0.3"))
asked("an unknown device", "digits", "--device", "gpu")
asked("a device that is not there", "digits", "--device", "cuda:99")
asked("an unknown treatment", "digits", "--self-loops", "delete")
asked("an unknown parameter of a built-in graph", "csbm:nodse=100")
asked("a parameter of a built-in graph without a value", "csbm:nodes")
asked("column options for a catalogue graph", "digits", "--label", "digit")
in_town("`--column` without a role", "--column", "city")
in_town("`--column` with an unknown role", "--column", "city=category")
in_town("`--column` with an unknown choice for empty cells", "--column", "age=numeric:average")
in_town("`--column` for a column that is not there", "--column", "cty=categorical")
in_town("`--label` for a column that is not there", "--label", "lable")

# What is in the files.

in_town("a folder without tables", spoil=lambda path: [file.unlink() for file in path.iterdir()])
in_town("a folder without a node table", spoil=lambda path: (path / "nodes.csv").unlink())
in_town("no edge table beside the nodes", spoil=lambda path: (path / "edges.csv").unlink())
in_town("an edge table that does not exist", "--edges", "town/ties.csv")
in_town("an edge that names an unknown node", spoil=edges(*ties(NODES), ("user-000", "user-999")))
in_town("edges with weights", spoil=weighted)
in_town("an edge table without a header", spoil=edges(*ties(NODES)[1:], header=ties(NODES)[0]))
in_town("an edge table without edges", spoil=edges())
in_town("a node id given twice", edit=cell(7, "id", person(3)), troubles=2)  # the edges of person 7 lose their end
in_town("an empty node id", edit=cell(7, "id", ""), troubles=2)
in_town("a feature that is NaN", edit=cell(4, "age", "nan"))
in_town("a feature that is infinite", edit=cell(4, "age", "inf"))
in_town("a number that is missing", edit=cell(4, "age", ""))
in_town("dates that leave open which is the month", "--column", "city=date", edit=column("city", "03/04/2021"))
in_town("a word among dates", edit=both(column("city", "2021-03-04"), cell(4, "city", "yesterday")))
in_town("a row with a cell too few", edit=lambda people: people[5].pop())
in_town("several problems at once", "--column", "cty=drop", edit=messy, spoil=weighted, troubles=7)
in_town("a damaged `.csv.gz` file", spoil=lambda path: (path / "nodes.csv").rename(path / "nodes.csv.gz"))
in_town("a single node", edit=lambda people: people.__delitem__(slice(1, None)), spoil=edges())
in_town("an empty file", spoil=lambda path: (path / "nodes.csv").write_text(""))
in_town(
    "self loops, where they are refused",
    *("--self-loops", "refuse"),
    spoil=edges(*ties(NODES), (person(3), person(3))),
)
in_town("subgraphs larger than any component", spoil=edges(*((person(i), person(i ^ 1)) for i in range(NODES))))
in_town(
    "subgraphs that no single hop fills",
    *("--set", "subgraph_size=3", "--direction", "symmetrize"),
    spoil=edges(*((person(i), person(i - i % 4 + (i + 1) % 4)) for i in range(NODES))),
)


in_town("a label, and another column with the name of one", "--label", "city")


@case("a column of free text")
def _(folder: Path) -> list[str]:
    def write(people: Rows) -> None:
        for number, row in enumerate(people):
            row[1] = f"I have lived here for {number} years."

    town(folder, write)
    return embed("town")


def without_labels(folder: Path) -> None:
    write_table(town(folder) / "nodes.csv", HEADER[:-1], [row[:-1] for row in rows(range(NODES))])


@case("a method that trains on labels, and no labels")
def _(folder: Path) -> list[str]:
    without_labels(folder)
    return with_method("town", "fs_gcn")


@case("no features at all")
def _(folder: Path) -> list[str]:
    write_table(town(folder) / "nodes.csv", ["id"], [[person(number)] for number in range(NODES)])
    return embed("town")


@case("bytes that are not UTF-8")
def _(folder: Path) -> list[str]:
    path = town(folder, cell(0, "city", "Malmö")) / "nodes.csv"
    path.write_bytes(path.read_text().encode("latin-1"))
    return embed("town")


@case("a damaged `.npz` file")
def _(folder: Path) -> list[str]:
    np.savez(folder / "town.npz", x=np.eye(50), edge_index=np.array([[0, 1], [1, 2]]))
    halve("town.npz")(folder)
    return embed("town.npz")


@case("an `.npz` file that says it holds a million millions of numbers")
def _(folder: Path) -> list[str]:
    np.savez(folder / "town.npz", edge_index=np.array([[0, 1], [1, 2]]))
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(folder / "town.npz", "a") as archive:
        archive.writestr("x.npy", stream.getvalue())
    return embed("town.npz")


@case("labels that are negative numbers")
def _(folder: Path) -> list[str]:
    np.savez(folder / "town.npz", x=np.eye(3), edge_index=np.array([[0, 1], [1, 2]]), y=np.array([0, 1, -100]))
    return embed("town.npz")


@case("an `.npz` file without edges")
def _(folder: Path) -> list[str]:
    np.savez(folder / "town.npz", x=np.eye(5))
    return embed("town.npz")


@case("a damaged `.graphml` file")
def _(folder: Path) -> list[str]:
    (folder / "town.graphml").write_text("<graphml><graph>")
    return embed("town.graphml")


@case("a damaged Parquet file")
def _(folder: Path) -> list[str]:
    halve("nodes.parquet")(write_town(folder / "town", NODES, ".parquet"))
    return embed("town")


@case("a named pipe in place of a file")
def _(folder: Path) -> list[str]:
    os.mkfifo(folder / "town.graphml")
    return embed("town.graphml")


@case("a published file that is damaged", env={"FOSSIL_DATA": "data"})
def _(folder: Path) -> list[str]:
    (folder / "data" / "Planetoid" / "Cora" / "raw").mkdir(parents=True)
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (folder / "data" / "Planetoid" / "Cora" / "raw" / f"ind.cora.{part}").write_text("damaged")
    return embed("cora")


@case("a file of another kind")
def _(folder: Path) -> list[str]:
    (folder / "town.xlsx").write_bytes(b"PK")
    return embed("town.xlsx")


# Where it is written, and what is there already.


def occupied(*further: str) -> Prepare:
    def prepare(folder: Path) -> list[str]:
        town(folder)
        write_table(folder / "out" / "thesis.csv", ["the only copy"], [])
        return embed("town", *further)

    return prepare


case("an output folder with other files")(occupied())
case("the same with `--force`")(occupied("--force"))


@case("an output folder that is a file")
def _(folder: Path) -> list[str]:
    town(folder)
    (folder / "out").write_text("the only copy")
    return embed("town", "--force")


@case("an output folder inside a file")
def _(folder: Path) -> list[str]:
    town(folder)
    (folder / "notes").write_text("the only copy")
    return ["embed", "town", "--out", "notes/out", *TRAIN]


after_run("an output folder that holds a run", *embed("town"))
after_run("`--resume` together with `--force`", *embed("town", "--resume", "--force"))
after_run("`--resume` with other settings", *embed("town", "--resume", "--set", "alpha=0.3"))
after_run("`--resume` with fewer epochs than are trained", *embed("town", "--resume", "--epochs", "1"))
after_run("a truncated checkpoint", *embed("town", "--resume", "--epochs", "3"), spoil=halve("checkpoint.safetensors"))
after_run("a damaged `config.yaml`", *embed("town", "--resume"), spoil=cut("config.yaml", "precis"))


@case("`--resume` with another graph")
def _(folder: Path) -> list[str]:
    finished(folder)
    write_town(folder / "other", NODES, seed=1)
    return embed("other", "--resume")


@case("the checkpoint of another run")
def _(folder: Path) -> list[str]:
    finished(folder)
    write_town(folder / "other", NODES, seed=1)
    finished(folder, "other", "out2")
    shutil.copy(folder / "out2" / "checkpoint.safetensors", folder / "out" / "checkpoint.safetensors")
    return embed("town", "--resume", "--epochs", "3")


@case("a disk that fills up in training", own_process=True, largest_file=20_000)
def _(folder: Path) -> list[str]:
    finished(folder, "town", "earlier")
    return embed("town", "--set", "hidden=200", "--set", "width=100")


@case("a disk that fills up while vectors are replaced", own_process=True, largest_file=20_000)
def _(folder: Path) -> list[str]:
    finished(folder)
    assert here(*use("town"), cwd=folder).status == 0
    write_town(folder / "large", 400)
    return use("large", "--force")


# Scores.


def unfinish(out: Path) -> None:
    for name in ("summary.json", "embeddings.npz", "embeddings.parquet", "weights.safetensors"):
        (out / name).unlink()


def other_version(out: Path) -> None:
    path = out / "config.yaml"
    path.write_text(path.read_text().replace("format: 1", "format: 99"))


def other_arrays(out: Path) -> None:
    np.savez(out / "embeddings.npz", x=np.eye(3))


after_run("an unknown protocol", "evaluate", "out", "--protocol", "papr")
after_run("published splits that a graph does not have", "evaluate", "out", "--protocol", "geom_gcn")
after_run(
    "a number of nodes per class of a published split",
    *("evaluate", "out", "--protocol", "public", "--nodes-per-class", "3"),
)
after_run("scores of a folder that is no run", "evaluate", "town")
after_run("scores of an unfinished run", "evaluate", "out", spoil=unfinish)
after_run("a run of another version", "evaluate", "out", spoil=other_version)
after_run("a run that is given twice", "evaluate", "out", "./out/")
after_run("damaged embeddings", "evaluate", "out", spoil=halve("embeddings.npz"))
after_run("another file in place of the embeddings", "evaluate", "out", spoil=other_arrays)


@case("scores without labels")
def _(folder: Path) -> list[str]:
    without_labels(folder)
    finished(folder)
    return ["evaluate", "out"]


@case("a class with too few nodes for the split")
def _(folder: Path) -> list[str]:
    finished(folder, "cora")  # the name of a graph that is trained on a number of nodes per class
    return ["evaluate", "out", "--nodes-per-class", "18"]


after_run(
    "a number of nodes per class under `released`, on a small graph",
    *("evaluate", "out", "--protocol", "released", "--nodes-per-class", "3"),
)


@case("a run that was trained on labels, under a protocol with other splits")
def _(folder: Path) -> list[str]:
    town(folder)
    assert here(*with_method("town", "fs_gcn"), cwd=folder).status == 0
    return ["evaluate", "out", "--protocol", "paper"]


@case("a supervised method on a published split that the graph does not have")
def _(folder: Path) -> list[str]:
    town(folder)
    return with_method("town", "fs_gcn", "--set", "split=public")


@case("runs that were trained on different splits, in one table")
def _(folder: Path) -> list[str]:
    town(folder)
    assert here(*with_method("town", "fs_gcn"), cwd=folder).status == 0
    other = with_method("town", "fs_mlp", "--set", "split=paper")
    assert here(*other, "--out", "other", cwd=folder).status == 0
    return ["evaluate", "out", "other"]


def evaluate_vectors(name: str, *further: str) -> None:
    """Scores of `mine.csv`, whose last node is missing."""

    def prepare(folder: Path) -> list[str]:
        town(folder)
        write_table(folder / "mine.csv", ["id", "a"], [[person(number), str(number)] for number in range(NODES - 1)])
        return ["evaluate", *further]

    case(name)(prepare)


case("scores of nothing")(lambda folder: ["evaluate"])
evaluate_vectors("vectors without a graph", "--vectors", "mine.csv")
after_run("a graph beside a run, and no vectors", "evaluate", "out", "--graph", "town")
evaluate_vectors("a node without a vector", "--vectors", "mine.csv", "--graph", "town")
evaluate_vectors("vectors in a file of another kind", "--vectors", "town/mine.xlsx", "--graph", "town")

# Pictures.


def empty_map(out: Path) -> None:
    (out / "map.png").write_bytes(b"")


def exported(out: Path) -> None:
    out.with_name("out.csv").write_text("the only copy")


def other_files(out: Path) -> None:
    (out.parent / "mine").mkdir()
    (out.parent / "mine" / "thesis.txt").write_text("the only copy")


after_run("an export over a file", "export", "out", "--to", "csv", spoil=exported)
after_run("an export of an unfinished run", "export", "out", "--to", "csv", spoil=unfinish)
after_run("an export in an unknown form", "export", "out", "--to", "parket")
after_run("an export over a folder", "export", "out", "--to", "csv", "--out", "out", "--force")
after_run(
    "a projector over other files",
    "export",
    "out",
    "--to",
    "tensorboard",
    "--out",
    "mine",
    "--force",
    spoil=other_files,
)
after_run("an export of what is no run", "export", "town", "--to", "csv")
after_run("a map over another one", "map", "out", spoil=empty_map)
after_run("a map of an unfinished run", "map", "out", spoil=unfinish)
after_run("a map as a file of another kind", "map", "out", "--out", "town.jpg")
after_run("a map in an unknown colour", "map", "out", "--colour", "lable")


# Logs.

in_town("an unknown program to log to", "--log", "tensorbord")
in_town("a program to log to, twice", "--log", "wandb:one", "--log", "wandb:two")
case("a log of a method without training")(
    lambda folder: ["embed", "digits", "--method", "prop", "--out", "out", "--log", "tensorboard"]
)

# Trained runs and new nodes.

in_town("`--attach` without `--run`", "--attach")
after_run("a setting together with `--run`", *use("town", "--set", "alpha=0.3"))
after_run("a method together with `--run`", *use("town", "--method", "fossil"))
after_run("`--run` with an unfinished run", *use("town"), spoil=unfinish)
after_run("`--run` with a matrix where the run had columns", *use("out/graph.npz"))
after_run("new nodes with ids that are taken", *use("town", "--attach"))
after_run("vectors into the run they come from, with `--force`", *use("town", "--force", out="out"))


@case("`--run` with a graph of other columns", troubles=2)
def _(folder: Path) -> list[str]:
    finished(folder)
    write_table(folder / "other" / "nodes.csv", ["id", "town", "age"], [row[:3] for row in rows(range(NODES))])
    edges(*ties(NODES))(folder / "other")
    return use("other")


@case("`--run` with columns where the run had a matrix")
def _(folder: Path) -> list[str]:
    finished(folder, "town", "first")
    finished(folder, "first/graph.npz")
    return use("town")


@case("vectors over vectors")
def _(folder: Path) -> list[str]:
    finished(folder)
    assert here(*use("town"), cwd=folder).status == 0
    return use("town")


# Published graphs.

asked("`FOSSIL_DATA` that points nowhere", "cora", env={"FOSSIL_DATA": "no/such/folder"})
asked(
    "a catalogue graph without files and without network",
    "actor",
    env={"FOSSIL_DATA": "", "XDG_CACHE_HOME": "cache", **NO_NETWORK},
    own_process=True,
)

asked(
    "a catalogue graph whose files are published nowhere",
    "wordnet",
    env={"FOSSIL_DATA": "", "XDG_CACHE_HOME": "cache"},
)


def main() -> None:
    """Print every message as a Markdown table."""
    print("| What is wrong | Message | Remedy |\n|---|---|---|")
    for one in CASES:
        with tempfile.TemporaryDirectory() as folder:
            outcome = one.run(Path(folder), one.prepare(Path(folder)))
        message, remedy = (_one_line(outcome.line(part)) for part in ("error", "remedy"))
        print(f"| {one.name} | {message} | {remedy} |")


def _one_line(text: str, longest: int = 300) -> str:
    joined = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return joined if len(joined) <= longest else joined[:longest].rsplit(" ", 1)[0] + " …"


if __name__ == "__main__":
    sys.exit(main())
