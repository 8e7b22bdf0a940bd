from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fossil
from fossil.errors import SettingError

HEAVY = ("torch", "torch_geometric", "pandas", "networkx", "sklearn", "matplotlib", "scipy")


@pytest.mark.parametrize("name", fossil.__all__)
def test_public_names_resolve(name: str) -> None:
    assert getattr(fossil, name) is not None
    assert name in dir(fossil)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'embedd'"):
        _ = fossil.embedd


@pytest.mark.parametrize("module", ["fossil", "fossil.cli.main"])
def test_importing_stays_light(module: str) -> None:
    check = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_embed_records_where_a_path_came_from(tmp_path: Path) -> None:
    nodes = "".join(f"n{i},{i},{i % 3},{i % 5},{i % 7}\n" for i in range(20))
    (tmp_path / "nodes.csv").write_text("id,u,v,w,x\n" + nodes)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 20}\n" for i in range(20)))
    settings = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 4}
    both = {"direction": "symmetrize"}
    result = fossil.embed(tmp_path, out=tmp_path / "run", epochs=1, settings=settings, treatment=both, device="cpu")
    assert fossil.Run.open(tmp_path / "run").config.source == str(tmp_path)
    assert result.method.name == "fossil_channels"
    assert result["n7"].shape == (5 * (4 + 4),) and len(result) == 20  # trained and untrained rows of five channels


@pytest.mark.parametrize("choices", [{"seed": -1}, {"resume": True, "force": True}])
def test_impossible_choices_are_refused_before_anything_is_read(choices: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        fossil.embed("no/such/file.csv", **choices)


@pytest.mark.parametrize("name", ["resume", "force"])
def test_a_run_that_is_nowhere_is_neither_continued_nor_replaced(name: str) -> None:
    with pytest.raises(SettingError, match=rf"^{name}=True has no effect without out\. Name the run folder: out=DIR$"):
        fossil.embed("no/such/file.csv", **{name: True})


@pytest.mark.parametrize("source", ["csbm:nodes=30", "no/such/file.csv"])
def test_an_argument_that_there_is_not_is_refused_whatever_its_value(source: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'reply'"):
        fossil.embed(source, reply=False)


def test_when_steps_are_sampled_is_said_in_one_way() -> None:
    with pytest.raises(SettingError, match="sampled='sometimes' is not accepted"):
        fossil.embed("csbm:nodes=30", sampled="sometimes")  # type: ignore[arg-type]


def test_embed_takes_a_treatment_as_plain_values() -> None:
    settings = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 4}
    with pytest.raises(fossil.FossilError, match="direction='both' is not accepted"):
        fossil.embed("digits", treatment={"direction": "both"}, settings=settings)


def test_a_parameter_without_a_value_is_refused_with_an_example_of_its_own_kind() -> None:
    with pytest.raises(SettingError, match="'nodes' is not of the form") as caught:
        fossil.open_graph("csbm:nodes")
    assert caught.value.remedy == "Example: csbm:nodes=2000"


def test_a_run_is_made_opened_used_and_scored_by_public_names_alone(tmp_path: Path) -> None:
    settings = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 4}
    source = "csbm:nodes=60,features=6"
    result = fossil.embed(source, out=tmp_path / "run", epochs=1, settings=settings, device="cpu")
    run = fossil.load(tmp_path / "run")
    assert (
        isinstance(result, fossil.FitResult) and isinstance(result, fossil.Embeddings) and isinstance(run, fossil.Run)
    )
    assert run.embed(source)["0"].shape == run.embeddings["0"].shape == result["0"].shape == (5 * (4 + 6),)
    rows = [fossil.evaluate(given, splits=2, device="cpu") for given in (result, run, tmp_path / "run")]
    assert rows[0] == rows[1] == rows[2] and rows[0][0].accuracy.n == 2
