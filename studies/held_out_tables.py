"""Make the tables of two graphs that nothing was tuned on, beside this file: `mutag-atoms` and `protein-parts`.

Both are collections of small graphs (TU Dortmund), here one graph each, whose nodes are classified in place of its
components: the atoms of MUTAG's 188 molecules by element, the parts of the first fifty proteins of PROTEINS by their
kind, of three. An atom has no column of its own, a part has its length; features from the edges stand beside them
(`structural_features` in `held_out.yaml`). For whoever has `TUDataset` under $FOSSIL_DATA:

    python studies/held_out_tables.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from raw_files import raw_folder

ELEMENTS = ("C", "N", "O", "F", "I", "Cl", "Br")  # in the order of the numbers in the file
KINDS = ("first", "second", "third")  # of secondary structure
PROTEINS = 50


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write one CSV file."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def numbers(folder: Path, name: str) -> np.ndarray:
    """Return the numbers of one file of a collection, a row for each line."""
    return np.loadtxt(folder / "raw" / f"{folder.name}_{name}.txt", delimiter=",", ndmin=2)


def make(folder: Path, out: Path, classes: Sequence[str], components: int | None = None) -> None:
    """Write `nodes.csv` and `edges.csv` of a collection, or of its first components."""
    component = numbers(folder, "graph_indicator")[:, 0]
    kept = int(np.sum(component <= component.max() if components is None else component <= components))
    kinds = numbers(folder, "node_labels")[:kept, 0].astype(int)
    attributes = folder / "raw" / f"{folder.name}_node_attributes.txt"
    lengths = numbers(folder, "node_attributes")[:kept, 0] if attributes.exists() else None
    header = ("id", "class") if lengths is None else ("id", "length", "class")
    columns = [np.arange(1, kept + 1), *([] if lengths is None else [lengths]), [classes[kind] for kind in kinds]]
    write_table(out / "nodes.csv", header, zip(*columns, strict=True))
    edges = numbers(folder, "A").astype(int)
    write_table(out / "edges.csv", ("source", "target"), edges[(edges <= kept).all(1)].tolist())
    print(out)


def main() -> None:
    """Read the two collections and write their tables."""
    data, here = raw_folder("TUDataset"), Path(__file__).parent
    make(data / "MUTAG", here / "mutag-atoms", ELEMENTS)
    make(data / "PROTEINS", here / "protein-parts", KINDS, PROTEINS)


if __name__ == "__main__":
    main()
