"""Tables and figures of a study, against values that are worked out here by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from scipy import stats
from small_study import GRAPH, planned, write

from fossil.errors import EvaluationError, SettingError
from fossil.evaluation.comparison import mean_ranks
from fossil.report.tables import Format, render
from fossil.studies.figures import _sweep, draw_figure
from fossil.studies.overview import (
    draw_figures,
    export_tables,
    figure_notes,
    plan_table,
    status_table,
    tables_named,
)
from fossil.studies.record import Record, Scores
from fossil.studies.results import Results
from fossil.studies.store import Store

OTHER = "csbm:nodes=60,features=8,degree=6,seed=9"
Values = Mapping[tuple[str, int], Sequence[Sequence[float]]]
"""The accuracies of each encoder on its splits, by row and column."""


def results_of(folder: Path, values: Values, record: Mapping[str, Any] | None = None, **study: Any) -> Results:
    """Return the results of a study whose encoders have these accuracies."""
    folder.mkdir(exist_ok=True)
    file = write(folder, **study)
    plan = planned(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    for cell in plan.cells:
        found = values.get((plan.rows[cell.row].title, cell.column), [])
        if cell.seed >= len(found):
            continue
        own, [scoring] = found[cell.seed], cell.scorings
        splits = scoring.seeds[: len(own)]
        scores = Scores(
            scoring.protocol, splits, tuple(own), majority=0.25, test_nodes=12, supervised=len(own) < len(scoring.seeds)
        )
        store.write(
            Record(
                key=cell.key, graph="g", input="g", method=plan.rows[cell.row].method, version=1, preset="default",
                settings={}, treatment={}, epochs=1, precision="float32", seed=cell.seed, nodes=60,
                scores={scoring.key: scores}, seconds=1.0 + cell.seed, memory=2e9, device="abacus",
                **(record or {}),
            )
        )  # fmt: skip
    return Results(plan, store)


METHODS = ["features", "prop", {"method": "dgi", "title": "DGI"}, {"method": "grace", "title": "GRACE"}]
STUDY: dict[str, Any] = {
    "methods": METHODS,
    "seeds": 3,
    "graphs": [{"input": GRAPH, "title": "A"}, {"input": OTHER, "title": "B"}],
}
VALUES: Values = {
    ("Features", 0): [[0.50, 0.52], [0.51, 0.53], [0.49, 0.50]],
    ("Propagated features", 0): [[0.60, 0.62], [0.61, 0.62], [0.62, 0.60]],
    ("DGI", 0): [[0.70, 0.74], [0.72, 0.73], [0.71, 0.75]],
    ("GRACE", 0): [[0.61, 0.60], [0.60, 0.64], [0.66, 0.55]],
    ("DGI", 1): [[0.3, 0.4]],
}


def shown(values: Sequence[Sequence[float]]) -> str:
    """The mean over encoders, each with its mean over splits, and half of Student's interval."""
    means = [mean(one) for one in values]
    half = stats.t.ppf(0.975, len(means) - 1) * stdev(means) / len(means) ** 0.5
    return f"{100 * mean(means):.1f} ± {100 * half:.1f}"


def test_cells_are_means_with_students_interval_over_encoders(tmp_path: Path) -> None:
    plain = STUDY | {"tables": [{"value": "accuracy", "letters": False}]}
    [table] = tables_named(results_of(tmp_path, VALUES, **plain)).values()
    by_row = {row[0]: row[1:] for row in table.rows}
    assert table.header == ["Method", "A", "B"]
    assert by_row["Majority"] == ["25.0", "25.0"]
    assert by_row["Features"] == [shown(VALUES["Features", 0]), "–"]
    # Above the better untrained one by 11 points each time; GRACE is above it on the mean alone.
    assert by_row["DGI"] == [shown(VALUES["DGI", 0]), "35.0 (1)"]
    assert by_row["GRACE"] == [shown(VALUES["GRACE", 0]) + " †", "–"]
    assert any(note.startswith("† is not above the better of") for note in table.notes)


