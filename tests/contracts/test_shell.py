"""The command as a shell sees it: by module name, and with names to complete."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fossil.cli.main import run
from fossil.datasets.catalog import names
from fossil.evaluation.protocol import PROTOCOLS
from fossil.methods import DEFAULT_METHOD
from fossil.methods.registry import get_method, methods
from fossil.runs.exports.registry import exporters
from fossil.runs.loggers.registry import loggers

AS_MODULE = (sys.executable, "-m", "fossil")
AS_SCRIPT = (sys.executable, "-c", "from fossil.cli.main import run; run()")  # what the installed script does


def say(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COLUMNS": "120", "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)


def offered(line: str) -> list[str]:
    """What bash is told to offer where the cursor stands, at the end of the line."""
    at = str(line.count(" "))
    done = say(*AS_MODULE, _FOSSIL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=at)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_script_is_the_function_that_the_module_runs() -> None:
    [script] = [point for point in entry_points(group="console_scripts") if point.name == "fossil"]
    assert script.load() is run


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["data", "describe", "no/such.csv"], ["embedd"]])
def test_the_module_is_the_command(words: list[str]) -> None:
    module, script = say(*AS_MODULE, *words), say(*AS_SCRIPT, *words)
    assert (module.returncode, module.stdout, module.stderr) == (script.returncode, script.stdout, script.stderr)
    assert module.stdout + module.stderr
    assert "python" not in module.stdout + module.stderr and "__main__" not in module.stdout + module.stderr


def test_a_shell_can_complete_what_has_a_name() -> None:
    assert {"embed", "evaluate", "methods", "data", "doctor"} <= set(offered("fossil "))
    assert "--structural-features" in offered("fossil embed --str")
    assert offered("fossil embed ") == offered("fossil data describe ") == list(names())
    assert offered("fossil embed co") == [name for name in names() if name.startswith("co")] != []
    assert offered("fossil embed cora --method ") == offered("fossil methods --method ") == sorted(methods())
    assert offered("fossil embed cora --preset ") == list(get_method(DEFAULT_METHOD).presets)
    assert offered("fossil embed cora --method fossil --preset ") == list(get_method("fossil").presets)
    assert offered("fossil embed cora --method dssl --preset ") == list(get_method("dssl").presets)
    assert offered("fossil embed cora --method nosuch --preset ") == []
    settings = [f"{name}=" for name in get_method("dgi").Config.model_fields]
    assert offered("fossil embed cora --method dgi --set ") == settings
    assert offered("fossil evaluate run --protocol ") == list(PROTOCOLS)
    assert offered("fossil export run --to ") == sorted(exporters())
    assert offered("fossil embed cora --log ") == sorted(loggers())


def test_a_path_is_left_to_the_shell(tmp_path: Path) -> None:
    assert offered(f"fossil embed {tmp_path}/") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str) -> None:
    # What --show-completion prints, without asking which shell runs the tests.
    done = say(*AS_MODULE, _FOSSIL_COMPLETE=f"source_{shell}")
    assert done.returncode == 0 and "_FOSSIL_COMPLETE=complete" in done.stdout, done.stderr
    assert {"--install-completion", "--show-completion"} <= set(offered("fossil --"))
