from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from fossil.errors import FossilError, GraphError, RunError, SettingError
from fossil.graph import csr
from fossil.graph.blocks import blocks
from fossil.graph.disk import DiskGraph
from fossil.graph.findings import Treatment
from fossil.readers.disk import read_encoding
from fossil.readers.large import columns, parts, stages
from fossil.readers.large import named as large_named
from fossil.readers.large.measures import Moments
from fossil.readers.read import read_graph
from fossil.runs.conversion import convert
from fossil.runs.lock import holding

STAGES = ("ids", "columns", "edges", "sort", "reverse", "directions", "features", "manifest")
NODES = 60


def nodes() -> pd.DataFrame:
    random = np.random.default_rng(0)
    ids = [f"n{number}" for number in range(NODES)]
    return pd.DataFrame({"id": ids, "x": random.normal(size=NODES), "kind": random.choice(["a", "b"], NODES)})


def edges() -> pd.DataFrame:
    ends = np.random.default_rng(1).integers(0, NODES, (150, 2))
    return pd.DataFrame(np.asarray(nodes()["id"])[ends], columns=["source", "target"])


def tables(folder: Path) -> Path:
    """Two part files of nodes and three of edges."""
    for name, frame, count in (("nodes", nodes(), 2), ("edges", edges(), 3)):
        (folder / name).mkdir(parents=True)
        for number, rows in enumerate(np.array_split(np.arange(len(frame)), count)):
            frame.iloc[rows].to_parquet(folder / name / f"part-{number}.parquet", index=False)
    return folder


def change(path: Path, row: int, column: str, value: object) -> None:
    frame = pd.read_parquet(path)
    frame[column] = frame[column].astype(object)
    frame.loc[row, column] = value
    frame.to_parquet(path, index=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts, "_MOST_ROWS", 8)
    return tables(tmp_path / "people")


def unknown_node(folder: Path) -> None:
    change(folder / "edges/part-2.parquet", 47, "target", "zed")


def known_but_for_a_nul(folder: Path) -> None:
    change(folder / "edges/part-1.parquet", 2, "source", "n5\0")


def repeated_id(folder: Path) -> None:
    change(folder / "nodes/part-1.parquet", 3, "id", "n5")


def empty_id(folder: Path) -> None:
    change(folder / "nodes/part-1.parquet", 3, "id", None)


def cut_part(folder: Path) -> None:
    content = (folder / "edges/part-1.parquet").read_bytes()
    (folder / "edges/part-1.parquet").write_bytes(content[:-40])


def another_type(folder: Path) -> None:
    frame = pd.read_parquet(folder / "nodes/part-1.parquet")
    frame["x"] = frame["x"].map(str)
    frame.to_parquet(folder / "nodes/part-1.parquet", index=False)


def missing_column(folder: Path) -> None:
    pd.read_parquet(folder / "nodes/part-1.parquet").drop(columns="x").to_parquet(folder / "nodes/part-1.parquet")


def not_a_number(folder: Path) -> None:
    change(folder / "nodes/part-0.parquet", 7, "x", float("nan"))
    change(folder / "nodes/part-1.parquet", 2, "x", float("nan"))


def infinite(folder: Path) -> None:
    change(folder / "nodes/part-1.parquet", 2, "x", float("inf"))


def weights(folder: Path) -> None:
    for part in (folder / "edges").iterdir():
        pd.read_parquet(part).assign(weight=np.arange(50) + 0.5).to_parquet(part, index=False)


def lists(folder: Path) -> None:
    for part in (folder / "nodes").iterdir():
        pd.read_parquet(part).assign(vector=[[1.0, 2.0]] * 30).to_parquet(part, index=False)


def free_text(folder: Path) -> None:
    for part in (folder / "nodes").iterdir():
        frame = pd.read_parquet(part)
        frame.assign(note=[f"{text} says hello" for text in frame["id"]]).to_parquet(part, index=False)


def decimal_commas(folder: Path) -> None:
    for part in (folder / "nodes").iterdir():
        frame = pd.read_parquet(part)
        frame.assign(height=[f"1,{50 + row % 9}" for row in range(len(frame))]).to_parquet(part, index=False)


def no_edges(folder: Path) -> None:
    shutil.rmtree(folder / "edges")


def no_nodes(folder: Path) -> None:
    shutil.rmtree(folder / "nodes")


def other_file(folder: Path) -> None:
    (folder / "edges/readme.txt").write_text("hello")