def test_a_table_says_how_many_splits_there_were_not_how_many_were_asked_for(tmp_path: Path) -> None:
    one_split = {place: [one[:1] for one in encoders] for place, encoders in VALUES.items()}
    for folder, values, words in (("two", VALUES, "over 2 splits;"), ("one", one_split, "over 1 split;")):
        (tmp_path / folder).mkdir()
        [table] = tables_named(results_of(tmp_path / folder, values, **STUDY)).values()
        assert words in table.notes[0]


def test_programs_get_every_number(tmp_path: Path) -> None:
    [table] = tables_named(results_of(tmp_path, VALUES, **STUDY)).values()
    record = next(one for one in table.records if (one["row"], one["graph"]) == ("DGI", "A"))
    means = [mean(one) for one in VALUES["DGI", 0]]
    assert record["mean"] == pytest.approx(mean(means)) and record["values"] == pytest.approx(means)
    assert record["beats_untrained"] is True and record["rank"] == 1 and record["splits"] == 2
    low, high = stats.t.interval(0.95, 2, mean(means), stdev(means) / 3**0.5)
    assert (record["low"], record["high"]) == pytest.approx((low, high))
    assert len(json.loads(render(table, Format.JSON))) == 8
    assert render(table, Format.CSV).splitlines()[0].startswith("row,method,graph,protocol,value,mean")


def test_best_and_second_best_are_set_apart_in_every_form(tmp_path: Path) -> None:
    [table] = tables_named(results_of(tmp_path, VALUES, **STUDY)).values()
    markdown, latex = render(table, Format.MARKDOWN), render(table, Format.LATEX)
    grace = 100 * mean(mean(one) for one in VALUES["GRACE", 0])
    prop = 100 * mean(mean(one) for one in VALUES["Propagated features", 0])
    assert prop > grace  # GRACE has the higher floor to beat, and is third
    assert "| DGI | **72.5** ± " in markdown and f"| Propagated features | <u>{prop:.1f}</u> ± " in markdown
    assert r"DGI & \textbf{72.5} $\pm$ " in latex and rf"Propagated features & \underline{{{prop:.1f}}} $\pm$ " in latex
    assert r"$\dagger$" in latex and markdown.count("**") == 2 and markdown.count("<u>") == 1


def test_equals_share_their_rank_whatever_their_order(tmp_path: Path) -> None:
    def ranks(**means: float) -> list[int | None]:
        rows = [{"method": "dgi", "title": title, "epochs": 1 + number} for number, title in enumerate(means)]
        values = {(title, 0): [[value, value]] * 3 for title, value in means.items()}
        study: dict[str, Any] = {"methods": rows, "seeds": 3}
        [table] = tables_named(results_of(tmp_path / "_".join(map(str, means.values())), values, **study)).values()
        return [record["rank"] for record in table.records]  # type: ignore[misc]

    assert ranks(a=0.5, b=0.7, c=0.7, d=0.6) == [None, 1, 1, None]
    assert ranks(a=0.5, b=0.7, c=0.6, d=0.6) == [None, 1, 2, 2]
    assert ranks(a=0.5, b=0.5) == [1, 1]
    assert ranks(a=0.1 + 0.2, b=0.3) == [1, 1]  # 0.30000000000000004 and 0.3
    assert ranks(a=0.5) == [None]


def test_a_method_that_trains_on_labels_is_not_the_best(tmp_path: Path) -> None:
    methods = [*METHODS, {"method": "fs_mlp", "settings": {"split": "paper"}, "title": "FS-MLP"}]
    values = dict(VALUES) | {("FS-MLP", 0): [[0.9], [0.9], [0.9]]}
    [table] = tables_named(results_of(tmp_path, values, **STUDY | {"methods": methods})).values()
    assert "| FS-MLP | 90.0 ± 0.0 |" in render(table, Format.MARKDOWN)


