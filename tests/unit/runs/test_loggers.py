"""Logs are read back by the programs they are for, go on when a run is continued, and never end a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ring_graph import CPU, SMALL, ring

from fossil.errors import FossilWarning, SettingError
from fossil.runs.embeddings import FitResult
from fossil.runs.fit import fit
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.runs.loggers.base import Logger, Training
from fossil.runs.loggers.registry import get_loggers, loggers
from fossil.runs.plan import plan_run


def train(wanted: Any, epochs: int = 3, **asked: Any) -> FitResult:
    given = {"method": "fossil", "settings": SMALL, "training": CPU.updated({"epochs": epochs})} | asked
    return fit(plan_run(ring(), **given), None, get_loggers(wanted))


def curves(result: FitResult, name: str) -> list[tuple[int, float]]:
    return [(int(record["epoch"]), record[name]) for record in result.history]


def tensorboard_curves(folder: Path, name: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(name)]


def test_tensorboard_reads_every_epoch_and_those_of_a_continued_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(["tensorboard"], out=out)
    result = train(["tensorboard"], epochs=5, out=out, resume=True)
    for name in result.history[0].keys() - {"epoch"}:
        expected = curves(result, name)
        assert [step for step, _ in expected] == [1, 2, 3, 4, 5]
        found = tensorboard_curves(out / "tensorboard", name)
        assert found == [(step, pytest.approx(value, rel=1e-6)) for step, value in expected]


def test_tensorboard_forgets_epochs_of_a_run_that_was_replaced(tmp_path: Path) -> None:
    train(["tensorboard"], epochs=4, out=tmp_path / "run")
    result = train(["tensorboard"], epochs=2, out=tmp_path / "run", force=True)
    assert len(tensorboard_curves(tmp_path / "run" / "tensorboard", "contrast")) == len(result.history) == 2


def test_tensorboard_takes_a_folder_of_its_own_and_needs_one(tmp_path: Path) -> None:
    result = train([f"tensorboard:{tmp_path / 'curves'}"])
    assert len(tensorboard_curves(tmp_path / "curves", "contrast")) == len(result.history)
    with pytest.raises(SettingError, match="Name one as tensorboard:FOLDER"):
        train("tensorboard")


def test_mlflow_has_settings_and_epochs_and_goes_on_with_its_run(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="MLflow's store on a disk needs SQLAlchemy")
    from mlflow.tracking import MlflowClient

    out, store = tmp_path / "run", f"sqlite:///{tmp_path / 'curves.db'}"
    train([f"mlflow:{store}"], out=out)
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("fossil")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params["settings.width"] == "4" and run.data.params["graph.name"] == "ring"
    result = train([f"mlflow:{store}"], epochs=5, out=out, resume=True)
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    found = client.get_metric_history(run.info.run_id, "contrast")
    assert [(point.step, point.value) for point in found] == curves(result, "contrast")


def test_wandb_offline_has_settings_and_epochs_and_goes_on_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    out = tmp_path / "run"
    train(["wandb:graphs"], out=out)
    result = train(["wandb:graphs"], epochs=5, out=out, resume=True)
    files = sorted((out / "wandb").glob("offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) == 2 and len({file.name for file in files}) == 1  # two parts of one run
    records = [record for file in files for record in wandb_records(file)]
    assert {record.run.project for record in records if record.HasField("run")} == {"graphs"}
    rows = [
        {".".join(item.nested_key) or item.key: float(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [(row["epoch"], row["contrast"]) for row in rows] == curves(result, "contrast")
    settings = {item.key: item.value_json for record in records for item in record.run.config.update}
    assert settings["settings.width"] == "4" and settings["graph.name"] == '"ring"'


def wandb_records(path: Path) -> list[Any]:
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    store, found = DataStore(), []
    store.open_for_scan(str(path))
    while (content := store.scan_data()) is not None:
        found.append(Record.FromString(content))
    return found


class Listening(Logger):
    """Remembers what it was told, and fails where it is told to."""

    name = "listening"

    def __init__(self, fails_in: str = "") -> None:
        super().__init__()
        self.fails_in, self.told, self.told_of = fails_in, list[str](), list[Training]()

    def _hear(self, what: str) -> None:
        self.told.append(what)
        if what == self.fails_in:
            raise ConnectionError("no route to host")

    def open(self, training: Training) -> str:
        self.told_of.append(training)
        self._hear("open")
        return "the key"

    def log(self, epoch: int, record: Mapping[str, float]) -> None:
        assert record["epoch"] == epoch
        self._hear(f"epoch {epoch}")

    def close(self, *, finished: bool) -> None:
        self._hear("close" if finished else "break off")


def test_a_logger_of_ones_own_hears_every_epoch_and_finds_its_log_again(tmp_path: Path) -> None:
    first, second = Listening(), Listening()
    train([first], out=tmp_path / "run")
    train([second], epochs=5, out=tmp_path / "run", resume=True)
    assert first.told == ["open", "epoch 1", "epoch 2", "epoch 3", "close"]
    assert second.told == ["open", "epoch 4", "epoch 5", "close"]
    assert [(one.name, one.done, one.before) for one in first.told_of + second.told_of] == [
        ("run", 0, None),
        ("run", 3, "the key"),
    ]
    third = Listening()
    train([third], out=tmp_path / "run", force=True)
    assert third.told_of[0].before is None  # another run, another log


@pytest.mark.parametrize(
    ("fails_in", "told"),
    [
        ("open", ["open"]),
        ("epoch 2", ["open", "epoch 1", "epoch 2", "break off"]),
        ("close", ["open", "epoch 1", "epoch 2", "epoch 3", "close"]),
    ],
)
def test_a_failing_logger_is_warned_of_once_and_ends_no_training(
    fails_in: str, told: list[str], tmp_path: Path
) -> None:
    bad, good = Listening(fails_in), Listening()
    bad.name = "bad"  # type: ignore[misc]
    with pytest.warns(
        FossilWarning, match="The log of bad .* goes on without it: ConnectionError: no route to host"
    ) as warned:
        result = train([bad, good], out=tmp_path / "run")
    assert len(warned) == 1 and len(result.history) == 3
    assert bad.told == told and good.told[-1] == "close"


def test_an_interrupted_training_is_broken_off_in_its_log(tmp_path: Path) -> None:
    import signal

    class Impatient(Listening):
        def log(self, epoch: int, record: Mapping[str, float]) -> None:
            super().log(epoch, record)
            if epoch == 2:
                signal.raise_signal(signal.SIGTERM)

    log = Impatient()
    with pytest.raises(TrainingInterruptedError):
        train([log], epochs=50, out=tmp_path / "run")
    assert log.told[-1] == "break off"


def test_a_damaged_file_of_keys_costs_the_log_alone(tmp_path: Path) -> None:
    train([Listening()], out=tmp_path / "run")
    (tmp_path / "run" / "logs.json").write_text("{")
    with pytest.warns(FossilWarning, match="could not begin"):
        train([Listening()], epochs=4, out=tmp_path / "run", resume=True)


def test_unknown_loggers_loggers_twice_and_nothing_to_log_are_refused() -> None:
    with pytest.raises(SettingError, match=r"Unknown logger 'tensorbord'. Did you mean 'tensorboard'\?"):
        train("tensorbord")
    with pytest.raises(SettingError, match="named twice"):
        train(["wandb:a", "wandb:b"])
    with pytest.raises(SettingError, match="nothing to log"):
        train([Listening()], method="prop", settings={}, training={"device": "cpu"})


@pytest.mark.parametrize("name", sorted(loggers()))
def test_a_missing_package_is_named_before_training(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(SettingError, match=rf"pip install 'fossil-gnn\[{name}\]'"):
        train([name], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
