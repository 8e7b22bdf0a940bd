import itertools
import math
from typing import Any, Literal

import pytest
import yaml
from pydantic import ValidationError

from fossil.errors import SettingError, nearest
from fossil.methods.registry import Kind, get_method, methods
from fossil.runs.plan import plan_run
from fossil.settings import Settings, describe_conditions, meaning, parse_assignments, plain_yaml, setting


class Example(Settings):
    rate: float = setting(0.1, "size of a step", gt=0, search=[0.1, 0.2], origin="Section 5")
    kind: Literal["small", "large"] = setting("small", "which one", search=["small", "large"])
    layers: int = setting(2, "depth", ge=1, le=8)
    limit: float | None = setting(None, "upper limit")


def test_defaults_hold_when_nothing_is_said() -> None:
    assert Example.build({}).model_dump() == {"rate": 0.1, "kind": "small", "layers": 2, "limit": None}


def test_sizes_are_whole_numbers_of_at_least_one() -> None:
    class Sized(Example):
        seed: int = setting(0, "no size", ge=0)
        nodes: int | None = setting(None, "unknown as yet", ge=1)

    assert Sized.build({"layers": 5}).sizes() == {"layers": 5}


def test_unknown_names_are_refused_with_the_nearest_valid_one() -> None:
    with pytest.raises(SettingError) as caught:
        Example.build({"layer": 3})
    assert "'layer'" in caught.value.what
    assert caught.value.remedy == "Did you mean 'layers'?"


def test_a_name_like_no_other_lists_them_all() -> None:
    with pytest.raises(SettingError, match=r"Known names: kind, layers, limit, rate\."):
        Example.build({"zzzzzz": 3})
    assert nearest("RATE", ["rate", "kind"]) == "Did you mean 'rate'?"


@pytest.mark.parametrize("values", ["symmetrize", ["reverse"]])
def test_values_without_a_name_are_refused(values: Any) -> None:
    with pytest.raises(SettingError, match=r"does not say which setting it is. Give values by name, as {'rate'"):
        Example.build(values)


def test_a_name_that_is_no_word_is_refused_like_any_unknown_one() -> None:
    with pytest.raises(SettingError, match="Unknown setting '1'"):
        Example.build({1: 2})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", 0),
        ("rate", -1.0),
        ("rate", math.nan),
        ("rate", "fast"),
        ("kind", "medium"),
        ("layers", 0),
        ("layers", 9),
        ("layers", 1.5),
        ("limit", "high"),
        ("layers", None),
    ],
)
def test_impossible_values_are_refused_with_the_value_and_the_meaning(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        Example.build({name: value})
    assert caught.value.what.startswith(f"{name}={value!r} is not accepted")
    assert caught.value.remedy == Example.explain(name)


def test_explain_gives_meaning_and_default() -> None:
    assert Example.explain("rate") == "rate: size of a step (default 0.1)."


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Example().layers = 3  # type: ignore[misc]


def test_updated_returns_a_checked_copy() -> None:
    first = Example.build({"kind": "large"})
    second = first.updated({"layers": 5})
    assert (second.kind, second.layers, first.layers) == ("large", 5, 2)
    with pytest.raises(SettingError):
        first.updated({"layers": 50})
    with pytest.raises(SettingError, match="Did you mean 'limit'"):
        first.updated({"limits": 50})


def test_search_space_holds_the_declared_values_alone_and_is_a_copy() -> None:
    space = Example.search_space()
    assert space == {"rate": [0.1, 0.2], "kind": ["small", "large"]}
    space["rate"].append(9)
    assert Example.search_space()["rate"] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=3", 3),
        ("a=-2", -2),
        ("a=0.5", 0.5),
        ("a=1e-3", 0.001),
        ("a=1E6", 1e6),
        ("a=-5e+2", -500.0),
        ("a=.5", 0.5),
        ("a=null", None),
        ("a=~", None),
        ("a=", None),
        ("a=true", True),
        ("a=gcn", "gcn"),
        ("a=two_hop", "two_hop"),
        ("a=cuda:0", "cuda:0"),
        ("a=x=y", "x=y"),
        (" a = gcn", "gcn"),
    ],
)
def test_assignments_are_read_as_people_mean_them(text: str, value: Any) -> None:
    found = parse_assignments([text])
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_later_assignments_win_and_order_is_kept() -> None:
    assert list(parse_assignments(["b=1", "a=2", "b=3"]).items()) == [("b", 3), ("a", 2)]
    assert parse_assignments([]) == {}


