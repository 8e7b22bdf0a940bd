from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from fossil.errors import RunError
from fossil.runs.embeddings import Embeddings
from fossil.runs.folder import FILES, claim_folder, claim_vectors_folder, withdraw_results, write_embeddings


def some_run(path: Path) -> Path:
    """A folder with every file a run may have, as far as the code that looks at names is concerned."""
    path.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, "scores-paper.json"):
        (path / name).write_text(name)
    return path


def test_a_new_or_empty_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        assert claim_folder(tmp_path / name, resume=True, force=False) is False
        claim_vectors_folder(tmp_path / name, force=False)


def test_force_empties_a_run_and_spares_other_files(tmp_path: Path) -> None:
    (some_run(tmp_path) / "notes.txt").write_text("mine")
    assert claim_folder(tmp_path, resume=False, force=True) is False
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_force_removes_the_configuration_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some_run(tmp_path)
    removed: list[str] = []
    unlink = Path.unlink

    def watch(path: Path, missing_ok: bool = False) -> None:
        removed.append(path.name)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", watch)
    claim_folder(tmp_path, resume=False, force=True)
    assert removed[0] == "summary.json" and removed[-1] == "config.yaml"


def test_withdrawing_results_keeps_what_is_needed_to_go_on(tmp_path: Path) -> None:
    withdraw_results(some_run(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == set(FILES) - {"summary.json", "map.png"}


def test_embeddings_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "embeddings.parquet").write_text("vectors of before")
    ids, vectors = np.array(["a", "b"]), np.eye(2, dtype=np.float32)
    write_embeddings(tmp_path, Embeddings(ids, vectors, None))
    assert [path.name for path in tmp_path.iterdir()] == ["embeddings.npz"]
    with np.load(tmp_path / "embeddings.npz") as stored:
        assert stored["ids"].tolist() == ["a", "b"] and np.array_equal(stored["vectors"], vectors)


@pytest.mark.parametrize("force", [False, True])
def test_vectors_go_into_no_run_and_over_no_other_files(tmp_path: Path, force: bool) -> None:
    some_run(tmp_path / "run")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.csv").write_text("the only copy")
    for name in ("run", "thesis"):
        with pytest.raises(RunError, match="holds other files"):
            claim_vectors_folder(tmp_path / name, force=force)
    with pytest.raises(RunError, match="is a file"):
        claim_vectors_folder(tmp_path / "thesis" / "thesis.csv", force=force)


def test_vectors_are_replaced_only_when_told_to(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text("{}")
    with pytest.raises(RunError, match="already holds vectors"):
        claim_vectors_folder(tmp_path, force=False)
    claim_vectors_folder(tmp_path, force=True)
