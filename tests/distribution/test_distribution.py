"""What is published has everything in it, and works where nothing but it is installed."""

from __future__ import annotations

import csv
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from fresh import ROOT, NoIndexError, build, install, tried

from fossil import __version__


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed")
    return build(tmp_path_factory.mktemp("dist"))


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the sources are no git checkout")
    return set(listed.stdout.splitlines())


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = Parser().parsestr(wheel.read(f"fossil_gnn-{__version__}.dist-info/METADATA").decode())
        licence = wheel.read(f"fossil_gnn-{__version__}.dist-info/licenses/LICENSE")
    assert names >= {name.removeprefix("src/") for name in tracked("src") if (ROOT / name).exists()}
    assert {name.split("/")[0] for name in names} == {"fossil"}
    assert not [name for name in names if name.endswith((".pyc", ".part"))]
    assert (about["Name"], about["Version"]) == ("fossil-gnn", __version__)
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_source_archive_has_what_the_tests_need(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "Makefile", "mkdocs.yml", "constraints.txt", "docs/index.md"} <= names
    assert {"tests/distribution/fresh.py", "studies/table2.yaml", "examples/demo.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/", "dist/", "runs/"))]


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert __version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_works_where_nothing_else_is_installed(built: tuple[Path, Path], tmp_path: Path) -> None:
    try:
        python = install(built[0], tmp_path / "fresh")
    except NoIndexError as reason:
        pytest.skip(f"pip finds no packages here: {reason}")
    for one in tried(python, tmp_path):
        assert one.status == 0, (one.words, one.err)
    where, listed = (
        subprocess.run([python, "-I", *words], capture_output=True, text=True, check=True).stdout
        for words in (["-c", "import fossil; print(fossil.__file__)"], ["-m", "pip", "list"])
    )
    assert str(tmp_path) in where  # not the sources
    assert not [name for name in ("pandas", "pyarrow", "matplotlib", "numba ") if f"\n{name}" in listed]
    with (tmp_path / "run.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 200 and "v0" in rows[0]
