"""Study files: what is accepted, and what is said about the rest."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import yaml
from small_study import GRAPH, values

from fossil.errors import SettingError
from fossil.runs.plan import resolve_settings
from fossil.studies.entries import GraphEntry, MethodEntry, Study, TableEntry
from fossil.studies.file import build_study, read_study
from fossil.studies.plan import open_study

ROOT = Path(__file__).parents[3]
STUDIES = sorted((ROOT / "studies").glob("*.yaml"))


def test_a_text_stands_for_the_most_important_key_and_a_number_for_the_first_seeds() -> None:
    study = build_study(values(graphs="digits", methods="dgi", protocols="paper", seeds=3))
    assert [graph.input for graph in study.graphs] == ["digits"] and study.seeds == (0, 1, 2)
    assert [method.method for method in study.methods] == ["dgi"] and study.protocols == ("paper",)
    assert [(table.name, table.protocol) for table in study.wanted_tables()] == [("accuracy", "paper")]
    assert build_study(values(seeds=[7, 2])).seeds == (7, 2)


def test_tables_are_named_by_their_protocol_where_there_are_several() -> None:
    study = build_study(values(protocols=["paper", "converged"], tables=["accuracy", {"value": "seconds"}]))
    assert [table.name for table in study.wanted_tables()] == ["accuracy-paper", "seconds-paper"]
    assert [table.name for table in build_study(values(protocols=["paper", "released"])).wanted_tables()] == [
        "accuracy-paper",
        "accuracy-released",
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"graps": ["digits"]}, "unknown key 'graps'. Did you mean 'graphs'"),
        ({"graphs": [{"inptu": "digits"}]}, r"graphs\[0\]: unknown key 'inptu'. Did you mean 'input'"),
        ({"methods": ["dgi", {"setings": {}}]}, r"methods\[1\]: unknown key 'setings'. Did you mean 'settings'"),
        ({"methods": [{"settings": {}}]}, r"methods\[0\]: method is missing"),
        ({"variants": [{"epoch": 3}]}, r"variants\[0\]: unknown key 'epoch'. Did you mean 'epochs'"),
        ({"sweep": {"name": "alpha", "value": [1]}}, "sweep: unknown key 'value'. Did you mean 'values'"),
        ({"tables": [{"value": "acuracy"}]}, r"tables\[0\]: value='acuracy' is not accepted"),
        ({"tables": [{"refrence": "x"}]}, r"tables\[0\]: unknown key 'refrence'. Did you mean 'reference'"),
        ({"figures": [{"name": "a", "kind": "pie"}]}, r"figures\[0\]: kind='pie' is not accepted"),
        ({"figures": [{"name": "a", "kind": "ranks"}]}, "'a' asks for mean ranks over one graph"),
        ({"tables": [{"name": "a", "ranks": True}]}, "'a' asks for mean ranks over one graph"),
        (
            {"graphs": ["cora", "digits"], "tables": [{"value": "lambda_mean", "ranks": True}]},
            "'lambda_mean' asks for mean ranks of lambda_mean, of which more is neither better nor worse",
        ),
        ({"figures": ["a"]}, "a figure draws a sweep, and the study has none"),
        ({"graphs": ["korra"]}, r"graphs\[0\]: 'korra' is neither a catalogue name nor a path.*Did you mean 'cora'"),
        ({"graphs": ["town/nodes.csv"]}, "neither a catalogue name nor a path"),
        ({"graphs": [{"input": GRAPH, "treatment": {"directoin": "keep"}}]}, "directoin.*Did you mean 'direction'"),
        ({"graphs": [GRAPH, GRAPH]}, "graph .* is there twice"),
        ({"graphs": [{"input": "cora", "title": "A"}, {"input": "digits", "title": "A"}]}, "two graphs are called 'A'"),
        ({"graphs": ["cora", {"input": "cora", "treatment": {"isolated": "drop"}}]}, "two graphs are called 'Cora'"),
        ({"graphs": []}, "graphs is an empty list"),
        ({"methods": []}, "methods is an empty list"),
        ({"protocols": []}, "protocols is an empty list"),
        ({"methods": [{"method": "dgi", "published": {"coar": 80}}]}, "published for 'coar'.*Did you mean 'cora'"),
        ({"variants": [{"published": {"town.csv": 80}}]}, "published for 'town.csv', which is no input of a graph"),
        ({"methods": None}, "methods is empty"),
        ({"protocols": ["convergd"]}, "unknown protocol 'convergd'. Did you mean 'converged'"),
        ({"tables": [{"protocol": "released"}]}, "asks for protocol 'released', which the study does not score"),
        ({"tables": ["test_maximum"]}, "asks for test_maximum under 'paper', which has none. Use protocol: released"),
        (
            {"sweep": {"name": "a", "values": [1]}, "figures": [{"name": "a", "value": "test_maximum"}]},
            "'a' asks for test_maximum under 'paper'",
        ),
        ({"seeds": 0}, "seeds=0 is not accepted"),
        ({"seeds": 10**9}, "seeds=1000000000 is not accepted"),
        ({"seeds": [1, 1]}, "has one twice"),
        ({"seeds": [True]}, r"seeds=\[True\] is not accepted"),
        ({"splits": 0}, "splits=0 is not accepted"),
        ({"store": "a\0b"}, "store='a.x00b' is not accepted"),
        ({"store": ""}, "store='' is not accepted"),
        ({"precision": "float64"}, "precision='float64' is not accepted"),
        ({"keep": "all"}, "keep='all' is not accepted"),
        ({"name": "../x"}, r"name='\.\./x' is not accepted"),
        ({"tables": [{"name": "a/b"}]}, "'a/b' is no name"),
        ({"tables": [{"name": "a"}, {"name": "a", "value": "seconds"}]}, "the table a is there twice"),
        ({"tables": [{"name": "a"}, {"name": "A", "value": "seconds"}]}, "the table a is there twice"),
        (
            {"tables": [{"name": "a", "reference": "DGI"}, {"name": "a-difference"}]},
            "the table a-difference is there twice",
        ),
        (
            {"graphs": ["cora", "digits"], "tables": [{"name": "a", "ranks": True}, {"name": "a-ranks"}]},
            "the table a-ranks is there twice",
        ),
        (
            {"search": {"trials": 1}, "tables": [{"name": "searched-spread"}]},
            "the table searched-spread is there twice",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_said_with_its_place(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError, match=told) as caught:
        build_study({**values(), **changes})
    assert caught.value.remedy and "PydanticUndefined" not in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: &x [1, *x]\n", "an alias of what it is part of in line 1"),
        (b"a: *x\n", "no YAML that can be read"),
        (b"name: a\nname: b\n", "the key 'name' is there twice"),
        (b"[" * 1000, "more than 20 levels"),
        (b"name: [\n", "no YAML that can be read"),
        (b"\xff\xfe\x00", "no YAML that can be read"),
        (b"- a\n", "its content is a list"),
        (b"", "its content is empty"),
        (b"? [a]\n: b\n", "unknown key|no YAML"),
        (b"name: !!python/object/apply:os.system [ls]\n", "no YAML that can be read"),
        (b"#" * (2**20 + 1), "1,048,577 bytes"),
    ],
    ids=[
        "endless alias",
        "unknown alias",
        "key twice",
        "deep",
        "open bracket",
        "binary",
        "list",
        "empty",
        "odd key",
        "python",
        "large",
    ],
)
def test_a_file_that_is_no_study_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingError, match=told):
        read_study(file)


def test_a_bomb_of_aliases_is_refused_before_it_is_unfolded(tmp_path: Path) -> None:
    lines = ['a0: &a0 ["x"]'] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    (tmp_path / "a.yaml").write_text("\n".join(lines))
    with pytest.raises(SettingError, match="more than 200,000 values by line 6"):
        read_study(tmp_path / "a.yaml")


def test_an_alias_saves_writing_things_twice(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: a\ngraphs: [digits]\nmethods:\n"
        "  - {method: dgi, settings: &narrow {width: 8}}\n  - {method: grace, settings: *narrow}\n"
    )
    assert [one.settings for one in read_study(tmp_path / "a.yaml").methods] == [{"width": 8}, {"width": 8}]


def test_a_mapping_takes_over_what_another_says_and_changes_some(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "name: a\ngraphs: [digits]\nmethods:\n"
        "  - &one { method: dgi, epochs: 3, settings: &s { width: 8 } }\n"
        "  - &two { <<: *one, title: Longer, epochs: 9 }\n"
        "  - { <<: *two, title: Wider, settings: { <<: *s, width: 16 } }\n"
    )
    first, second, third = read_study(file).methods
    assert (first.epochs, second.epochs, third.epochs) == (3, 9, 9)
    assert (first.settings, second.settings, third.settings) == ({"width": 8}, {"width": 8}, {"width": 16})
    assert (second.title, third.title) == ("Longer", "Wider")
    file.write_text("x: &a { b: 1 }\ny: { <<: *a, <<: *a }\n")
    with pytest.raises(SettingError, match="the key '<<' is there twice"):
        read_study(file)
    bomb = "".join(f"x{n}: &x{n} {{ <<: [*x{n - 1}, *x{n - 1}], k{n}: 1 }}\n" for n in range(1, 40))
    file.write_text("x0: &x0 { k: 1 }\n" + bomb)
    with pytest.raises(SettingError, match="more than 200,000 values"):
        read_study(file)


def test_numbers_are_read_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: a\ngraphs: [digits]\nmethods: [dgi]\nsweep: {name: learning_rate, values: [1e-3, 5E-4, 0.01]}\n"
    )
    study = read_study(tmp_path / "a.yaml")
    assert study.sweep is not None and study.sweep.values == (0.001, 0.0005, 0.01)


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_the_studies_of_the_paper_are_valid_and_can_be_planned(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(copy(file, tmp_path))  # away from tables that somebody may have made beside it
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")  # what somebody has downloaded makes no difference
    monkeypatch.delenv("FOSSIL_DATA", raising=False)
    plan, _ = open_study(file)
    assert plan.study.name == file.stem
    named = [number for number, graph in enumerate(plan.study.graphs) if graph.input.partition(":")[0] != "csbm"]
    assert sorted(plan.unreadable) == named  # nothing is downloaded to make a plan
    made = len(plan.study.graphs) - len(named)
    assert len(plan.cells) == made * len(plan.rows) * len(plan.study.seeds)
    for row in plan.rows:  # without the graphs no settings were resolved
        resolve_settings(row.kind, row.preset, "", row.settings)


def test_the_guide_has_every_key_and_its_example_is_valid() -> None:
    guide = (ROOT / "docs" / "guides" / "how-do-i-run-a-whole-comparison.md").read_text(encoding="utf-8")
    keys = [name for kind in (Study, GraphEntry, MethodEntry, TableEntry) for name in kind.model_fields]
    assert not [name for name in keys if f"`{name}" not in guide]
    [example] = re.findall(r"^```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    study = build_study(yaml.safe_load(example))
    assert len(study.methods) == 4 and len(study.graphs) == 2 and len(study.seeds) == 5


def test_there_is_a_study_for_every_table_and_figure() -> None:
    assert {file.stem for file in STUDIES} >= {
        "table2", "ablation_similarity", "ablation_encoder", "ablation_generator", "ablation_fusion", "alpha", "growth",
        "large", "comparison", "ablation_channels",
    }  # fmt: skip
