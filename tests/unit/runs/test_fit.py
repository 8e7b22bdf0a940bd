from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ring_graph import CPU, SMALL, fit_ring, ring

import fossil
from fossil.errors import FossilWarning, GraphError, RunError, SettingError
from fossil.methods.fossil import Fossil
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.runs.run import Run


def test_an_unknown_preset_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no preset"):
        fit_ring(preset="latest", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = fit_ring()
    assert list(tmp_path.iterdir()) == [] and result.path is None
    assert result.vectors.shape == (20, 4) and [record["epoch"] for record in result.history] == [1, 2, 3]
    assert result.fusion is not None and ((result.fusion >= 0) & (result.fusion <= 1)).all()
    assert result.config.settings.model_dump().items() >= SMALL.items()
    np.testing.assert_array_equal(result["n3"], result.vectors[3])


def test_labels_do_not_reach_training() -> None:
    with_labels, without = (fit_ring(ring(labels=known)) for known in (True, False))
    np.testing.assert_array_equal(with_labels.vectors, without.vectors)


def test_the_folder_holds_what_was_returned(tmp_path: Path) -> None:
    result = fit_ring(out=tmp_path / "run", seed=4)
    run = Run.open(tmp_path / "run")
    assert run.finished and run.config == result.config and run.config.seed == 4 and run.path == result.path
    np.testing.assert_array_equal(run.arrays["vectors"], result.vectors)
    np.testing.assert_array_equal(run.arrays["fusion"], result.fusion)
    assert run.summary["epochs"] == 3 and run.summary["nodes"] == 20
    assert run.summary["lambda"]["mean"] == pytest.approx(float(np.mean(run.arrays["fusion"])))
    np.testing.assert_allclose(run.encode(ring().graph).vectors.numpy(), result.vectors, rtol=1e-5, atol=1e-6)


def test_resume_names_every_setting_that_changed(tmp_path: Path) -> None:
    fit_ring(out=tmp_path)
    with pytest.raises(RunError, match=r"other settings: seed was 0, is 1; alpha was 0\.5, is 0\.25\."):
        fit_ring(settings=SMALL | {"alpha": 0.25}, seed=1, out=tmp_path, resume=True)


def test_ctrl_c_in_memory_says_that_nothing_is_saved() -> None:
    class Impatient:
        def notice(self, text: str) -> None:
            pass

        def start(self, done: int, total: int) -> None:
            pass

        def update(self, epoch: int, record: dict[str, float]) -> None:
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)

        def finish(self) -> None:
            pass

    before = signal.getsignal(signal.SIGINT)
    many = CPU.updated({"epochs": 1000})
    with pytest.raises(TrainingInterruptedError, match=r"Stopped after epoch [23] of 1000\. Nothing was saved"):
        fit_ring(training=many, reporter=Impatient())
    assert signal.getsignal(signal.SIGINT) is before


