"""Named cases of runs and of the terminal: numbers that are none, folders shared, files exchanged, names that act."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import hostile
import numpy as np
import run_samples
import samples
from named_cases import Named, Said, fossil
from trials import Training, arguments, trained

from fossil.errors import FossilError
from fossil.methods.registry import get_method

DATA, TERMINAL = "Data that must never be wrong silently", "Terminal and files"
METHOD = run_samples.METHOD
TOWN = ("nodes.csv", "--device", "cpu")


def resume(epochs: int = run_samples.WHOLE) -> Callable[[Path], Said]:
    """Go on with the run that `run_samples` made."""
    settings = [f"--set={name}={value}" for name, value in run_samples.small(get_method(METHOD)).items()]
    asked = ("--method", METHOD, "--epochs", str(epochs), *settings)
    return fossil("embed", *TOWN, "--out", "run", "--resume", *asked)


EVALUATE = fossil("evaluate", "run", "--splits", "2", "--device", "cpu")
USE = fossil("embed", *TOWN, "--run", "run", "--out", "vectors")


# Numbers that are none.


def diverging(method: str) -> tuple[str, ...]:
    rates = [name for name in get_method(method).Config.model_fields if "learning_rate" in name]
    return ("embed", *TOWN, "--method", method, "--epochs", "1", *(f"--set={name}=1e30" for name in rates))


def embedded_in_python(folder: Path) -> Said:
    import fossil as package

    try:
        package.embed(folder / "nodes.csv", method="dgi", epochs=1, settings={"learning_rate": 1e30}, device="cpu")
    except FossilError as error:
        return Said(error.exit_status, f"error: {error.what}\nremedy: {error.remedy}")
    return Said(0, "vectors came back")


def nan_weights(folder: Path) -> None:
    from fossil.training.checkpoint import load_tensors, save_tensors

    run_samples.finished(folder, 0)
    path = folder / "run" / "weights.safetensors"
    content = load_tensors(path)
    next(value for value in content.tensors.values() if value.is_floating_point()).fill_(float("nan"))
    save_tensors(path, content.tensors, content.about)


GROWING = (
    "embed",
    *TOWN,
    "--method",
    "bgrl",
    "--set",
    "learning_rate=1e6",
    "--checkpoint-seconds",
    "0",
    "--out",
    "run",
)


def diverge_later(folder: Path) -> None:
    samples.town(folder)
    said = fossil(*GROWING, "--epochs", "50")(folder)
    assert said.status == 2 and "the last good checkpoint, of epoch " in said.text, said.text
    (folder / "kept.txt").write_text(said.text.partition("with --epochs ")[2].split()[0])


def end_at_the_checkpoint(folder: Path) -> Said:
    return fossil(*GROWING, "--resume", "--epochs", (folder / "kept.txt").read_text())(folder)


# Two processes and one folder.


def begun(folder: Path, *further: str) -> Training:
    """Start a training that has some epochs behind it and very many to come, and no checkpoint."""
    words = arguments(folder, "dgi", *further)
    words[words.index("--epochs") + 1] = "1000000"
    training, history = Training(words, folder / "first.said"), folder / "run" / "history.jsonl"
    while not (history.exists() and history.read_bytes().count(b"\n") >= 3):
        assert not training.over(), training.words
        time.sleep(0.002)
    return training


def frozen(folder: Path) -> None:
    """Leave a process that trains into the folder, halted so that nothing changes but by the other's hand."""
    samples.town(folder)
    os.kill(begun(folder).process, signal.SIGSTOP)
    (folder / "run" / "weights.safetensors.1.part").write_bytes(b"half of a file of the first process")


def second(*further: str) -> Callable[[Path], Said]:
    return lambda folder: fossil(*arguments(folder, "dgi", *further))(folder)


def told_to_stop(number: int) -> Callable[[Path], Said]:
    def act(folder: Path) -> Said:
        training = begun(folder)
        assert not (folder / "run" / "checkpoint.safetensors").exists()
        training.send(number)
        assert training.wait(), "it goes on"
        assert (folder / "run" / "checkpoint.safetensors").exists(), "every epoch was lost"
        return Said(training.status or 0, training.words)

    return act


