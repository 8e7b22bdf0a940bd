"""What commands print of a graph, on a terminal of 80 columns."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from fossil.cli.show import show_graph
from fossil.readers.source import open_graph

LONG = "how_satisfied_are_you_with_the_stops_near_your_home_or_your_place_of_work"


def test_the_encoding_plan_names_every_column_in_full(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(f"id,{LONG}_1\nada,1\nbob,3\n")
    (tmp_path / "edges.csv").write_text("source,target\nada,bob\n")
    out = io.StringIO()
    show_graph(Console(file=out, width=80), open_graph(str(tmp_path)))
    head, *lines = out.getvalue().splitlines()
    assert head.endswith("2 nodes, 1 directed edge, 1 feature, no classes")
    names = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert names == f"id{LONG}_1" and "…" not in out.getvalue()
