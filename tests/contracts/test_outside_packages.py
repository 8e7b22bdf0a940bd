"""Methods and readers of other packages: the examples of the guides, in a package of their own that is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fossil
from fossil.errors import SettingError
from fossil.methods.base import Method
from fossil.methods.dgi import DGI
from fossil.methods.registry import Kind, get_method, methods
from fossil.readers.npz import NpzFile
from fossil.readers.registry import readers

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
FOSSIL = (sys.executable, "-m", "fossil")
TRAIN = ("--set", "width=8", "--epochs", "2", "--device", "cpu")


def block(guide: str, language: str, having: str) -> str:
    """The one block of a guide in this language that has these words."""
    text = (GUIDES / guide).read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [found] = [one for one in blocks if having in one]
    assert isinstance(found, str)
    return found


METHOD = block("how-do-i-add-a-method.md", "python", "class Tiny(")
READER = block("how-do-i-read-another-format.md", "python", "class PairsFile(")
ENTRY_POINTS = (
    block("how-do-i-add-a-method.md", "toml", "fossil.methods"),
    block("how-do-i-read-another-format.md", "toml", "fossil.readers"),
)


def install(folder: Path, package: str, modules: dict[str, str], *entry_points: str) -> Path:
    """Write a package, install it as a user does, and return the folder that has it."""
    source, target = folder / "source" / package, folder / "installed" / package
    (source / package).mkdir(parents=True)
    for name, text in {"__init__": "", **modules}.items():
        (source / package / f"{name}.py").write_text(text, encoding="utf-8")
    about = (
        # PyTorch needs setuptools, so that it is there without a network.
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
        f'[project]\nname = "{package.replace("_", "-")}"\nversion = "1.0"\n',
        f'[tool.setuptools]\npackages = ["{package}"]\n',
        *entry_points,
    )
    (source / "pyproject.toml").write_text("\n".join(about), encoding="utf-8")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--no-cache-dir")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(target), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run(*command: str | Path, having: tuple[Path, ...], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that finds these packages beside the installed ones."""
    path = os.pathsep.join([*map(str, having), os.environ.get("PYTHONPATH", "")])
    extra = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=os.environ | extra, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def warnings_in(said: str) -> list[str]:
    return re.findall(r"^warning: (.*)$", said, re.MULTILINE)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the package of both guides is installed."""
    folder = tmp_path_factory.mktemp("package")
    return install(folder, "my_package", {"tiny": METHOD, "pairs": READER}, *ENTRY_POINTS)


@pytest.fixture(scope="module")
def trained(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two `.pairs` files and what the method of the package learnt from the first."""
    folder = tmp_path_factory.mktemp("trained")
    for name, nodes in (("town", 30), ("village", 12)):
        # A ring with a few chords, so that degrees differ.
        pairs = [(i, (i + 1) % nodes) for i in range(nodes)] + [(0, i) for i in range(2, nodes - 1, 3)]
        both = pairs + [(b, a) for a, b in pairs]
        (folder / f"{name}.pairs").write_text("".join(f"{name}{a} {name}{b}\n" for a, b in both))
    done = run(
        *FOSSIL, "embed", "town.pairs", "--method", "tiny", *TRAIN, "--out", "run", having=(package,), cwd=folder
    )
    (folder / "said.txt").write_text(done.stdout)
    return folder


def test_its_method_and_its_reader_are_listed(package: Path) -> None:
    listed = run(*FOSSIL, "methods", having=(package,))
    assert re.search(r"│ tiny +│ Tiny +│ no ", listed.stdout) and "│ fossil " in listed.stdout
    assert not warnings_in(listed.stderr)
    assert "decorrelation" in run(*FOSSIL, "methods", "--method", "tiny", having=(package,)).stdout
    formats = run(*FOSSIL, "data", "formats", having=(package,))
    assert re.search(r"│ pairs +│ a \.pairs file +│ \.pairs +│ no ", formats.stdout) and "│ npz " in formats.stdout


