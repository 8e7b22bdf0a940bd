"""Keys: what makes two trainings, or two scores, the same, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_study import DGI, GRAPH, planned, write

from fossil.errors import FossilError, SettingError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.methods.registry import get_method
from fossil.readers.npz import write_npz
from fossil.readers.source import open_graph
from fossil.studies.plan import scoring_key


def keys(folder: Path, **changes: Any) -> list[str]:
    return [cell.key for cell in planned(write(folder, **changes)).cells]


def dgi(**changes: Any) -> dict[str, Any]:
    return {"methods": [DGI | changes], "seeds": 1}


@pytest.mark.parametrize(
    "changes",
    [
        dgi(settings={"width": 16}),
        dgi(epochs=4),
        dgi() | {"seeds": [1]},
        dgi() | {"precision": "bfloat16"},
        dgi() | {"graphs": [f"{GRAPH},seed=1"]},
        dgi(method="grace"),
    ],
    ids=["setting", "epochs", "seed", "precision", "graph", "method"],
)
def test_what_moves_the_numbers_makes_another_training(changes: dict[str, Any], tmp_path: Path) -> None:
    [before] = keys(tmp_path, **dgi())
    [after] = keys(tmp_path, **changes)
    assert after != before


@pytest.mark.parametrize(
    "changes",
    [
        dgi(title="Another title"),
        dgi(settings={"width": 8.0}),
        dgi(preset="default"),
        dgi() | {"name": "another", "title": "Something else", "note": "mind"},
        dgi() | {"keep": "vectors"},
        dgi() | {"splits": 9, "protocols": ["converged"]},
        dgi() | {"graphs": [{"input": GRAPH, "title": "A graph"}]},
        dgi() | {"graphs": [{"input": GRAPH, "treatment": {"direction": "keep"}}]},
    ],
    ids=["title", "spelling", "preset said", "study", "keep", "scoring", "title of graph", "treatment said"],
)
def test_what_does_not_move_them_does_not(changes: dict[str, Any], tmp_path: Path) -> None:
    assert keys(tmp_path, **changes) == keys(tmp_path, **dgi())


def test_a_default_that_is_said_is_the_same_training(tmp_path: Path) -> None:
    said = dgi(settings={"width": 8, "learning_rate": get_method("dgi").configure(None).learning_rate})  # type: ignore[attr-defined]
    assert keys(tmp_path, **said) == keys(tmp_path, **dgi())


def test_a_raised_version_of_a_method_makes_all_its_trainings_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys(tmp_path)
    monkeypatch.setattr(get_method("dgi"), "version", 2)
    features, *others = zip(before, keys(tmp_path), strict=True)
    assert features[0] == features[1]
    assert [one == other for one, other in others] == [False, True, False]  # DGI, features and DGI of the second seed


def test_scores_depend_on_labels_and_on_how_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = open_graph(GRAPH).graph
    paper = protocol("paper")
    key = scoring_key(graph, paper)
    assert graph.labels is not None
    assert scoring_key(graph.with_labels(1 - graph.labels), paper) != key
    assert scoring_key(graph, protocol("paper-unit-rows")) != key
    assert scoring_key(graph, paper.updated({"strengths": (1.0,)})) != key
    assert scoring_key(graph, paper.per_class_everywhere(5)) != key
    # Its name, how a mean gets its interval, and what holds on other graphs change no score.
    assert scoring_key(graph, paper.updated({"name": "mine", "resamples": 7, "confidence": 0.9})) == key
    assert scoring_key(graph, paper.updated({"per_class_graphs": ("cora",)})) == key
    monkeypatch.setattr(NodeClassification, "version", 2)
    assert scoring_key(graph, paper) != key


def test_rows_are_methods_by_variants_by_values_of_a_sweep(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        methods=["fossil", {"method": "fossil_v2", "preset": "paper", "epochs": 5}],
        variants=[{"title": "GCN", "settings": {"encoder": "gcn"}}, {"settings": {"generator": "random_edges"}}],
        sweep={"name": "alpha", "values": [0, 0.5]},
        seeds=1,
    )
    plan = planned(file)
    assert [row.title for row in plan.rows] == [
        "FOSSIL GCN alpha=0",
        "FOSSIL GCN alpha=0.5",
        "FOSSIL generator=random_edges alpha=0",
        "FOSSIL generator=random_edges alpha=0.5",
        "FOSSIL v2 (paper) epochs=5 GCN alpha=0",
        "FOSSIL v2 (paper) epochs=5 GCN alpha=0.5",
        "FOSSIL v2 (paper) epochs=5 generator=random_edges alpha=0",
        "FOSSIL v2 (paper) epochs=5 generator=random_edges alpha=0.5",
    ]
    assert [row.settings for row in plan.rows[:2]] == [{"encoder": "gcn", "alpha": 0}, {"encoder": "gcn", "alpha": 0.5}]
    assert {row.epochs for row in plan.rows} == {None, 5} and len(plan.keys) == 8


def test_every_seed_may_have_a_graph_of_its_own(tmp_path: Path) -> None:
    plan = planned(write(tmp_path, graphs=[GRAPH + ",seed={seed}", GRAPH], methods=["features"], seeds=[0, 3]))
    first, same, other, _ = plan.cells
    assert first.key == same.key != other.key  # the graph of seed 0 is the default one
    assert plan.cells[3].key != other.key


def test_files_of_every_seed_may_be_optional(tmp_path: Path) -> None:
    graphs = [{"input": "town-{seed}.npz", "optional": True}, "csbm:nodes=40,features=8"]
    asked: dict[str, Any] = {"graphs": graphs, "methods": ["features"], "seeds": [0, 3]}
    assert planned(write(tmp_path, **asked)).unreadable == {0: "its files are not at hand; it is optional"}
    for seed in (0, 3):
        write_npz(tmp_path / f"town-{seed}.npz", open_graph(f"{GRAPH},seed={seed}").graph)
    plan = planned(write(tmp_path, **asked))
    assert not plan.unreadable and [cell.seed for cell in plan.cells if cell.column == 0] == [0, 3]


def test_a_method_without_labels_to_train_on_is_left_out_of_a_graph_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "town").mkdir()
    (tmp_path / "town" / "nodes.csv").write_text("id,height\n" + "".join(f"{i},{i % 7}\n" for i in range(20)))
    (tmp_path / "town" / "edges.csv").write_text(
        "source,target\n" + "".join(f"{i},{(i + 1) % 20}\n" for i in range(20))
    )
    plan = planned(write(tmp_path, graphs=[GRAPH, "town"], methods=["fs_gcn", "features"], seeds=1))
    assert "no labels" in plan.unscorable[1, "paper"]
    assert {cell.column for cell in plan.cells} == {0}


def test_who_makes_graphs_undirected_has_the_column_of_both_directions_alone(tmp_path: Path) -> None:
    both = {"input": GRAPH, "treatment": {"direction": "symmetrize"}}
    rows: dict[str, Any] = {"methods": ["gsc", "dgi"], "seeds": 1}
    plan = planned(write(tmp_path, graphs=[GRAPH, both], **rows))
    assert plan.columns[1] == plan.columns[0] + " ↔"
    assert [(cell.row, cell.column) for cell in plan.cells] == [(1, 0), (0, 1), (1, 1)]
    assert "undirected by itself" in plan.impossible[0, 0]
    alone = planned(write(tmp_path, graphs=[GRAPH, both | {"input": GRAPH + ",seed=1"}], **rows))
    assert len(alone.cells) == 4  # another graph's second column is no help


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ({"input": "csbm:knots=5", "title": "B"}, r"small\.yaml, B: csbm has no parameter 'knots'"),
        ({"input": "town-{seed}.csv", "title": "B"}, r"small\.yaml, B: .*town-0\.csv"),
    ],
    ids=["parameter", "path"],
)
def test_a_graph_that_cannot_be_read_says_which_it_is(graph: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(FossilError, match=told):
        planned(write(tmp_path, graphs=[GRAPH, graph]))


def test_an_unknown_setting_says_in_which_row(tmp_path: Path) -> None:
    file = write(tmp_path, methods=[{"method": "dgi", "settings": {"widht": 3}}])
    with pytest.raises(SettingError, match=r"DGI widht=3 on cSBM .*Unknown setting 'widht'.*Did you mean 'width'"):
        planned(file)


def test_a_setting_without_effect_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, methods=[{"method": "fossil", "settings": {"edge_drop": 0.1}}])
    with pytest.raises(SettingError, match="has no effect"):
        planned(file)
