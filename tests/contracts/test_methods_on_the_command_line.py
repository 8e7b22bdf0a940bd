"""What the command line says about methods is true of all of them."""

from __future__ import annotations

import subprocess
import sys
import typing

import pytest
import typer
from typer.testing import CliRunner

from fossil.cli.main import app
from fossil.cli.reading import Reading
from fossil.errors import SettingError
from fossil.methods.registry import get_method, methods, recipes


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "250"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def rows(printed: str) -> list[list[str]]:
    """The cells of the lines of a printed table."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if line.startswith("│")]


def test_the_list_has_every_method_with_its_title_and_paper() -> None:
    found = {name: cells for name, *cells in rows(command("methods"))}
    assert found == {
        name: [kind.title, "yes" if kind.needs_labels else "no", kind.paper] for name, kind in methods().items()
    }


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_method_is_shown_with_its_settings_presets_and_recipes(name: str) -> None:
    printed, kind = command("methods", "--method", name), get_method(name)
    assert [cells[0] for cells in rows(printed) if cells[0]] == list(kind.Config.model_fields)
    assert f"presets: {', '.join(kind.presets)}," in printed
    assert f"recipes: {', '.join(recipes(name))}" in printed
    assert (
        f"epochs: {kind.epochs_in_words()} unless" if kind.trained else "epochs: none, nothing is trained"
    ) in printed


def test_an_unknown_method_is_refused() -> None:
    done = CliRunner().invoke(app, ["methods", "--method", "graze"])
    assert isinstance(done.exception, SettingError) and "grace" in done.exception.remedy


def test_the_help_of_label_names_the_methods_that_train_on_labels() -> None:
    _, option = typing.get_args(typing.get_type_hints(Reading, include_extras=True)["label"])
    assert isinstance(option, typer.models.OptionInfo) and option.help is not None
    words = option.help.replace(",", " ").split()
    assert {word for word in words if word in methods()} == {
        name for name, kind in methods().items() if kind.needs_labels
    }


@pytest.mark.parametrize("asked", [["--help"], ["embed", "--help"], ["methods", "--help"]])
def test_help_does_not_load_what_training_needs(asked: list[str]) -> None:
    script = (
        "import sys; from fossil.cli.main import app\n"
        f"try: app({asked!r})\nexcept SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy', 'fossil.methods.registry')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Usage" in done.stdout, done.stderr
