"""Whose folder it is that a conversion may write to, and what one that ends there leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fossil.errors import RunError
from fossil.graph.disk import DiskGraph
from fossil.readers.large import stages
from fossil.runs.conversion import convert


class StoppedError(BaseException):
    """What stands for a kill."""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    source = tmp_path / "town"
    source.mkdir()
    (source / "nodes.csv").write_text("id,x\nb,1\na,2\nc,4\n")
    (source / "edges.csv").write_text("source,target\na,b\nb,c\n")
    return source


def _folder_of_the_name(name: str) -> Callable[[Path], None]:
    def write(out: Path) -> None:
        (out / name).mkdir(parents=True)
        (out / name / "thesis.tex").write_text("mine")

    return write


def _other_manifest(out: Path) -> None:
    out.mkdir()
    (out / "manifest.json").write_text('{"name": "my extension"}')
    (out / "features.npy").write_text("mine")


def _beside_a_graph(out: Path) -> None:
    convert(out.parent / "town", out)
    _folder_of_the_name("partial")(out)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("write", "named"),
    [
        (_folder_of_the_name("partial"), "partial"),
        (_folder_of_the_name("replacement"), "replacement"),
        (_other_manifest, "features.npy"),
        (_beside_a_graph, "partial"),
    ],
    ids=["partial", "replacement", "manifest", "beside a graph"],
)
def test_what_somebody_else_wrote_under_our_names_is_left_alone(
    town: Path, tmp_path: Path, write: Callable[[Path], None], named: str, force: bool
) -> None:
    out = tmp_path / "out"
    write(out)
    before = content(out)
    with pytest.raises(RunError, match=rf"no converted graph \(for example {named}\)"):
        convert(town, out, force=force)
    assert content(out) == before


def test_a_manifest_that_was_damaged_may_be_replaced(town: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = convert(town, out)
    (out / "manifest.json").write_bytes((out / "manifest.json").read_bytes()[:100])
    assert convert(town, out, force=True).digests == whole.digests


def stopped(*_: Any) -> None:
    raise StoppedError


def test_a_kill_after_the_graph_is_whole_leaves_no_arrays_behind(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the conversion needed takes many times the room of the graph."""
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(stages.Stages, "end", stopped)
        with pytest.raises(StoppedError):
            convert(town, out)
    graph, partial = DiskGraph(out), out / stages.PARTIAL
    graph.verify()
    assert (partial / "conversion.json").exists() and not [*partial.glob("*.npy")]
    assert convert(town, out, force=True).digests == graph.digests
    assert not partial.exists()


def test_what_is_half_removed_is_known_by_what_goes_last(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, unlink = tmp_path / "out", Path.unlink
    with monkeypatch.context() as patched:
        patched.setattr(stages.Stages, "end", stopped)
        with pytest.raises(StoppedError):
            convert(town, out)
    (out / "manifest.json").unlink()

    def killed(path: Path, *arguments: Any, **options: Any) -> None:
        stopped() if path.name == "conversion.json" else unlink(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(StoppedError):
            convert(town, out, force=True)
    assert [path.name for path in (out / stages.PARTIAL).iterdir()] == ["conversion.json"]
    assert convert(town, out, force=True).num_nodes == 3