def test_a_diverging_run_ends_with_the_reason(tmp_path: Path) -> None:
    training = CPU.updated({"epochs": 200})
    with pytest.raises(RunError, match="diverged"):
        fit_ring(settings=SMALL | {"learning_rate": 1e30}, training=training, out=tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(
    ("method", "preset", "has_another"),
    [("fossil", "released", False), ("fossil", "paper", True), ("dgi", None, False), ("gsc", None, True)],
)
def test_the_released_preset_is_advised_where_there_is_one_and_another_is_in_use(
    monkeypatch: pytest.MonkeyPatch, method: str, preset: str | None, has_another: bool
) -> None:
    settings = {key: value for key, value in SMALL.items() if method != "dgi" or key == "width"}
    monkeypatch.setattr("fossil.runs.summary.effective_rank", lambda vectors: torch.tensor(1.0))
    with pytest.warns(FossilWarning, match="effective rank is 1.00") as caught:
        fit_ring(method=method, preset=preset, settings=settings)
    said = str(caught[0].message)
    assert ("released preset" in said) == has_another
    assert "features differ" in said and "learning rate" in said and "number of epochs" in said
    too_fast = settings | {"learning_rate": 1e30}
    with pytest.raises(RunError, match="diverged") as diverged:
        fit_ring(method=method, preset=preset, settings=too_fast, training=CPU.updated({"epochs": 200}))
    assert ("released preset" in diverged.value.remedy) == has_another
    assert "learning rates" in diverged.value.remedy and "checkpoint" not in diverged.value.remedy


@pytest.mark.parametrize("width", [10**5, 10**15, 10**20])
def test_a_width_that_is_a_mistake_is_refused_before_anything_is_written(tmp_path: Path, width: int) -> None:
    with pytest.raises(SettingError, match=f"^width={width} is not accepted: .* less than or equal to 65536"):
        fit_ring(settings=SMALL | {"width": width}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["prepare", "encode"])
@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory")]
)
def test_lack_of_memory_outside_training_is_explained(
    monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    monkeypatch.setattr(Fossil, place, _raising(error))
    with pytest.raises(SettingError, match="does not fit in memory with fusion_hidden=30, "):
        fit_ring()


def test_a_graph_that_is_too_large_for_a_trained_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_ring(out=tmp_path)
    monkeypatch.setattr(Fossil, "encode", _raising(MemoryError()))
    with pytest.raises(RunError, match=r"Embedding ring \(20 nodes\) with the run in .* does not fit in memory"):
        fossil.Run.open(tmp_path).encode(ring().graph)


def test_other_errors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fossil, "prepare", _raising(RuntimeError("a mistake of ours")))
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        fit_ring()


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_seed_out_of_range_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="seed=-1 is not accepted"):
        fit_ring(seed=-1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_largest_seed_and_seeds_of_numpy_are_taken() -> None:
    seed: Any = np.int64(2**32 - 1)
    plain, numpy = (fit_ring(seed=one) for one in (2**32 - 1, seed))
    np.testing.assert_array_equal(plain.vectors, numpy.vectors)


def test_a_run_is_not_continued_and_replaced_at_once(tmp_path: Path) -> None:
    fit_ring(out=tmp_path)
    with pytest.raises(SettingError, match="resume=True and force=True contradict each other"):
        fit_ring(out=tmp_path, resume=True, force=True)
    assert (tmp_path / "summary.json").exists()


def test_a_graph_that_cannot_fit_is_refused_with_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 4 * 20 * 8  # of the smallest part of it, a hidden layer of every node
    monkeypatch.setattr("fossil.runs.fit.free_memory", lambda device: needed // 10)
    with pytest.raises(GraphError, match=r"needs about 0.3 GiB on cpu, and 0.0 GiB are free") as caught:
        fit_ring()
    factor = float(caught.value.remedy.split("times smaller")[0].split()[-1])
    assert factor > 10
    monkeypatch.setattr("fossil.runs.fit.free_memory", lambda device: None)
    assert len(fit_ring()) == 20


@pytest.mark.parametrize("epochs", [3, 5])
def test_another_number_of_threads_is_warned_of_where_training_goes_on(tmp_path: Path, epochs: int) -> None:
    fit_ring(out=tmp_path)
    path = tmp_path / "environment.json"
    recorded = json.loads(path.read_text())
    assert recorded["threads"] == torch.get_num_threads()
    longer = CPU.updated({"epochs": epochs})
    path.write_text(json.dumps(recorded | {"threads": 64}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FossilWarning)
        fit_ring(out=tmp_path, resume=True, training=longer)
    said = [str(one.message) for one in caught if "threads" in str(one.message)]
    assert len(said) == (epochs > 3) and all("64 threads so far and goes on with" in text for text in said)
    assert json.loads(path.read_text())["threads"] == torch.get_num_threads()
    fit_ring(out=tmp_path, resume=True, training=longer.updated({"epochs": epochs + 1}))  # errors where it warned
