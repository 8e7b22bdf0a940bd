"""What the server answers, against plain computations on the run's own files."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from explored_run import HOSTILE, NODES, hostile_run
from small_server import Reply, ask, serving

import fossil
from fossil.explorer.explored import ExploredRun
from fossil.explorer.ids import Ids
from fossil.explorer.routes import routes_of
from fossil.explorer.serving import Server
from fossil.explorer.table import Table
from fossil.methods.fossil.parts import make_solver
from fossil.report.columns import NodeColumn
from fossil.report.subgraphs import settings_of
from fossil.runs.run import Run
from fossil.transport import FusedProblem

ROWS = [0, 1, 17, 60, 118]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return hostile_run(tmp_path_factory.mktemp("explored") / "run")


@pytest.fixture(scope="module")
def server(run: Run) -> Iterator[Server]:
    with serving(routes_of(ExploredRun(run))) as made:
        yield made


def asked(server: Server, path: str, status: int = 200) -> Reply:
    reply = ask(server, f"api/{path}")
    assert reply.status == status, reply.body
    return reply


def cosines(run: Run, row: int) -> np.ndarray:
    vectors = run.embeddings.vectors.astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors[row]


def dense_edges(run: Run) -> np.ndarray:
    edges = run.graph.adjacency.toarray()
    return np.maximum(edges, edges.T) > 0


def test_the_meta_is_that_of_the_run(server: Server, run: Run) -> None:
    meta = asked(server, "meta").json
    assert meta["kind"] == "explore" and len(meta["runs"]) == 1 and meta["scores"] is None
    told = meta["runs"][0]
    assert (told["nodes"], told["totalNodes"], told["edges"]) == (NODES, NODES, run.graph.num_edges)
    assert told["directed"] is True and told["graph"] == "<i>town</i>"
    label = next(column for column in told["columns"] if column["name"] == "label")
    assert label["counts"] == np.bincount(run.graph.labels[run.graph.labels >= 0]).tolist()
    assert {pair["kind"] for pair in told["pairs"]} <= {"positive", "negative"} and told["pairs"]


def test_places_fill_a_square_and_keep_their_shape(server: Server, run: Run) -> None:
    places = np.frombuffer(asked(server, "coordinates?run=0").body, "<f4").reshape(NODES, 2)
    kept = np.load(run.path / "layout.npz")["positions"]
    spread = places.max(axis=0) - places.min(axis=0)
    assert spread.max() == pytest.approx(2) and np.abs(places).max() <= 1 + 1e-6
    assert spread[0] / spread[1] == pytest.approx(np.ptp(kept[:, 0]) / np.ptp(kept[:, 1]), rel=1e-4)
    for axis in (0, 1):
        assert np.corrcoef(places[:, axis], kept[:, axis])[0, 1] == pytest.approx(1)


def test_columns_are_the_runs_own_values(server: Server, run: Run) -> None:
    labels = np.frombuffer(asked(server, "column?run=0&name=label").body, "<i4")
    np.testing.assert_array_equal(labels, run.graph.labels)
    degrees = np.frombuffer(asked(server, "column?run=0&name=degree").body, "<f4")
    np.testing.assert_array_equal(degrees, dense_edges(run).sum(axis=1))
    first = quote("table:feature 0")
    features = np.frombuffer(asked(server, f"column?run=0&name={first}").body, "<f4")
    np.testing.assert_array_equal(features, run.graph.features[:, 0])
    assert asked(server, "column?run=0&name=../label", 404).json == {"error": "There is no such column."}


@pytest.mark.parametrize("row", range(len(HOSTILE)))
def test_hostile_ids_come_back_as_they_are(server: Server, row: int) -> None:
    assert asked(server, f"ids?run=0&rows={row},7").json == [HOSTILE[row], "node 7"]
    assert asked(server, f"find?run=0&text={quote(HOSTILE[row])}&limit=5").json == [row]
    reply = asked(server, f"node?run=0&row={row}")
    assert reply.json["id"] == HOSTILE[row] and reply.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("row", ROWS)
def test_a_node_has_the_neighbours_of_the_plain_formula(server: Server, run: Run, row: int) -> None:
    facts = asked(server, f"node?run=0&row={row}").json
    alike = cosines(run, row)
    order = [other for other in np.argsort(-alike).tolist() if other != row][:10]
    assert facts["inEmbedding"]["rows"] == order
    assert facts["inEmbedding"]["cosines"] == pytest.approx(alike[order], abs=1e-6)
    assert facts["inEmbedding"]["ids"] == [str(run.graph.ids[other]) for other in order]
    linked = np.flatnonzero(dense_edges(run)[row]).tolist()
    assert facts["inGraph"]["rows"] == linked and facts["degree"] == facts["inGraph"]["total"] == len(linked)
    assert facts["inGraph"]["cosines"] == pytest.approx(alike[linked], abs=1e-6)
    label = run.graph.labels[row]
    told = {each["name"]: each["value"] for each in facts["attributes"]}
    assert told["label"] == ("unknown" if label < 0 else run.graph.label_names[label])


def test_a_subgraph_holds_its_anchor_and_true_edges(server: Server, run: Run) -> None:
    edges = dense_edges(run)
    for row in ROWS:
        drawn = asked(server, f"node?run=0&row={row}").json["subgraph"]
        assert drawn["rows"][-1] == row and len(set(drawn["rows"])) == len(drawn["rows"])
        nodes = np.array(drawn["rows"])
        expected = [[i, j] for i in range(len(nodes)) for j in range(i + 1, len(nodes)) if edges[nodes[i], nodes[j]]]
        assert drawn["edges"] == expected


def test_a_plan_is_the_librarys_own_solution(server: Server, run: Run) -> None:
    told = asked(server, "transport?run=0&a=17&b=60").json
    settings, _ = settings_of(run)
    vectors, edges = run.embeddings.vectors, dense_edges(run)
    first, second = (np.array(told[side]["rows"]) for side in ("source", "target"))
    assert first[-1] == 17 and second[-1] == 60

    def cost(a: np.ndarray, b: np.ndarray) -> torch.Tensor:
        units = [torch.nn.functional.normalize(torch.from_numpy(vectors[nodes]), dim=1) for nodes in (a, b)]
        costs = torch.exp(-units[0] @ units[1].T / settings.temperature)
        return (costs - costs.min() - settings.cost_threshold * (costs.max() - costs.min())).clamp_min(0)

    within = torch.exp(-torch.from_numpy(edges[np.ix_(first, first)]).float() / settings.temperature)
    problem = FusedProblem.uniform(
        cost(first, second)[None], (cost(first, first) * within)[None], cost(second, second)[None], alpha=settings.alpha
    )
    solution = make_solver(settings)(problem)
    np.testing.assert_allclose(told["mass"], solution.plan.flatten(), atol=1e-5)
    assert told["value"] == pytest.approx(float(solution.value), rel=1e-4)
    assert told["alpha"] == settings.alpha
    assert told["sourceLabels"] == run.graph.labels[first].tolist()
    assert asked(server, "transport?run=0&a=17&b=60").json == told  # the same one again


def test_a_node_without_neighbours_has_no_subgraph_and_no_plan(server: Server) -> None:
    last = NODES - 1
    facts = asked(server, f"node?run=0&row={last}").json
    assert facts["subgraph"] is None and facts["inGraph"]["rows"] == [] and len(facts["inEmbedding"]["rows"]) == 10
    said = asked(server, f"transport?run=0&a=0&b={last}", 400).json
    assert said == {"error": f"Too few nodes are in reach of node {last} for a subgraph."}


def test_a_table_comes_page_by_page(server: Server, run: Run) -> None:
    pages = [asked(server, f"table?run=0&start={start}&count=50").json for start in (0, 50, 100)]
    assert [row for page in pages for row in page["rows"]] == list(range(NODES))
    assert [key for page in pages for key in page["ids"]] == run.graph.ids.tolist()
    assert {page["total"] for page in pages} == {NODES}
    at = pages[0]["columns"].index("degree")
    assert [int(cells[at]) for cells in pages[0]["cells"]] == dense_edges(run)[:50].sum(axis=1).tolist()


@pytest.mark.parametrize("descending", [0, 1])
def test_a_table_is_sorted_by_a_column_and_what_has_no_value_comes_last(
    server: Server, run: Run, descending: int
) -> None:
    labels, names = run.graph.labels, np.array(run.graph.label_names)
    told = asked(server, f"table?run=0&start=0&count=200&by=label&descending={descending}").json["rows"]
    known = [row for row in told if labels[row] >= 0]
    assert told[len(known) :] == np.flatnonzero(labels < 0).tolist()
    spelt = names[labels[known]].tolist()
    assert spelt == sorted(spelt, reverse=bool(descending))
    for name in names:  # equal ones in the order of the graph
        mine = [row for row in known if names[labels[row]] == name]
        assert mine == sorted(mine)
    numbers = asked(server, f"table?run=0&start=0&count=200&by=degree&descending={descending}").json["rows"]
    degrees = dense_edges(run).sum(axis=1)[numbers]
    assert (np.diff(degrees) * (-1 if descending else 1) >= 0).all()


@pytest.mark.parametrize(
    "path",
    [
        "coordinates", "coordinates?run=1", "node?run=0", f"node?run=0&row={NODES}", "node?run=0&row=-1",
        "ids?run=0&rows=", f"ids?run=0&rows=0,{NODES}", "ids?run=0&rows=" + "1," * 500 + "1", "find?run=0&limit=5",
        "find?run=0&text=a&limit=201",
        f"find?run=0&text={'a' * 501}&limit=5", "transport?run=0&a=0", "transport?run=0&a=0&b=x",
        "table?run=0&start=0&count=201", f"table?run=0&start={NODES}&count=5", "node?run=0&row=1e1", "node?run=0&row=٣",
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_in_a_sentence(server: Server, path: str) -> None:
    said = asked(server, quote(path, safe="?=&,"), 400).json
    assert set(said) == {"error"} and said["error"].endswith(".")


def test_the_page_is_the_reports_with_the_server_as_its_source(server: Server) -> None:
    page = ask(server, "")
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    text = page.body.decode()
    assert '<meta name="fossil-source" content="served">' in text and "connect-src 'self'" in text
    assert "<script>alert" not in text and "<b>green" not in text
    told = text.partition('id="meta">')[2].partition("</script>")[0]
    assert json.loads(told) == ask(server, "api/meta").json


@pytest.mark.parametrize(("method", "names"), [("fossil", ["λ"]), ("fossil_channels", None)])
def test_weights_of_a_node_are_what_the_run_learnt(tmp_path: Path, method: str, names: list[str] | None) -> None:
    settings = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 6}
    fossil.embed("csbm:nodes=60", method=method, epochs=1, settings=settings, device="cpu", out=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    learnt = {"λ": run.embeddings.fusion} if names else run.embeddings.channels
    assert learnt is not None
    told = ExploredRun(run).node(5)
    assert {each.name: each.value for each in told.weights} == {
        name: pytest.approx(float(each[5])) for name, each in learnt.items()
    }
    assert not {each.name for each in told.attributes} & learnt.keys()


def test_an_index_answers_as_the_plain_formula_does(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "run")
    explored = ExploredRun(run, exact=False)
    for row in ROWS:
        alike = cosines(run, row)
        alike[row] = -2
        assert explored.node(row).in_embedding.rows == np.argsort(-alike)[:10].tolist()
    assert (tmp_path / "run" / "neighbours.usearch").is_file()


def test_nothing_but_the_run_folder_is_touched(run: Run) -> None:
    names = {path.name for path in run.path.iterdir()}
    assert {"layout.npz", "summary.json"} <= names and not any(name.endswith(".part") for name in names)
    assert {path.name for path in run.path.parent.iterdir()} == {"run"}


def test_the_list_of_pairs_says_what_their_plans_cost(server: Server) -> None:
    """Subgraphs are drawn at random, and otherwise where many are drawn at once."""
    pairs = asked(server, "meta").json["runs"][0]["pairs"]
    solved = [asked(server, f"transport?run=0&a={pair['a']}&b={pair['b']}").json["value"] for pair in pairs]
    assert [pair["value"] for pair in pairs] == solved


def test_a_table_of_categories_takes_no_more_memory_than_their_names() -> None:
    """As an array of texts, each of these would take a megabyte."""
    names = ("b" * 2**18, *(f"{number:06}" for number in range(20_000)), "a")
    column = NodeColumn("kind", "kind", "", np.arange(len(names))[::-1], names)
    table = Table(Ids(np.arange(len(names))), [column])
    tracemalloc.start()
    found = table.page(0, len(names), "kind", descending=False)
    assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    tracemalloc.stop()
    assert [cells[0] for cells in found.cells] == sorted(names)
