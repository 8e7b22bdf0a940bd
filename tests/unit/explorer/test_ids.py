from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fossil.explorer.ids import Ids
from fossil.report.contract import brief

HOSTILE = ["<script>alert(1)</script>", "\xff", "ÿ", "", "a\nb", "\u202eabc", "\ud800", "x" * 10_000]


@given(
    some.lists(some.text("abAB\xffÿß\n", max_size=4), unique=True, min_size=1, max_size=30),
    some.text("abAß\xff", max_size=3),
    some.integers(1, 40),
)
def test_it_finds_what_a_plain_search_finds(ids: list[str], text: str, limit: int) -> None:
    folded = [each.casefold() for each in ids]
    sought = text.casefold()
    tests = (lambda each: each == sought, lambda each: each.startswith(sought), lambda each: sought in each)
    if not sought:
        expected = list(range(len(ids)))
    else:
        expected = list(dict.fromkeys(row for test in tests for row, each in enumerate(folded) if test(each)))
    assert Ids(np.array(ids)).find(text, limit) == expected[:limit]


def test_an_id_that_is_the_text_comes_first_however_far_behind_it_stands() -> None:
    ids = Ids(np.array([f"n{i}" for i in range(70_000)]))
    assert ids.find("n7", 3) == [7, 70, 71]
    assert ids.find("N69999", 3) == [69_999]
    assert ids.find("65536", 3) == [65_536]  # the first of a part
    assert ids.find("nobody", 3) == []


def test_numbers_are_found_by_their_digits() -> None:
    ids = Ids(np.array([10, 7, 17]))
    assert ids.find("7", 5) == [1, 2] and ids[0] == "10"


@pytest.mark.parametrize("key", HOSTILE)
def test_any_text_can_be_an_id(key: str) -> None:
    ids = Ids(np.array(["first", key, "last"], dtype=object))
    assert ids[1] == brief(key) and ids.find(key, 3)[0] == (1 if key else 0)


def test_a_page_has_the_beginning_of_a_huge_id_and_a_search_all_of_it() -> None:
    ids = Ids(np.array(["x" * 2**20 + "end", "short"]))
    assert ids[0] == "x" * 2000 + " … (1,048,579 characters)" and ids[1] == "short"
    assert ids.find("xend", 5) == [0]
