from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import fossil
import fossil.report.layout
from fossil.datasets.synthetic import csbm
from fossil.report.layout import LAYOUT, layout_of
from fossil.runs.run import Run
from fossil.storage import sha256


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layout") / "run"
    fossil.embed(csbm(60, degree=4, features=5, seed=0), method="features", out=folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fossil.report.layout, "_has_umap", lambda: False)  # which takes long to start
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def test_a_layout_is_found_once_and_changes_no_other_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {each.name: sha256(each) for each in folder.iterdir()}
    first = layout_of(Run.open(folder))
    after = {each.name: sha256(each) for each in folder.iterdir()}
    assert after.keys() - before.keys() <= {LAYOUT, "run.lock"} and LAYOUT in after
    assert {name: after[name] for name in before} == before

    def refuse(*_: object) -> None:
        raise AssertionError("it was found already")

    monkeypatch.setattr(fossil.report.layout, "flatten", refuse)
    again = layout_of(Run.open(folder))
    np.testing.assert_array_equal(again.positions, first.positions.astype(np.float32))
    assert again.how == first.how == "t-SNE"


@pytest.mark.parametrize("damage", ["another run", "half a file", "other nodes", "not finite"])
def test_a_layout_of_other_vectors_or_a_damaged_one_is_found_anew(folder: Path, damage: str) -> None:
    layout_of(Run.open(folder))
    path = folder / LAYOUT
    with np.load(path) as content:
        arrays = dict(content)
    if damage == "another run":
        arrays["of"] = np.array("0" * 64)
    elif damage == "other nodes":
        arrays["positions"] = arrays["positions"][1:]
    elif damage == "not finite":
        arrays["positions"] = np.full_like(arrays["positions"], np.nan)
    np.savez(path, **arrays)
    if damage == "half a file":
        path.write_bytes(path.read_bytes()[:100])
    found = layout_of(Run.open(folder))
    assert found.positions.shape == (60, 2) and np.isfinite(found.positions).all()
    with np.load(path) as content:
        assert str(content["of"]) == sha256(folder / "embeddings.npz")


def test_training_anew_takes_the_layout_away(folder: Path) -> None:
    layout_of(Run.open(folder))
    fossil.embed(csbm(60, degree=4, features=5, seed=0), method="features", out=folder, force=True)
    assert not (folder / LAYOUT).exists()
