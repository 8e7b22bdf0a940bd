from __future__ import annotations

import ast
import inspect
import pickle
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import fossil
from fossil.cli.main import app
from fossil.errors import (
    SWITCHES,
    TREATMENTS,
    DataError,
    EvaluationError,
    FossilError,
    FossilWarning,
    GraphError,
    RunError,
    SettingError,
    TransportError,
    UnknownNodeError,
    in_python,
)
from fossil.graph.findings import Treatment
from fossil.readers.read import read_graph
from fossil.studies.work import Options

PACKAGE = Path(fossil.__file__).parent
KINDS = (DataError, EvaluationError, FossilError, GraphError, RunError, SettingError, TransportError, UnknownNodeError)


def messages() -> Iterator[tuple[str, str]]:
    """Every text of the package that has a flag in it and is no documentation, with its place.

    The command line is left out, and so is the module that translates; what is filled in later reads `7`.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        if "cli" in path.parts or path.name == "errors.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        written = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if id(node) in inside | written:
                continue
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if re.search(r"(?<![\w-])--[a-z]", text):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", text


def options() -> dict[str, Any]:
    """Every option of the command line, by its spelling."""
    waiting, found = [typer.main.get_command(app)], {}
    while waiting:
        command: Any = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        for parameter in command.params:
            found |= {name: parameter for name in (*parameter.opts, *parameter.secondary_opts) if name[:2] == "--"}
    return found


def keywords() -> set[str]:
    runs = (fossil.Run.embed, fossil.Run.neighbours)
    calls = (fossil.convert, fossil.embed, fossil.evaluate, read_graph, Options, *runs)
    return {name for call in calls for name in inspect.signature(call).parameters} | set(Treatment.model_fields)


@pytest.mark.parametrize(
    ("flags", "python"),
    [
        ("Go on with --resume.", "Go on with resume=True."),
        ("--resume and --force contradict.", "resume=True and force=True contradict."),
        ("Train with --no-recipe or --no-replay.", "Train with use_recipe=False or replay=False."),
        ("Use --structural-features.", "Use structural_features=True."),
        ("Choose another --out; it is taken.", "Choose another out; it is taken."),
        ("Lower it (--nodes-per-class 3).", "Lower it (nodes_per_class=3)."),
        ("Name it: --label COLUMN.", "Name it: label=COLUMN."),
        ("Use --device cuda:0.", "Use device='cuda:0'."),
        ("Use --direction symmetrize.", "Use treatment={'direction': 'symmetrize'}."),
        ("With --self-loops keep or so.", "With treatment={'self_loops': 'keep'} or so."),
        (
            "Fill with --missing zero --missing-indicator.",
            "Fill with treatment={'missing': 'zero'}, treatment={'missing_indicator': True}.",
        ),
        ("Say --column city=drop, please.", "Say roles={'city': 'drop'}, please."),
        ("Say --column 'home town=drop'.", "Say roles={'home town': 'drop'}."),
        ("Say --column a=b=drop.", "Say roles={'a=b': 'drop'}."),
        ("--column x y=drop or --column x y=id", "roles={'x y': 'drop'} or roles={'x y': 'id'}"),
        ("Try --set alpha=0.3.", "Try settings={'alpha': 0.3}."),
        ("--set encoder=gcn, --set cap=null", "settings={'encoder': 'gcn'}, settings={'cap': None}"),
        ("Score with --protocol paper --splits 3.", "Score with protocol='paper', splits=3."),
        ("Make one with: fossil embed INPUT --out DIR", "Make one with: fossil.embed(INPUT, out=DIR)"),
        ("Then fossil evaluate RUN.", "Then fossil.evaluate(RUN)."),
        ("no--flag, a -- b and ids like x--out", "no--flag, a -- b and ids like x--out"),
    ],
)
def test_flags_become_keywords(flags: str, python: str) -> None:
    assert in_python(flags) == python


@pytest.mark.parametrize(("place", "text"), list(messages()))
def test_every_message_names_flags_that_exist_and_keywords_that_exist(place: str, text: str) -> None:
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)) <= options().keys()
    translated = in_python(text)
    assert "--" not in translated
    named = set(re.findall(r"(\w+)=", translated)) - set(re.findall(r"(\w+)=", text))
    assert named <= keywords() | {"settings", "roles", "treatment"}, translated
    # A flag that takes a value, followed by a word that is none.
    assert not re.search(r"='(and|or|to|the|with|in|for|of|on|as|is|was|at|then|here)'", translated), translated


def test_messages_are_found() -> None:
    assert len(list(messages())) > 20


def test_the_switches_are_those_of_the_command_line() -> None:
    flags = {name.removeprefix("--").removeprefix("no-") for name, option in options().items() if option.is_flag}
    only_there = {"help", "version", "map", "plan", "install-completion", "show-completion"}
    assert flags - only_there == set(SWITCHES)


def test_the_treatments_are_those_of_the_reader() -> None:
    assert {name.replace("_", "-") for name in Treatment.model_fields} == set(TREATMENTS)
    assert set(TREATMENTS) <= {name.removeprefix("--") for name in options()}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_has_flags_for_the_command_line_and_keywords_for_python(kind: type[FossilError]) -> None:
    error = kind("There is a run.", remedy="Use --force.")
    assert (error.what, error.remedy) == ("There is a run.", "Use --force.")
    assert str(error) == "There is a run. Use force=True."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.what, again.remedy) == (kind, str(error), error.what, error.remedy)


def test_a_warning_does_so_too() -> None:
    with pytest.warns(FossilWarning) as caught:
        warnings.warn("Train with --epochs 9.", FossilWarning, stacklevel=1)
    assert str(caught[0].message) == "Train with epochs=9."
    assert caught[0].message.args == ("Train with --epochs 9.",)


def test_a_remedy_in_python_can_be_followed(tmp_path: Path) -> None:
    settings = {"width": 4}
    source = "csbm:nodes=30,features=6"
    fossil.embed(source, method="dgi", out=tmp_path / "run", epochs=1, settings=settings, device="cpu")
    with pytest.raises(RunError, match=r"resume=True, replace it with force=True, or choose another out\."):
        fossil.embed(source, method="dgi", out=tmp_path / "run", epochs=1, settings=settings, device="cpu")
