"""Plain values that a file of ours holds, made into what wrote them: of its types, finite, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""`__pydantic_config__` of a dataclass that is read so: a number is no text, and no further key is there."""

Made = TypeVar("Made")


def rebuilt(kind: TypeAdapter[Made], values: Mapping[str, Any]) -> Made:
    """Return the dataclass of which these are the plain values.

    Raises:
        ValueError: they are not; says in one line which is the first that is wrong.
    """
    try:
        return kind.validate_json(json.dumps(values, allow_nan=False))
    except ValidationError as error:
        first = error.errors()[0]
        what = first["msg"].removeprefix("Value error, ")  # what a dataclass says itself
        raise ValueError(": ".join(filter(None, [".".join(map(str, first["loc"])), what]))) from error
