"""One file is all it takes: the example of the guide becomes a method by being put beside the others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_method_contract as contract
from typer.testing import CliRunner

import fossil
import fossil.methods
from fossil.cli.main import app
from fossil.methods.registry import methods

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "how-do-i-add-a-method.md"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file of the guide, in a folder that the package looks into as into its own."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    [source] = [block for block in blocks if "class Tiny(" in block]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tiny.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(fossil.methods, "__path__", [*fossil.methods.__path__, str(tmp_path / "more")])
    methods.cache_clear()
    yield
    methods.cache_clear()
    sys.modules.pop("fossil.methods.tiny", None)
    vars(fossil.methods).pop("tiny", None)


def command(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.mark.usefixtures("tiny")
def test_it_is_trained_listed_used_and_scored_from_the_command_line(tmp_path: Path) -> None:
    trained = command(
        "embed", "digits", "--method", "tiny", "--epochs", "40", "--device", "cpu", "--out", tmp_path / "a"
    )
    assert "vectors of width 64" in trained and re.search(r"epoch 40/40  loss \S+  smooth \S+  decorrelated", trained)
    scored = command("evaluate", tmp_path / "a", "--splits", "1", "--protocol", "released", "--device", "cpu")
    row = next(line for line in scored.splitlines() if "Tiny" in line)
    assert float(re.findall(r"\d+\.\d+", row)[0]) > 50  # ten classes: chance is ten per cent
    assert "Tiny" in command("methods")
    assert "decorrelation" in command("methods", "--method", "tiny")
    command("embed", "digits", "--run", tmp_path / "a", "--out", tmp_path / "again")


@pytest.mark.usefixtures("tiny")
def test_it_is_found_from_python() -> None:
    result = fossil.embed("digits", method="tiny", epochs=2, settings={"width": 8})
    assert result.vectors.shape == (1797, 8) and result.history[-1]["loss"] > 0


@pytest.mark.usefixtures("tiny")
def test_it_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for graph in contract.KINDS:
        contract.test_two_steps_give_finite_losses_weights_and_embeddings("tiny", "default", graph)
    contract.test_a_graph_without_edges_is_trained_on_or_refused_with_a_remedy("tiny", "default")
    contract.test_every_parameter_is_in_one_group_and_learns_from_some_objective("tiny", "default")
    contract.test_equal_seeds_give_equal_bits_and_other_seeds_other_embeddings("tiny", "default")
    contract.test_building_and_training_leave_the_ambient_generators_alone("tiny", monkeypatch)
    contract.test_encoding_is_deterministic_without_gradient_and_changes_nothing("tiny", "default")
    contract.test_saved_weights_and_settings_rebuild_the_same_method("tiny", "default", tmp_path)
    contract.test_embeddings_follow_the_nodes_when_they_are_renumbered("tiny", "default")
    contract.test_every_setting_says_what_it_means("tiny")
    contract.test_every_value_of_the_search_space_is_a_valid_setting("tiny")


def test_without_its_file_it_is_unknown() -> None:
    assert "tiny" not in methods()
