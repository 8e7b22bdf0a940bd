"""A search tries what it says, keeps what it tried, and goes on as if nobody had stopped it."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from small_search import SPACE, communities, outcome, run_search, sealed_accuracy, small_plan

from fossil.errors import GraphError, RunError, SettingError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import score
from fossil.graph.graph import Graph
from fossil.runs.embeddings import FitResult
from fossil.studies import search as searching
from fossil.studies.freeze import freeze
from fossil.studies.measuring import Limits, Usage, measured
from fossil.studies.objectives import CRITERIA, ValidationAccuracy, WithoutLabels
from fossil.studies.sealed import Openings
from fossil.studies.search import SearchInterruptedError, search
from fossil.studies.search_folder import SearchFolder
from fossil.studies.search_plan import Budget, SearchPlan, plan_search
from fossil.studies.space import Choices, Range
from fossil.studies.trials import Found, Trial


class Counted:
    """An objective that counts encoders, and does something at one of them."""

    percent = True
    name = "counted"

    def __init__(self, at: int | None = None, do: Callable[[], float] | None = None) -> None:
        self.inner, self.at, self.do, self.calls = sealed_accuracy(), at, do, 0

    def graph_for(self, seed: int, *, with_labels: bool) -> Graph:
        return self.inner.graph_for(seed, with_labels=with_labels)

    def value(self, result: FitResult, seed: int, device: str) -> float:
        self.calls += 1
        if self.do is not None and self.calls == self.at:
            return self.do()
        return self.inner.value(result, seed, device)

    def to_dict(self) -> dict[str, Any]:
        return self.inner.to_dict()

    def describe(self) -> str:
        return self.name


class Given:
    """An objective whose values are a function of the settings and the seed."""

    percent = False
    name = "given"

    def __init__(self, function: Callable[[Any, int], float]) -> None:
        self.function, self.graph = function, communities(labels=False)

    def graph_for(self, seed: int, *, with_labels: bool) -> Graph:
        return self.graph

    def value(self, result: FitResult, seed: int, device: str) -> float:
        return self.function(result.config.settings, seed)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}

    def describe(self) -> str:
        return self.name


def interrupt() -> float:
    raise KeyboardInterrupt


def diverge() -> float:
    raise RunError("The loss is NaN.")


# What it finds.


def test_the_same_seed_finds_the_same_and_another_seed_something_else(tmp_path: Path) -> None:
    first = outcome(run_search(tmp_path / "a", 12, small_plan(encoders=1)))
    assert outcome(run_search(tmp_path / "b", 12, small_plan(encoders=1))) == first
    assert outcome(run_search(tmp_path / "c", 3, small_plan(encoders=1, seed=1))) != first[:3]


def test_defaults_come_first_and_the_best_is_the_greatest_mean(tmp_path: Path) -> None:
    space = {**SPACE, "width": Choices((4, 8, 512))}
    found = run_search(tmp_path / "s", 5, small_plan(space=space))
    usual = found.trials[0]
    assert dict(usual.chosen) == {"width": 512, "learning_rate": 1e-3, "dropout": 0.0}
    assert found.defaults is not None and found.defaults.number == 0
    complete = [one for one in found.trials if one.is_complete]
    assert found.best is not None and found.best.value == max(fmean(one.values) for one in complete)
    assert found.spread is not None and found.spread.usual == usual.value


def test_values_are_the_validation_accuracies_of_encoders_trained_one_by_one(tmp_path: Path) -> None:
    from fossil.readers.read import LoadedGraph
    from fossil.runs.fit import fit
    from fossil.runs.plan import plan_run

    plan, graph = small_plan(), communities()
    trial = run_search(tmp_path / "s", 3, plan).trials[2]
    for seed, value in enumerate(trial.values):
        asked = {"method": "dgi", "settings": trial.settings, "training": plan.training, "seed": seed}
        vectors = fit(plan_run(LoadedGraph(graph), **asked)).vectors
        [expected] = score(vectors, graph.labels, protocol("paper"), graph_name="", seeds=[seed])
        assert value == expected.validation_accuracy


def test_the_sampler_learns(tmp_path: Path) -> None:
    space = {"width": Choices((4, 8, 16)), "learning_rate": Range(1e-4, 1e-2), "dropout": Range(0.0, 0.9)}

    def peak(settings: Any, seed: int) -> float:
        return -abs(settings.dropout - 0.7) - 50 * abs(settings.learning_rate - 0.005)

    plan = small_plan(Given(peak), space=space, encoders=1, training={"epochs": 1, "device": "cpu"})
    found = run_search(tmp_path / "s", 35, plan)
    values = [one.value for one in found.trials]
    assert fmean(values[20:]) > fmean(values[1:11]) + 0.1
    # fANOVA sees what the values were made of: not the width.
    assert list(found.importances)[-1] == "width" and sum(found.importances.values()) == pytest.approx(1)


def test_importances_need_ten_settings(tmp_path: Path) -> None:
    assert run_search(tmp_path / "s", 4).importances == {}


# Budgets.


@pytest.mark.parametrize("trials", [1, 4])
def test_every_trial_counts(tmp_path: Path, trials: int) -> None:
    found = run_search(tmp_path / "s", trials, small_plan(Counted(1, diverge)))
    assert len(found.trials) == trials
    assert found.trials[0].state == "FAIL" and found.trials[0].reason == "The loss is NaN."
    assert found.equal_budget().startswith(f"{trials} trials (") and "1 failed" in found.equal_budget()


def test_a_trial_that_fails_in_a_way_nobody_foresaw_does_not_stop_the_search(tmp_path: Path) -> None:
    def run_out() -> float:
        raise MemoryError("2 GiB")

    found = run_search(tmp_path / "s", 3, small_plan(Counted(3, run_out)))
    assert [one.state for one in found.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert found.trials[1].reason == "MemoryError: 2 GiB"
    with pytest.raises(MemoryError):  # with the defaults it is told as it is
        run_search(tmp_path / "t", 3, small_plan(Counted(1, run_out)))


def test_methods_with_the_same_budget_try_as_often(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"settings": {"width": 8}, "training": {"epochs": 1, "device": "cpu"}}
    plans = {"dgi": small_plan(), "grace": plan_search(sealed_accuracy(), method="grace", **asked)}
    counts = {name: len(run_search(tmp_path / name, 3, plan).trials) for name, plan in plans.items()}
    assert counts == {"dgi": 3, "grace": 3}


def test_a_budget_of_minutes_begins_no_trial_that_would_not_end_in_time() -> None:
    def trials(*seconds: float) -> list[Trial]:
        usages = [Usage((one,), (one,)) for one in seconds]
        return [Trial(i, "COMPLETE", {}, {}, (0.5,), usage, True) for i, usage in enumerate(usages)]

    budget = Budget(minutes=1)
    assert budget.allows_another([]) and budget.allows_another(trials(20, 20)) and not budget.allows_another(trials(31))
    assert budget.seconds_left(trials(20)) == 40 and budget.share(trials(20, 10)) == 0.5
    both = Budget(trials=3, minutes=1)
    assert not both.allows_another(trials(1, 1, 1)) and both.seconds_left(trials(4, 6)) == 5


@pytest.mark.parametrize("given", [{}, {"trials": 0}, {"minutes": 0}, {"minutes": float("nan")}, {"minutes": -1}])
def test_a_budget_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        Budget(**given)


def test_a_space_that_is_used_up_ends_the_search(tmp_path: Path) -> None:
    objective = Counted()
    found = run_search(tmp_path / "s", 50, small_plan(objective, space={"width": Choices((4, 8))}))
    assert [one.settings["width"] for one in found.trials] in ([4, 8], [8, 4])
    assert objective.calls == 2 * 2  # two settings, two encoders each


def test_no_setting_is_tried_twice_however_good_it_is(tmp_path: Path) -> None:
    rates, shares = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2), (0.0, 0.2, 0.4, 0.6, 0.8)
    space = {"width": Choices((4, 8, 16)), "learning_rate": Choices(rates), "dropout": Choices(shares)}

    def peak(settings: Any, seed: int) -> float:
        return -abs(settings.dropout - 0.4) - 50 * abs(settings.learning_rate - 0.003) - settings.width / 100

    plan = small_plan(Given(peak), space=space, encoders=1, training={"epochs": 1, "device": "cpu"})
    found = run_search(tmp_path / "s", 70, plan)
    assert found.best is not None and found.best.chosen == {"width": 4, "learning_rate": 3e-3, "dropout": 0.4}
    assert len({tuple(one.chosen.items()) for one in found.trials}) == 70  # of 75


def test_settings_that_differ_in_what_has_no_effect_are_the_same(tmp_path: Path) -> None:
    space = {"encoder": Choices(("decoupled", "gcnii")), "gcnii_layers": Choices((2, 3))}
    asked: dict[str, Any] = {"encoders": 1, "training": {"epochs": 1, "device": "cpu"}}
    plan = small_plan(Given(lambda settings, seed: settings.gcnii_layers), method="fossil", space=space, **asked)
    found = run_search(tmp_path / "s", 50, plan)
    tried = [(one.settings["encoder"], one.settings.get("gcnii_layers")) for one in found.trials]
    assert sorted(tried, key=str) == [("decoupled", None), ("gcnii", 2), ("gcnii", 3)]


# Stopped and continued.


@pytest.mark.parametrize("at", [1, 2, 5, 8])
def test_a_search_that_was_interrupted_goes_on_as_if_it_had_not_been(tmp_path: Path, at: int) -> None:
    whole = outcome(run_search(tmp_path / "whole", 6))
    broken = Counted(at, interrupt)
    with pytest.raises(SearchInterruptedError) as stopped:
        run_search(tmp_path / "s", 6, small_plan(broken))
    assert stopped.value.exit_status == 130
    rest = Counted()
    assert outcome(run_search(tmp_path / "s", 6, small_plan(rest))) == whole
    encoders = sum(len(values) for _, _, _, values in whole)
    assert broken.calls - 1 + rest.calls == encoders  # no encoder twice but the one that was broken off


def test_a_longer_budget_goes_on(tmp_path: Path) -> None:
    run_search(tmp_path / "s", 2)
    counted = Counted()
    again = run_search(tmp_path / "s", 2, small_plan(counted))
    assert counted.calls == 0 and len(again.trials) == 2
    assert outcome(run_search(tmp_path / "s", 5)) == outcome(run_search(tmp_path / "whole", 5))


def test_a_search_in_many_sittings_ends_where_one_in_a_single_sitting_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_PROPOSALS", 2)
    space = {"width": Choices(tuple(range(4, 20)))}
    plan = small_plan(Given(lambda settings, seed: -settings.width), space=space, encoders=1)
    whole = run_search(tmp_path / "whole", 40, plan)
    assert 2 < len(whole.trials) < 16 and whole.is_exhausted(plan.space)
    for trials in range(1, 41):
        found = run_search(tmp_path / "s", trials, plan)
    assert outcome(found) == outcome(whole) and found.is_exhausted(plan.space)


def test_half_a_line_at_the_end_of_the_journal_is_taken_off(tmp_path: Path) -> None:
    run_search(tmp_path / "s", 2)
    journal = tmp_path / "s" / "journal.log"
    with journal.open("ab") as stream:
        stream.write(b'{"op_code": 4, "worker')
    assert outcome(run_search(tmp_path / "s", 4)) == outcome(run_search(tmp_path / "whole", 4))


def test_a_damaged_journal_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    run_search(tmp_path / "s", 2)
    journal = tmp_path / "s" / "journal.log"
    content = b"garbage\n" + journal.read_bytes()
    journal.write_bytes(content)
    with pytest.raises(RunError, match="damaged"):
        run_search(tmp_path / "s", 3)
    assert journal.read_bytes() == content


def test_two_searches_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    plan = small_plan()
    with (
        SearchFolder(tmp_path / "s").claimed(plan.to_dict()),
        pytest.raises(RunError, match="is being written to by process"),
    ):
        run_search(tmp_path / "s", 1, plan)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"method": "grace", "space": {"width": Choices((4, 8))}}, "method is dgi"),
        ({"encoders": 3}, "encoders is 2"),
        ({"seed": 4}, "seed is 0"),
        ({"space": {**SPACE, "width": Choices((4, 8))}}, r"space.width is 4, 8, 16, here it is 4, 8"),
        ({"training": {"epochs": 3, "device": "cpu"}}, "epochs is 2"),
        ({"limits": Limits(seconds=9)}, "limits.seconds is None"),
    ],
)
def test_another_search_is_refused_by_what_differs(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    run_search(tmp_path / "s", 1)
    before = {path: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    with pytest.raises(RunError, match=named):
        run_search(tmp_path / "s", 2, small_plan(**changed))
    assert {path: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before


def test_folders_with_other_things_in_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"not a search \(for example notes.txt\)"):
        run_search(tmp_path, 1)
    with pytest.raises(RunError, match="is a file"):
        run_search(tmp_path / "notes.txt", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_full_disk_stops_with_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(searching, "_try", full)
    with pytest.raises(RunError, match="No space left on device") as stopped:
        run_search(tmp_path / "s", 1)
    assert "finished trials are kept" in stopped.value.remedy


def test_a_search_that_is_over_is_shown_after_its_labels_were_opened(tmp_path: Path) -> None:
    plan = small_plan(space={"width": Choices((4, 8))}, encoders=1)
    first = outcome(run_search(tmp_path / "s", 30, plan))
    Openings(tmp_path / "s").add({"by": "a test"})
    assert len(first) < 30 and outcome(run_search(tmp_path / "s", 30, plan)) == first  # every setting was tried
    assert outcome(run_search(tmp_path / "s", len(first), plan)) == first


# Pruning and limits.


def test_settings_whose_first_encoder_lags_are_given_up(tmp_path: Path) -> None:
    def by_width(settings: Any, seed: int) -> float:
        return float(settings.width) + 0.1 * seed

    space = {"width": Choices(tuple(range(2, 30)))}
    plan = small_plan(Given(by_width), space=space, encoders=3, training={"epochs": 1, "device": "cpu"})
    found = run_search(tmp_path / "s", 14, plan)
    given_up = [one for one in found.trials if one.state == "PRUNED"]
    assert given_up and all(len(one.values) < 3 for one in given_up)
    for one in given_up:
        others = [fmean(other.values[: len(one.values)]) for other in found.trials[: one.number] if other.is_complete]
        assert len(others) >= 5 and one.value < np.median(others)
        assert one.reason == "below the median of the others"
    assert found.best is not None and found.best.is_complete
    assert "given up early" in found.equal_budget()
    without = run_search(tmp_path / "all", 14, small_plan(
        Given(by_width), space=space, encoders=3, training={"epochs": 1, "device": "cpu"}, prune=False
    ))  # fmt: skip
    assert {one.state for one in without.trials} == {"COMPLETE"}


def test_what_takes_too_long_is_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_width(settings: Any, seed: int) -> float:
        return float(settings.width)

    train = searching._train

    def timed(plan: SearchPlan, chosen: Any, seed: int, usage: Usage) -> tuple[float, Usage]:
        value, _ = train(plan, chosen, seed, usage)
        return value, usage.plus(chosen["width"] / 10, 0.1, chosen["width"] * 2**30)

    monkeypatch.setattr(searching, "_train", timed)
    space = {"width": Choices(tuple(range(2, 30)))}
    for limits, encoders in ((Limits(seconds=1.5), 2), (Limits(memory=15), 1)):
        asked: dict[str, Any] = {"space": space, "training": {"epochs": 1, "device": "cpu"}, "encoders": encoders}
        plan = small_plan(Given(by_width), limits=limits, **asked)
        found = run_search(tmp_path / str(encoders), 12, plan)
        assert found.best is not None and found.best.settings["width"] <= 15
        assert any(not one.feasible for one in found.trials)
        for one in found.trials:
            assert one.feasible == (one.settings["width"] <= 15)
            assert one.feasible or len(one.values) == 1  # the second is not trained


def test_memory_is_measured() -> None:
    with measured("cpu") as small:
        np.ones(1)
    # Pages from the system: an array may lie in memory that earlier tests have let go of and the process still holds.
    with measured("cpu") as large, mmap.mmap(-1, 40 * 2**20) as fresh:
        fresh[::4096] = bytes(len(fresh) // 4096)
    assert large.memory is not None and small.memory is not None and large.seconds > 0
    assert large.memory - small.memory > 30 * 2**20


@pytest.mark.parametrize("limits", [Limits(seconds=0), Limits(memory=-1)])
def test_limits_that_leave_nothing_are_refused(limits: Limits) -> None:
    with pytest.raises(SettingError, match="leaves nothing"):
        small_plan(limits=limits)


# Without labels, and methods that need some.


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_search_without_labels_never_sees_one(tmp_path: Path, criterion: str) -> None:
    labelled = outcome(run_search(tmp_path / "a", 2, small_plan(WithoutLabels(communities(), criterion))))
    unknown = small_plan(WithoutLabels(communities(labels=False), criterion))
    assert outcome(run_search(tmp_path / "b", 2, unknown)) == labelled
    assert unknown.graph.num_edges < communities().num_edges and unknown.graph.num_features < 8


def test_an_unknown_criterion_is_refused() -> None:
    with pytest.raises(SettingError, match="Did you mean 'rankme'"):
        WithoutLabels(communities(), "rankmee")


def test_a_method_that_trains_on_labels_sees_those_of_its_split_alone(tmp_path: Path) -> None:
    def plan(graph: Graph) -> SearchPlan:
        space = {"dropout": Choices((0.0, 0.5)), "learning_rate": Choices((0.01, 0.05))}
        return small_plan(sealed_accuracy(graph), method="fs_mlp", space=space, training={"epochs": 5, "device": "cpu"})

    graph = communities()
    found = run_search(tmp_path / "a", 3, plan(graph))
    assert all(one.is_complete for one in found.trials)
    changed = graph.labels.copy()
    test = protocol("paper").draw(graph.labels, 0, "").test
    changed[test] = (changed[test] + 1) % 3
    assert outcome(run_search(tmp_path / "b", 3, plan(graph.with_labels(changed)))) == outcome(found)
    with pytest.raises(SettingError, match="split cannot be fixed"):
        plan_search(sealed_accuracy(), method="fs_mlp", settings={"split": "paper"})
    with pytest.raises(GraphError, match="trains on labels"):
        plan_search(WithoutLabels(graph, "rankme"), method="fs_mlp")


# What cannot work.


def test_what_cannot_work_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="Everything is fixed"):
        small_plan(space={})
    with pytest.raises(SettingError, match="0 encoders"):
        small_plan(sealed_accuracy(), encoders=0)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingError, match="not installed") as missing:
        small_plan()
    assert missing.value.remedy == "pip install 'fossil-gnn[search]'"


def test_a_graph_that_the_method_cannot_treat_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise GraphError("DGI cannot treat it.")

    monkeypatch.setattr(searching, "_train", refuse)
    with pytest.raises(GraphError):
        run_search(tmp_path / "s", 3)
    monkeypatch.undo()
    assert outcome(run_search(tmp_path / "s", 3)) == outcome(run_search(tmp_path / "whole", 3))


# Frozen.


def test_freezing_scores_both_on_test_nodes_counts_the_opening_and_ends_the_search(tmp_path: Path) -> None:
    plan, graph, out = small_plan(), communities(), tmp_path / "s"
    found = search(plan, out, Budget(trials=5))
    assert found.best is not None
    first, second = (freeze(plan, out, found, graph, 4) for _ in range(2))
    assert (first.openings, second.openings) == (1, 2)
    assert first.best.values == second.best.values and first.best.n == 4
    objective = plan.objective
    assert isinstance(objective, ValidationAccuracy)
    assert first.test_nodes == len(objective.sealed.test_nodes)
    with pytest.raises(RunError, match="were opened"):
        search(plan, out, Budget(trials=6))
    assert len(search(plan, out, Budget(trials=5)).trials) == 5  # what was found can still be read


def test_frozen_accuracies_are_those_of_encoders_with_new_seeds(tmp_path: Path) -> None:
    from fossil.readers.read import LoadedGraph
    from fossil.runs.fit import fit
    from fossil.runs.plan import plan_run

    plan, graph = small_plan(), communities()
    found = run_search(tmp_path / "s", 3, plan)
    frozen = freeze(plan, tmp_path / "s", found, graph, 2)
    assert found.best is not None
    for seed, value in zip((2, 3), frozen.best.values, strict=True):
        asked = {"method": "dgi", "settings": found.best.settings, "training": plan.training, "seed": seed}
        vectors = fit(plan_run(LoadedGraph(graph), **asked)).vectors
        [expected] = score(vectors, graph.labels, protocol("paper"), graph_name="", seeds=[seed])
        assert value == expected.accuracy


def test_nothing_is_opened_where_nothing_is_sealed_or_found(tmp_path: Path) -> None:
    plan = small_plan(WithoutLabels(communities(), "rankme"))
    found = run_search(tmp_path / "s", 1, plan)
    with pytest.raises(SettingError, match="No labels are sealed"):
        freeze(plan, tmp_path / "s", found, communities(), 1)
    nothing = Found([], None, found.study)
    with pytest.raises(SettingError, match="found nothing"):
        freeze(small_plan(), tmp_path / "t", nothing, communities(), 1)
    assert not (tmp_path / "t").exists()
