"""The bundle that the package ships is what the sources in frontend/ build."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FRONTEND = Path(__file__).parents[2] / "frontend"
ASSETS = Path(__file__).parents[2] / "src" / "fossil" / "report" / "assets"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (FRONTEND / "node_modules" / "esbuild").is_dir(),
    reason="Node.js or the packages of frontend/ are not installed: npm ci in frontend/",
)


@needs_node
def test_the_shipped_bundle_is_what_the_sources_build(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=FRONTEND, check=True, timeout=120)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["page.css", "page.js"]
    for name in ("page.css", "page.js"):
        assert (tmp_path / name).read_bytes() == (ASSETS / name).read_bytes(), f"run npm run build: {name} is stale"


@needs_node
def test_the_sources_are_well_typed() -> None:
    subprocess.run(["node", "node_modules/typescript/bin/tsc", "--noEmit"], cwd=FRONTEND, check=True, timeout=300)


def test_the_bundle_is_small_and_ends_no_element() -> None:
    script, style = (ASSETS / "page.js").read_text("ascii"), (ASSETS / "page.css").read_text()
    assert len(script) + len(style) < 500_000
    assert "</script" not in script.lower() and "<!--" not in script and "</style" not in style.lower()
    assert "http://" not in style and "@import" not in style and "url(" not in style


def test_the_bundle_carries_the_notices_of_all_whose_code_is_in_it() -> None:
    """Also of those whose code came inside another package: earcut, gl-matrix and KDBush are in regl-scatterplot."""
    notice = (ASSETS / "page.js").read_text("ascii").split("*/")[0]
    holders = ("Leon Sorokin", "Brandon Jones", "Mapbox", "Vladimir Agafonkin", "Matt DesLauriers", "Mikola Lysenko")
    assert [each for each in holders if each not in notice] == []
    terms = {
        "MIT": "Permission is hereby granted",
        "ISC": "Permission to use",
        "BSD": "Redistribution and use in source",
    }
    assert [name for name, words in terms.items() if f"\n{name}: {words}" not in notice] == []
