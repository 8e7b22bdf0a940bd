"""Files of a run belong together: what was changed, or comes from another run, is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ring_graph import CPU, SMALL, fit_ring
from test_run import write_people

import fossil
from fossil.errors import FossilError, RunError
from fossil.evaluation.evaluate import evaluate
from fossil.readers.npz import read_npz, write_npz
from fossil.runs.run import Run
from fossil.training.checkpoint import load_tensors, save_tensors

READ = ("config.yaml", "graph.npz", "encoding.json", "weights.safetensors", "embeddings.npz")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of equal shapes that differ in one thing each, and the tables they were trained on."""
    folder = tmp_path_factory.mktemp("runs")
    people = write_people(folder / "people", range(24))
    fit_ring(people, out=folder / "run")
    fit_ring(people, out=folder / "seed", seed=1)
    fit_ring(people, out=folder / "longer", training=CPU.updated({"epochs": 5}))
    fit_ring(write_people(folder / "guests", range(24), "guest"), out=folder / "graph")
    return folder


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "run", tmp_path / "run"))


def forget_digests(folder: Path) -> None:
    """Make a run look like one of an earlier version."""
    summary = json.loads((folder / "summary.json").read_text())
    summary.pop("files", None)
    summary.pop("sha256", None)
    (folder / "summary.json").write_text(json.dumps(summary))


def use_all(folder: Path) -> None:
    """Read every file of a run."""
    opened = fossil.load(folder)
    _ = opened.config, opened.graph, opened.plan, opened.embeddings
    opened.encode(opened.graph)


def test_a_run_that_was_moved_opens(run: Path) -> None:
    use_all(run)
    assert json.loads((run / "summary.json").read_text())["files"].keys() == set(READ)


def test_a_run_of_an_earlier_version_opens(run: Path) -> None:
    forget_digests(run)
    use_all(run)


@pytest.mark.parametrize("other", ["seed", "longer", "graph"])
@pytest.mark.parametrize("name", [*READ, "summary.json"])
def test_a_file_of_another_run_is_refused(runs: Path, run: Path, name: str, other: str) -> None:
    if (runs / other / name).read_bytes() == (run / name).read_bytes():
        return use_all(run)  # runs of one graph have it in common
    shutil.copy(runs / other / name, run / name)
    with pytest.raises(RunError, match="is not the file that this run wrote") as caught:
        use_all(run)
    assert "--resume" in caught.value.remedy
    return None


@pytest.mark.parametrize("name", READ)
def test_a_changed_byte_is_refused(run: Path, name: str) -> None:
    content = bytearray((run / name).read_bytes())
    content[-5] ^= 1
    (run / name).write_bytes(content)
    with pytest.raises(RunError, match=f"{name} is not the file that this run wrote"):
        use_all(run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"nodes": 2', '"nodes": 3'),
        ('"width"', '"widti"'),
        ('"files"', '"filfs"'),
        ('"sha256": "', '"sha256": "0'),
        ('"sha256"', '"sha257"'),
        ('  "nodes": 24,\n', ""),
    ],
)
def test_a_changed_summary_is_refused(run: Path, old: str, new: str) -> None:
    text = (run / "summary.json").read_text()
    assert text.count(old) == 1
    (run / "summary.json").write_text(text.replace(old, new))
    with pytest.raises(RunError, match=r"summary\.json is not the file that this run wrote"):
        _ = fossil.load(run).summary
    (run / "summary.json").write_text(text)
    assert "sha256" not in fossil.load(run).summary


@pytest.mark.parametrize("name", READ[1:])
def test_a_missing_file_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(RunError, match=f"{name} is missing"):
        use_all(run)


def test_a_plan_that_a_run_never_had_is_refused(runs: Path, tmp_path: Path) -> None:
    fit_ring(out=tmp_path)
    shutil.copy(runs / "run" / "encoding.json", tmp_path)
    with pytest.raises(RunError, match=r"encoding\.json is not the file that this run wrote"):
        use_all(tmp_path)
    fit_ring(out=tmp_path, resume=True)
    use_all(tmp_path)
    assert not (tmp_path / "encoding.json").exists()


