from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from fossil.errors import RunError
from fossil.methods.fossil_settings import FossilSettings
from fossil.run import FILES, Run, RunConfig, claim_folder, withdraw_results, write_embeddings
from fossil.training.trainer import TrainingSettings

CONFIG = RunConfig("fossil", "paper", FossilSettings(alpha=0.3), TrainingSettings(), 7, "town", "abc", "./town")


def some_run(path: Path) -> Path:
    """A folder with every file a run may have, as far as the code that looks at names is concerned."""
    path.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, "scores-paper.json"):
        (path / name).write_text(name)
    (path / "config.yaml").write_text(yaml.safe_dump(CONFIG.to_dict()))
    return path


def test_configuration_survives_yaml() -> None:
    assert RunConfig.from_dict(yaml.safe_load(yaml.safe_dump(CONFIG.to_dict()))) == CONFIG


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 8}, False),
        ({"method": "fossil_v2"}, False),
        ({"fingerprint": "abd"}, False),
        ({"settings": FossilSettings(alpha=0.4)}, False),
        ({"training": TrainingSettings(precision="tf32")}, False),
        ({"training": TrainingSettings(epochs=9, device="cpu", checkpoint_seconds=0)}, True),
        ({"graph": "city", "source": "elsewhere", "preset": "released"}, True),
    ],
)
def test_identity_is_what_the_weights_depend_on(change: dict[str, object], same: bool) -> None:
    assert (replace(CONFIG, **change).identity == CONFIG.identity) is same  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "NoneType"),
        ("- 1\n- 2\n", "list indices"),
        ("format: 1\nmethod: fossil\n", "there is no 'preset'"),
        ("format: [\n", r"line 2: "),
        ("format: \x00", "special characters"),
    ],
)
def test_a_damaged_configuration_is_named_in_one_line(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(RunError, match=rf"config\.yaml is damaged \(.*{reason}") as caught:
        _ = Run.open(tmp_path).config
    assert "\n" not in caught.value.what


def test_a_folder_without_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        Run.open(tmp_path)


def test_an_unfinished_run_hands_out_neither_vectors_nor_weights(tmp_path: Path) -> None:
    run = Run.open(some_run(tmp_path))
    withdraw_results(tmp_path)
    for use in (lambda: run.arrays, run.load_method):
        with pytest.raises(RunError, match="is not finished"):
            use()


def test_a_new_or_empty_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        assert claim_folder(tmp_path / name, resume=True, force=False) is False


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
    assert left == set(FILES) - {"summary.json"}


def test_embeddings_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ids, vectors = np.array(["a", "b"]), np.eye(2, dtype=np.float32)
    write_embeddings(tmp_path, ids, vectors, None)
    assert [path.name for path in tmp_path.iterdir()] == ["embeddings.npz"]
    with np.load(tmp_path / "embeddings.npz") as stored:
        assert stored["ids"].tolist() == ["a", "b"] and np.array_equal(stored["vectors"], vectors)


def test_weights_of_other_settings_are_refused(tmp_path: Path) -> None:
    from fossil.methods.fossil import Fossil
    from fossil.training.checkpoint import save_tensors

    some_run(tmp_path)
    narrow = Fossil.build(FossilSettings(hidden=8, width=4), num_features=5, seed=0)
    save_tensors(tmp_path / "weights.safetensors", narrow.state_dict(), {"num_features": 5})
    with pytest.raises(RunError, match="does not fit the settings"):
        Run.open(tmp_path).load_method()