def test_without_it_both_are_unknown() -> None:
    assert "tiny" not in methods() and "pairs" not in readers()


def test_its_method_learns_from_a_file_of_its_reader(trained: Path) -> None:
    said = (trained / "said.txt").read_text()
    assert "town: 30 nodes, 78 directed edges, 1 feature" in said
    assert "tiny, preset default, seed 0, 2 epochs" in said and "30 vectors of width 8" in said
    with np.load(trained / "run" / "embeddings.npz") as stored:
        assert stored["vectors"].shape == (30, 8) and set(stored["ids"]) == {f"town{i}" for i in range(30)}


def test_its_runs_are_opened_used_continued_and_scored(package: Path, trained: Path, tmp_path: Path) -> None:
    script = """
import json, sys, fossil
folder, out = sys.argv[1:]
run = fossil.load(f"{folder}/run")
other = run.embed(f"{folder}/village.pairs")
again = run.embed(f"{folder}/town.pairs")
result = fossil.embed("digits", method="tiny", epochs=2, settings={"width": 8}, device="cpu", out=f"{out}/digits")
[row] = fossil.evaluate([f"{out}/digits"], splits=1, device="cpu")
print(json.dumps({
    "method": run.config.method,
    "class": type(run.load_method()).__module__,
    "other": list(other.vectors.shape),
    "difference": float(abs(again.vectors - run.embeddings.vectors).max()),
    "row": row.method,
    "accuracy": row.accuracy.mean,
}))
"""
    done = run(sys.executable, "-c", script, trained, tmp_path, having=(package,))
    found = json.loads(done.stdout)
    assert (found["method"], found["class"], found["other"]) == ("tiny", "my_package.tiny", [12, 8])
    assert found["difference"] < 1e-5 and found["row"] == "Tiny width=8 epochs=2"
    assert found["accuracy"] > 0.5  # ten classes: chance is ten per cent
    resumed = run(
        *(*FOSSIL, "embed", "digits", "--method", "tiny", *TRAIN, "--epochs", "3"),
        *("--out", tmp_path / "digits", "--resume"),
        having=(package,),
    )
    assert "epoch 3/3" in resumed.stdout and "epoch 2/3" not in resumed.stdout
    scored = run(*FOSSIL, "evaluate", tmp_path / "digits", "--splits", "1", "--device", "cpu", having=(package,))
    assert "Tiny width=8 epochs=3" in scored.stdout


def test_without_it_a_run_says_which_method_is_missing(trained: Path) -> None:
    with pytest.raises(SettingError, match="Unknown method 'tiny'"):
        _ = fossil.load(trained / "run").config


def test_a_package_that_cannot_be_imported_is_left_out_with_one_warning(package: Path, tmp_path: Path) -> None:
    points = '[project.entry-points."fossil.methods"]\nbroken = "broken_package.method:Broken"\n'
    broken = install(tmp_path, "broken_package", {"method": "raise OSError('no licence')\n"}, points)
    listed = run(*FOSSIL, "methods", having=(broken, package))
    [said] = warnings_in(listed.stderr)
    assert "broken_package.method:Broken of broken-package" in said and "no licence" in said
    assert "Traceback" not in listed.stderr and "│ tiny " in listed.stdout and "│ fossil " in listed.stdout
    trained = run(
        *(*FOSSIL, "embed", "csbm:nodes=60,features=6", "--method", "tiny", *TRAIN, "--out", tmp_path / "run"),
        having=(broken, package),
    )
    assert len(warnings_in(trained.stderr)) == 1 and "60 vectors of width 8" in trained.stdout