BAD: list[tuple[Callable[[Path], None], str]] = [
    (unknown_node, r"1 edge of .*edges names nodes not in the node table, first 'zed' \(row 48 of .*part-2\.parquet\)"),
    (known_but_for_a_nul, r"1 edge of .*edges names nodes not in the node table, first 'n5\\x00' \(row 3 of .*part-1"),
    (repeated_id, r"more than once in .*nodes: 'n5' \(row 4 of .*part-1\.parquet\)"),
    (empty_id, r"1 row has no usable node id in .*nodes \(row 4 of .*part-1\.parquet\)"),
    (cut_part, r"part-1\.parquet cannot be read \(ArrowInvalid"),
    (another_type, r"part-1\.parquet and .*part-0\.parquet are parts of one table, and column 'x' is \w*string in"),
    (missing_column, r"column 'x' is missing in the first and double in the second"),
    (
        not_a_number,
        r"2 cells of column 'x' in .*nodes are empty \(row 8 of .*part-0\.parquet and row 3 of .*part-1\.parquet\)",
    ),
    (infinite, r"1 cell of column 'x' in .*nodes is no finite number: inf \(row 3 of .*part-1\.parquet\)"),
    (weights, r"numbers that differ between edges: 'weight' \(for example 0\.5 and "),
    (lists, r"Column 'vector' of .*nodes holds lists"),
    (free_text, r"Column 'note' of .*nodes is text with .* distinct values"),
    (decimal_commas, r"Column 'height' of .*nodes holds numbers with a comma, gaps .* such as % .for example '1,50'"),
    (no_edges, r"has no table of the edges"),
    (no_nodes, r"has no table of the nodes.* or take the nodes from the edges with structural_features=True"),
    (other_file, r"readme\.txt is no table that can be converted"),
]


@pytest.mark.parametrize(("spoil", "said"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_bad_input_is_told_with_file_and_row_and_leaves_nothing(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    spoil(folder)
    with pytest.raises(GraphError) as caught:
        convert(folder, tmp_path / "out", memory="1GB")
    assert re.search(said, str(caught.value)), caught.value
    assert caught.value.remedy
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["town.graphml", "town.npz"])
def test_a_file_that_is_no_table_is_told_before_what_is_missing_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(GraphError, match=rf"{name} is no table that can be converted"):
        convert(tmp_path / name, tmp_path / "out")


def test_text_columns_are_held_to_as_many_categories_as_small_tables(folder: Path, tmp_path: Path) -> None:
    free_text(folder)
    graph = convert(folder, tmp_path / "out", roles={"note": "categorical"})
    assert graph.num_features == 1 + 2 + NODES


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"treatment": {"isolated": "drop"}}, "--isolated drop would number"),
        ({"treatment": {"zero_features": "drop"}}, "--zero-features drop would number"),
        ({"feature_type": "float64"}, "'float64' are not written"),
        ({"memory": "lots"}, "no amount of memory"),
        ({"memory": "3MB"}, "no amount of memory"),
        ({"label": "team"}, "has no column 'team'"),
        ({"roles": {"id2": "id"}}, "has no column 'id2'"),
        ({"treatment": {"duplicates": "refuse"}}, "1 duplicate edge .* to be refused"),
        ({"treatment": {"self_loops": "refuse"}}, "1 self loop .* to be refused"),
    ],
)
def test_choices_that_cannot_be_met_are_refused(folder: Path, tmp_path: Path, choices: Any, said: str) -> None:
    with pytest.raises((GraphError, SettingError)) as caught:
        convert(folder, tmp_path / "out", **choices)
    assert re.search(said, f"{caught.value.what} {caught.value.remedy}"), caught.value
    assert not (tmp_path / "out").exists()


class StoppedError(BaseException):
    """What stands for a signal."""


def stopping_at(stage: str) -> Callable[[str, float], None]:
    def told(now: str, share: float) -> None:
        if now == stage:
            raise StoppedError

    return told


@pytest.mark.parametrize("stage", STAGES)
def test_a_conversion_that_was_stopped_goes_on(folder: Path, tmp_path: Path, stage: str) -> None:
    whole = convert(folder, tmp_path / "whole")
    with pytest.raises(StoppedError):
        convert(folder, tmp_path / "out", progress=stopping_at(stage))
    with pytest.raises(GraphError, match="holds no whole graph"):
        DiskGraph(tmp_path / "out")
    seen: list[str] = []
    graph = convert(folder, tmp_path / "out", progress=lambda now, share: seen.append(now))
    assert list(dict.fromkeys(seen)) == [*STAGES[STAGES.index(stage) :]]
    assert (graph.digests, graph.fingerprint) == (whole.digests, whole.fingerprint)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


