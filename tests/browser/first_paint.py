"""How soon a report shows something: `python tests/browser/first_paint.py report.html [times]`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from browser import chromium

_PAINTS = """
const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
const map = performance.getEntriesByName('first map')[0]?.startTime;
return [paint ?? null, map ?? null, document.querySelector('.scatter')?.dataset.points];
"""


def measure(page: Path) -> tuple[float, float, int]:
    """Return seconds to the first text and to the map, and its points, in a browser that was just started."""
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        driver.get(page.resolve().as_uri())
        while True:
            paint, drawn, points = driver.execute_script(_PAINTS)
            if paint is not None and drawn is not None:
                return paint / 1000, drawn / 1000, int(points)
            time.sleep(0.05)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
        paint, drawn, points = measure(page)
        print(
            f"{page.name}: {page.stat().st_size / 1e6:.2f} MB, {points:,} points, text {paint:.2f} s, map {drawn:.2f} s"
        )