# Files of other runs.


def exchanged(name: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        run_samples.finished(folder, 0)
        (folder / "other").mkdir()
        run_samples.finished(folder / "other", 1)
        shutil.copy(folder / "other" / "run" / name, folder / "run" / name)

    return make


def permuted_labels(folder: Path) -> None:
    from fossil.readers.npz import read_npz, write_npz

    run_samples.finished(folder, 0)
    graph = read_npz(folder / "run" / "graph.npz")
    assert graph.labels is not None
    object.__setattr__(graph, "labels", graph.labels[::-1].copy())
    write_npz(folder / "run" / "graph.npz", graph)


def forget_digests(folder: Path) -> None:
    """Make the run look like one of an earlier version."""
    path = folder / "run" / "summary.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in known.items() if key not in ("files", "sha256")}))


def half_the_vectors(folder: Path) -> None:
    """As in a run of an earlier version, which wrote no SHA-256 down: the rows are counted."""
    run_samples.finished(folder, 0)
    path = folder / "run" / "embeddings.npz"
    with np.load(path) as stored:
        arrays = {key: stored[key] for key in stored.files}
    np.savez(path, **arrays | {"vectors": arrays["vectors"][::2]})
    forget_digests(folder)


# Histories, environments, links.


def damaged_history(folder: Path) -> None:
    run_samples.stopped(folder, 0)
    path = folder / "run" / "history.jsonl"
    first, second, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, second[:9] + b"\0" + second[10:], *rest]))


def dangling_history(folder: Path) -> None:
    run_samples.stopped(folder, 0)
    (folder / "run" / "history.jsonl").unlink()
    (folder / "run" / "history.jsonl").symlink_to(folder / "elsewhere.jsonl")


def resume_beside_a_link(folder: Path) -> Said:
    said = resume()(folder)
    assert not (folder / "elsewhere.jsonl").exists(), "the link was followed"
    return said


def other_threads(folder: Path) -> None:
    run_samples.stopped(folder, 0)
    path = folder / "run" / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"threads": 64}))


def damaged_cora(folder: Path) -> None:
    import damage

    place = folder / "Planetoid" / "Cora"
    shutil.copytree(Path(os.environ["FOSSIL_DATA"]) / "Planetoid" / "Cora", place, copy_function=shutil.copyfile)
    path = place / "raw" / "ind.cora.allx"
    path.write_bytes(damage.one_bit(random.Random(0), path.read_bytes(), b""))


# Names that act.


def hostile_town(folder: Path) -> None:
    hostile.write_graph(folder / hostile.NAME)


def describe_hostile(folder: Path) -> Said:
    said = fossil("data", "describe", hostile.NAME)(folder)
    assert not hostile.acting(said.text), "it acts on the terminal"
    return said


def odd_labels(folder: Path) -> None:
    rows = [
        [*row[:-1], ("$\\badmacro$", "_hidden", "plain")[number % 3]] for number, row in enumerate(samples.people())
    ]
    samples.write_table(folder / "nodes.csv", samples.NODE_COLUMNS, rows)
    samples.write_table(folder / "edges.csv", samples.EDGE_COLUMNS, samples.named_ties())


def with_map(folder: Path) -> Said:
    said = fossil("embed", *TOWN, "--label", "label", "--method", "features", "--out", "run", "--map")(folder)
    assert (folder / "run" / "map.png").stat().st_size
    return said


def foreign_town(folder: Path) -> None:
    (folder / "Łódź → λ").mkdir()
    samples.town(folder / "Łódź → λ")


def narrow(encoding: str) -> Callable[[Path], Said]:
    words = ("embed", "Łódź → λ/nodes.csv", "--device", "cpu", "--method", "dgi", "--epochs", "2", "--out", "run")
    return fossil(*words, encoding=encoding)