def edges_alone(folder: Path, ids: str) -> Path:
    """Edges of nodes that no table has, one of them of a node with itself, in two part files."""
    ends = np.random.default_rng(2).integers(-4, 36, (90, 2))
    ends[7] = 12, 12
    table = pd.DataFrame(ends if ids == "numbers" else np.char.add("n", ends.astype(str)), columns=["from", "to"])
    (folder / "edges").mkdir(parents=True)
    for number, rows in enumerate((slice(0, 41), slice(41, 90))):
        table.iloc[rows].to_csv(folder / f"edges/part-{number}.csv", index=False)
    table.to_csv(folder / "all.csv", index=False)
    return folder


@pytest.mark.parametrize("ids", ["numbers", "texts"])
@pytest.mark.parametrize(
    "treatment", [{}, {"direction": "symmetrize"}, {"direction": "reverse"}, {"self_loops": "keep"}], ids=str
)
def test_edges_alone_become_the_graph_that_small_tables_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str, treatment: dict[str, str]
) -> None:
    monkeypatch.setattr(parts, "_MOST_ROWS", 8)
    monkeypatch.setattr(csr, "EDGES_AT_ONCE", 16)
    monkeypatch.setattr(large_named, "_IDS_AT_ONCE", 10)
    source = edges_alone(tmp_path / "town", ids)
    graph = convert(source, tmp_path / "out", structural_features=True, treatment=treatment)
    small = read_graph(source / "all.csv", structural_features=True, treatment=Treatment(**treatment)).graph
    assert graph.ids.tolist() == sorted(small.ids.tolist()) and graph.ids.dtype == small.ids.dtype
    order = small.rows(graph.ids)
    np.testing.assert_array_equal(graph.adjacency.toarray(), small.adjacency.toarray()[order][:, order])
    np.testing.assert_allclose(graph.features, small.features[order], rtol=0, atol=1e-5)
    assert graph.feature_names == small.feature_names
    assert {(one.kind, one.count, one.done) for one in graph.findings} == {
        (one.kind, one.count, one.done) for one in small.findings
    }
    plan, encoded = read_encoding(tmp_path / "out"), read_graph(source / "all.csv", structural_features=True).plan
    assert plan is not None and encoded is not None
    assert [column.name for column in plan.structural] == [column.name for column in encoded.structural]


