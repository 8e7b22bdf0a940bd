"""The report in a real browser: what is drawn, what can be reached, and that nothing leaves the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import NODES

from browser import BROWSER, DRIVER, MISSING, chromium

VIEWS = ("map", "node", "transport", "training", "scores", "compare", "data", "provenance")
AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 60  # seconds, for a busy machine


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Any]:
    yield opening(browser, report)


def opening(browser: Any, path: Path) -> Any:
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    until(browser, "return document.documentElement.dataset.painted === 'yes'")
    return browser


def until(browser: Any, script: str, *arguments: object) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE).until(lambda driver: driver.execute_script(script, *arguments))


def go(browser: Any, view: str) -> None:
    browser.find_element("id", f"tab-{view}").click()
    until(browser, "return !document.getElementById('panel-' + arguments[0]).hidden", view)


def embedded(path: Path, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def complaints(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def requests(browser: Any) -> list[str]:
    """Every address that the browser asked for since the page was opened."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("data:", "blob:"))]


def test_the_map_has_as_many_points_as_the_graph_has_nodes(opened: Any) -> None:
    assert opened.execute_script("return document.querySelector('#panel-map .scatter').dataset.points") == str(NODES)
    # Not only handed over: pixels of both classes' colours are on the canvas.
    assert colours_on(opened, "#panel-map canvas") >= 2


def colours_on(browser: Any, canvas: str) -> int:
    """How many colours of the legend are seen on a canvas."""
    return int(
        browser.execute_async_script(
            """
            const [selector, done] = arguments;
            requestAnimationFrame(() => {
              const canvas = document.querySelector(selector);
              const copy = document.createElement('canvas');
              [copy.width, copy.height] = [canvas.width, canvas.height];
              const context = copy.getContext('2d');
              context.drawImage(canvas, 0, 0);
              const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
              const wanted = [...document.querySelectorAll('#panel-map .swatch')].map((swatch) =>
                getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number));
              const seen = wanted.filter((colour) => {
                for (let i = 0; i < pixels.length; i += 4) {
                  if (Math.abs(pixels[i] - colour[0]) + Math.abs(pixels[i + 1] - colour[1])
                      + Math.abs(pixels[i + 2] - colour[2]) < 60) return true;
                }
                return false;
              });
              done(seen.length);
            });
            """,
            canvas,
        )
    )


def test_the_legend_counts_every_node(opened: Any) -> None:
    counts = [int(each.text) for each in opened.find_elements("css selector", "#panel-map .legend .count")]
    assert sum(counts) == NODES and len(counts) == 2


def positions(path: Path, run: int = 0) -> Any:
    """Where the page places each node, from -1 to 1, read from the file itself: N×2."""
    import base64
    import zlib

    import numpy as np

    arrays = embedded(path, "arrays")
    planes = [
        np.frombuffer(zlib.decompress(base64.b64decode(arrays[f"{run}/{axis}"]["data"])), np.uint8) for axis in "xy"
    ]
    steps = [low + 256 * high.astype(int) for low, high in (np.split(each, 2) for each in planes)]
    return np.stack(steps, axis=1) / 65535 * 2 - 1


