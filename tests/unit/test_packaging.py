"""The versions that the pages promise are those that an installation takes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NEWER_ARE_TAKEN = "newer versions of PyTorch are accepted, but untested"


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


LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
EXTRAS = PROJECT["optional-dependencies"]


def wanted(names: list[str]) -> list[Requirement]:
    """What the package and these extras ask for, and extras of extras; without PyTorch, which no lock can name."""
    found: list[Requirement] = []
    for one in map(Requirement, names):
        if one.name == PROJECT["name"]:
            found += wanted([name for extra in one.extras for name in EXTRAS[extra]])
        elif one.name != "torch":
            found.append(one)
    return found


def locked(python: str) -> dict[str, Version]:
    """The version of each package on Linux with a version of Python."""
    here = {"python_full_version": f"{python}.1", "python_version": python, "sys_platform": "linux"}
    pins = [Requirement(line.removesuffix(" \\")) for line in LOCK.splitlines() if re.match(r"\w", line)]
    mine = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
    assert len({pin.name for pin in mine}) == len(mine)
    return {pin.name: Version(next(iter(pin.specifier)).version) for pin in mine}


@pytest.mark.parametrize("python", minors(*range_in_readme("Python")))
def test_the_lock_has_what_is_asked_for(python: str) -> None:
    found = locked(python)
    for one in wanted([*PROJECT["dependencies"], f"{PROJECT['name']}[dev]"]):
        assert found[canonicalize_name(one.name)] in one.specifier, one
    assert {"hatchling", "editables"} <= found.keys()  # with which the package itself is installed
    assert "torch" not in found and not any(name.startswith(("nvidia-", "cuda-")) for name in found)


def test_every_line_of_the_lock_has_a_version_and_hashes_and_no_address() -> None:
    blocks = re.split(r"\n(?=\w)", LOCK)[1:]
    assert len(blocks) > 50
    for block in blocks:
        assert re.fullmatch(
            r"[\w.-]+==[\w.]+( ; [^\\]+)? (\\\n    --hash=sha256:[0-9a-f]{64} ?)+", block.rstrip() + " "
        ), block
    assert "://" not in LOCK


WITHOUT = """
import sys
sys.modules["torch_geometric"] = sys.modules["networkx"] = None
sys.argv[0] = "fossil"
from fossil.cli.main import run
run()
"""


def test_a_graph_is_embedded_without_torch_geometric_and_networkx(tmp_path: Path) -> None:
    words = ("embed", "csbm:nodes=60,features=6", "--method", "dgi", "--epochs", "1", "--device", "cpu", "--out")
    command = [sys.executable, "-c", WITHOUT, *words, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "embeddings.npz").exists()
