"""CSV: a row a node, as text."""

from __future__ import annotations

import csv
from pathlib import Path

from fossil.runs.exports.base import Exporter, Subject, decimal


class CsvExporter(Exporter):
    """A table with columns `id`, what is known of the node, and `v0`, `v1`, ...; an unknown class is left empty."""

    name = "csv"
    suffix = ".csv"

    @classmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write the table; text with commas, quotes or line ends is quoted."""
        beside = [column if isinstance(column, list) else column.tolist() for column in subject.columns.values()]
        with path.open("x", encoding="utf-8", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["id", *subject.columns, *(f"v{i}" for i in range(subject.vectors.shape[1]))])
            for name, numbers, *known in zip(subject.ids, decimal(subject.vectors), *beside, strict=True):
                table.writerow([name, *known, *numbers])
