"""The table of a drill, on the screen and between two marks of `docs/reliability.md`."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

START, END = "<!-- made by `make drill` -->", "<!-- end of what `make drill` made -->"
_COLUMNS = {
    "refused": "refused",
    "equal": "equal",
    "fine": "fine",
    "other": "other content",
    "traceback": "tracebacks",
    "hang": "hangs",
    "memory": "over 2 GB",
    "silent": "silent changes",
    "differs": "resumes that differ",
    "trespass": "trespasses",
    "skipped": "skipped",
}


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the counts as a Markdown table, a row a kind of case, rows in the order of the drill."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        rows.setdefault(record["row"], []).append(record)
    head = ["what was tried", "cases", *_COLUMNS.values(), "of which"]
    lines = [head, ["---", *(["--:"] * (len(head) - 2)), "---"]]
    lines += [_line(name, members) for name, members in rows.items()]
    lines.append(_line("**all**", list(records)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(name: str, members: list[dict[str, Any]]) -> list[str]:
    counts = [sum(record["outcome"] == outcome for record in members) for outcome in _COLUMNS]
    told: dict[str, int] = {}
    for record in members:
        for what, count in record["told"].items():
            told[what] = told.get(what, 0) + count
    words = ", ".join(f"{count} {what}" for what, count in told.items())
    return [name, f"{len(members):,}", *(f"{count:,}" for count in counts), words]


def state(records: Sequence[dict[str, Any]]) -> str:
    """Return in a sentence which sources the records are of, and what they ran with."""
    trees = ", ".join(sorted({f"`{record['tree']}`" for record in records}))
    versions = f"Python {platform.python_version()} and PyTorch {metadata.version('torch')} on {platform.machine()}"
    return f"All rows are of the sources with the fingerprint {trees}, tried with {versions}."


def write_page(page: Path, records: Sequence[dict[str, Any]]) -> None:
    """Put the table, and what it is of, into the page, in place of those that stand there."""
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{START}\n\n{state(records)}\n\n{table(records)}\n\n{END}{after}", encoding="utf-8")
