"""Hostile ids, classes, columns, cells and run names: all of them are shown as text, and none runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hostile_page import HOSTILE, write_graph
from test_report_page import VIEWS, complaints, go, opening, requests, until

import fossil
from fossil.report.page import write_report
from fossil.runs.run import Run


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    source = write_graph(folder / "town")
    name = "<img src=x onerror=window.ran=1>\u202e&\"'" + "run"
    fossil.embed(source, label="team", method="features", out=folder / name, treatment={"direction": "symmetrize"})
    write_report(folder / "report.html", [Run.open(folder / name)], splits=2, device="cpu")
    return folder / "report.html"


def test_no_hostile_text_is_markup_in_the_file(hostile: Path) -> None:
    text = hostile.read_text()
    head, _, data = text.partition('id="meta">')
    data, _, script = data.partition("</script>\n<script>")
    assert data and script
    # What ends an element in the data are the ends of the three blocks themselves.
    assert data.count("</script") == 2 and "<!--" not in data and "<img" not in data and "\u2028" not in data
    assert "<img" not in head
    # An id of a megabyte is cut in lists, plans and pairs alike.
    assert "x" * 10_000 not in data and "<b>" * 5_000 not in data.replace("\\u003c", "<").replace("\\u003e", ">")


def test_no_hostile_text_runs(browser: Any, hostile: Path) -> None:
    opening(browser, hostile)
    plain = 30
    points = browser.execute_script("return document.querySelector('#panel-map .scatter').dataset.points")
    assert points == str(len(HOSTILE) + plain)
    tags = "return document.querySelectorAll('main script, main img, main iframe, main style, main animate').length"
    for row in range(len(HOSTILE)):
        found = browser.execute_async_script("window.fossil.select(arguments[0]).then(arguments[1])", row)
        assert found.startswith(list(HOSTILE.values())[row][:10])
        for view in ("map", "node"):
            go(browser, view)
        until(browser, "return document.querySelectorAll('#panel-node .neighbours').length === 2")
        assert browser.execute_script("return window.ran") is None, list(HOSTILE)[row]
        assert browser.execute_script(tags) == 0
    for view in VIEWS:
        if view != "compare":
            go(browser, view)
    columns = browser.find_elements("css selector", "#colour option")
    for number in range(len(columns)):
        browser.execute_script(
            "const s = document.getElementById('colour'); s.selectedIndex = arguments[0];"
            " s.dispatchEvent(new Event('change'));",
            number,
        )
    assert browser.execute_script("return window.ran") is None
    assert browser.execute_script("return getComputedStyle(document.querySelector('header')).display") == "grid"
    assert complaints(browser) == []
    assert set(requests(browser)) == {hostile.as_uri()}


def test_hostile_ids_are_found_by_what_they_are(browser: Any, hostile: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opening(browser, hostile)
    box = browser.find_element("id", "search")
    box.send_keys("</script><script>")
    until(browser, "return !document.getElementById('found').hidden")
    assert browser.find_elements("css selector", "#found [role=option]")[0].text.startswith("</script><script>")
    box.send_keys(Keys.ENTER)
    shown = until(browser, "return document.querySelector('.node-card h3')?.textContent")
    assert shown == "</script><script>window.ran=1</script>1"
    assert browser.execute_script("return window.ran") is None
