"""Doing what is missing: nothing twice, nothing lost, and a failure is a result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from small_study import CPU, DGI, GRAPH, Seen, planned, run, trained, write

import fossil
from fossil.errors import EvaluationError, GraphError, RunError, SettingError
from fossil.methods.registry import methods
from fossil.methods.untrained import Features
from fossil.readers.npz import write_npz
from fossil.readers.source import open_graph
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.studies.execute import StudyInterruptedError
from fossil.studies.plan import open_study
from fossil.studies.store import Store
from fossil.studies.study_search import searches_of
from fossil.studies.train import kept_vectors


class Faulty(Features):
    """Fails in the way it is told to."""

    name = "faulty"
    title = "Faulty"
    error: ClassVar[BaseException] = ValueError("seven")

    def prepare(self, graph: fossil.Graph, device: torch.device) -> Any:
        raise self.error


@pytest.fixture
def faulty() -> Iterator[type[Faulty]]:
    methods()["faulty"] = Faulty
    yield Faulty
    del methods()["faulty"]


def test_less_memory_is_a_failure_and_never_another_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, methods=[DGI], seeds=1)
    [key] = planned(file).keys
    monkeypatch.setattr("fossil.runs.preparation.whole_bytes", lambda graph: 1 << 60)
    asked = {"method": "dgi", "settings": {"width": 8}, "training": {"epochs": 3, "device": "cpu"}}
    assert fit(plan_run(GRAPH, **asked)).config.is_sampled  # what a run does by itself; no key says so
    record = run(file).records[key]
    assert "needs the whole graph on cpu" in record.failed and "more memory" in record.failed and not record.digest
    plan, graphs = open_study(write(tmp_path, methods=[DGI], search={"trials": 1}))
    [search] = searches_of(plan, graphs, "cpu")
    assert search.plan is not None and search.plan.training.sampled == "never"  # nor are settings chosen by one


def test_a_cell_has_the_vectors_and_scores_of_the_same_training_by_hand(tmp_path: Path) -> None:
    results = run(write(tmp_path, methods=[DGI], seeds=[3], splits=3, protocols=["paper", "released"]))
    [record] = results.records.values()
    result = fossil.embed(GRAPH, method="dgi", epochs=3, settings={"width": 8}, seed=3, device="cpu")
    for name in ("paper", "released"):
        [row] = fossil.evaluate(result, protocol=name, splits=3, device="cpu")
        [scores] = [one for one in record.scores.values() if one.protocol == name]
        assert scores.accuracies == pytest.approx(row.accuracy.values, abs=1e-12)
        assert scores.macro_f1s == pytest.approx(row.metrics["macro_f1"].values, abs=1e-12)
        assert scores.validation_accuracies == tuple(one.validation_accuracy for one in row.scores[3])
        assert scores.majority == pytest.approx(row.majority["accuracy"].mean)
        assert scores.seeds == tuple(one.seed for one in row.scores[3])
        assert bool(scores.test_maxima) == (name == "released")
    assert (record.nodes, record.epochs, record.seed, record.settings["width"]) == (60, 3, 3, 8)
    assert record.seconds is not None and record.epoch_seconds is not None and record.memory is not None
    assert record.memory > 1e6 and record.device and record.torch == torch.__version__


def test_what_is_done_is_not_done_again_and_a_change_redoes_what_it_touches(tmp_path: Path) -> None:
    assert len(trained(write(tmp_path))) == 4
    assert trained(write(tmp_path)) == []
    assert len(trained(write(tmp_path, seeds=3))) == 2  # the third encoder of each row
    changed = [DGI | {"settings": {"width": 16}}, "features"]
    assert len(trained(write(tmp_path, methods=changed, seeds=3))) == 3  # DGI alone, under each seed
    assert trained(write(tmp_path, seeds=3)) == []  # what was there before still is
    assert trained(write(tmp_path, seeds=[2, 0], splits=1, title="Other")) == []


def test_another_protocol_scores_kept_vectors_and_trains_anew_without(tmp_path: Path) -> None:
    kept = write(tmp_path, name="kept", methods=[DGI], keep="vectors", seeds=1)
    before = next(iter(run(kept).records.values()))
    after = next(
        iter(
            run(
                write(tmp_path, name="kept", methods=[DGI], keep="vectors", seeds=1, protocols=["paper", "released"])
            ).records.values()
        )
    )
    assert after.seconds == before.seconds and after.digest == before.digest  # nothing was trained
    assert {one.protocol for one in after.scores.values()} == {"paper", "released"}

    run(write(tmp_path, methods=[DGI], seeds=1))
    again = run(write(tmp_path, methods=[DGI], seeds=1, protocols=["released", "paper"]))
    [record] = again.records.values()
    assert {one.protocol: one.accuracies for one in record.scores.values()} == {
        one.protocol: one.accuracies for one in after.scores.values()
    }


@pytest.mark.parametrize("keep", ["nothing", "vectors", "run"])
def test_what_is_to_be_kept_is(keep: str, tmp_path: Path) -> None:
    results = run(write(tmp_path, methods=[DGI], seeds=1, keep=keep))
    [key] = results.records
    vectors = kept_vectors(Store(tmp_path / "small.results"), key)
    if keep == "nothing":
        assert vectors is None and not (tmp_path / "small.results" / "kept").exists()
    else:
        made = fossil.embed(GRAPH, method="dgi", epochs=3, settings={"width": 8}, device="cpu").vectors
        assert vectors is not None and (vectors == made).all()
    if keep == "run":
        assert fossil.load(tmp_path / "small.results" / "kept" / key).config.method == "dgi"


def test_a_method_trained_on_labels_is_scored_on_its_own_split(tmp_path: Path) -> None:
    rows = [{"method": "fs_mlp", "epochs": 2, "settings": {"split": "paper", "hidden": 4}}]
    results = run(write(tmp_path, methods=rows, protocols=["paper", "converged"], seeds=1, splits=3))
    [record] = results.records.values()
    by_name = {one.protocol: one for one in record.scores.values()}
    assert len(by_name["paper"].accuracies) == 1 and by_name["paper"].supervised
    assert "another split" in by_name["converged"].failed  # its labels are those of another rule
    assert trained(write(tmp_path, methods=rows, protocols=["paper", "converged"], seeds=1, splits=3)) == []


def test_what_failed_for_another_study_alone_is_not_tried_again(tmp_path: Path) -> None:
    rows = [{"method": "fs_mlp", "epochs": 2, "settings": {"split": "paper", "hidden": 4}}]
    asked: dict[str, Any] = {"methods": rows, "seeds": 1, "store": "shared"}
    both = write(tmp_path, name="both", protocols=["paper", "converged"], **asked)
    assert run(both).reasons(0, 0, "converged")  # trained on labels of another split
    own = write(tmp_path, name="own", protocols=["paper"], **asked)
    assert trained(own, replace(CPU, retry_before=time.time())) == []
    assert len(trained(both, replace(CPU, retry_before=time.time()))) == 1


def test_rows_that_come_to_the_same_training_share_it(tmp_path: Path) -> None:
    file = write(tmp_path, methods=[DGI, DGI | {"title": "Again"}], seeds=2)
    assert len(trained(file)) == 2
    results = run(file)
    assert results.values(0, 0, "accuracy", "paper") == results.values(1, 0, "accuracy", "paper") != {}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("seven"), "ValueError: seven"),
        (GraphError("It is too odd.", remedy="Mend it."), "It is too odd. Mend it."),
        (MemoryError(), "MemoryError"),
    ],
    ids=["unforeseen", "foreseen", "memory"],
)
def test_a_failure_keeps_its_reason_and_stops_nobody(
    error: BaseException, reason: str, faulty: type[Faulty], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty, "error", error)
    file = write(tmp_path, methods=["faulty", DGI])
    results = run(file)
    counts = results.count(results.plan.cells)
    assert (counts.done, counts.failed, counts.missing) == (2, 2, 0)
    [told] = {record.failed for record in results.records.values() if record.failed}
    assert reason in told or (isinstance(error, MemoryError) and "memory" in told)
    assert results.reasons(0, 0, "paper") == [told] and results.reasons(1, 0, "paper") == []
    assert trained(file) == []  # it has failed, and is not tried again by itself
    # A training that was mended is done when that is asked for, and only those that failed are.
    monkeypatch.setattr(faulty, "prepare", Features.prepare)
    assert len(trained(file, replace(CPU, retry_before=time.time()))) == 2
    assert run(file).count(results.plan.cells).failed == 0


def test_a_score_that_failed_is_tried_again_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fossil.evaluation.tasks.node_classification import NodeClassification

    def refuse(*_: object, **__: object) -> None:
        raise EvaluationError("Not today.", remedy="Tomorrow.")

    file = write(tmp_path, methods=[DGI], seeds=1, keep="vectors")
    with monkeypatch.context() as patched:
        patched.setattr(NodeClassification, "score", refuse)
        results = run(file)
    assert results.reasons(0, 0, "paper") == ["Not today. Tomorrow."]
    assert len(trained(file, replace(CPU, retry_before=time.time()))) == 1
    assert run(file).reasons(0, 0, "paper") == []


def test_what_somebody_else_finished_in_the_meantime_is_not_done_again(tmp_path: Path) -> None:
    file = write(tmp_path)

    class Other(Seen):
        def waiting(self, cells: int) -> None:
            raise KeyboardInterrupt  # all is done but the cell that is being waited for

    class Slow(Seen):
        def started(self, cell: object) -> None:
            if not self.finished_keys:
                with pytest.raises(StudyInterruptedError):
                    run(file, reporter=other)

    slow, other = Slow(), Other()
    run(file, reporter=slow)
    assert len(slow.finished_keys) == 1 and len(other.finished_keys) == 3
    assert not set(slow.finished_keys) & set(other.finished_keys)


def test_nothing_is_started_after_the_time_is_over(tmp_path: Path) -> None:
    assert trained(write(tmp_path), replace(CPU, deadline=time.time())) == []


def test_ctrl_c_keeps_what_was_finished(tmp_path: Path) -> None:
    class Impatient(Seen):
        def finished(self, cell: Any, record: Any) -> None:
            super().finished(cell, record)
            raise KeyboardInterrupt

    with pytest.raises(StudyInterruptedError) as caught:
        run(write(tmp_path), reporter=Impatient())
    assert caught.value.exit_status == 130
    assert len(trained(write(tmp_path))) == 3


@pytest.mark.parametrize("content", [b"junk", None])
def test_kept_vectors_that_are_damaged_are_named_with_what_a_study_can_do(
    content: bytes | None, tmp_path: Path
) -> None:
    run(write(tmp_path, methods=[DGI], seeds=1, keep="vectors"))
    [kept] = (tmp_path / "small.results" / "kept").glob("*.npz")
    if content is None:
        np.savez(kept, others=np.zeros(3))
    else:
        kept.write_bytes(content)
    both = write(tmp_path, methods=[DGI], seeds=1, keep="vectors", protocols=["paper", "released"])
    with pytest.raises(RunError, match=kept.name) as caught:
        run(both)
    assert "run the study again" in caught.value.remedy and "--" not in caught.value.remedy
    kept.unlink()
    assert len(trained(both)) == 1


def test_a_file_that_cannot_be_kept_is_nobodys_failure(tmp_path: Path) -> None:
    file = write(tmp_path, keep="run", methods=[DGI], seeds=1)
    (tmp_path / "small.results").mkdir()
    run(write(tmp_path, name="other", store="small.results", methods=["features"], seeds=1))
    (tmp_path / "small.results" / "kept").write_text("in the way")
    with pytest.raises(RunError, match="kept"):
        run(file)
    (tmp_path / "small.results" / "kept").unlink()
    assert len(trained(file)) == 1


def test_no_jobs_and_no_such_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="0 processes at once"):
        run(write(tmp_path), replace(CPU, jobs=0))
    with pytest.raises(SettingError, match="no device"):
        run(write(tmp_path), replace(CPU, device="abacus"))


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), ZeroDivisionError("by seven")])
def test_whatever_goes_wrong_in_a_scoring_is_its_result(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fossil.evaluation.tasks.node_classification import NodeClassification

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(NodeClassification, "score", refuse)
    results = run(write(tmp_path, methods=[DGI], seeds=2))
    assert results.reasons(0, 0, "paper") == [f"{type(error).__name__}: {error}"]
    assert results.count(results.plan.cells).failed == 2
    assert all(record.digest and not record.failed for record in results.records.values())  # they were trained


def test_a_training_that_fails_the_second_time_costs_no_score_of_the_first(
    faulty: type[Faulty], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as mended:
        mended.setattr(faulty, "prepare", Features.prepare)
        before = run(write(tmp_path, methods=["faulty"], seeds=1)).values(0, 0, "accuracy", "paper")
    file = write(tmp_path, methods=["faulty"], seeds=1, protocols=["paper", "released"])
    results = run(file)
    assert results.values(0, 0, "accuracy", "paper") == before != {}
    assert results.reasons(0, 0, "paper") == [] and results.reasons(0, 0, "released") == ["ValueError: seven"]
    [record] = results.records.values()
    assert "in prepare" in record.traceback
    assert results.count(results.plan.cells).failed == 1 and trained(file) == []
    monkeypatch.setattr(faulty, "prepare", Features.prepare)
    assert len(trained(file, replace(CPU, retry_before=time.time()))) == 1
    [record] = run(file).records.values()
    assert not any(one.failed for one in record.scores.values()) and not record.failed and not record.traceback


def test_splits_that_cannot_be_scored_cost_none_of_those_that_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fossil.evaluation.tasks.node_classification import NodeClassification

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("2 GiB")

    file = write(tmp_path, methods=[DGI], seeds=1, splits=2)
    before = run(file).values(0, 0, "accuracy", "paper")
    with monkeypatch.context() as patched:
        patched.setattr(NodeClassification, "score", refuse)
        more = run(write(tmp_path, methods=[DGI], seeds=1, splits=3))
    assert more.reasons(0, 0, "paper") == ["MemoryError: 2 GiB"] and more.values(0, 0, "accuracy", "paper") == {}
    assert more.count(more.plan.cells).failed == 1
    fewer = run(write(tmp_path, methods=[DGI], seeds=1, splits=2))
    assert fewer.values(0, 0, "accuracy", "paper") == before != {} and fewer.reasons(0, 0, "paper") == []
    assert fewer.count(fewer.plan.cells).done == 1


def test_a_graph_that_is_there_with_other_labels_is_scored_on_both(tmp_path: Path) -> None:
    graph = open_graph(GRAPH).graph
    assert graph.labels is not None
    write_npz(tmp_path / "a.npz", graph)
    write_npz(tmp_path / "b.npz", graph.with_labels(np.arange(graph.num_nodes) % 3))
    file = write(tmp_path, graphs=["a.npz", "b.npz"], methods=[DGI], seeds=1)
    results = run(file)
    assert len(results.records) == 1  # one training
    first, second = (results.values(0, column, "accuracy", "paper") for column in (0, 1))
    assert first and second and first != second
    assert trained(file) == []


def test_a_split_that_was_trained_on_is_recorded_by_its_own_seed(tmp_path: Path) -> None:
    rows = [{"method": "fs_mlp", "epochs": 2, "settings": {"split": "paper", "hidden": 4, "split_seed": 5}}]
    results = run(write(tmp_path, methods=[*rows, "features"], seeds=[0, 5]))
    assert [list(one) for one in results.values(0, 0, "accuracy", "paper").values()] == [[5], [5]]