def test_differences_are_paired_by_seed_on_the_splits_that_both_have(tmp_path: Path) -> None:
    values: Values = {
        ("DGI", 0): [[0.60, 0.70], [0.64, 0.72], [0.70, 0.80]],
        ("GRACE", 0): [[0.50, 0.60], [0.62, 0.66]],  # the third encoder is missing
        ("FS-MLP", 0): [[0.40], [0.41], [0.48]],  # the first split of each
    }
    methods = [*METHODS[2:], {"method": "fs_mlp", "settings": {"split": "paper"}, "title": "FS-MLP"}]
    tables = [{"name": "a", "reference": "DGI", "digits": 2}]
    found = tables_named(results_of(tmp_path, values, **STUDY | {"methods": methods, "tables": tables}))
    by_row = {row[0]: row[1] for row in found["a-difference"].rows}
    assert list(by_row) == ["GRACE", "FS-MLP"]
    assert by_row["GRACE"] == f"−{100 * mean([0.65 - 0.55, 0.68 - 0.64]):.2f}"  # two seeds have no interval
    differences = [0.40 - 0.60, 0.41 - 0.64, 0.48 - 0.70]
    half = stats.t.ppf(0.975, 2) * stdev(differences) / 3**0.5
    assert by_row["FS-MLP"] == f"−{-100 * mean(differences):.2f} ± {100 * half:.2f}"


def test_published_figures_stand_beside_where_nothing_else_is_changed(tmp_path: Path) -> None:
    methods = [{"method": "dgi", "title": "DGI", "published": {GRAPH: [71.3, 0.4]}}]
    graphs = [{"input": GRAPH, "title": "A"}, {"input": GRAPH, "title": "B", "treatment": {"direction": "symmetrize"}}]
    values = {("DGI", 0): VALUES["DGI", 0]}
    results = results_of(tmp_path, values, **STUDY | {"methods": methods, "graphs": graphs})
    [table] = tables_named(results).values()
    [row] = [row for row in table.rows if row[0] == "DGI"]
    assert row[1].endswith(" [71.3]") and "[" not in row[2]
    assert table.records[0]["from_published"] == pytest.approx(72.5 - 71.3)
    assert table.records[0]["published_half_width"] == 0.4
    plain = planned(
        write(tmp_path, methods=["fossil", {"method": "fossil", "settings": {"alpha": 0.3}}], graphs=["cora"])
    )
    assert plain.rows[0].published(plain.study.graphs[0]) == (80.02, 0.26)  # Table 2
    assert plain.rows[1].published(plain.study.graphs[0]) is None


def test_methods_can_be_columns(tmp_path: Path) -> None:
    study = STUDY | {"tables": [{"name": "a", "columns": "methods"}]}
    table = tables_named(results_of(tmp_path, VALUES, **study))["a"]
    assert table.header == ["Graph", "Majority", "Features", "Propagated features", "DGI", "GRACE"]
    assert [row[0] for row in table.rows] == ["A", "B"] and table.rows[1][4] == "35.0 (1)"
    assert "| A | 25.0 | " in render(table, Format.MARKDOWN) and "**72.5**" in render(table, Format.MARKDOWN)


def test_costs_are_medians(tmp_path: Path) -> None:
    study = STUDY | {"tables": ["seconds", "memory"]}
    found = tables_named(results_of(tmp_path, VALUES, **study))
    assert {row[0]: row[1] for row in found["seconds"].rows}["DGI"] == "2"  # of 1, 2 and 3
    assert {row[0]: row[1] for row in found["memory"].rows}["DGI"] == "2"
    assert "abacus" in found["seconds"].notes[0]


def test_what_says_nothing_about_good_and_bad_has_no_best(tmp_path: Path) -> None:
    results = results_of(
        tmp_path, VALUES, {"lambda_mean": 0.25}, **STUDY | {"tables": ["lambda_mean", "effective_rank"]}
    )
    found = tables_named(results)
    assert {row[0]: row[1] for row in found["lambda_mean"].rows}["DGI"] == "0.25"
    assert not found["lambda_mean"].emphasis and {row[1] for row in found["effective_rank"].rows} == {"–"}


