"""What `fossil doctor` says of the extras: those of pyproject.toml, with versions or with what is missing."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from fossil.cli import doctor

DECLARED = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_all_extras_for_users_are_looked_at() -> None:
    declared = {
        extra: sorted(re.split(r"[^\w.-]", each)[0].lower() for each in packages)
        for extra, packages in DECLARED.items()
        if extra not in ("docs", "test", "dev")
    }
    assert len(declared) > 10
    assert {extra: sorted(map(str.lower, packages)) for extra, packages in doctor.extras().items()} == declared


def test_what_is_missing_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of = metadata.version

    def version(package: str) -> str:
        if package == "pyarrow":
            raise metadata.PackageNotFoundError(package)
        return of(package)

    monkeypatch.setattr(metadata, "version", version)
    doctor.command()
    said = capsys.readouterr().out
    assert "extra tables: pyarrow missing: pip install 'fossil-gnn[tables]'\n" in said
    assert f"extra plot: matplotlib {of('matplotlib')}\n" in said


def test_a_package_that_is_not_installed_as_one_has_no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nowhere)
    assert doctor.extras() == {}
