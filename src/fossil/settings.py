"""One declaration per setting: type, default, bounds, meaning, search space, where the default comes from.

Command-line help, documentation and hyper-parameter search all read the same declaration. Unknown keys are
errors that offer the nearest valid name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Literal, Self, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from fossil.errors import SettingError, nearest

_LARGEST = 3.4028234663852886e38  # of float32, in which everything is computed
LARGEST_SEED = 2**32 - 1  # of the generator that the released splits are drawn with
LARGEST_SIZE = 65_536
"""The most of anything that a setting counts, where its declaration names no bound of its own."""
_LONGEST_SHOWN = 80


def setting(
    default: Any,
    meaning: str,
    *,
    search: Sequence[Any] | None = None,
    origin: str = "",
    only_with: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    **bounds: Any,
) -> Any:
    """Declare one setting.

    Args:
        default: value when nothing is said.
        meaning: one line, shown in help texts and documentation.
        search: values a hyper-parameter search may try.
        origin: where the default comes from (a section of the paper, the released code, a decision of ours).
        only_with: other settings and their values, a single one, several, or a range, without which this one has no
            effect; or several such mappings, of which one must hold.
        **bounds: pydantic bounds such as `ge`, `gt`, `le`, `lt`. A whole number with a lower bound is a size, and at
            most `LARGEST_SIZE` where nothing is said: what is larger would only run out of memory or time.
    """
    if type(default) is int and "ge" in bounds and not {"le", "lt"} & bounds.keys():
        bounds["le"] = LARGEST_SIZE
    extra: dict[str, Any] = {}
    if search is not None:
        extra["search"] = list(search)
    if origin:
        extra["origin"] = origin
    if only_with:
        extra["only_with"] = [only_with] if isinstance(only_with, Mapping) else list(only_with)
    return Field(default, description=meaning, json_schema_extra=extra or None, **bounds)


class Settings(BaseModel):
    """A frozen group of settings that refuses unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """Build from plain values, turning every complaint into one readable `SettingError`."""
        if not isinstance(values, Mapping):
            name = next(iter(cls.model_fields), "name")
            raise SettingError(
                f"{shown(values)} does not say which setting it is.",
                remedy=f"Give values by name, as {{{name!r}: ...}}.",
            )
        unknown = [str(key) for key in values if key not in cls.model_fields]
        if unknown:
            raise SettingError(f"Unknown setting {unknown[0]!r}.", remedy=nearest(unknown[0], cls.model_fields))
        try:
            built = cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            where = f"{name}={shown(first['input'])}" if name else "these settings"
            raise SettingError(
                f"{where} is not accepted: {first['msg']}.", remedy=cls.explain(name) if name else ""
            ) from error

        for name, value in built:
            if isinstance(value, float) and abs(value) > _LARGEST:
                raise SettingError(
                    f"{name}={value!r} is not accepted: no single-precision number is as large.",
                    remedy=cls.explain(name),
                )
        return built

    def updated(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with some values replaced, checked like any other."""
        return type(self).build({**self.model_dump(), **values})

    def sizes(self) -> dict[str, int]:
        """Return the settings that count or measure something: whole numbers, at least one."""
        fields = type(self).model_fields.items()
        found = {
            name: getattr(self, name) for name, field in fields if any(_least(rule) >= 1 for rule in field.metadata)
        }
        return {name: value for name, value in found.items() if type(value) is int}

    @classmethod
    def explain(cls, name: str) -> str:
        """Return the one-line meaning of a setting with its default."""
        field = cls.model_fields[name.split(".")[0]]
        default = "" if field.is_required() else f" (default {field.default!r})"
        return f"{name}: {field.description}{default}."

    def refuse_idle(self, given: Iterable[str]) -> None:
        """Raise SettingError for the first of these settings that has no effect beside the others."""
        for name in given:
            conditions = self.conditions(name)
            if conditions and not any(self._holds(condition) for condition in conditions):
                wanted = describe_conditions(conditions)
                actual = ", ".join(f"{other}={getattr(self, other)}" for other in conditions[0])
                raise SettingError(
                    f"{name}={getattr(self, name)} has no effect: it counts only with {wanted}, and here is {actual}.",
                    remedy="Leave it out, or change the other setting.",
                )

    def _holds(self, condition: Mapping[str, Any]) -> bool:
        return all(getattr(self, name) in _values(wanted) for name, wanted in condition.items())

    @classmethod
    def conditions(cls, name: str) -> list[Mapping[str, Any]]:
        """Return without which settings this one has no effect: one of the mappings must hold; empty for none."""
        return list(cls._declared(name).get("only_with", ()))

    @classmethod
    def search_space(cls) -> dict[str, list[Any]]:
        """Return the values a search may try, by setting."""
        declared = {name: cls._declared(name).get("search") for name in cls.model_fields}
        return {name: list(values) for name, values in declared.items() if values is not None}

    @classmethod
    def _declared(cls, name: str) -> dict[str, Any]:
        extra = cls.model_fields[name].json_schema_extra
        return dict(extra) if isinstance(extra, dict) else {}


def describe_conditions(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return in words without which settings another has no effect.

    >>> describe_conditions([{"encoder": ("gcn", "gcnii"), "layers": range(2, 100)}])
    'encoder gcn or gcnii and layers from 2 on'
    """
    return ", or with ".join(
        " and ".join(f"{name} {_in_words(wanted)}" for name, wanted in condition.items()) for condition in conditions
    )


def _in_words(wanted: Any) -> str:
    if isinstance(wanted, range):
        return f"from {wanted.start} on"
    return " or ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in _values(wanted))


def _values(wanted: Any) -> Collection[Any]:
    return wanted if isinstance(wanted, tuple | list | range) else (wanted,)


def _least(rule: object) -> float:
    """Return the least value that a field's rule accepts, zero where it is about something else."""
    return float(getattr(rule, "ge", 0))


def check_seed(seed: object) -> int:
    """Return the seed of a run as a plain integer.

    Raises:
        SettingError: it is not a whole number from 0 to 2³² - 1, and no split could be drawn with it later.
    """
    if not isinstance(seed, Integral) or not 0 <= int(seed) <= LARGEST_SEED:
        raise SettingError(f"seed={seed!r} is not accepted.", remedy=f"Choose a whole number from 0 to {LARGEST_SEED}.")
    return int(seed)


class _PlainLoader(yaml.SafeLoader):
    """Reads plain values, each written where it stands: a few aliases of aliases stand for billions of values."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a value refers to another one (*)")
        return super().compose_node(parent, index)


def plain_yaml(text: str) -> Any:
    """Return the plain values that a YAML text holds.

    Raises:
        yaml.YAMLError: whatever is wrong with it: PyYAML itself lets the errors of its constructors through.

    >>> plain_yaml("alpha: 0.3")
    {'alpha': 0.3}
    """
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.YAMLError:
        raise
    except Exception as error:
        raise yaml.YAMLError(f"{type(error).__name__}: {error}") from error


def shown(value: object) -> str:
    """Return a value as Python writes it, its middle left out where that is long.

    >>> shown("gcn"), shown(list(range(1000)))
    ("'gcn'", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,...93, 994, 995, 996, 997, 998, 999]')
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return f"a number of about {int(value.bit_length() * 0.30103):,} digits" if isinstance(value, int) else "..."
    side = (_LONGEST_SHOWN - 3) // 2
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:side]}...{text[-side:]}"