def drag(browser: Any, corners: list[tuple[float, float]]) -> None:
    """Draw a closed line over the map; corners are shares of its width and height from its middle."""
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = browser.find_element("css selector", "#panel-map canvas")
    size = canvas.size
    places = [(round(x * size["width"]), round(y * size["height"])) for x, y in [*corners, corners[0]]]
    chain = ActionChains(browser, duration=60)
    chain.move_to_element_with_offset(canvas, *places[0]).click_and_hold()
    for (x, y), (to_x, to_y) in pairwise(places):
        for part in range(1, 9):
            chain.move_to_element_with_offset(canvas, x + (to_x - x) * part // 8, y + (to_y - y) * part // 8)
    chain.release().perform()


def picked(browser: Any) -> str:
    return str(browser.execute_script("return document.querySelector('.picked h3')?.textContent ?? ''"))


def test_a_lasso_takes_the_nodes_inside_it(opened: Any, report: Path) -> None:
    opened.find_element("xpath", "//button[text()='Lasso']").click()
    assert picked(opened) == ""
    drag(opened, [(-0.48, -0.48), (0.48, -0.48), (0.48, 0.48), (-0.48, 0.48)])
    until(opened, "return document.querySelector('.picked h3')")
    assert picked(opened) == f"{NODES} nodes in the lasso"
    listed = [each.text for each in opened.find_elements("css selector", ".picked li")]
    legend = [each.text for each in opened.find_elements("css selector", "#panel-map .legend .count")]
    assert sorted(each.split()[-1] for each in listed) == sorted(legend)
    drag(opened, [(-0.48, -0.48), (0, -0.48), (0, 0.48), (-0.48, 0.48)])  # the middle of the map is its origin
    until(opened, "return !document.querySelector('.picked h3').textContent.startsWith(arguments[0])", str(NODES))
    x = positions(report)[:, 0]
    assert (x < -0.02).sum() <= int(picked(opened).split()[0]) <= (x < 0.02).sum() < NODES
    assert sum(int(each.text.split()[-1]) for each in opened.find_elements("css selector", ".picked li")) == int(
        picked(opened).split()[0]
    )
    assert complaints(opened) == []


def test_hovering_shows_the_id_and_attributes_of_the_node(opened: Any, report: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from sklearn.neighbors import NearestNeighbors

    from fossil.graph.structure import undirected
    from fossil.runs.run import Run

    placed, canvas = positions(report), opened.find_element("css selector", "#panel-map canvas")
    apart = NearestNeighbors(n_neighbors=2).fit(placed).kneighbors(placed)[0][:, 1]
    row = int(apart.argmax())  # the node that no other is near
    half = canvas.size["height"] / 2 * 0.95 / 1.08  # the margin that the page leaves, and the distance of its camera
    x, y = round(placed[row, 0] * half), round(-placed[row, 1] * half)
    tip = opened.find_element("css selector", "#panel-map .tip")
    assert not tip.is_displayed()
    ActionChains(opened).move_to_element_with_offset(canvas, x + 40, y + 40).move_by_offset(-40, -40).perform()
    until(opened, "return !document.querySelector('#panel-map .tip').hidden")
    graph = Run.open(report.parent / "fossil").graph
    degree = undirected(graph.adjacency).indptr
    told = tip.text.splitlines()
    assert told[:3] == [
        str(graph.ids[row]),
        f"label: {graph.labels[row]}",
        f"degree: {degree[row + 1] - degree[row]}",
    ]
    opened.execute_script(
        "const s = document.getElementById('colour'); s.value = 'degree'; s.dispatchEvent(new Event('change'))"
    )
    until(opened, "return document.querySelector('#panel-map .ramp') !== null")
    ActionChains(opened).move_by_offset(60, 60).perform()
    ActionChains(opened).move_to_element_with_offset(canvas, x, y).perform()
    until(opened, "return document.querySelectorAll('#panel-map .tip span')[0]?.textContent.startsWith('degree')")
    assert tip.text.splitlines()[0] == str(graph.ids[row])
    ActionChains(opened).move_to_element(opened.find_element("id", "theme")).perform()
    until(opened, "return document.querySelector('#panel-map .tip').hidden")


def test_a_browser_without_webgl_is_told_why_there_is_no_map(report: Path, tmp_path: Path) -> None:
    pytest.importorskip("selenium")
    if BROWSER is None or DRIVER is None:
        pytest.skip(MISSING)
    with chromium(tmp_path / "profile", flags=("--disable-3d-apis",)) as driver:
        driver.get(report.as_uri())
        said = until(driver, "return document.querySelector('[role=alert]')?.textContent")
        assert said == "The map cannot be drawn: this browser has no WebGL, or it is switched off."
        go(driver, "scores")  # which needs none


def test_search_finds_a_node_and_shows_its_neighbours(opened: Any, report: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    box = opened.find_element("id", "search")
    box.send_keys("17")
    until(opened, "return !document.getElementById('found').hidden")
    assert opened.find_elements("css selector", "#found [role=option]")[0].text == "17"
    box.send_keys(Keys.ENTER)
    until(opened, "return document.querySelector('.node-card h3')?.textContent === '17'")
    go(opened, "node")
    until(opened, "return document.querySelectorAll('#panel-node .neighbours').length === 2")
    listed = [
        [button.text for button in column.find_elements("css selector", "bdi")]
        for column in opened.find_elements("css selector", "#panel-node .neighbours")
    ]
    assert listed == [neighbours_in_graph(report, 17), neighbours_by_vector(report, 17)]
    until(opened, "return document.querySelectorAll('#panel-node .subgraph canvas').length > 0")


def test_enter_takes_the_id_that_the_arrows_went_to(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    box = opened.find_element("id", "search")
    box.send_keys("1")
    until(opened, "return document.querySelectorAll('#found [role=option]').length === 12")
    third = opened.find_elements("css selector", "#found [role=option]")[2].text
    box.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    until(opened, "return document.querySelector('.node-card h3')?.textContent === arguments[0]", third)
    assert third != "1"


def test_many_searches_leave_the_map_its_drawing(opened: Any) -> None:
    """A browser keeps sixteen drawings in WebGL, and takes the oldest away, which is the map's."""
    from selenium.webdriver.common.keys import Keys

    opened.execute_script(
        "const canvas = document.querySelector('#panel-map canvas');"
        "canvas.addEventListener('webglcontextlost', () => { window.lost = true; })"
    )
    go(opened, "node")
    box = opened.find_element("id", "search")
    for row in range(20, 36):
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(str(row), Keys.ENTER)
        until(opened, "return document.querySelector('.node-view .big')?.textContent === arguments[0]", str(row))
        until(opened, "return document.querySelectorAll('#panel-node .subgraph canvas').length > 0")
    assert opened.execute_script("return window.lost") is None and complaints(opened) == []


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about runs of two graphs, the first of them with fewer nodes."""
    import fossil
    from fossil.datasets.synthetic import csbm
    from fossil.report.page import write_report
    from fossil.runs.run import Run

    folder = tmp_path_factory.mktemp("unlike")
    for name, nodes in (("small", 20), ("large", 60)):
        fossil.embed(csbm(nodes, degree=6, features=4, seed=0), method="features", out=folder / name)
    write_report(folder / "report.html", [Run.open(folder / name) for name in ("small", "large")], splits=2)
    return folder / "report.html"


def test_a_node_of_another_graph_is_that_graphs(browser: Any, unlike: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opening(browser, unlike)
    go(browser, "compare")
    until(browser, "return document.querySelectorAll('#panel-compare .scatter[data-points]').length === 2")
    browser.find_elements("css selector", "#panel-compare canvas")[1].send_keys(Keys.ARROW_RIGHT)
    until(browser, "return document.getElementById('run').value === '1'")
    go(browser, "node")
    shown = until(browser, "return document.querySelector('.node-view .big')?.textContent")
    assert 0 <= int(shown) < 60 and complaints(browser) == []
    assert browser.find_elements("css selector", "[role=alert]") == []
    # A legend is that of the run on the left, also of another one than before.
    go(browser, "compare")
    browser.execute_script(
        "const s = document.getElementById('run-left'); s.value = '1'; s.dispatchEvent(new Event('change'))"
    )
    counted = (
        "return [...document.querySelectorAll('#panel-compare .legend .count')]"
        ".reduce((sum, each) => sum + Number(each.textContent), 0)"
    )
    until(browser, f"{counted} === 60")


def neighbours_in_graph(report: Path, row: int) -> list[str]:
    from fossil.graph.structure import undirected
    from fossil.runs.run import Run

    edges = undirected(Run.open(report.parent / "fossil").graph.adjacency)
    return [str(each) for each in edges.indices[edges.indptr[row] : edges.indptr[row + 1]][:10]]


def neighbours_by_vector(report: Path, row: int) -> list[str]:
    """By scikit-learn's cosines."""
    from sklearn.neighbors import NearestNeighbors

    from fossil.runs.run import Run

    vectors = Run.open(report.parent / "fossil").embeddings.vectors.astype("float64")
    found = NearestNeighbors(n_neighbors=11, metric="cosine").fit(vectors).kneighbors(vectors[[row]])[1][0]
    return [str(each) for each in found if each != row][:10]


def test_the_plan_is_drawn_with_its_costs(opened: Any, report: Path) -> None:
    go(opened, "transport")
    until(opened, "return document.querySelector('.plan').dataset.drawn")
    meta, plans = embedded(report, "meta"), embedded(report, "plans")
    pair = meta["runs"][0]["pairs"][0]
    plan = plans[f"0/{pair['a']}/{pair['b']}"]
    most = max(plan["mass"])
    links = [mass for mass in plan["mass"] if mass >= 0.01 * most]
    assert len(opened.find_elements("css selector", ".plan-drawing .link")) == len(links) > 0
    assert len(opened.find_elements("css selector", ".plan-drawing circle")) == 10  # two subgraphs of five
    widths = [float(each.get_attribute("stroke-width")) for each in opened.find_elements("css selector", ".link")]
    assert max(widths) == pytest.approx(widths[0] * max(links) / links[0], rel=0.02)  # as wide as there is mass
    assert len(opened.find_elements("css selector", ".cost")) == 4
    buttons = opened.find_elements("css selector", ".pairs button")
    assert len(buttons) == len(meta["runs"][0]["pairs"])
    before = opened.execute_script("return document.querySelector('.plan').dataset.drawn")
    buttons[-1].click()
    until(opened, "return document.querySelector('.plan').dataset.drawn !== arguments[0]", before)


def test_every_view_opens_in_both_themes_without_a_complaint_or_a_request(opened: Any, report: Path) -> None:
    for theme in ("light", "dark"):
        if opened.execute_script("return document.documentElement.dataset.theme") != theme:
            opened.find_element("id", "theme").click()
        for view in VIEWS:
            go(opened, view)
            until(opened, "return document.getElementById('panel-' + arguments[0]).innerText.length > 20", view)
    assert complaints(opened) == []
    assert set(requests(opened)) == {report.as_uri()}


def test_the_policy_stops_what_would_leave(opened: Any, report: Path) -> None:
    """Even a script of the page itself reaches nobody, and no other script runs."""
    stopped = opened.execute_async_script(
        """
        const done = arguments[0];
        const image = new Image();
        image.src = 'http://127.0.0.1:9/pixel.png';
        const script = document.createElement('script');
        script.textContent = 'window.ran = 1';
        document.body.append(script);
        fetch('http://127.0.0.1:9/').then(() => done('left'), () => done(window.ran ? 'ran' : 'stopped'));
        """
    )
    assert stopped == "stopped"
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    asked = {
        event["params"]["requestId"]: event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    failed = [event["params"] for event in events if event["method"] == "Network.loadingFailed"]
    stopped_by_policy = {each["requestId"] for each in failed if each.get("blockedReason") == "csp"}
    assert {url for key, url in asked.items() if key not in stopped_by_policy} == {report.as_uri()}
    refused = [line for line in complaints(opened) if "Content Security Policy" in line]
    assert {part for part in ("pixel.png", "script-src", "connect-src") if any(part in line for line in refused)} == {
        "pixel.png",
        "script-src",
        "connect-src",
    }


def test_scores_are_those_that_evaluate_gives(opened: Any, report: Path) -> None:
    import fossil

    rows = fossil.evaluate([report.parent / name for name in ("fossil", "fossil_channels")], splits=3, features=True)
    go(opened, "scores")
    shown = [each.text for each in opened.find_elements("css selector", "#panel-scores .ladder .value")]
    assert shown[:2] == [f"{100 * row.accuracy.mean:.2f} %" for row in rows]
    assert len(shown) == 5  # two runs, features, propagated features, the majority


def test_no_name_leaves_the_picture_of_the_scores(opened: Any) -> None:
    go(opened, "scores")
    lefts = opened.execute_script(
        "return [...document.querySelectorAll('#panel-scores .ladder text')].map((each) => each.getBBox().x)"
    )
    assert len(lefts) > 5 and min(lefts) >= 0
    names = opened.find_elements("css selector", "#panel-scores .ladder text.run:not(.value)")
    whole = [each.text for each in opened.find_elements("css selector", "#panel-scores tbody tr td:nth-child(2) bdi")]
    assert names[0].text.startswith("FOSSIL") and names[0].text.rstrip("…") in whole[0]


def test_keyboard_alone_is_enough(opened: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        chain = ActionChains(opened)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    press("/")  # the search, from anywhere
    assert opened.switch_to.active_element.get_attribute("id") == "search"
    press("plain", Keys.ESCAPE, Keys.TAB)  # the theme
    assert opened.switch_to.active_element.get_attribute("id") == "theme"
    theme = opened.execute_script("return document.documentElement.dataset.theme")
    press(Keys.ENTER)
    assert opened.execute_script("return document.documentElement.dataset.theme") != theme
    press(Keys.TAB)  # the tabs
    assert opened.switch_to.active_element.get_attribute("id") == "tab-map"
    press(Keys.TAB)  # the map
    assert opened.switch_to.active_element.tag_name == "canvas"
    press(Keys.ARROW_RIGHT)
    first = until(opened, "return document.querySelector('.node-card h3')?.textContent")
    press(Keys.ARROW_UP)
    until(opened, "return document.querySelector('.node-card h3')?.textContent !== arguments[0]", first)
    press(Keys.ENTER)  # opens the node
    until(opened, "return !document.getElementById('panel-node').hidden")
    opened.find_element("id", "tab-node").send_keys(Keys.ARROW_RIGHT)
    assert not opened.execute_script("return document.getElementById('panel-transport').hidden")
    opened.switch_to.active_element.send_keys(Keys.END)
    assert not opened.execute_script("return document.getElementById('panel-provenance').hidden")


def test_colour_by_another_column(opened: Any) -> None:
    opened.execute_script(
        """
        const select = document.getElementById('colour');
        select.value = 'degree';
        select.dispatchEvent(new Event('change'));
        """
    )
    until(opened, "return document.querySelector('#panel-map .ramp') !== null")
    options = [each.get_attribute("value") for each in opened.find_elements("css selector", "#colour option")]
    assert {"label", "lambda", "degree", "agreement", "probe", "table:feature 0"} <= set(options)


def test_two_maps_share_one_selection(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    go(opened, "compare")
    until(opened, "return document.querySelectorAll('#panel-compare .scatter[data-points]').length === 2")
    box = opened.find_element("id", "search")
    box.clear()
    box.send_keys("42")
    until(opened, "return !document.getElementById('found').hidden")
    box.send_keys(Keys.ENTER)
    until(opened, "return document.querySelector('#panel-compare').innerText.includes('nearest nodes are the same')")
    assert len(opened.find_elements("css selector", "#panel-compare .neighbours")) == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_accessibility_checker_finds_nothing(opened: Any, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in frontend/")
    if opened.execute_script("return document.documentElement.dataset.theme") != theme:
        opened.find_element("id", "theme").click()
    opened.execute_script(AXE.read_text())
    checked = 0
    for view in VIEWS:
        go(opened, view)
        until(opened, "return document.getElementById('panel-' + arguments[0]).innerText.length > 20", view)
        found = opened.execute_async_script("axe.run(document).then(arguments[0], (error) => arguments[0]({error}))")
        wrong = [
            (each["id"], [node["html"][:200] for node in each["nodes"][:3]], each["nodes"][0].get("failureSummary"))
            for each in found["violations"]
        ]
        assert wrong == [], (view, wrong)
        checked += len(found["passes"])
        assert "color-contrast" in [each["id"] for each in found["passes"]]
    print(f"axe-core, {theme}: {checked} rules passed over {len(VIEWS)} views")
    assert checked > 100