def test_columns_from_the_edges_stand_beside_those_of_the_table(folder: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    graph = convert(folder, tmp_path / "out", structural_features=True, progress=lambda now, share: seen.append(now))
    assert list(dict.fromkeys(seen)) == [*STAGES[:6], "structure", *STAGES[6:]]
    for name, frame in (("nodes", nodes()), ("edges", edges())):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    small = read_graph(tmp_path / "nodes.csv", structural_features=True).graph
    assert graph.feature_names == small.feature_names
    np.testing.assert_allclose(graph.features, small.features, rtol=0, atol=1e-5)
    with pytest.raises(StoppedError):
        convert(folder, tmp_path / "half", structural_features=True, progress=stopping_at("structure"))
    assert convert(folder, tmp_path / "half", structural_features=True).digests == graph.digests
    with pytest.raises(RunError, match="already holds"):
        convert(folder, tmp_path / "half")


@pytest.mark.parametrize(
    ("line", "choices", "said"),
    [
        ("n1,", {}, r"names nodes not in the node table, first '' \(row 91 of .*edges\.csv\)"),
        ("n1,n\0", {}, r"Column 'to' of .* has an id with the NUL character \(row 91 of .*edges\.csv\)"),
        ("n1,n2", {"label": "team"}, "Columns are named, and there is no node table"),
    ],
)
def test_edges_alone_are_refused_where_they_name_no_node(
    tmp_path: Path, line: str, choices: dict[str, Any], said: str
) -> None:
    content = (edges_alone(tmp_path / "made", "texts") / "all.csv").read_text() + line + "\n"
    (tmp_path / "edges.csv").write_text(content)
    with pytest.raises(GraphError, match=said):
        convert(tmp_path / "edges.csv", tmp_path / "out", structural_features=True, **choices)
    assert not (tmp_path / "out").exists()


def test_edges_that_name_nobody_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("from,to\n,\n,\n")
    with pytest.raises(GraphError, match=r"names no node: columns 'from' and 'to' are empty"):
        convert(tmp_path / "edges.csv", tmp_path / "out", structural_features=True)
    assert not (tmp_path / "out").exists()


def test_a_batch_is_shorter_where_a_row_becomes_many_features(tmp_path: Path) -> None:
    pd.DataFrame({"id": np.arange(9000)}).to_parquet(tmp_path / "nodes.parquet", index=False)
    table = parts.PartTable("nodes", (tmp_path / "nodes.parquet",), memory=1 << 23)
    assert [piece.rows for piece in table.pieces(["id"])] == [9000]
    assert max(piece.rows for piece in table.pieces(["id"], 200)) < 2000


@pytest.mark.parametrize("direction", ["keep", "symmetrize"])
def test_every_stage_tells_how_far_it_is(folder: Path, tmp_path: Path, monkeypatch: Any, direction: str) -> None:
    monkeypatch.setattr(csr, "EDGES_AT_ONCE", 20)
    monkeypatch.setattr("fossil.graph.folder._BYTES_AT_ONCE", 1 << 7)
    heard: dict[str, list[float]] = {}
    convert(
        folder,
        tmp_path / "out",
        treatment={"direction": direction},
        progress=lambda stage, share: heard.setdefault(stage, []).append(share),
    )
    assert tuple(heard) == STAGES
    for stage, shares in heard.items():
        assert shares == sorted(shares) and shares[-1] == 1.0, stage
    assert all(len(set(heard[stage])) > 5 for stage in ("directions", "manifest"))


def test_edges_alone_tell_how_far_their_features_are(folder: Path, tmp_path: Path) -> None:
    heard: list[float] = []
    shutil.rmtree(folder / "nodes")
    convert(
        folder,
        tmp_path / "out",
        structural_features=True,
        progress=lambda stage, share: heard.append(share) if stage == "features" else None,
    )
    assert heard[-1] == 1.0


@pytest.mark.parametrize("number", [0, 9], ids=["first", "last"])
def test_parts_without_rows_are_taken_as_empty(folder: Path, tmp_path: Path, number: int) -> None:
    whole = convert(folder, tmp_path / "whole", name="people")
    for name, frame in (("nodes", nodes()), ("edges", edges())):
        empty = pyarrow.table({column: pyarrow.nulls(0) for column in frame})
        parquet.write_table(empty, folder / name / f"part{'' if number else ' '}-{number}.parquet")
    assert convert(folder, tmp_path / "out", name="people").digests == whole.digests


@pytest.mark.parametrize("end", ["", "\n", "\r\n"], ids=repr)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_text_parts_of_a_header_alone_are_taken_as_empty(folder: Path, tmp_path: Path, end: str, suffix: str) -> None:
    whole = convert(folder, tmp_path / "whole", name="people")
    for name, frame in (("nodes", nodes()), ("edges", edges())):
        shutil.rmtree(folder / name)
        (folder / name).mkdir()
        for number, rows in enumerate((slice(0), slice(None), slice(0))):
            text = frame.iloc[rows].to_csv(index=False)
            written = (text if number == 1 else text.strip() + end).encode()
            path = folder / name / f"part-{number}{suffix}"
            path.write_bytes(gzip.compress(written) if suffix.endswith("gz") else written)
    assert convert(folder, tmp_path / "out", name="people").digests == whole.digests


def test_empty_parts_have_the_columns_of_the_others(folder: Path, tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"id": pyarrow.nulls(0)}), folder / "nodes/part-9.parquet")
    with pytest.raises(GraphError, match="column 'x' is missing in the first"):
        convert(folder, tmp_path / "out")