def under_a_umask(folder: Path) -> Said:
    os.umask(0o027)
    said = fossil("embed", *TOWN, "--method", "features", "--out", "run")(folder)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "run").iterdir()}
    assert set(modes.values()) == {0o640}, modes
    return said


def no_file(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        make(folder)
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def _finished(folder: Path) -> None:
    run_samples.finished(folder, 0)


_TAKEN = r"is being written to by process \d+ on "
_WROTE = "is not the file that this run wrote"
RUNS = (
    *(
        Named(
            DATA, f"{method} diverges in its last step", samples.town, fossil(*diverging(method), "--out", "run"),
            "Training diverged: .* epoch 1",
        )
        for method in trained()
    ),
    Named(DATA, "the same by fossil.embed", samples.town, embedded_in_python, "diverged: not finite after epoch 1"),
    Named(DATA, "weights that are NaN, with --run", nan_weights, USE, _WROTE),
    Named(DATA, "the checkpoint kept by a run that diverged", diverge_later, end_at_the_checkpoint, "nodes", 0),
    Named(DATA, "a second process with one --out", frozen, second(), _TAKEN),
    Named(DATA, "a second process with --resume", frozen, second("--resume"), _TAKEN),
    Named(DATA, "a second process with --force", frozen, second("--force"), _TAKEN),
    Named(DATA, "the graph.npz of another run", exchanged("graph.npz"), EVALUATE, f"graph.npz {_WROTE}"),
    Named(DATA, "the embeddings.npz of another run", exchanged("embeddings.npz"), EVALUATE, f"embeddings.npz {_WROTE}"),
    Named(DATA, "the weights of another run", exchanged("weights.safetensors"), USE, f"weights.safetensors {_WROTE}"),
    Named(DATA, "permuted labels", permuted_labels, EVALUATE, f"graph.npz {_WROTE}"),
    Named(DATA, "24 ids with 12 vectors", half_the_vectors, EVALUATE, "different numbers of rows"),
    Named(DATA, "a damaged middle line of history.jsonl", damaged_history, resume(), r"Line 2 of .* is damaged"),
    *(
        [
            Named(
                DATA, "a flipped bit in a file of Cora", damaged_cora,
                lambda folder: fossil("data", "describe", "cora", env={"FOSSIL_DATA": str(folder)})(folder),
                "ind.cora.allx is not the published file",
            )
        ]
        if os.environ.get("FOSSIL_DATA")
        else []
    ),
    Named(
        DATA, "SIGTERM before the first checkpoint", samples.town, told_to_stop(signal.SIGTERM), "Stopped after epoch",
        128 + signal.SIGTERM,
    ),
    Named(
        DATA, "SIGHUP before the first checkpoint", samples.town, told_to_stop(signal.SIGHUP), "Stopped after epoch",
        128 + signal.SIGHUP,
    ),
    Named(DATA, "--resume with another number of threads", other_threads, resume(), "64 threads so far and goes on", 0),
    Named(TERMINAL, "escape sequences in ids, columns, labels, folders", hostile_town, describe_hostile, r"\\x1b", 0),
    Named(TERMINAL, "labels $\\badmacro$ and _hidden on a map", odd_labels, with_map, "done in", 0),
    *(
        Named(TERMINAL, f"a terminal of {encoding}", foreign_town, narrow(encoding), "nodes", 0)
        for encoding in ("cp1252", "latin-1", "ascii")
    ),
    Named(TERMINAL, "a umask of 027", samples.town, under_a_umask, "nodes", 0),
    Named(TERMINAL, "history.jsonl that is a link to nowhere", dangling_history, resume_beside_a_link, "to nothing"),
    Named(
        TERMINAL, "a pipe in place of nodes.csv", no_file("nodes.csv", samples.town),
        fossil("data", "describe", "nodes.csv"), "nodes.csv",
    ),
    Named(
        TERMINAL, "a pipe in place of embeddings.npz", no_file("run/embeddings.npz", _finished), EVALUATE,
        "embeddings.npz",
    ),
)  # fmt: skip
"""The cases."""
