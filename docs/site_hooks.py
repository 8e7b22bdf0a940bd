"""What the site needs beyond MkDocs: pages and pictures from outside `docs`, links out of it, and formulas as pictures.

MkDocs calls the functions by their names (`hooks:` in `mkdocs.yml`). The pages stay what they are, plain Markdown whose
links work where the repository is looked at.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")

_FENCE = re.compile(r"^(```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FORMULA = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
# What the formulas have of LaTeX and matplotlib has not.
_SPELLINGS = {
    r"\\[bB]ig(?![a-z])": "",
    r"\\frac(?=\{)": r"\\dfrac",
    r"\\tfrac(\w)(\w)": r"\\frac{\1}{\2}",
    r"\\textstyle": " ",
    r"\\[lr]Vert": r"\\Vert",
}


def on_config(config: Any) -> Any:
    """Spell out `folder/*` in the navigation: every page of a folder that has no place of its own, by name."""
    config.nav = _spelt_out(config.nav, set(_pages(config.nav)), Path(config.docs_dir))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's root."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(_root(config) / name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn formulas into pictures, and make links lead where they should."""
    if page.file.src_uri == "index.md":
        page.meta |= {"template": "home.html", "hide": ["navigation", "toc"]}
    parts = _FENCE.split(markdown)  # every second one is a block of code
    for place in range(0, len(parts), 2):
        text = _FORMULA.sub(lambda found: _drawn(found[1]), parts[place])
        parts[place] = _LINK.sub(lambda found: _relinked(found, page.file, config, files), text)
    return "".join(parts)


def _root(config: Any) -> Path:
    """The repository."""
    return Path(config.config_file_path).parent


def _pages(nav: Any) -> list[str]:
    """Return every page that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    return [page for each in (nav.values() if isinstance(nav, dict) else nav) for page in _pages(each)]


def _spelt_out(nav: Any, named: set[str], docs: Path) -> Any:
    if isinstance(nav, dict):
        return {title: _spelt_out(each, named, docs) for title, each in nav.items()}
    if not isinstance(nav, list):
        return nav
    found: list[Any] = []
    for each in nav:
        if isinstance(each, str) and each.endswith("/*"):
            pages = (str(path.relative_to(docs)) for path in sorted((docs / each[:-2]).glob("*.md")))
            found += [page for page in pages if page not in named]
        else:
            found.append(_spelt_out(each, named, docs))
    return found


def _relinked(found: re.Match[str], file: File, config: Any, files: Files) -> str:
    """Return a link as the site has it: to its own pages as they are, to other files of the repository by address.

    Without an address of the repository, such a link is the text it has, with the path where that does not tell it.
    """
    picture, text, target = found.groups()
    if "://" in target or target.startswith(("#", "mailto:")):
        return found[0]
    root, docs = _root(config), Path(config.docs_dir)
    path, hash_, heading = target.partition("#")
    real = Path(os.path.normpath(Path(file.abs_src_path or root).parent / path))
    if not real.exists():
        raise PluginError(f"{file.src_uri} links to {target}, which does not exist.")
    if real.is_relative_to(docs) or str(real.relative_to(root)) in ROOT_PAGES:
        inside = str(real.relative_to(docs if real.is_relative_to(docs) else root))
        return f"{picture}[{text}]({_relative(inside, file)}{hash_}{heading})"
    outside = str(real.relative_to(root))
    if picture:
        if files.get_file_from_path(outside) is None:
            files.append(File.generated(config, outside, abs_src_path=str(real)))
        return f"![{text}]({_relative(outside, file)})"
    if config.repo_url:
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{outside}{hash_}{heading})"
    return text if real.name in text else f"{text}: `{outside}`"


def _relative(target: str, file: File) -> str:
    return os.path.relpath(target, os.path.dirname(file.src_uri) or ".")  # noqa: PTH120


def _drawn(formula: str) -> str:
    """Return a formula as a picture in the page, which needs no script and no font, in the colour of the text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    source = " ".join(formula.split())
    spelt = source
    for pattern, replacement in _SPELLINGS.items():
        spelt = re.sub(pattern, replacement, spelt)
    try:
        path = TextPath((0, 0), f"${spelt}$", size=100, prop=FontProperties(math_fontfamily="cm"))
    except ValueError as error:
        raise PluginError(f"A formula cannot be drawn: {source}") from error
    letters = {path.MOVETO: "M", path.LINETO: "L", path.CURVE3: "Q", path.CURVE4: "C", path.CLOSEPOLY: "Z"}
    steps = "".join(
        letters[code] + ("" if code == path.CLOSEPOLY else " ".join(f"{number:.0f}" for number in points))
        for points, code in path.iter_segments(curves=True, simplify=False)
    )
    box = path.get_extents()
    view = f"{box.x0 - 5:.0f} {-box.y1 - 5:.0f} {box.width + 10:.0f} {box.height + 10:.0f}"
    label = html.escape(source, quote=True)
    return (
        f'<svg class="formula" role="img" aria-label="{label}" viewBox="{view}" style="width:{box.width / 85:.1f}em">'
        f'<path transform="scale(1 -1)" d="{steps}"/></svg>'
    )