def test_what_cannot_be_is_no_failure(tmp_path: Path) -> None:
    graphs = [{"input": GRAPH, "title": "A"}, {"input": "gone.csv", "optional": True, "title": "B"}]
    [table] = tables_named(results_of(tmp_path, VALUES, **STUDY | {"graphs": graphs})).values()
    assert {row[2] for row in table.rows} == {"–"}
    assert "B: its files are not at hand; it is optional" in table.notes


def test_a_protocol_that_a_graph_cannot_have_is_no_failure_of_methods(tmp_path: Path) -> None:
    both = STUDY | {"protocols": ["paper", "public"]}  # a made-up graph comes without published splits
    results = results_of(tmp_path, VALUES, **both)
    cell = next(
        cell for cell in results.plan.cells if results.plan.rows[cell.row].title == "GRACE" and cell.column == 0
    )
    results.records[cell.key] = replace(results.records[cell.key], failed="It diverged.")
    paper, public = tables_named(results).values()
    assert {row[1] for row in public.rows} == {row[2] for row in public.rows} == {"–"}
    assert any("comes without the published splits" in note for note in public.notes)
    assert shown(VALUES["DGI", 0]) in paper.rows[3][1] and "GRACE on A: It diverged." in paper.notes


def test_scores_that_failed_are_no_matter_of_what_a_training_took(tmp_path: Path) -> None:
    tables = [{"name": name, "value": name} for name in ("accuracy", "seconds", "lambda_mean")]
    results = results_of(tmp_path, VALUES, **STUDY | {"tables": tables})
    for key, record in results.records.items():
        failed = {name: Scores("paper", failed="No such split.") for name in record.scores}
        results.records[key] = replace(record, scores=failed)
    found = tables_named(results)
    cells = {name: next(row for row in table.rows if row[0] == "DGI")[1] for name, table in found.items()}
    assert cells == {"accuracy": "failed", "seconds": "2", "lambda_mean": "–"}
    assert {name: "No such split" in " ".join(table.notes) for name, table in found.items()} == {
        "accuracy": True, "seconds": False, "lambda_mean": False,
    }  # fmt: skip


def test_failures_are_in_the_table_with_their_reason(tmp_path: Path) -> None:
    results = results_of(tmp_path, {}, **STUDY)
    cell = next(
        cell for cell in results.plan.cells if results.plan.rows[cell.row].title == "GRACE" and cell.column == 1
    )
    store = Store(tmp_path / "small.results")
    record = Record(
        key=cell.key, graph="g", input="g", method="grace", version=1, preset="default", settings={}, treatment={},
        epochs=1, precision="float32", seed=cell.seed, failed="It diverged.",
    )  # fmt: skip
    store.write(record)
    results = Results(results.plan, store)
    [table] = tables_named(results).values()
    assert next(row for row in table.rows if row[0] == "GRACE")[1:] == ["–", "failed"]
    assert "GRACE on B: It diverged." in table.notes
    status = status_table(results.plan, store)
    assert next(row for row in status.rows if row[0] == "GRACE")[2] == "0 of 3, 1 failed"
    assert any("GRACE, seed" in note and "It diverged." in note for note in status.notes)


def test_a_plan_says_what_was_measured_and_what_is_unknown(tmp_path: Path) -> None:
    table = plan_table(results_of(tmp_path, VALUES, **STUDY))
    assert table.rows[2] == ["DGI", "0 of 3", "2 of 3"] and table.rows[3] == ["GRACE", "0 of 3", "3 of 3"]
    assert table.notes[0] == "small: 13 of 24 trainings done, 11 missing"
    assert table.notes[1].startswith("About 2 s one after another for 2 of them, as measured on abacus; at most 2 GB")
    assert table.notes[2].startswith("How long the other 9 take is unknown")
    # What another study has scored under a protocol of its own is not what this one waits for.
    store = Store(tmp_path / "small.results")
    others = {key: store.read(key) for key in planned(tmp_path / "small.yaml").keys}
    for record in filter(None, others.values()):
        store.write(record.with_scores({"another": Scores("released", seconds=900.0)}))
    again = Results(planned(tmp_path / "small.yaml"), store)
    assert plan_table(again).notes[1] == table.notes[1]
    nothing = plan_table(results_of(tmp_path, {}, **STUDY | {"name": "new"}))
    assert nothing.notes[1].startswith("How long they take is unknown")