def parse_assignments(assignments: Iterable[str], example: str = "--set alpha=0.3") -> dict[str, Any]:
    """Read `key=value` strings; values are YAML scalars. An error shows `example`.

    >>> parse_assignments(["alpha=0.3", "encoder=gcn", "cost_threshold=null"])
    {'alpha': 0.3, 'encoder': 'gcn', 'cost_threshold': None}
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"{assignment!r} is not of the form key=value.", remedy=f"Example: {example}")
        try:
            value = plain_yaml(text)
        except yaml.YAMLError as error:
            raise SettingError(
                f"The value of {shown(assignment)} cannot be read.", remedy="Use a number or a word."
            ) from error
        # YAML 1.1 reads 1e-3 as a string; people write it as a number.
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)
        values[key.strip()] = value
    return values


def meaning(settings: type[Settings], name: str) -> str:
    """Return what a setting means, and without which others it has no effect."""
    conditions = settings.conditions(name)
    only = f"; only with {describe_conditions(conditions)}" if conditions else ""
    return f"{settings.model_fields[name].description}{only}"


def choices(field: FieldInfo) -> list[Any]:
    """Return the values that a setting can have, where they can be listed."""
    if field.annotation is bool:
        return [True, False]
    return list(get_args(field.annotation)) if get_origin(field.annotation) is Literal else []


def bounds(field: FieldInfo) -> list[str]:
    """Return the bounds of a setting, such as `≥ 1`."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return [
        f"{sign} {getattr(bound, name):,}".removesuffix(".0")
        for bound in field.metadata
        for name, sign in signs.items()
        if getattr(bound, name, None) is not None
    ]


def spelt(value: object) -> str:
    """Return a value as `--set` reads it, numbers with six digits.

    >>> spelt(None), spelt(True), spelt(5e-4), spelt("gcn")
    ('null', 'true', '0.0005', 'gcn')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def exactly(value: object) -> str:
    """Return a value as `--set` reads it, with all of its digits.

    >>> exactly(5e-4), exactly(1 / 3), exactly(("low", "in2"))
    ('0.0005', '0.3333333333333333', '[low, in2]')
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(exactly, value))}]"
    text = spelt(value)
    return text if not isinstance(value, float) or float(text) == value else repr(value)
