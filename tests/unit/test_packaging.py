"""The versions that the pages promise are those that an installation takes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NEWER_ARE_TAKEN = "newer ones of PyTorch are\nnot, but nobody has tried them here"


def range_in_readme(package: str) -> tuple[Version, Version]:
    """The range that README says is tested."""
    [(first, last)] = re.findall(rf"\b{package} (\d+\.\d+) to (\d+\.\d+)\b", README)
    return Version(first), Version(last)


def minors(first: Version, last: Version) -> list[str]:
    return [f"{first.major}.{minor}" for minor in range(first.minor, last.minor + 1)]


def test_the_versions_of_python_are_the_same_everywhere() -> None:
    promised = minors(*range_in_readme("Python"))
    admitted = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(30) if f"3.{minor}" in admitted] == promised
    listed = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python ::" in line]
    assert listed == promised
    assert f"Python {promised[0]} to {promised[-1]}" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_versions_of_pytorch_are_the_same_everywhere() -> None:
    first, last = range_in_readme("PyTorch")
    [torch] = [one for one in map(Requirement, PROJECT["dependencies"]) if one.name == "torch"]
    assert first in torch.specifier and Version(f"{first.major}.{first.minor - 1}.9") not in torch.specifier
    [pinned] = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert Version(pinned).release[:2] == last.release and Version(pinned) in torch.specifier
    assert (Version(f"{last.major}.{last.minor + 1}") in torch.specifier) == (NEWER_ARE_TAKEN in README)


def test_a_build_for_the_cpu_can_be_chosen() -> None:
    for page in ("README.md", "docs/start.md"):
        assert "--index-url https://download.pytorch.org/whl/cpu" in (ROOT / page).read_text(encoding="utf-8")
