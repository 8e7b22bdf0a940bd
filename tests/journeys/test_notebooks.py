"""The notebooks run from top to bottom in a kernel of their own, and show what they promise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import environment

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_output_is_kept_in_the_repository(path: Path) -> None:
    """What a notebook shows depends on versions; it is run by the test below, and by readers."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The notebook about two CSV files, after it was run in an empty folder."""
    pytest.importorskip("ipykernel", reason="ipykernel, which runs notebooks, is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
    import nbformat

    folder = tmp_path_factory.mktemp("town")
    notebook = nbformat.read(EXAMPLES / "two_csv_files.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment())
    return notebook, folder


def shown(notebook: Any, kind: str) -> list[str]:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    if kind == "text":
        return [output.text for output in outputs if output.output_type == "stream"]
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


def test_vectors_and_runs_show_themselves(town: tuple[Any, Path]) -> None:
    fresh, scored = shown(town[0], "text/html")
    assert "150" in fresh and "not scored yet" in fresh and "<svg" in fresh
    assert "accuracy (paper)" in scored and "smith" in scored and "<svg" in scored


def test_scores_come_with_what_they_have_to_beat(town: tuple[Any, Path]) -> None:
    said = "".join(shown(town[0], "text"))
    scores = {name.strip(): float(value) for name, value in re.findall(r"^(.+?) +([\d.]+) %$", said, re.MULTILINE)}
    assert len(scores) == 3 and any("eatures" in name for name in scores)
    best = next(value for name, value in scores.items() if name.startswith("FOSSIL"))
    assert best > 55  # one in three is chance


def test_newcomers_are_near_their_friends_and_vectors_leave(town: tuple[Any, Path]) -> None:
    said = "".join(shown(town[0], "text"))
    near = {
        name: re.findall(r"'(\w+)'", listed) for name, listed in re.findall(r"^(\w+) is nearest to (.+)$", said, re.M)
    }
    assert near["kim"].count("baker") >= 3 and near["leo"].count("smith") >= 3
    assert len((town[1] / "town.csv").read_text(encoding="utf-8").splitlines()) == 151
