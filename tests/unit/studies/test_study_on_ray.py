"""A study on a cluster: who gets how much of it, what travels, and clear words where there is none."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small_study import CPU, DGI, planned, run, write

from fossil.errors import RunError, SettingError
from fossil.studies.on_ray import Answer, Errand, Room, train_there
from fossil.studies.plan import Graphs
from fossil.studies.store import Store
from fossil.studies.work import Options
from fossil.training.devices import version_of

VERSION = version_of("fossil-gnn")
ON_RAY = Options(executor="ray", device="cpu")


@pytest.mark.parametrize(
    ("resources", "smallest", "options", "expected"),
    [
        ({"CPU": 8.0}, 4, Options(), Room(8, 1, 0.0, "cpu")),
        ({"CPU": 8.0}, 4, Options(jobs=4), Room(4, 2, 0.0, "cpu")),
        ({"CPU": 8.0}, 4, Options(jobs=1), Room(1, 4, 0.0, "cpu")),  # no training spans two machines
        ({"CPU": 8.0}, 4, Options(threads=2), Room(4, 2, 0.0, "cpu")),
        ({"CPU": 8.0}, 4, Options(jobs=20), Room(20, 1, 0.0, "cpu")),
        ({"CPU": 32.0, "GPU": 2.0}, 16, Options(), Room(2, 16, 1.0, "cuda")),
        ({"CPU": 32.0, "GPU": 2.0}, 16, Options(jobs=8, device="cuda"), Room(8, 4, 0.25, "cuda")),
        ({"CPU": 32.0, "GPU": 2.0}, 16, Options(jobs=5), Room(5, 6, 1 / 3, "cuda")),
        ({"CPU": 32.0, "GPU": 2.0}, 16, Options(jobs=8, device="cpu"), Room(8, 4, 0.0, "cpu")),
    ],
)
def test_a_cluster_is_shared_out(resources: dict[str, float], smallest: int, options: Options, expected: Room) -> None:
    assert Room.of(resources, smallest, options) == expected


def test_a_gpu_that_no_machine_has_is_refused() -> None:
    with pytest.raises(SettingError, match="the Ray cluster has no GPU"):
        Room.of({"CPU": 8.0}, 8, Options(device="cuda"))


@pytest.mark.parametrize("keep", ["nothing", "vectors", "run"])
def test_an_errand_needs_no_disk_of_the_other_side_and_brings_back_what_is_kept(keep: str, tmp_path: Path) -> None:
    file = write(tmp_path, methods=[DGI], seeds=1, keep=keep)
    plan, graphs = planned(file), Graphs(planned(file).study, tmp_path)
    [cell] = plan.cells
    errand = Errand(cell, None, {}, "cpu", 1, VERSION)
    answer = train_there(plan, graphs.open(0, 0), errand)
    [record] = run(file).records.values()  # the same by one process, with its store
    assert answer.record is not None and answer.wrong is None
    assert answer.record.digest == record.digest
    assert answer.record.scores[cell.scorings[0].key].accuracies == record.scores[cell.scorings[0].key].accuracies
    kept = Store(tmp_path / "small.results").kept
    here = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
    assert answer.kept is not None and set(answer.kept) == here


def test_what_was_kept_before_goes_along_and_is_scored_without_a_training(tmp_path: Path) -> None:
    before = run(write(tmp_path, methods=[DGI], seeds=1, keep="vectors"))
    [record] = before.records.values()
    file = write(tmp_path, methods=[DGI], seeds=1, keep="vectors", protocols=["paper", "released"])
    plan, graphs = planned(file), Graphs(planned(file).study, tmp_path)
    name = f"{record.key}.npz"
    kept = {name: (tmp_path / "small.results" / "kept" / name).read_bytes()}
    answer = train_there(plan, graphs.open(0, 0), Errand(plan.cells[0], record, kept, "cpu", 1, VERSION))
    assert answer.record is not None and answer.record.seconds == record.seconds  # that of the training before
    assert {one.protocol for one in answer.record.scores.values()} == {"paper", "released"}


def test_another_version_on_the_other_side_is_no_result(tmp_path: Path) -> None:
    plan = planned(write(tmp_path))
    answer = train_there(plan, Graphs(plan.study, tmp_path).open(0, 0), Errand(plan.cells[0], None, {}, "cpu", 1, "0"))
    assert isinstance(answer, Answer) and answer.record is None and answer.wrong is not None
    assert f"has fossil-gnn {VERSION}, this machine 0" in answer.wrong[0]


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingError, match="need Ray, which is not installed") as caught:
        run(write(tmp_path), ON_RAY)
    assert "fossil-gnn[ray]" in caught.value.remedy


@pytest.mark.parametrize("address", ["nowhere", "ray://127.0.0.1:6379", ":6379", "127.0.0.1:x"])
def test_what_is_no_address_is_refused(address: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(SettingError, match="is no address of a Ray cluster"):
        run(write(tmp_path), replace(ON_RAY, address=address))


def test_a_cluster_that_does_not_answer_is_said_at_once(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(RunError, match=r"The Ray cluster at 127\.0\.0\.1:1 cannot be reached") as caught:
        run(write(tmp_path), replace(ON_RAY, address="127.0.0.1:1"))
    assert "`ray start`" in caught.value.remedy and caught.value.exit_status == 2


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="shares the GPU of this machine"):
        run(write(tmp_path), replace(ON_RAY, mps=True))
    with pytest.raises(SettingError, match="no Ray cluster is used"):
        run(write(tmp_path), replace(CPU, address="127.0.0.1:6379"))