def test_every_table_is_exported_in_every_form(tmp_path: Path) -> None:
    results = results_of(tmp_path, VALUES, **STUDY | {"tables": [{"name": "a", "reference": "DGI"}]})
    forms = [Format.CSV, Format.MARKDOWN, Format.LATEX, Format.JSON]
    written = export_tables(results, tmp_path / "out", forms)
    assert {path.name for path in written} == {
        f"small-a{kind}.{suffix}" for kind in ("", "-difference") for suffix in ("csv", "md", "tex", "json")
    }
    assert all(path.read_text().strip() for path in written)
    with pytest.raises(SettingError, match="no file"):
        export_tables(results, tmp_path / "out", [Format.TABLE])
    with pytest.raises(SettingError, match="no table 'b'"):
        tables_named(results, "b")


def test_every_table_can_be_named_those_that_come_of_another_too(tmp_path: Path) -> None:
    results = results_of(tmp_path, VALUES, **STUDY | {"tables": [{"name": "a", "reference": "DGI", "ranks": True}]})
    every = tables_named(results)
    assert list(every) == ["a", "a-difference", "a-ranks"]
    for name, table in every.items():
        assert tables_named(results, name) == {name: table}


def test_a_sweep_is_drawn_with_a_panel_for_each_graph(tmp_path: Path) -> None:
    study: dict[str, Any] = {
        "methods": ["fossil"], "sweep": {"name": "alpha", "values": [0, 0.5, 1]}, "seeds": 3,
        "graphs": STUDY["graphs"], "figures": [{"name": "alpha", "title": "By alpha"}],
    }  # fmt: skip
    with pytest.raises(EvaluationError, match="nothing to draw"):
        draw_figures(results_of(tmp_path, {}, **study), None, tmp_path)
    values = {(f"FOSSIL alpha={alpha}", 0): [[0.5, 0.6], [0.55, 0.6], [0.5, 0.7]] for alpha in ("0", "0.5", "1")}
    results = results_of(tmp_path, values, **study)
    png, svg = draw_figures(results, "alpha", tmp_path / "out")
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 5_000
    text = svg.read_text()
    assert text.count('id="axes_') == 2 and "<!-- alpha -->" in text and "<!-- By alpha -->" in text
    assert draw_figure(results, results.plan.study.figures[0], tmp_path / "again")[1].read_text() == text


TWO: dict[str, Any] = {
    "methods": [{"method": "dgi", "title": "DGI $\\bad$"}, {"method": "grace", "title": "_GRACE"}],
    "sweep": {"name": "width", "values": [16, 8]}, "seeds": 3, "title": "How $\\frac{ much it costs",
    "graphs": [{"input": GRAPH, "title": "A $5"}, {"input": OTHER, "title": "$x^2$"}],
}  # fmt: skip


def test_signs_that_matplotlib_would_read_are_drawn_as_they_are(tmp_path: Path) -> None:
    kinds = [{"name": kind, "kind": kind} for kind in ("sweep", "growth", "ranks")]
    rows = [f"{title} width={width}" for title in ("DGI $\\bad$", "_GRACE") for width in (8, 16)]
    values = {(row, column): [[0.5, 0.6], [0.5, 0.7], [0.6, 0.6]] for row in rows for column in (0, 1)}
    results = results_of(tmp_path, values, **TWO | {"figures": kinds})
    drawn = {path.name: path.read_text() for path in draw_figures(results, None, tmp_path) if path.suffix == ".svg"}
    assert all("<!-- How $\\frac{ much it costs -->" in text for text in drawn.values())
    assert {
        f"<!-- {title} -->" in drawn["small-sweep.svg"] for title in ("A $5", "$x^2$", "DGI $\\bad$", "_GRACE")
    } == {True}
    assert {f"<!-- {row} -->" in drawn["small-growth.svg"] for row in rows} == {True}