@pytest.mark.parametrize("text", ["alpha", "=3", " =3", "", "alpha:3"])
def test_other_forms_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingError, match="not of the form key=value") as caught:
        parse_assignments([text])
    assert "alpha=0.3" in caught.value.remedy
    with pytest.raises(SettingError) as caught:
        parse_assignments([text], example="csbm:nodes=2000")
    assert caught.value.remedy == "Example: csbm:nodes=2000"


@pytest.mark.parametrize(
    "text", ["a=[1", "a={", "a='x", "a=!!python/object/apply:os.getcwd []", "a=2020-13-45", "a=0b_"]
)
def test_unreadable_values_are_refused_by_name(text: str) -> None:
    with pytest.raises(SettingError, match="cannot be read") as caught:
        parse_assignments([text])
    assert repr(text) in caught.value.what


class Machine(Settings):
    """Settings of which some count only beside others."""

    kind: Literal["small", "large", "huge"] = setting("small", "which one")
    fast: bool = setting(False, "whether it hurries")
    layers: int = setting(1, "depth", ge=1)
    horn: str = setting("brass", "what it is made of", only_with={"kind": "large"})
    wheels: int = setting(4, "how many", only_with={"kind": ("large", "huge")})
    skip: float = setting(0.0, "share of layers left out", only_with={"layers": range(2, 1000)})
    brake: int = setting(0, "how hard", only_with={"kind": "large", "fast": True})
    flag: int = setting(0, "which", only_with=({"kind": "huge"}, {"fast": True, "layers": (3, 4)}))


@pytest.mark.parametrize(
    ("said", "idle"),
    [
        ({"horn": "tin"}, "horn"),
        ({"horn": "tin", "kind": "large"}, None),
        ({"wheels": 6, "kind": "huge"}, None),
        ({"wheels": 6, "kind": "small"}, "wheels"),
        ({"skip": 0.5}, "skip"),
        ({"skip": 0.5, "layers": 2}, None),
        ({"brake": 1, "kind": "large"}, "brake"),
        ({"brake": 1, "fast": True}, "brake"),
        ({"brake": 1, "kind": "large", "fast": True}, None),
        ({"flag": 1}, "flag"),
        ({"flag": 1, "kind": "huge"}, None),
        ({"flag": 1, "fast": True, "layers": 3}, None),
        ({"flag": 1, "fast": True, "layers": 5}, "flag"),
        ({"kind": "huge", "fast": True, "layers": 7}, None),
    ],
)
def test_a_setting_that_counts_for_nothing_is_named_with_what_it_counts_with(
    said: dict[str, Any], idle: str | None
) -> None:
    machine = Machine.build(said)
    if idle is None:
        machine.refuse_idle(said)
        return
    with pytest.raises(SettingError) as caught:
        machine.refuse_idle(said)
    assert caught.value.what.startswith(f"{idle}={said[idle]} has no effect")
    assert describe_conditions(Machine.conditions(idle)) in caught.value.what and caught.value.remedy
    for other in Machine.conditions(idle)[0]:
        assert f"{other}={getattr(machine, other)}" in caught.value.what


def test_only_what_was_said_is_refused() -> None:
    machine = Machine.build({"horn": "tin"})
    machine.refuse_idle([])
    machine.refuse_idle(["kind", "layers"])


def test_conditions_are_told_in_words() -> None:
    assert Machine.conditions("layers") == [] and describe_conditions([]) == ""
    assert describe_conditions(Machine.conditions("horn")) == "kind large"
    assert describe_conditions(Machine.conditions("wheels")) == "kind large or huge"
    assert describe_conditions(Machine.conditions("skip")) == "layers from 2 on"
    assert describe_conditions(Machine.conditions("brake")) == "kind large and fast true"
    assert describe_conditions(Machine.conditions("flag")) == "kind huge, or with fast true and layers 3 or 4"
    assert meaning(Machine, "skip") == "share of layers left out; only with layers from 2 on"
    assert meaning(Machine, "layers") == "depth"


