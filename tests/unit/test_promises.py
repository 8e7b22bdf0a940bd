"""Every sentence of the page of promises ends in tests by their names, and those tests are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
LINKS = re.findall(r"\[([^\]]+)\]\((\.\./tests/[^)]+\.py)\)", PAGE.read_text(encoding="utf-8"))
SENTENCES = re.findall(r"^- .*?(?=^- |^$)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("name", "file"), LINKS, ids=[name for name, _ in LINKS])
def test_the_test_that_a_sentence_names_is_in_the_file_it_links_to(name: str, file: str) -> None:
    test, _, case = name.partition(": ")
    assert f"def test_{test.replace(' ', '_')}(" in (PAGE.parent / file).read_text(encoding="utf-8")
    if case:  # of one test for many: the list of them is a module beside it
        cases = (PAGE.parent / file).with_name(Path(file).name.removeprefix("test_"))
        assert f'"{case}"' in cases.read_text(encoding="utf-8")


def test_every_sentence_that_promises_something_names_a_test() -> None:
    assert len(LINKS) > 50
    page = PAGE.read_text(encoding="utf-8").partition("## What is not promised")[0]
    promised = [sentence for sentence in SENTENCES if sentence in page and not sentence.startswith("- It can take")]
    assert len(promised) > 25
    assert [sentence for sentence in promised if "](../tests/" not in sentence] == []
