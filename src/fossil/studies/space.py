"""What a search may try: the values that each setting declares, or values and ranges that somebody names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from fossil.errors import SettingError, nearest
from fossil.methods.registry import Kind
from fossil.settings import Settings, bounds, parse_assignments, spelt

if TYPE_CHECKING:
    import optuna

_EXAMPLE = "alpha=0.1,0.5,0.9 or learning_rate=0.0001..0.01:log"


@dataclass(frozen=True)
class Choices:
    """Some values, in no order."""

    values: tuple[Any, ...]

    @property
    def tested(self) -> tuple[Any, ...]:
        """Values that must be accepted for all to be."""
        return self.values

    def holds(self, value: object) -> bool:
        """Tell whether a value is one of them."""
        return value in self.values

    def suggest(self, trial: optuna.Trial, name: str) -> Any:
        """Let the sampler choose, or return what it chose for this trial before."""
        return trial.suggest_categorical(name, self.values)

    def __str__(self) -> str:
        return ", ".join(map(spelt, self.values))


@dataclass(frozen=True)
class Range:
    """All numbers from one to another, by their logarithm or as they are; whole ones where both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def tested(self) -> tuple[Any, ...]:
        """Values that must be accepted for all to be."""
        return (self.low, self.high)

    def holds(self, value: object) -> bool:
        """Tell whether a value lies between."""
        return isinstance(value, int | float) and self.low <= value <= self.high

    def suggest(self, trial: optuna.Trial, name: str) -> Any:
        """Let the sampler choose, or return what it chose for this trial before."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def __str__(self) -> str:
        return f"{spelt(self.low)}..{spelt(self.high)}{':log' if self.log else ''}"


Domain: TypeAlias = Choices | Range
Space: TypeAlias = Mapping[str, Domain]


def combinations(space: Space) -> float:
    """Return how many settings a space holds; infinitely many with a range of real numbers."""
    sizes = (
        len(one.values)
        if isinstance(one, Choices)
        else one.high - one.low + 1
        if isinstance(one.low, int)
        else float("inf")
        for one in space.values()
    )
    return prod(sizes)


def parse_space(assignments: Iterable[str]) -> dict[str, Domain]:
    """Read `NAME=VALUE,VALUE` and `NAME=LOW..HIGH`, the latter with `:log` for steps of equal ratio.

    >>> parse_space(["alpha=0.1,0.5", "subgraph_size=5..20", "learning_rate=1e-4..1e-2:log"])["alpha"]
    Choices(values=(0.1, 0.5))
    """
    found: dict[str, Domain] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise SettingError(f"{assignment!r} is not of the form NAME=VALUES.", remedy=f"Example: {_EXAMPLE}")
        found[name.strip()] = _range(assignment, text) if ".." in text else Choices(_values(name, text.split(",")))
    return found


def read_space(declared: Mapping[str, Any]) -> dict[str, Domain]:
    """Read a space as a YAML file has it: a list of values, or `{low: 0.1, high: 1, log: true}`, by setting."""
    found: dict[str, Domain] = {}
    for name, value in declared.items():
        if isinstance(value, Mapping) and {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
            found[name] = _checked_range(name, value["low"], value["high"], bool(value.get("log", False)))
        elif isinstance(value, list | tuple) and value and all(_is_scalar(one) for one in value):
            found[name] = Choices(tuple(value))
        else:
            raise SettingError(
                f"The space of {name} is {value!r}.", remedy="Give a list of values, or {low: 0.1, high: 1, log: true}."
            )
    return found


def build_space(kind: Kind, preset: str | None, fixed: Mapping[str, Any], named: Space) -> dict[str, Domain]:
    """Return what is searched: the declared space of a method, less what is fixed or has no effect, and what is named.

    Args:
        kind: the method.
        preset: its preset.
        fixed: settings that stay as they are.
        named: domains in place of the declared ones, or of settings that declare none.

    Raises:
        SettingError: a setting is unknown, fixed and searched at once, or a value is outside its bounds; or there is
            nothing to search.
    """
    for name in named:
        if name not in kind.Config.model_fields:
            raise SettingError(
                f"The space names {name!r}, which is no setting of {kind.title}.",
                remedy=nearest(name, kind.Config.model_fields),
            )
        if name in fixed:
            raise SettingError(f"{name} is fixed and searched at once.", remedy="Leave one of the two out.")
    base = kind.configure(preset, fixed)
    declared: dict[str, Domain] = {
        name: Choices(tuple(values))
        for name, values in kind.Config.search_space().items()
        if name not in fixed and name not in named
    }
    asked = {**declared, **named}
    searched = {name: one for name, one in asked.items() if name in named or not _is_idle(base, name, asked)}
    if not searched:
        raise SettingError(
            f"{kind.title} declares no settings to search."
            if not kind.Config.search_space()
            else "Everything is fixed.",
            remedy="Name values to try (--space), or use a method that declares some; `fossil methods` lists them.",
        )
    return {name: _accepted(kind, preset, fixed, name, one) for name, one in searched.items()}


def without_idle(settings: Settings, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen settings but those without effect beside the others."""
    return {name: value for name, value in chosen.items() if not _is_idle(settings, name, ())}


def _is_idle(settings: Settings, name: str, open_ones: Iterable[str]) -> bool:
    """Tell whether a setting has no effect, whatever the open ones become."""
    if any(other in open_ones for condition in settings.conditions(name) for other in condition):
        return False
    try:
        settings.refuse_idle([name])
    except SettingError:
        return True
    return False


def _accepted(kind: Kind, preset: str | None, fixed: Mapping[str, Any], name: str, domain: Domain) -> Domain:
    """Return the domain with its values as the setting keeps them.

    Raises:
        SettingError: one is not accepted.
    """
    kept = []
    for value in domain.tested:
        try:
            kept.append(getattr(kind.configure(preset, fixed, {name: value}), name))
        except SettingError as error:
            limits = ", ".join(bounds(kind.Config.model_fields[name]))
            raise SettingError(
                f"The space of {name} holds {spelt(value)}, which is outside what the setting accepts: "
                f"{error.what.partition('is not accepted: ')[2] or error.what}",
                remedy=f"Name other values (--space){f'; accepted are {limits}' if limits else ''}. {error.remedy}",
            ) from error
    if isinstance(domain, Choices):
        return Choices(tuple(dict.fromkeys(kept)))
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in kept):
        raise SettingError(f"{name} is no number, and has no range.", remedy="Name its values, with commas between.")
    return Range(kept[0], kept[1], domain.log)


def _range(assignment: str, text: str) -> Range:
    ends, _, scale = text.partition(":")
    low, _, high = ends.partition("..")
    if scale not in ("", "log"):
        raise SettingError(f"{assignment!r} ends in {scale!r}.", remedy=f"Example: {_EXAMPLE}")
    first, last = _values(assignment.partition("=")[0], (low, high))
    return _checked_range(assignment.partition("=")[0], first, last, scale == "log")


def _checked_range(name: str, low: Any, high: Any, log: bool) -> Range:
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    if not numbers or not low < high or (log and low <= 0):
        raise SettingError(
            f"{name} cannot range from {spelt(low)} to {spelt(high)}{' by its logarithm' if log else ''}.",
            remedy="Give two numbers, the lower one first; above 0 for a logarithm.",
        )
    return Range(low, high, log)


def _values(name: str, texts: Iterable[str]) -> tuple[Any, ...]:
    return tuple(parse_assignments([f"{name.strip()}={text.strip()}"]).popitem()[1] for text in texts)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
