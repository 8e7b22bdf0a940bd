"""Texts that try to act on a page: as ids, classes, columns, cells, and names of files."""

from __future__ import annotations

import csv
from pathlib import Path

# Each would set `window.ran`, ask for something elsewhere, or break the page, if it were taken for more than text.
HOSTILE = {
    "script": "<script>window.ran=1</script>",
    "end of script": "</script><script>window.ran=1</script>",
    "end of script, in capitals": "</SCRIPT ><img src=x onerror=window.ran=1>",
    "comment": "<!--<script>window.ran=1//-->",
    "cdata": "<![CDATA[</script>]]>",
    "image": "<img src=x onerror=window.ran=1>",
    "remote image": '<img src="http://127.0.0.1:9/pixel.png">',
    "svg": "<svg onload=window.ran=1><animate onbegin=window.ran=1>",
    "frame": "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "attribute": '" onmouseover="window.ran=1" autofocus onfocus="window.ran=1',
    "single quotes": "' onclick='window.ran=1",
    "link": "javascript:window.ran=1",
    "data link": "data:text/html,<script>window.ran=1</script>",
    "style": "</style><style>*{display:none!important}",
    "css": "red;background:url(http://127.0.0.1:9/x)}*{display:none}",
    "entity": "&lt;script&gt;window.ran=1&lt;/script&gt;&#x3c;img src=x onerror=window.ran=1&#x3e;",
    "template": "{{constructor.constructor('window.ran=1')()}}${window.ran=1}`",
    "prototype": "__proto__",
    "constructor": "constructor",
    "json": '","x":{"toString":1},"y":"',
    "backslash": "\\u003cscript\\u003ewindow.ran=1\\u003c/script\\u003e\\",
    "separators": "a\u2028b\u2029window.ran=1",
    "right to left": "\u202egnp.exe\u2066\u200f\u202d",
    "controls": "\x01\x02\x07\x08\x0b\x0c\x1b[2J\x7f\x85\x9b31m",
    "byte order": "\ufeff\ufffe\uffff",
    "combining": "Z\u0351\u036b\u0343\u036a" * 40,
    "emoji": "👩\u200d👩\u200d👧\U0001f3f4\U000e0067",
    "spaces": " \u00a0\u2003 . ",
    "megabyte": "x" * 2**20,
    "long markup": "<b>" * 20_000,
}


def write_graph(folder: Path) -> Path:
    """A graph whose ids, classes, columns and cells are all hostile; the long ones are ids alone."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = list(HOSTILE.values())
    ids = [f"{text}{number}" for number, text in enumerate(texts)] + [f"plain-{number}" for number in range(30)]
    short = [text for text in texts if len(text) < 1000 and text.strip() and "\x0b" not in text]
    header = ["id", *(f"{short[i]} column" for i in (0, 1, 5, 9, 12)), "team"]
    rows = []
    for number, key in enumerate(ids):
        cells = [str(number % 5), short[number % len(short)], str(number % 3), short[number * 7 % 5], str(number % 2)]
        rows.append([key, *cells, f"{short[number % 3]} class"])
    _write(folder / "nodes.csv", [header, *rows])
    count = len(ids)
    ends = [[ids[a], ids[(a + step) % count]] for a in range(count) for step in (1, 2, 3, 5)]
    _write(folder / "edges.csv", [["source", "target"], *ends])
    return folder


def _write(path: Path, rows: list[list[str]]) -> None:
    csv.field_size_limit(2**22)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
