"""TensorBoard: a folder that its projector shows."""

from __future__ import annotations

import json
from pathlib import Path

from fossil.printable import printable
from fossil.runs.exports.base import Exporter, Subject, decimal

_TENSORS, _METADATA, _CONFIG = "tensors.tsv", "metadata.tsv", "projector_config.pbtxt"


class TensorboardExporter(Exporter):
    """Vectors, what is known of the nodes, and where the projector finds both; TensorBoard is needed to look at it."""

    name = "tensorboard"
    suffix = "-projector"
    is_folder = True

    @classmethod
    def wrote(cls, folder: Path) -> bool:
        """Tell whether there is nothing in it but what `write` writes."""
        return folder.is_dir() and {path.name for path in folder.iterdir()} <= {_TENSORS, _METADATA, _CONFIG}

    @classmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write three files; what would end a cell or a line in an id or a class is escaped."""
        path.mkdir()
        with (path / _TENSORS).open("x", encoding="utf-8", newline="\n") as stream:
            stream.writelines("\t".join(numbers) + "\n" for numbers in decimal(subject.vectors))
        columns = [column if isinstance(column, list) else map(str, column) for column in subject.columns.values()]
        with (path / _METADATA).open("x", encoding="utf-8", newline="\n") as stream:
            if columns:  # the projector takes the first line for names where there are several columns, and only there
                stream.write("\t".join(map(printable, ["id", *subject.columns])) + "\n")
            for cells in zip(subject.ids, *columns, strict=True):
                stream.write("\t".join("unknown" if cell is None else printable(cell) for cell in cells) + "\n")
        paths = {"tensor_name": subject.name, "tensor_path": _TENSORS, "metadata_path": _METADATA}
        lines = [f"  {key}: {json.dumps(printable(value))}\n" for key, value in paths.items()]
        (path / _CONFIG).write_text(f"embeddings {{\n{''.join(lines)}}}\n", encoding="utf-8")
