"""Spaces: what is declared, what is named, and what is refused with its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from fossil.errors import SettingError
from fossil.methods.registry import get_method, methods
from fossil.settings import Settings, setting
from fossil.studies.space import Choices, Range, build_space, combinations, parse_space, read_space


def built(method: str = "fossil", fixed: dict[str, Any] | None = None, *named: str) -> dict[str, Any]:
    return build_space(get_method(method), None, fixed or {}, parse_space(named))


def test_the_declared_space_of_fossil_is_the_papers() -> None:
    # Section 5.1, and β₁; gcnii_layers counts with another encoder alone.
    found = built()
    assert found["learning_rate"] == Choices((1e-4, 5e-4, 1e-3, 5e-3, 1e-2)) == found["fusion_learning_rate"]
    assert found["alpha"] == Choices(tuple(i / 10 for i in range(11)))
    assert found["bapg_step"] == Choices((1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0, 1.5, 2.0))
    assert found["subgraph_size"] == Choices(tuple(range(10, 31)))
    assert found["temperature"] == Choices((0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0))
    assert found["dropout"] == Choices((0.1, 0.2, 0.3, 0.4)) == found["fusion_dropout"]
    assert "gcnii_layers" not in found
    assert "gcnii_layers" in built("fossil", {"encoder": "gcnii"})
    assert "fusion_dropout" not in built("fossil", {"encoder": "gcnii"})  # no fusion layer there


@pytest.mark.parametrize("method", sorted(methods()))
def test_every_declared_value_is_accepted(method: str) -> None:
    assert build_space(get_method(method), None, {}, {})


def test_a_method_that_declares_nothing_is_refused_unless_values_are_named() -> None:
    class Plain(Settings):
        width: int = setting(8, "width of the vectors", ge=1)

    kind = type("Silent", (get_method("dgi"),), {"Config": Plain, "title": "Silent", "name": "silent"})
    with pytest.raises(SettingError, match="Silent declares no settings to search") as refused:
        build_space(kind, None, {}, {})
    assert "--space" in refused.value.remedy
    assert build_space(kind, None, {}, {"width": Choices((2, 4))}) == {"width": Choices((2, 4))}


def test_named_domains_replace_declared_ones_and_fixed_settings_are_left_out() -> None:
    found = built("dgi", {"width": 16}, "learning_rate=1e-4..1e-2:log", "dropout=0,0.5")
    assert found["learning_rate"] == Range(1e-4, 1e-2, log=True)
    assert found["dropout"] == Choices((0.0, 0.5))
    assert all(isinstance(one, float) for one in found["dropout"].values)
    assert "width" not in found and "layers" in found


def test_ranges_of_whole_numbers_stay_whole() -> None:
    found = built("dgi", None, "width=4..6")["width"]
    assert found == Range(4, 6) and isinstance(found.low, int)
    assert combinations({"a": found, "b": Choices((1, 2))}) == 6
    assert combinations({"a": Range(0.0, 1.0)}) == float("inf")


@pytest.mark.parametrize(
    ("fixed", "named", "message"),
    [
        ({}, "alhpa=0.1", "Did you mean 'alpha'"),
        ({}, "alpha=0.1,1.5", r"space of alpha holds 1.5.*less than or equal to 1.*≥ 0, ≤ 1"),
        ({}, "alpha=-1..1", r"space of alpha holds -1"),
        ({}, "encoder=gcn,gnc", "space of encoder holds gnc"),
        ({}, "subgraph_size=2..300", "space of subgraph_size holds 300"),
        ({}, "encoder=1..2", "space of encoder holds 1"),
        ({"alpha": 0.5}, "alpha=0.1,0.2", "fixed and searched at once"),
        ({}, "alpha", "not of the form"),
        ({}, "alpha=0.5..0.1", "cannot range from 0.5 to 0.1"),
        ({}, "alpha=0..1:log", "by its logarithm"),
        ({}, "alpha=0..1:cubic", "'cubic'"),
        ({}, "alpha=a..b", "cannot range from a to b"),
    ],
)
def test_what_cannot_be_searched_is_refused(fixed: dict[str, Any], named: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        built("fossil", fixed, named)


def test_a_file_has_lists_and_ranges() -> None:
    assert read_space({"a": [1, 2], "b": {"low": 0.1, "high": 1}, "c": {"low": 1, "high": 10, "log": True}}) == {
        "a": Choices((1, 2)),
        "b": Range(0.1, 1),
        "c": Range(1, 10, log=True),
    }
    for wrong in ([], 3, {"low": 1}, {"low": 1, "high": 2, "hihg": 3}, [[1]], {"low": "a", "high": "b"}):
        with pytest.raises(SettingError):
            read_space({"a": wrong})