@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in sorted(methods().items())])
def test_what_a_methods_settings_count_with_is_there_and_can_be_chosen(kind: Kind) -> None:
    for name in kind.Config.model_fields:
        for condition in kind.Config.conditions(name):
            assert condition and name not in condition, name
            for other, wanted in condition.items():
                assert other in kind.Config.model_fields, f"{name} of {kind.name} counts with an unknown {other!r}"
                # Of a range the ends are enough; every other value must be one that can be set.
                values = [wanted.start] if isinstance(wanted, range) else wanted if type(wanted) is tuple else [wanted]
                for value in values:
                    assert getattr(kind.Config.build({other: value}), other) == value


@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in sorted(methods().items())])
def test_every_setting_of_a_method_counts_somewhere(kind: Kind) -> None:
    """Where a condition holds, the setting is not refused: no two conditions contradict each other."""
    for name, field in kind.Config.model_fields.items():
        for condition in kind.Config.conditions(name):
            chosen = {
                other: wanted.start if isinstance(wanted, range) else wanted[0] if type(wanted) is tuple else wanted
                for other, wanted in condition.items()
            }
            kind.Config.build({**chosen, name: field.default}).refuse_idle([name])


BOMB = "[&a [x,x,x,x,x,x,x,x,x,x]" + "".join(
    f", &{name} [{','.join([f'*{before}'] * 10)}]" for before, name in itertools.pairwise("abcdefghi")
) + "]"  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        '!!int ""',
        '!!float ""',
        "!!timestamp 2020-02-31",
        "!!binary é",
        "!!set [a]",
        "!!omap x",
        "? [a]\n: b",
        "[" * 5000,
        "{a: " * 3000,
        "9" * 5000,
        "&a [*a]",
        "&a {b: &c {d: 1, <<: *a}}",
        "\ud800",
        "\x00",
        BOMB,
    ],
    ids=repr,
)
def test_no_value_ends_in_anything_but_a_message(value: str) -> None:
    with pytest.raises(SettingError, match=r"The value of 'alpha=.* cannot be read") as caught:
        parse_assignments([f"alpha={value}"])
    assert len(caught.value.what) < 200
    with pytest.raises(yaml.YAMLError):
        plain_yaml(value)


def test_a_value_that_is_long_is_shown_in_part() -> None:
    with pytest.raises(SettingError, match=r"^layers=\['a', 'a', .*\.\.\..*'a'\] is not accepted"):
        Example.build(parse_assignments([f"layers=[{','.join('a' * 500)}]"]))
    with pytest.raises(SettingError, match=r"^layers=a number of about 7,2\d\d digits is not accepted"):
        Example.build(parse_assignments([f"layers=0x{'f' * 6000}"]))


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_size_has_an_upper_bound(name: str) -> None:
    config = get_method(name).Config
    for key, field in config.model_fields.items():
        if field.annotation is int and config.model_fields[key].metadata:
            with pytest.raises(SettingError, match=f"^{key}=1000000000 is not accepted: .* less than"):
                config.build({key: 10**9})


def test_a_width_beyond_memory_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fossil.runs.plan.free_host_memory", lambda: 10**9)
    # 2^28 weights between vectors and their summary, and their gradients and moments.
    with pytest.raises(SettingError, match=r"DGI on csbm .* takes more than 4\.[3-9] GB in memory with width=16384"):
        plan_run("csbm", method="dgi", settings={"width": 2**14})
    plan_run("csbm", method="dgi", settings={"width": 2**12})


@pytest.mark.parametrize("value", [1e39, 1e308, -1e39])
def test_no_setting_is_beyond_single_precision(value: float) -> None:
    class Rates(Settings):
        rate: float = setting(0.1, "a rate")

    assert Rates.build({"rate": 3e38}).rate == 3e38
    with pytest.raises(SettingError, match="single-precision") as caught:
        Rates.build({"rate": value})
    assert "a rate" in caught.value.remedy
