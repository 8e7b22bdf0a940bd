"""Named cases of files from strangers: downloads, memory that a small file asks for, and errors of other libraries."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import urllib.error
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import downloads
import harmful
import numpy as np
import run_samples
import samples
import stand_ins
from bombs import npy
from containers import packed
from damage import one_bit
from named_cases import Named, Said, drilled, fossil
from named_runs import DATA, TOWN, USE, forget_digests, resume

from fossil.datasets.fetch import cache_root, open_address

DOWNLOADS, BUDGETS, NO_TRACEBACK = "Downloads", "Budgets", "No traceback"
HARMFUL = {case.name: case for case in (*harmful.HARMFUL, *stand_ins.STAND_INS)}


def described(part: str, name: str, file: str, says: str, status: int = 2) -> Named:
    """Return a harmful file of the drill as `fossil data describe` meets it."""
    return Named(part, name, HARMFUL[name].prepare, fossil("data", "describe", file), says, status)


def crafted(part: str, name: str, file: str, content: Callable[[], bytes], says: str) -> Named:
    """Return a file of some content as `fossil data describe` meets it."""
    make = lambda folder: (folder / file).write_bytes(content())  # noqa: E731
    return Named(part, name, make, fossil("data", "describe", file), says)


def embedding(part: str, name: str, *further: str, says: str) -> Named:
    """Return a training that is asked for something else."""
    return Named(part, name, samples.town, fossil("embed", *TOWN, "--out", "run", *further), says)


# Downloads.


def sent(name: str, says: str, *, archive: bool = False) -> Named:
    """Return an answer of a server to who wants a file whose bytes are known; the drill has the others."""
    return drilled(DOWNLOADS, downloads.Download(name, downloads.ANSWERS[name], archive, pinned=not archive), says)


def flipped(archive: bool) -> Named:
    body = one_bit(random.Random(0), downloads.ARCHIVE if archive else downloads.RIGHT, b"")
    where = "an archive" if archive else "a file"
    case = downloads.Download(f"a flipped bit in {where}", downloads.respond(body=body), archive, pinned=True)
    return drilled(DOWNLOADS, case, "did not send the published file")


def over_http(folder: Path) -> Said:
    try:
        open_address("http://127.0.0.1:9/file")
    except urllib.error.URLError as error:
        return Said(2, f"error: {error.reason}")
    return Said(0, "it was opened")


def poison(folder: Path) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    path = cache_root() / downloads.FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"<html>")


def heal(folder: Path) -> Said:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        verdict = downloads.Download("the right file", downloads.respond(), archive=False, pinned=True).play(folder)
    assert verdict.outcome == "equal", verdict.detail
    return Said(0, "\n".join(f"warning: {one.message}" for one in caught))


# Budgets.


def short_of_memory(folder: Path) -> Said:
    """Train with half a gigabyte more than is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 2**29
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return fossil("embed", "csbm:nodes=200000,features=500", "--method", "dgi", "--epochs", "1", "--out", "run")(folder)


# Errors of other libraries.


def raising(kind: type[Exception]) -> Callable[[Path], Said]:
    """Return what reads a table while the library that parses it fails in such a way."""

    def act(folder: Path) -> Said:
        with mock.patch("csv.reader", side_effect=kind("not foreseen")):
            return fossil("data", "describe", "nodes.csv")(folder)

    return act