def permute_labels(folder: Path) -> None:
    graph = read_npz(folder / "graph.npz")
    assert graph.labels is not None
    object.__setattr__(graph, "labels", graph.labels[::-1].copy())
    write_npz(folder / "graph.npz", graph)


def test_permuted_labels_are_refused_by_scores(tmp_path: Path) -> None:
    fit_ring(out=tmp_path)
    permute_labels(tmp_path)
    for source in (tmp_path, str(tmp_path), Run.open(tmp_path)):
        with pytest.raises(RunError, match=r"graph\.npz is not the file that this run wrote"):
            evaluate(source, splits=1)


def change_arrays(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with np.load(folder / "embeddings.npz") as stored:
        arrays = change({key: stored[key] for key in stored.files})
    np.savez(folder / "embeddings.npz", **arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays | {"vectors": arrays["vectors"][::2]},
        lambda arrays: arrays | {"ids": arrays["ids"][::2]},
        lambda arrays: arrays | {"fusion": arrays["fusion"][::2]},
        lambda arrays: {key: value[::2] for key, value in arrays.items()},
        lambda arrays: arrays | {"ids": arrays["ids"][::-1]},
        lambda arrays: arrays | {"vectors": arrays["vectors"].ravel()},
        lambda arrays: arrays | {"vectors": arrays["vectors"].astype(str)},
        lambda arrays: arrays | {"ids": arrays["ids"].reshape(2, -1)},
    ],
    ids=["vectors", "ids", "λ", "all halved", "ids turned", "one row", "words", "table of ids"],
)
def test_arrays_that_do_not_fit_are_refused_in_runs_of_earlier_versions(
    run: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    change_arrays(run, change)
    forget_digests(run)
    with pytest.raises(RunError, match=r"embeddings\.npz is not the file that this run wrote: its"):
        _ = fossil.load(run).embeddings


def test_another_graph_is_refused_in_runs_of_earlier_versions(runs: Path, run: Path) -> None:
    shutil.copy(runs / "graph" / "graph.npz", run)
    forget_digests(run)
    with pytest.raises(RunError, match=r"graph\.npz is not .*: it is another graph than config\.yaml names"):
        _ = fossil.load(run).graph


def test_labels_that_were_trained_on_are_compared_in_runs_of_earlier_versions(tmp_path: Path) -> None:
    fit_ring(method="fs_mlp", settings={"hidden": 8}, out=tmp_path)
    use_all(tmp_path)
    permute_labels(tmp_path)
    forget_digests(tmp_path)
    with pytest.raises(RunError, match="it is another graph"):
        use_all(tmp_path)


def test_resuming_mends_what_can_be_made_again(runs: Path, run: Path) -> None:
    for name in ("graph.npz", "embeddings.npz", "weights.safetensors", "encoding.json"):
        shutil.copy(runs / "graph" / name, run / name)
    (run / "summary.json").write_text("[]")
    with pytest.raises(RunError, match=r"summary\.json is no summary"):
        use_all(run)
    fit_ring(runs / "people", out=run, resume=True)
    use_all(run)
    assert (run / "embeddings.npz").read_bytes() == (runs / "run" / "embeddings.npz").read_bytes()


# What a stranger may have put in place of a file.


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("digests", [True, False], ids=["this version", "earlier version"])
@pytest.mark.parametrize("instead", [as_pipe, as_folder, as_dangling_link])
@pytest.mark.parametrize("name", [*READ, "summary.json"])
def test_no_file_in_place_of_a_file_is_one_message_and_no_wait(
    run: Path, name: str, instead: Callable[[Path], None], digests: bool
) -> None:
    if not digests:
        forget_digests(run)
    instead(run / name)
    with pytest.raises(FossilError):
        use_all(run)


@pytest.mark.parametrize("instead", [as_pipe, as_folder, as_dangling_link])
@pytest.mark.parametrize("name", ["checkpoint.safetensors", "history.jsonl"])
def test_resume_follows_no_link_and_waits_for_no_pipe(
    runs: Path, run: Path, name: str, instead: Callable[[Path], None]
) -> None:
    instead(run / name)
    before = sorted(path.name for path in run.iterdir())
    with pytest.raises(RunError, match=f"{name} is (no plain file|a symbolic link to nothing)") as caught:
        fit_ring(runs / "people", out=run, resume=True, training=CPU.updated({"epochs": 4}))
    if (name, instead) == ("history.jsonl", as_dangling_link):  # going on is what is asked for: it is no remedy
        assert "move it away" in caught.value.remedy
    assert sorted(path.name for path in run.iterdir()) == before and (run / "summary.json").exists()


def test_a_history_behind_a_link_is_read_and_the_link_replaced(runs: Path, run: Path, tmp_path: Path) -> None:
    elsewhere = Path(shutil.move(run / "history.jsonl", tmp_path / "elsewhere.jsonl"))
    content = elsewhere.read_bytes()
    (run / "history.jsonl").symlink_to(elsewhere)
    result = fit_ring(runs / "people", out=run, resume=True, training=CPU.updated({"epochs": 4}))
    assert len(result.history) == 4 and elsewhere.read_bytes() == content
    assert not (run / "history.jsonl").is_symlink()


# Checkpoints and configurations that hold something else.


def rename(tensors: dict[str, Any], start: str) -> dict[str, Any]:
    old = next(key for key in tensors if key.startswith(start))
    return {f"{key}x" if key == old else key: value for key, value in tensors.items()}


def drop(tensors: dict[str, Any], start: str) -> dict[str, Any]:
    old = next(key for key in tensors if key.startswith(start))
    return {key: value for key, value in tensors.items() if key != old}


def flatten(tensors: dict[str, Any], start: str) -> dict[str, Any]:
    old = next(key for key in tensors if key.startswith(start) and tensors[key].ndim == 2)
    return tensors | {old: tensors[old].reshape(-1)}


@pytest.mark.parametrize("start", ["weights/", "optimizer/"])
@pytest.mark.parametrize("change", [rename, drop, flatten])
def test_tensors_of_a_checkpoint_must_be_there(run: Path, runs: Path, change: Any, start: str) -> None:
    found = load_tensors(run / "checkpoint.safetensors")
    save_tensors(run / "checkpoint.safetensors", change(found.tensors, start), found.about)
    with pytest.raises(RunError, match=r"checkpoint\.safetensors does not hold the state of this run") as caught:
        fit_ring(runs / "people", out=run, resume=True, training=CPU.updated({"epochs": 4}))
    assert not caught.value.what.endswith("..")


@pytest.mark.parametrize(
    "odd", ["optimizer", "optimizer/encoder", "optimizer/encoder/0", "optimizer/none/0/exp_avg", "x"]
)
def test_tensors_that_nobody_knows_are_refused(run: Path, runs: Path, odd: str) -> None:
    found = load_tensors(run / "checkpoint.safetensors")
    more = found.tensors | {odd: next(iter(found.tensors.values()))}
    save_tensors(run / "checkpoint.safetensors", more, found.about)
    with pytest.raises(RunError, match="unknown tensor"):
        fit_ring(runs / "people", out=run, resume=True, training=CPU.updated({"epochs": 4}))


@pytest.mark.parametrize("epoch", [None, "3", -1, 2.5, True])
def test_a_checkpoint_of_an_impossible_epoch_is_refused(run: Path, runs: Path, epoch: object) -> None:
    found = load_tensors(run / "checkpoint.safetensors")
    save_tensors(run / "checkpoint.safetensors", found.tensors, found.about | {"epoch": epoch})
    with pytest.raises(RunError, match="its epoch is"):
        fit_ring(runs / "people", out=run, resume=True, training=CPU.updated({"epochs": 4}))


def test_a_history_of_another_run_is_refused(run: Path, runs: Path) -> None:
    shutil.copy(runs / "seed" / "history.jsonl", run)
    before = (run / "history.jsonl").read_bytes()
    with pytest.raises(RunError, match="is not the history that the checkpoint of epoch 3 follows"):
        fit_ring(runs / "people", out=run, resume=True, training=CPU.updated({"epochs": 4}))
    assert (run / "history.jsonl").read_bytes() == before and (run / "summary.json").exists()


NESTED = "[" * 5000 + "]" * 5000
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    "content",
    [
        "7", "[]", "~", NESTED, BOMB, "x" * 2**21, "\x00", "format: 1\nmethod: [fossil]\n",
        "format: 1\nmethod: {a: b}\npreset: 1\n", "format: &a 1\nmethod: *a\n",
        "!!python/object/apply:os.mkdir [ran]",
    ],
    ids=["number", "list", "nothing", "nested", "bomb", "huge", "NUL", "method", "mapping", "alias", "call"],
)  # fmt: skip
def test_any_configuration_is_one_message(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(content)
    for use in (lambda: Run.open(tmp_path).config, lambda: fit_ring(out=tmp_path, resume=True)):
        with pytest.raises(RunError, match=r"config\.yaml (is damaged|cannot be used)") as caught:
            use()
        assert "\n" not in caught.value.what and len(caught.value.what) < 400
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", "x"), ("seed", [1]), ("preset", 3), ("method", None), ("graph", 7),
        ("graph", []), ("training", []), ("training", {"epochs": []}), ("training", {1: 2}), ("settings", 3),
        ("settings", {"hidden": {"a": 1}}), ("settings", {"nonsense": 1}), ("treatment", "keep"), ("format", [1]),
    ],
)  # fmt: skip
def test_wrong_types_in_a_configuration_are_one_message(tmp_path: Path, key: str, value: object) -> None:
    result = fit_ring(out=tmp_path)
    (tmp_path / "config.yaml").write_text(json.dumps(result.config.to_dict() | {key: value}))
    (tmp_path / "summary.json").unlink()
    for use in (lambda: Run.open(tmp_path).config, lambda: fit_ring(out=tmp_path, resume=True)):
        with pytest.raises(RunError):
            use()