def test_a_line_of_a_sweep_has_one_colour_and_goes_from_left_to_right_by_what_tables_have(tmp_path: Path) -> None:
    costs = {"name": "costs", "value": "seconds"}
    row = "_GRACE width="
    values = {(f"{row}{width}", column): [[0.5, 0.6]] * 3 for width in (8, 16) for column in (0, 1)}
    values |= {(f"DGI $\\bad$ width={width}", 1): [[0.5, 0.6]] * 3 for width in (8, 16)}  # on the second graph alone
    results = results_of(tmp_path, values, **TWO | {"figures": [costs]})
    seconds = dict(enumerate((1.0, 2.0, 9.0)))
    results.records = {key: replace(one, seconds=seconds[one.seed]) for key, one in results.records.items()}
    first, second = _sweep(results, results.plan.study.figures[0]).axes
    [grace], [dgi, again] = (
        [line for line in panel.get_lines() if line.get_linestyle() != "None" and len(line.get_xdata()) == 2]
        for panel in (first, second)
    )
    assert grace.get_color() == again.get_color() != dgi.get_color()
    legend = first.get_legend()
    assert legend is not None and {text.get_text() for text in legend.get_texts()} == {"DGI $\\bad$", "_GRACE"}
    assert list(grace.get_xdata()) == [8, 16] and list(grace.get_ydata()) == [2.0, 2.0]  # medians, as in the table


def test_growth_is_drawn_against_the_number_of_nodes(tmp_path: Path) -> None:
    figure = {"name": "growth", "kind": "growth", "value": "seconds"}
    results = results_of(tmp_path, VALUES, **STUDY | {"figures": [figure]})
    sizes = {cell.key: 60 * (1 + cell.column) for cell in results.plan.cells}
    results.records = {key: replace(record, nodes=sizes[key]) for key, record in results.records.items()}
    _, svg = draw_figures(results, None, tmp_path)
    text = svg.read_text()
    assert re.search(r"<!-- DGI -->", text) and "<!-- nodes -->" in text and "<!-- seconds of a training -->" in text
    assert "mathdefault" not in text  # ticks read 0.002, not 2 times a power of ten


# Ranks.

THIRD = "csbm:nodes=60,features=8,degree=6,seed=11"
RANKED = STUDY | {
    "graphs": [*STUDY["graphs"], {"input": THIRD, "title": "C"}],
    "methods": [*METHODS, {"method": "fs_mlp", "settings": {"split": "paper"}, "title": "FS-MLP"}],
    "tables": [{"name": "a", "ranks": True}],
    "figures": [{"name": "ranks", "kind": "ranks", "title": "Who is ahead more often, and on how many of the graphs?"}],
}
# By graph, accuracies of what trains without labels: ranks 4 2.5 2.5 1, 1 2 3 4, and on C one is not measured.
MEANS = {"Features": (0.50, 0.90, 0.9), "Propagated features": (0.60, 0.80, 0.8), "DGI": (0.60, 0.70, 0.7)}
GRACE = {("GRACE", 0): [[0.7]] * 3, ("GRACE", 1): [[0.6]] * 3}
SUPERVISED = {("FS-MLP", column): [[0.99]] * 3 for column in range(3)}
OF_RANKS = {(row, at): [[one]] * 3 for row, means in MEANS.items() for at, one in enumerate(means)} | GRACE | SUPERVISED


def test_mean_ranks_are_over_graphs_on_which_all_are_measured(tmp_path: Path) -> None:
    found = tables_named(results_of(tmp_path, OF_RANKS, **RANKED))
    assert list(found) == ["a", "a-ranks"]
    table = found["a-ranks"]
    assert table.header == ["Method", "Mean rank", "A", "B", "C"]
    assert table.rows == [
        ["Propagated features", "2.2", "2.5", "2", "–"],
        ["Features", "2.5", "4", "1", "–"],
        ["GRACE", "2.5", "1", "4", "–"],
        ["DGI", "2.8", "2.5", "3", "–"],
    ]
    ranks = mean_ranks({row: {"A": of[0], "B": of[1]} for row, of in (MEANS | {"GRACE": (0.7, 0.6)}).items()})
    assert [one["mean_rank"] for one in table.records] == list(ranks.mean.values())
    assert {one["critical_difference"] for one in table.records} == {ranks.critical_difference}
    said = " ".join(table.notes)
    assert ranks.warning is not None and ranks.warning in said and "too few graphs" in said
    assert f"{ranks.critical_difference:.1f} apart" in said and f"p = {ranks.p_value:.2g}" in said
    assert "Not counted: C, on which GRACE is not measured" in said and "FS-MLP" in said