def test_a_reader_that_cannot_be_imported_is_left_out_with_one_warning(package: Path, tmp_path: Path) -> None:
    points = '[project.entry-points."fossil.readers"]\nbroken = "broken_reader.reader:Broken"\n'
    broken = install(tmp_path, "broken_reader", {"reader": "import no_such_package\n"}, points)
    listed = run(*FOSSIL, "data", "formats", having=(broken, package))
    [said] = warnings_in(listed.stderr)
    assert "broken_reader.reader:Broken of broken-reader" in said and "no_such_package" in said
    assert "│ pairs " in listed.stdout and "│ npz " in listed.stdout


def test_a_method_with_the_name_of_a_built_in_one_is_left_out(tmp_path: Path) -> None:
    points = '[project.entry-points."fossil.methods"]\ndgi = "second_package.method:Tiny"\n'
    second = install(tmp_path, "second_package", {"method": METHOD.replace('"tiny"', '"dgi"')}, points)
    listed = run(*FOSSIL, "methods", having=(second,))
    [said] = warnings_in(listed.stderr)
    assert "second_package.method:Tiny" in said and "is called 'dgi', as another Method is" in said
    assert re.search(rf"│ dgi +│ {DGI.title} +│", listed.stdout) and "Tiny" not in listed.stdout


# A class, without any package.


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    """The class of the guide, in a module that no package offers; what was learnt of it is forgotten afterwards."""
    yield defined(monkeypatch)
    methods.cache_clear()


def defined(monkeypatch: pytest.MonkeyPatch, **changes: str) -> Kind:
    module = ModuleType("notebook_of_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    source = METHOD
    for old, new in changes.items():
        source = source.replace(f'"{old}"', f'"{new}"')
    exec(compile(source, module.__name__, "exec"), vars(module))
    kind: Kind = vars(module)["Tiny"]
    return kind


def test_a_class_is_a_method_like_any_other(tiny: Kind, tmp_path: Path) -> None:
    assert "tiny" not in methods()
    settings = {"width": 8}
    result = fossil.embed("digits", method=tiny, epochs=1, settings=settings, device="cpu", out=tmp_path / "run")
    assert result.vectors.shape == (1797, 8) and type(result.method) is tiny
    # By now it is known by its name, which is all that a run folder keeps.
    loaded = fossil.load(tmp_path / "run")
    assert loaded.config.method == "tiny" and type(loaded.load_method()) is tiny
    by_name = fossil.embed("digits", method="tiny", epochs=1, settings=settings, device="cpu")
    np.testing.assert_array_equal(by_name.vectors, result.vectors)
    [row] = fossil.evaluate(result, splits=1, device="cpu")
    assert row.method == "Tiny width=8 epochs=1"
    embedder = fossil.FossilEmbedder(method=tiny, epochs=1, settings=settings, device="cpu")
    np.testing.assert_array_equal(embedder.fit_transform("digits"), result.vectors)


def test_a_class_that_is_defined_anew_takes_the_place_of_the_old(tiny: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_method(tiny) is tiny is get_method("tiny")
    again = defined(monkeypatch)
    assert again is not tiny and get_method(again) is again is get_method("tiny")


def test_a_class_with_the_name_of_another_method_is_refused(tiny: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="Another method is called 'dgi'") as caught:
        fossil.embed("digits", method=defined(monkeypatch, tiny="dgi"), epochs=1)
    assert "another `name`" in caught.value.remedy and get_method("dgi") is DGI
    get_method(tiny)
    other = type("Other", (tiny,), {"name": "tiny"})
    with pytest.raises(SettingError, match="Another method is called 'tiny'"):
        get_method(other)
    assert get_method("tiny") is tiny


@pytest.mark.parametrize("other", [int, NpzFile, fossil.Graph, Method, 3, None, DGI.Config, object()])
def test_what_is_no_method_is_refused(other: object) -> None:
    before = dict(methods())
    with pytest.raises(SettingError, match="is no method") as caught:
        fossil.embed("digits", method=other, epochs=1)  # type: ignore[arg-type]
    assert "fossil.methods.base.Method" in caught.value.remedy and methods() == before