@pytest.mark.parametrize("content", ["[]", "7", '{"columns": 3, "sparse": 1, "structural": []}', NESTED, "{", "\x00"])
def test_any_plan_is_one_message(run: Path, content: str) -> None:
    (run / "encoding.json").write_text(content)
    forget_digests(run)
    with pytest.raises(FossilError, match=r"encoding\.json"):
        _ = fossil.load(run).plan


@pytest.mark.parametrize("use", [fossil.load, lambda path: fit_ring(out=path), lambda path: evaluate(path)])
@pytest.mark.parametrize("name", ["x" * 300, "y" * 250 + "/" + "z" * 4000, "a\x00b"])
def test_paths_that_cannot_be_are_one_message(tmp_path: Path, use: Any, name: str) -> None:
    with pytest.raises(RunError):
        use(tmp_path / name)


def test_a_folder_that_may_not_be_read_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit_ring(out=tmp_path)

    def forbid(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("is_file", "iterdir"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, name, forbid)
            with pytest.raises(RunError, match=r"Could not read .*: Permission denied"):
                fit_ring(out=tmp_path, resume=True)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_file", forbid)
        with pytest.raises(RunError, match="Permission denied"):
            fossil.load(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", forbid)
        for look in (lambda: fossil.load(tmp_path).config, lambda: fossil.load(tmp_path).embeddings):
            with pytest.raises(RunError, match="Permission denied"):
                look()


@pytest.mark.parametrize("name", ["config.yaml", "graph.npz", "embeddings.npz", "environment.json", "history.jsonl"])
def test_a_folder_in_place_of_a_file_to_be_replaced_is_one_message(tmp_path: Path, name: str) -> None:
    fit_ring(out=tmp_path, settings=SMALL)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(RunError):
        fit_ring(out=tmp_path, settings=SMALL, force=True)