def planetoid_of(content: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        samples.planetoid(folder)
        (folder / "ind.cora.allx").write_bytes(content)

    return make


def pickled(name: str, content: bytes, says: str) -> Named:
    case = harmful.Harmful(name, planetoid_of(content), HARMFUL["pickle: os.system"].use)
    return drilled(NO_TRACEBACK, case, says)


def npz_of(**others: bytes) -> Callable[[], bytes]:
    parts = harmful.plain_members() | {f"{name}.npy": content for name, content in others.items()}
    return lambda: packed(list(parts.items()))


def unknown_packing() -> bytes:
    content = bytearray(packed(list(harmful.plain_members().items()), zipfile.ZIP_DEFLATED))
    for mark, offset in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        place = -1
        while (place := content.find(mark, place + 1)) >= 0:
            content[place + offset : place + offset + 2] = struct.pack("<H", 99)
    return bytes(content)


def half_a_parquet(folder: Path) -> None:
    samples.town(folder, ".parquet")
    path = folder / "nodes.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] + b"PAR1")


def in_latin_1(folder: Path) -> None:
    samples.town(folder)
    path = folder / "nodes.csv"
    path.write_bytes(path.read_text().replace("Lyon", "Malmö").encode("latin-1"))


def outside_sparse_parts(folder: Path) -> None:
    np.savez(
        folder / "graph.npz", adj_data=np.ones(2), adj_indices=np.array([0, 9]), adj_indptr=np.array([0, 1, 2]),
        adj_shape=np.array([2, 2]),
    )  # fmt: skip


_GRAPHML = b'<?xml version="1.0" encoding="%s"?><graphml><graph edgedefault="directed"/></graphml>'


def begun_with(content: str) -> Callable[[Path], None]:
    """Make a run that stopped half-way, which no digest vouches for, with another configuration."""

    def make(folder: Path) -> None:
        run_samples.stopped(folder, 0)
        (folder / "run" / "config.yaml").write_text(content)

    return make


def encoded_by(content: str) -> Callable[[Path], None]:
    """Make a run of an earlier version, which wrote no SHA-256 down, with another encoding plan."""

    def make(folder: Path) -> None:
        run_samples.finished(folder, 0)
        (folder / "run" / "encoding.json").write_text(content)
        forget_digests(folder)

    return make


def checkpoint_without(rename: bool) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from fossil.training.checkpoint import load_tensors, save_tensors

        run_samples.stopped(folder, 0)
        path = folder / "run" / "checkpoint.safetensors"
        found = load_tensors(path)
        name = next(key for key in found.tensors if key.startswith("weights/"))
        value = found.tensors.pop(name)
        save_tensors(path, found.tensors | ({f"{name}x": value} if rename else {}), found.about)

    return make


def unreadable(folder: Path) -> None:
    samples.town(folder)
    (folder / "nodes.csv").chmod(0)
    folder.chmod(0o755)
    folder.parent.chmod(0o755)


def as_somebody_else(act: Callable[[Path], Said]) -> Callable[[Path], Said]:
    """Do something as a user whom permissions bind, where this one is root."""

    def do(folder: Path) -> Said:
        user = os.geteuid()
        with contextlib.chdir(folder):  # a place that the other user may come back to
            if user == 0:
                act(folder)  # whom nothing binds: modules are imported that the other user may not be able to read
            os.seteuid(65534 if user == 0 else user)
            try:
                return act(folder)
            finally:
                os.seteuid(user)

    return do


def our_own_fault(folder: Path) -> Said:
    fault = ZeroDivisionError("division by zero")
    with mock.patch("fossil.runs.plan.open_graph", side_effect=fault), mock.patch("tempfile.tempdir", str(folder)):
        return fossil("embed", *TOWN, "--out", "run")(folder)


SOLVE = """
import torch
from fossil.transport import BAPG, FusedProblem
cost = torch.rand(40, 12, 12, generator=torch.Generator().manual_seed(0))
problem = FusedProblem.uniform(cost, cost + cost.mT, cost + cost.mT, 0.5)
print("distances", BAPG(step=0.5, iterations=20, tolerance=None, symmetric=True)(problem).value.sum().item())
"""


def solved(folder: Path) -> Said:
    """Solve by the compiled solver, in a process whose cache is below the folder."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    done = subprocess.run([sys.executable, "-c", SOLVE], env=environment, capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout + done.stderr)


def damaged_machine_code(folder: Path) -> None:
    said, kept = solved(folder), list((folder / "cache").rglob("*.nb[ic]"))
    assert said.status == 0 and kept, said.text
    for path in kept:
        path.write_bytes(path.read_bytes()[:-100])


DAMAGED, DESCRIBE = r"config\.yaml is damaged", fossil("data", "describe", "nodes.csv")
CLASSES = r"classes\D+2\b"
FILES = (
    described(DATA, "classes 1,000,000 and 2,000,000", "graph.npz", CLASSES, 0),
    described(DATA, "classes that are years", "graph.npz", CLASSES, 0),
    described(DATA, "class -100", "graph.npz", "-100"),
    Named(DOWNLOADS, "an address of http", lambda folder: None, over_http, "unknown url type: http"),
    sent("a page of HTML", "published"),
    sent("nothing", "published"),
    sent("half of it", "bytes"),
    sent("half of it, unannounced", "published"),
    flipped(archive=False),
    flipped(archive=True),
    sent("Content-Length: abc", "announced 'abc' bytes"),
    sent("128 MB in 128 kB", "times", archive=True),
    sent("20,000 members", "members", archive=True),
    sent("a member outside", "points outside it", archive=True),
    sent("an absolute member", "points outside it", archive=True),
    sent("an encrypted archive", "encrypted|password", archive=True),
    sent("an unknown compression", "compress", archive=True),
    Named(DOWNLOADS, "a poisoned cache", poison, heal, "fetched anew", 0),
    described(BUDGETS, "an unused member of 3 GiB", "graph.npz", "nodes", 0),
    described(BUDGETS, "features of 3 GiB", "graph.npz", "in memory"),
    described(BUDGETS, "a declared shape of 10¹²", "graph.npz", "but holds 50"),
    described(BUDGETS, "10,000 rows of one megabyte", "nodes.parquet", "10,000 nodes", 0),
    described(BUDGETS, "400 million rows", "nodes.parquet", "in memory"),
    drilled(BUDGETS, HARMFUL["pickle: memo index 2²⁹"], "into place 536,870,912 of its memory"),
    described(BUDGETS, "NaN in wide sparse features", "graph.npz", "NaN|nan|not finite"),
    embedding(
        BUDGETS, "aliases that multiply in --set",
        *("--set", "alpha={" + harmful.bomb_of_aliases().replace("\n", ", ") + "}"), says="alpha",
    ),
    Named(BUDGETS, "aliases that multiply in config.yaml", begun_with(harmful.bomb_of_aliases()), resume(), DAMAGED),
    described(BUDGETS, "60,000 columns", "nodes.csv", "60,000 features", 0),
    embedding(BUDGETS, "a width of 10⁹", "--set", "width=1000000000", says="width=1000000000 is not accepted"),
    Named(BUDGETS, "memory that runs out", lambda folder: None, short_of_memory, "memory"),
    *(
        Named(
            NO_TRACEBACK, f"{kind.__name__} inside a library that reads", samples.town, raising(kind),
            rf"nodes\.csv cannot be read \({kind.__name__}: ",
        )
        for kind in (OverflowError, AttributeError, TypeError, IndexError, SystemError)
    ),
    drilled(
        NO_TRACEBACK, HARMFUL["test.index of 10³⁰"], "could not convert string",
        name="a number of 31 digits in Planetoid's test.index",
    ),
    Named(
        NO_TRACEBACK, "ArrowInvalid: half of a Parquet file", half_a_parquet,
        fossil("data", "describe", "nodes.parquet"), "nodes.parquet",
    ),
    Named(NO_TRACEBACK, "UnicodeDecodeError: a table in Latin-1", in_latin_1, DESCRIBE, "UTF-8"),
    crafted(
        NO_TRACEBACK, "TokenError: the head of an array without its end", "graph.npz",
        npz_of(y=npy("(3, (") + bytes(50)), "graph.npz",
    ),
    crafted(
        NO_TRACEBACK, "NotImplementedError: an NPZ file packed in an unknown way", "graph.npz", unknown_packing,
        "graph.npz",
    ),
    pickled("a list in place of a matrix, in a pickle", pickle.dumps([1, 2], protocol=2), "ind.cora.allx"),
    crafted(
        NO_TRACEBACK, "an array whose type is a number", "graph.npz", npz_of(y=npy("(3,)").replace(b"'|u1'", b"5    ")),
        "graph.npz",
    ),
    Named(
        NO_TRACEBACK, "a sparse matrix that points outside", outside_sparse_parts,
        fossil("data", "describe", "graph.npz"), "graph.npz|adj",
    ),
    pickled("an extension that nobody registered, in a pickle", b"\x80\x02\x84\xff\xff\xff\x7f.", "ind.cora.allx"),
    crafted(
        NO_TRACEBACK, "LookupError: GraphML in an unknown encoding", "graph.graphml", lambda: _GRAPHML % b"x-nothing",
        "graph.graphml",
    ),
    Named(NO_TRACEBACK, "config.yaml that is a list", begun_with("[1, 2]"), resume(), DAMAGED),
    Named(NO_TRACEBACK, "config.yaml nested 5,000 deep", begun_with("[" * 5000), resume(), DAMAGED),
    Named(NO_TRACEBACK, "encoding.json that is a number", encoded_by("7"), USE, "encoding.json"),
    Named(NO_TRACEBACK, "encoding.json nested 5,000 deep", encoded_by("[" * 5000), USE, "encoding.json"),
    Named(
        NO_TRACEBACK, "a tensor missing from a checkpoint", checkpoint_without(rename=False), resume(),
        "does not hold the state",
    ),
    Named(
        NO_TRACEBACK, "a tensor renamed in a checkpoint", checkpoint_without(rename=True), resume(),
        "does not hold the state",
    ),
    embedding(NO_TRACEBACK, "a folder that cannot be written to", "--out", "/sys/fossil", says="/sys/fossil"),
    Named(NO_TRACEBACK, "a table that may not be read", unreadable, as_somebody_else(DESCRIBE), "Permission denied"),
    Named(
        NO_TRACEBACK, "a path of 6,000 letters", lambda folder: None,
        fossil("data", "describe", "./" + "/".join(["b" * 200] * 30)), "is neither|is no existing file|too long",
    ),
    embedding(NO_TRACEBACK, "an --out of 300 letters", "--out", "x" * 300, says="File name too long"),
    embedding(NO_TRACEBACK, "alpha='!!int \"\"'", "--set", 'alpha=!!int ""', says="alpha"),
    Named(
        NO_TRACEBACK, "a fault of our own", samples.town, our_own_fault,
        "this is a fault of fossil-gnn: ZeroDivisionError", 70,
    ),
    Named(NO_TRACEBACK, "a damaged entry of Numba's cache", damaged_machine_code, solved, r"distances \d+\.\d+", 0),
)  # fmt: skip
"""The cases."""
