"""One declaration per setting: type, default, bounds, meaning, search space, where the default comes from.

Command-line help, documentation and hyper-parameter search all read the same declaration. Unknown keys are
errors that offer the nearest valid name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fossil.errors import SettingError, nearest

LARGEST_SEED = 2**32 - 1  # of the generator that the released splits are drawn with


def setting(
    default: Any,
    meaning: str,
    *,
    search: Sequence[Any] | None = None,
    origin: str = "",
    **bounds: Any,
) -> Any:
    """Declare one setting.

    Args:
        default: value when nothing is said.
        meaning: one line, shown in help texts and documentation.
        search: values a hyper-parameter search may try.
        origin: where the default comes from (a section of the paper, the released code, a decision of ours).
        **bounds: pydantic bounds such as `ge`, `gt`, `le`, `lt`.
    """
    extra: dict[str, Any] = {}
    if search is not None:
        extra["search"] = list(search)
    if origin:
        extra["origin"] = origin
    return Field(default, description=meaning, json_schema_extra=extra or None, **bounds)


class Settings(BaseModel):
    """A frozen group of settings that refuses unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """Build from plain values, turning every complaint into one readable `SettingError`."""
        unknown = [str(key) for key in values if key not in cls.model_fields]
        if unknown:
            raise SettingError(f"Unknown setting {unknown[0]!r}.", remedy=nearest(unknown[0], cls.model_fields))
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            where = f"{name}={first['input']!r}" if name else "these settings"
            raise SettingError(
                f"{where} is not accepted: {first['msg']}.", remedy=cls.explain(name) if name else ""
            ) from error

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
        return f"{name}: {field.description} (default {field.default!r})."

    @classmethod
    def search_space(cls) -> dict[str, list[Any]]:
        """Return the values a search may try, by setting."""
        space = {}
        for name, field in cls.model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and isinstance(extra.get("search"), list):
                space[name] = list(extra["search"])  # type: ignore[arg-type]
        return space


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
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError) as error:  # PyYAML lets the errors of its constructors through
            raise SettingError(
                f"The value of {assignment!r} cannot be read.", remedy="Use a number or a word."
            ) from error
        # YAML 1.1 reads 1e-3 as a string; people write it as a number.
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)
        values[key.strip()] = value
    return values