def test_a_beginning_of_another_conversion_is_not_gone_on_with(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        convert(folder, tmp_path / "out", progress=stopping_at("features"))
    with pytest.raises(RunError, match="the beginning of a conversion of other files, or with other choices"):
        convert(folder, tmp_path / "out", treatment={"direction": "symmetrize"})
    (folder / "nodes/part-0.parquet").touch()
    with pytest.raises(RunError, match="the beginning of a conversion of other files"):
        convert(folder, tmp_path / "out")
    assert convert(folder, tmp_path / "out", force=True).num_nodes == NODES


def test_input_that_changes_meanwhile_is_refused(folder: Path, tmp_path: Path) -> None:
    def meddle(now: str, share: float) -> None:
        if now == "features":
            (folder / "nodes/part-0.parquet").touch()

    with pytest.raises(GraphError, match="The input changed"):
        convert(folder, tmp_path / "out", progress=meddle)
    assert not (tmp_path / "out").exists()


def test_a_graph_is_replaced_only_when_asked(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "out")
    before = (tmp_path / "out/manifest.json").read_bytes()
    with pytest.raises(RunError, match="already holds a converted graph"):
        convert(folder, tmp_path / "out", feature_type="float16")
    assert (tmp_path / "out/manifest.json").read_bytes() == before
    assert convert(folder, tmp_path / "out", feature_type="float16", force=True).features.dtype == np.float16


@pytest.mark.parametrize("force", [True, False])
def test_a_folder_with_other_files_is_left_alone(folder: Path, tmp_path: Path, force: bool) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.tex").write_text("mine")
    with pytest.raises(RunError, match=r"no converted graph \(for example thesis\.tex\)"):
        convert(folder, tmp_path / "out", force=force)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("force", [True, False])
def test_arrays_of_somebody_else_are_left_alone_whatever_their_names(folder: Path, tmp_path: Path, force: bool) -> None:
    (tmp_path / "out").mkdir()
    for name in ("features.npy", "labels.npy"):
        np.save(tmp_path / "out" / name, np.arange(3))
    with pytest.raises(RunError, match=r"no converted graph \(for example features\.npy\)"):
        convert(folder, tmp_path / "out", force=force)
    assert np.load(tmp_path / "out/labels.npy").tolist() == [0, 1, 2]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["features.npy", "labels.npy"]


def whole_files(graph: Path) -> dict[str, bytes]:
    """Everything in a folder but the lock."""
    return {path.name: path.read_bytes() for path in graph.iterdir() if path.is_file() and path.name != stages.LOCK}


@pytest.mark.parametrize("spoil", [unknown_node, not_a_number, free_text], ids=lambda each: each.__name__)
def test_bad_tables_do_not_take_the_place_of_a_graph(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    out = tmp_path / "out"
    convert(folder, out)
    before = whole_files(out)
    spoil(folder)
    with pytest.raises(GraphError):
        convert(folder, out, force=True)
    assert whole_files(out) == before and not (out / stages.REPLACEMENT).exists()
    assert DiskGraph(out).num_nodes == NODES


@pytest.mark.parametrize("stage", STAGES)
def test_a_replacement_that_was_stopped_leaves_the_graph_and_goes_on(folder: Path, tmp_path: Path, stage: str) -> None:
    out, stages_now = tmp_path / "out", list[str]()
    convert(folder, out)
    before = whole_files(out)
    other = {"feature_type": "float16", "treatment": {"direction": "symmetrize"}}
    whole = convert(folder, tmp_path / "whole", name="people", **other)
    with pytest.raises(StoppedError):
        convert(folder, out, force=True, name="people", progress=stopping_at(stage), **other)
    assert whole_files(out) == before and DiskGraph(out).num_nodes == NODES
    with pytest.raises(RunError, match="already holds a converted graph"):
        convert(folder, out, name="people", **other)

    def told(now: str, share: float) -> None:
        stages_now.append(now)

    found = convert(folder, out, force=True, name="people", progress=told, **other)
    assert stages_now[0] == stage and found.digests == whole.digests and found.folder == out
    assert set(whole_files(out)) == set(whole_files(tmp_path / "whole")) and not (out / stages.REPLACEMENT).exists()


@pytest.mark.parametrize("name", ["features.npy", "out_indptr.npy", "manifest.json"])
def test_a_replacement_that_was_stopped_while_it_took_its_place_takes_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out, move = tmp_path / "out", Path.replace
    convert(folder, out)
    whole = convert(folder, tmp_path / "whole", name="people", treatment={"direction": "symmetrize"})

    def stopped(path: Path, target: Path) -> Path:
        if path.parent.name == stages.REPLACEMENT and path.name == target.name == name:
            raise StoppedError
        return move(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stopped)
        with pytest.raises(StoppedError):
            convert(folder, out, force=True, name="people", treatment={"direction": "symmetrize"})
    with pytest.raises(GraphError, match="holds no whole graph"):
        DiskGraph(out)
    with pytest.raises(RunError, match="already holds a converted graph"):
        convert(folder, out, name="people", treatment={"direction": "symmetrize"})
    assert DiskGraph(out).digests == whole.digests and set(whole_files(out)) == set(whole_files(tmp_path / "whole"))


def test_two_conversions_do_not_share_a_folder(folder: Path, tmp_path: Path) -> None:
    with holding(tmp_path / "out" / stages.LOCK), pytest.raises(RunError, match="is being written to by process"):
        convert(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("start", r"The ids, each as wide as the longest \(3 letters, row 11 of .*part-0\.parquet\), take 0\.0 GB"),
        ("columns", r"The features take 0\.0 GB, and 0\.0 GB are free"),
    ],
)
def test_a_disk_without_room_is_told_before_it_is_full(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, said: str
) -> None:
    real = shutil.disk_usage

    def fill(now: str, share: float) -> None:
        if now == stage:
            monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=100))

    fill("start", 0.0)
    with pytest.raises(RunError, match=said):
        convert(folder, tmp_path / "out", progress=fill)
    monkeypatch.undo()
    assert convert(folder, tmp_path / "out").num_nodes == NODES  # what was done is kept


