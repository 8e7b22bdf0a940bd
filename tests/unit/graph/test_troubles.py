"""Everything that is wrong, in one message."""

from __future__ import annotations

import pytest

from fossil.errors import GraphError
from fossil.graph.troubles import Troubles, TroublesError


def test_nothing_wrong_raises_nothing() -> None:
    troubles = Troubles("town")
    with troubles.gathered():
        pass
    troubles.raise_any()


def test_one_trouble_is_itself() -> None:
    troubles, one = Troubles("town"), GraphError("This is wrong.", remedy="Mend it.")
    with troubles.gathered():
        raise one
    with pytest.raises(GraphError) as caught:
        troubles.raise_any()
    assert caught.value is one


def test_several_are_told_line_by_line_with_their_remedies() -> None:
    inner, outer = Troubles("nodes"), Troubles("town")
    for number in range(3):
        inner.add(f"Trouble {number}.", remedy=f"Remedy {number}.")
    with outer.gathered():
        inner.raise_any()
    outer.add("Trouble 3.", remedy="Remedy 3.")
    with pytest.raises(TroublesError) as caught:
        outer.raise_any()
    first, *lines = caught.value.what.splitlines()
    assert first == "town has 4 problems:" and caught.value.remedy
    assert lines == [f"  {number + 1}. Trouble {number}. Remedy {number}." for number in range(4)]


def test_a_message_has_an_end() -> None:
    troubles = Troubles("town")
    for number in range(1000):
        troubles.add(f"Trouble {number}.", remedy="Mend it.")
    with pytest.raises(TroublesError, match=r"town has 1,000 problems:") as caught:
        troubles.raise_any()
    assert len(caught.value.what.splitlines()) < 30 and caught.value.what.endswith("... and 980 more")


def test_other_errors_pass() -> None:
    troubles = Troubles("town")
    with pytest.raises(KeyError), troubles.gathered():
        raise KeyError("x")
