"""The site is built without a warning and without the network, and says where pages lead wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("material", reason="mkdocs-material is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")

ROOT = Path(__file__).parents[2]
# Attributes by which a page fetches something; `href` of an `a` waits for a click.
FETCHES = {"src", "srcset", "data", "poster", "xlink:href"}


def mkdocs(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(out)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "site"
    done = mkdocs(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """Collects what a page fetches by itself, and the ids on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in FETCHES or (name == "href" and tag not in ("a", "base")):
                self.fetched.append(value or "")


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 70
    for page in pages:
        fetched = Page(page).fetched
        assert fetched
        assert not [address for address in fetched if re.match(r"(https?:)?//", address)], page.name
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_page_has_a_place_and_the_reference_its_docstrings(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists()
    assert (site / "CONTRIBUTING.html").exists() and (site / "CHANGELOG.html").exists()
    reference = (site / "api.html").read_text(encoding="utf-8")
    for name in (
        "fossil.embed",
        "fossil.Embeddings.export",
        "fossil.Run",
        "fossil.FossilEmbedder",
        "fossil.Graph.rows",
    ):
        assert f'id="{name}"' in reference
    assert "Learn a vector for every node of a graph." in reference and "&gt;&gt;&gt;" in reference
    assert ":::" not in re.sub(r"<pre.*?</pre>", "", reference, flags=re.DOTALL)


def test_formulas_are_drawn_and_none_is_left_as_text(site: Path) -> None:
    written = sum(page.read_text(encoding="utf-8").count("\n$$") for page in (ROOT / "docs").rglob("*.md"))
    drawn = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    assert sum(text.count('class="formula"') for text in drawn) == written > 5
    assert not [text for text in drawn if "$$" in text]


def small_site(folder: Path, text: str, further: str = "") -> Path:
    """Make a repository of one page, one test and what the hooks need; return its configuration."""
    (folder / "docs").mkdir()
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text("")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        (folder / name).write_text(f"# {name}\n\n[the page](docs/page.md)\n")
    (folder / "docs" / "index.md").write_text("# Start\n\n[page](page.md)\n")
    (folder / "docs" / "page.md").write_text(f"# Page\n\n## A λ heading\n\n{text}\n")
    config = folder / "mkdocs.yml"
    config.write_text(
        f"site_name: small\nstrict: true\nuse_directory_urls: false\nhooks: [{ROOT / 'docs' / 'site_hooks.py'}]\n"
        f"theme: {{ name: material, font: false, custom_dir: {ROOT / 'docs' / 'overrides'} }}\n"
        "validation: { anchors: warn }\nnav: [index.md, page.md, CONTRIBUTING.md, CHANGELOG.md]\n" + further
    )
    return config


def article(folder: Path) -> str:
    text = (folder / "out" / "page.html").read_text(encoding="utf-8")
    found = re.search(r"<article.*?</article>", text, re.DOTALL)
    assert found is not None
    return found[0]


def test_links_to_tests_are_paths_without_a_repository_and_lead_there_with_one(tmp_path: Path) -> None:
    text = "Held by [a test](../tests/test_it.py) and [`test_it.py`](../tests/test_it.py). [Rules](../CONTRIBUTING.md)"
    done = mkdocs(small_site(tmp_path, text), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    shown = article(tmp_path)
    assert "a test: <code>tests/test_it.py</code> and <code>test_it.py</code>." in shown
    assert 'href="CONTRIBUTING.html"' in shown
    (tmp_path / "mkdocs.yml").open("a").write("repo_url: https://forge.example/us/it/\n")
    assert mkdocs(tmp_path / "mkdocs.yml", tmp_path / "out").returncode == 0
    assert article(tmp_path).count('href="https://forge.example/us/it/blob/main/tests/test_it.py"') == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gone](gone.md)", "links to gone.md, which does not exist"),
        ("[gone](../tests/gone.py)", "links to ../tests/gone.py, which does not exist"),
        ("[gone](index.md#no-such-heading)", "does not contain an anchor '#no-such-heading'"),
        ("$$\\nosuchsign{x}$$", "A formula cannot be drawn"),
    ],
)
def test_what_leads_nowhere_fails_the_build(tmp_path: Path, text: str, said: str) -> None:
    done = mkdocs(small_site(tmp_path, text), tmp_path / "out")
    assert done.returncode == 1 and said in done.stderr


def test_code_is_left_alone(tmp_path: Path) -> None:
    text = "```text\n[gone](gone.md)\n$$x$$\n```"
    assert mkdocs(small_site(tmp_path, text), tmp_path / "out").returncode == 0
    assert "[gone](gone.md)" in article(tmp_path) and "$$x$$" in article(tmp_path)
