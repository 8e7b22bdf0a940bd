"""The page of `fossil explore` in a real browser, on a run with more nodes than a report holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fossil
from browser import BROWSER, DRIVER, MISSING, chromium
from fossil.explorer.explored import ExploredRun
from fossil.explorer.routes import routes_of
from fossil.explorer.serving import Server
from fossil.report.columns import LARGEST_PAGE
from fossil.runs.run import Run

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason=MISSING)

NODES = 200_001  # beyond what a report holds, and beyond what UMAP is tried on
AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 120  # seconds, for a busy machine; nothing is measured


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    assert NODES > LARGEST_PAGE
    path = tmp_path_factory.mktemp("large") / "run"
    fossil.embed(f"csbm:nodes={NODES},degree=8,features=8", method="features", device="cpu", out=path)
    return Run.open(path)


@pytest.fixture(scope="module")
def server(run: Run) -> Iterator[Server]:
    from threading import Thread

    server = Server()
    thread = Thread(target=server.serve, args=(routes_of(ExploredRun(run, exact=True)),))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def page(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.set_script_timeout(PATIENCE)
        driver.get(server.address)
        until(driver, "document.documentElement.dataset.painted === 'yes'")
        yield driver


def until(page: Any, condition: str) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(page, PATIENCE).until(lambda driver: driver.execute_script(f"return Boolean({condition})"), condition)


def told(page: Any, selector: str) -> str:
    return str(page.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector))


def press(page: Any, selector: str) -> None:
    page.execute_script("document.querySelector(arguments[0]).click()", selector)


def test_the_map_has_as_many_points_as_the_run_has_nodes(page: Any) -> None:
    assert page.execute_script("return document.querySelector('.scatter').dataset.points") == str(NODES)
    assert "200,001 nodes" in told(page, ".notes") and "sample" not in told(page, ".notes")


def test_search_finds_a_node_and_shows_its_neighbours(page: Any, run: Run) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    press(page, "#tab-node")
    box = page.find_element(By.ID, "search")
    box.send_keys("199999")
    until(page, "document.querySelector('#found li')?.textContent === '199999'")
    box.send_keys(Keys.ENTER)
    until(page, "document.querySelector('.node-view .big')?.textContent === '199999'")
    shown = page.execute_script(
        "return [...document.querySelectorAll('.neighbours')].map(list => [...list.querySelectorAll('bdi')]"
        ".map(id => id.textContent))"
    )
    assert shown[0] == [str(row) for row in run.graph.adjacency[[199_999]].indices[:50]]
    assert shown[1] == [str(each.id) for each in run.neighbours("199999", exact=True)]


def test_any_pair_is_solved_when_it_is_asked_for(page: Any) -> None:
    from selenium.webdriver.common.by import By

    press(page, "#tab-transport")
    until(page, "document.querySelector('.plan-drawing')")
    other = page.find_element(By.ID, "other")  # what the node that was chosen before is compared with
    other.send_keys("17")
    other.submit()
    until(page, "document.querySelector('.plan').dataset.drawn === '199999/17'")
    label = page.execute_script("return document.querySelector('.plan-drawing').getAttribute('aria-label')")
    assert label.startswith("Transport plan from the subgraph of 199999 to that of 17, value")
    assert int(page.execute_script("return document.querySelector('.plan-drawing').dataset.links")) > 0
    other = page.find_element(By.ID, "other")
    other.submit()  # with nothing in it, which is a part of every id
    until(page, "document.querySelector('.transport-view form [role=status]').textContent.startsWith('Type the id')")
    assert page.execute_script("return document.querySelector('.plan').dataset.drawn") == "199999/17"
    other.send_keys("no such id")
    other.submit()
    until(page, "document.querySelector('.transport-view form [role=status]').textContent === 'No id holds this.'")


def test_the_table_turns_its_pages_and_is_sorted(page: Any, run: Run) -> None:
    press(page, "#tab-nodes")
    until(page, "document.querySelectorAll('.nodes-view tbody tr').length === 50")
    assert "1 to 50 of 200,001" in told(page, ".pager")
    press(page, ".pager button:last-child")
    until(page, "document.querySelectorAll('.nodes-view tbody tr').length === 1")
    assert told(page, ".nodes-view tbody th") == "200000"
    press(page, ".nodes-view thead th:nth-child(3) button")  # the column after the label: degree
    until(page, "document.querySelector('.nodes-view [aria-sort=ascending]')")
    press(page, ".nodes-view [aria-sort=ascending] button")
    until(page, "document.querySelector('.nodes-view [aria-sort=descending]')")
    degrees = (run.graph.adjacency + run.graph.adjacency.T).astype(bool).sum(axis=1)
    assert int(told(page, ".nodes-view tbody td:nth-child(3)")) == degrees.max()


def test_the_keyboard_stays_on_what_it_pressed(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    press(page, "#tab-map")
    press(page, "#tab-nodes")
    until(page, "document.querySelectorAll('.nodes-view tbody tr').length > 0")
    press(page, ".pager button:first-child")
    until(page, "document.querySelector('.pager span')?.textContent.startsWith('1 to 50')")
    page.execute_script("[...document.querySelectorAll('.pager button')].find(b => b.textContent === 'Next').focus()")
    for shown in ("51 to 100", "101 to 150"):
        page.switch_to.active_element.send_keys(Keys.ENTER)
        until(page, f"document.querySelector('.pager span').textContent.startsWith('{shown}')")
    page.execute_script("[...document.querySelectorAll('.pager button')].find(b => b.textContent === 'Last').focus()")
    page.switch_to.active_element.send_keys(Keys.ENTER)
    until(page, "document.querySelectorAll('.nodes-view tbody tr').length === 1")
    assert page.switch_to.active_element.text == "First"  # Last can be pressed no more


def test_enter_in_an_empty_search_chooses_nothing(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    press(page, "#tab-node")
    page.execute_script("document.getElementById('search').value = ''")
    before = told(page, ".node-view .big")
    page.find_element("id", "search").send_keys(Keys.ENTER)
    page.execute_async_script(
        "fetch('api/meta').then(() => setTimeout(arguments[0]))"
    )  # whatever was asked is answered
    assert told(page, ".node-view .big") == before != ""


def test_it_says_whom_it_asks(page: Any) -> None:
    press(page, "#tab-provenance")
    until(page, "document.querySelector('.provenance-view section')")
    assert "It asks fossil explore, on the machine of the run" in told(page, ".provenance-view")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_accessibility_checker_finds_nothing_wrong_with_the_table(page: Any, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    press(page, "#tab-nodes")
    until(page, "document.querySelectorAll('.nodes-view tbody tr').length > 0")
    if page.execute_script("return document.documentElement.dataset.theme") != theme:
        press(page, "#theme")
    page.execute_script(AXE.read_text())
    found = page.execute_async_script(
        "axe.run(document).then(arguments[0], error => arguments[0]({error: `${error}`}))"
    )
    assert found.get("error") is None and [each["id"] for each in found["violations"]] == []
    assert "color-contrast" in [each["id"] for each in found["passes"]]


def test_nothing_is_asked_of_anybody_else_and_no_error_is_heard(page: Any, server: Server) -> None:
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    allowed = (server.address, "data:", "blob:", "chrome:")  # the last for what the browser shows before the page
    assert asked and [url for url in asked if not url.startswith(allowed)] == []
    assert urlsplit(server.address).hostname == "127.0.0.1"
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_the_page_says_that_the_server_has_ended(page: Any, server: Server) -> None:
    """The last one: no test after it has a server."""
    server.shutdown()
    server.server_close()
    press(page, "#tab-map")
    page.find_element("id", "search").send_keys("1")
    until(page, "document.querySelector('[role=alert]')")
    assert told(page, "[role=alert]") == "The server does not answer; is it still running?"
