"""What the searches of a study found is read back whole, or refused in one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fossil.errors import RunError
from fossil.studies.searched import Searched, read_searched, write_searched
from fossil.studies.spread import FIGURES

SPREAD = {"trials": 3, **dict.fromkeys(FIGURES, 0.5), "defaults": None}
FOUND = Searched({"DGI": {"A": {"width": 8}}}, "by chance.", 0, {"DGI": {"A": SPREAD}})


def test_what_was_frozen_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_searched(tmp_path, FOUND)
    assert read_searched(tmp_path, "not asked for") == FOUND


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["settings"], 5),
        (["settings", "DGI"], 5),
        (["settings", "DGI", "A"], 5),
        (["how"], 5),
        (["spread"], 5),
        (["spread", "DGI", "A", "best"], "much"),
        (["spread", "DGI", "A", "trials"], None),
    ],
    ids=str,
)
def test_a_file_with_something_else_in_it_is_damaged(place: list[str], value: Any, tmp_path: Path) -> None:
    write_searched(tmp_path, FOUND)
    file = tmp_path / "frozen.json"
    content = json.loads(file.read_text())
    at = content
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    file.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"frozen\.json is damaged"):
        read_searched(tmp_path, "")
