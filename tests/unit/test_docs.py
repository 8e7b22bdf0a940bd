"""The documentation says what is true: links resolve, commands parse, examples run, generated pages are current."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from fossil.cli.main import app
from fossil.methods.registry import get_method, methods
from fossil.settings import parse_assignments

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(page: Path, language: str) -> list[str]:
    return [body for found, body in _FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the heading of every relative link."""
    for target in _LINK.findall(prose(page)):
        if "://" not in target and not target.startswith("mailto:"):
            file, _, heading = target.partition("#")
            yield (page.parent / file if file else page), heading


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, made as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands() -> list[tuple[str, list[str]]]:
    """Return every `fossil` command line of the pages, with the page it stands on."""
    found = []
    for page, name in zip(PAGES, NAMES, strict=True):
        for block in blocks(page, "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["fossil"]:
                    found.append((name, words[1:]))
    return found


def parse(words: list[str]) -> Any:
    """Let the command line parse `words` without running anything."""
    assert "--install-completion" not in words, "it would write to the shell's set-up while it is parsed"
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command.make_context("fossil", list(words))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))  # where Python looks when a script in that folder is run
    return importlib.import_module


def test_the_pages_that_are_made_from_the_code_are_current(script: Callable[[str], ModuleType]) -> None:
    made = script("make_pages")
    for path, expected in made.pages().items():
        assert path.exists() and path.read_text(encoding="utf-8") == expected, "run: python docs/make_pages.py"
    assert set(made.FOLDER.glob("*.md")) == {path for path in made.pages() if path.parent == made.FOLDER}


def test_every_method_is_compared_and_its_cost_is_known(script: Callable[[str], ModuleType]) -> None:
    costs = script("make_pages").pages()[ROOT / "docs" / "methods" / "index.md"].partition("## What a step costs")
    for name in methods():
        assert f"| `{name}` |" in costs[0] and f"| `{name}` |" in costs[2], name


def test_every_decision_says_whether_it_holds() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert len(pages) >= 26
    for page in pages:
        status = re.search(
            r"^Status: (in force|superseded by \[decision \d+\])", page.read_text(encoding="utf-8"), re.M
        )
        assert status, page.name


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [file for file, _ in links(page) if file.exists()]
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} <= reached


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_resolve(page: Path) -> None:
    broken = [str(file) for file, _ in links(page) if not file.exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_to_headings_resolve(page: Path) -> None:
    broken = [
        f"{file.name}#{heading}"
        for file, heading in links(page)
        if heading and file.exists() and heading not in headings(file)
    ]
    assert not broken


@pytest.mark.parametrize(("page", "words"), commands(), ids=lambda value: value if isinstance(value, str) else None)
def test_commands_parse(page: str, words: list[str]) -> None:
    context = parse(words)
    if context.params.get("assignments"):
        kind = get_method(context.params["method"])
        kind.configure(context.params["preset"], parse_assignments(context.params["assignments"]))


def test_a_command_with_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="no-such-option"):
        parse(["embed", "digits", "--out", "x", "--no-such-option"])


def test_commands_are_found() -> None:
    pages = {page for page, _ in commands()}
    assert {"README.md", "docs/start.md", "docs/guides/how-do-i-run-an-ablation.md"} <= pages


@pytest.mark.parametrize("page", [page for page in PAGES if ">>> " in page.read_text(encoding="utf-8")], ids=str)
def test_examples_run(page: Path) -> None:
    source = "".join(block for block in blocks(page, "python") if ">>> " in block)
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_blocks_compile(page: Path) -> None:
    for block in blocks(page, "python"):
        if ">>> " not in block:
            compile(block, str(page), "exec")