def test_costs_are_ranked_from_the_least(tmp_path: Path) -> None:
    results = results_of(tmp_path, OF_RANKS, **RANKED | {"tables": [{"value": "seconds", "name": "s", "ranks": True}]})
    speeds = {"Features": 4.0, "Propagated features": 3.0, "DGI": 2.0, "GRACE": 1.0}
    titles = {cell.key: results.plan.rows[cell.row].title for cell in results.plan.cells}
    results.records = {key: replace(one, seconds=speeds.get(titles[key], 9)) for key, one in results.records.items()}
    table = tables_named(results)["s-ranks"]
    assert [row[:2] for row in table.rows] == [
        ["GRACE", "1.0"], ["DGI", "2.0"], ["Propagated features", "3.0"], ["Features", "4.0"],
    ]  # fmt: skip


def test_ranks_of_a_study_that_is_not_done_say_what_is_missing(tmp_path: Path) -> None:
    some = {place: of for place, of in OF_RANKS.items() if place != ("DGI", 1)}
    results = results_of(tmp_path, some, **RANKED)
    table = tables_named(results)["a-ranks"]
    assert {cell for row in table.rows for cell in row[1:]} == {"–"} and len(table.rows) == 4
    why = "No mean ranks yet: all 4 rows are measured on 1 graph. Missing: DGI on B, GRACE on C."
    assert why in table.notes
    with pytest.raises(EvaluationError, match=r"nothing to draw.*Missing: DGI on B"):
        draw_figures(results, None, tmp_path)


def test_ranks_are_drawn_with_the_warning_that_few_graphs_need(tmp_path: Path) -> None:
    results = results_of(tmp_path, OF_RANKS, **RANKED)
    png, svg = draw_figures(results, "ranks", tmp_path / "out")
    assert png.name == "small-ranks.png" and png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 5_000
    text = " ".join(re.findall(r"<!-- (.+?) -->", svg.read_text(), re.DOTALL)).replace("\n", " ")
    assert (
        "Who is ahead more often, and on how many of the graphs?" in text
        and "GRACE  2.50" in text
        and "FS-MLP  " not in text
    )
    notes = figure_notes(results, "ranks")
    assert "4 methods over 2 graphs" in notes[0] and "too few graphs" in notes[0]
    assert all(note in text for note in notes) and any("C, on which GRACE is not measured" in note for note in notes)
    assert draw_figure(results, results.plan.study.figures[0], tmp_path / "again")[1].read_text() == svg.read_text()
    assert figure_notes(results_of(tmp_path, {}, **STUDY), None) == []


def test_a_figure_that_cannot_be_drawn_yet_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    kinds = [{"name": "ranks", "kind": "ranks"}, {"name": "rank", "kind": "growth", "value": "effective_rank"},
             {"name": "seconds", "kind": "growth", "value": "seconds"}]  # fmt: skip
    results = results_of(tmp_path, {("DGI", 0): VALUES["DGI", 0]}, **STUDY | {"figures": kinds})
    assert [path.name for path in draw_figures(results, None, tmp_path)] == ["small-seconds.png", "small-seconds.svg"]
    first, second = figure_notes(results, None)
    assert first.startswith("No mean ranks yet") and second == "There is nothing to draw in 'rank' yet."
    for name in ("ranks", "rank"):
        with pytest.raises(EvaluationError, match=f"nothing to draw in '{name}'"):
            draw_figures(results, name, tmp_path)


def test_a_study_without_figures_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="asks for no figure"):
        draw_figures(results_of(tmp_path, {}, **STUDY), None, tmp_path)