def test_going_on_asks_for_no_room_for_what_is_there_and_gives_back_what_was_half_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoppedError):
        convert(folder, tmp_path / "out", progress=stopping_at("manifest"))
    halves = [tmp_path / "out/.features.npy.part", tmp_path / "out/partial/.source.npy.part"]
    for half in halves:
        half.write_bytes(b"of a process that was killed")
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=0))

    def gone(now: str, share: float) -> None:
        assert not any(half.exists() for half in halves)

    assert convert(folder, tmp_path / "out", progress=gone).num_nodes == NODES


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), pyarrow.ArrowMemoryError("malloc")], ids=repr)
def test_a_disk_or_a_memory_that_fails_does_not_undo_what_was_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    whole, batches = convert(folder, tmp_path / "whole"), parts._parquet_batches

    def failing(part: Path, columns: list[str], *further: int) -> Any:
        if "source" in columns:
            raise error
        return batches(part, columns, *further)

    with monkeypatch.context() as patched:
        patched.setattr(parts, "_parquet_batches", failing)
        with pytest.raises(FossilError) as caught:
            convert(folder, tmp_path / "out")
    assert "damaged" not in caught.value.remedy and caught.value.exit_status == 2
    seen: list[str] = []
    assert convert(folder, tmp_path / "out", progress=lambda now, share: seen.append(now)).digests == whole.digests
    assert "ids" not in seen


def test_a_feature_too_large_for_its_type_is_told_with_its_row(folder: Path, tmp_path: Path) -> None:
    for number, part in enumerate(sorted((folder / "nodes").iterdir())):
        frame = pd.read_parquet(part)[["id"]]
        frame = frame.assign(**dict.fromkeys([f"word{place}" for place in range(60)], 0.0))  # counts stay as they are
        frame.loc[11, "word7"] = 1e6 * number
        frame.to_parquet(part, index=False)
    with pytest.raises(GraphError, match=r"Feature word7 of node 'n41' is .* float16 \(.*part-1\.parquet, row 12\)"):
        convert(folder, tmp_path / "out", feature_type="float16")


def test_messages_are_those_of_the_package(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FossilError, match="no existing file or folder"):
        convert(tmp_path / "nowhere", tmp_path / "out")


def test_the_most_frequent_number_is_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "blocks", lambda rows: blocks(rows, 4))
    random = np.random.default_rng(8)
    for most in range(2, 9):
        values = np.sort(random.integers(0, most, 30)).astype(np.float64)
        distinct, counts = np.unique(values, return_counts=True)
        assert columns.most_frequent(values) == distinct[counts.argmax()]


def test_moments_of_parts_are_those_of_the_whole() -> None:
    random = np.random.default_rng(4)
    for unit in (1.0, 1e200, 1e-200):
        values = (random.normal(3, 2, 1000) ** 3) * unit
        joined = Moments()
        for part in np.split(values, [0, 1, 300, 650]):
            joined = joined.joined(Moments.of(part))
        exact = np.asarray(values / unit, np.longdouble)
        assert joined.count == 1000
        assert joined.mean / unit == pytest.approx(float(exact.mean()), rel=1e-12)
        assert joined.deviation / unit == pytest.approx(float(exact.std()), rel=1e-12)
