"""Files of JSON records, one a line, that benchmarks of accuracy add to and go on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read_records(path: Path, key_of: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    """Return the records that exist already; none where there is no file.

    Args:
        path: the file.
        key_of: fails on what is no record of the script that asks.

    Raises:
        ValueError: the file holds something else.
    """
    records = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            record = json.loads(line)
            key_of(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"--results: line {number} of {path} is no record of this script; name another file"
            ) from error
        records.append(record)
    return records
