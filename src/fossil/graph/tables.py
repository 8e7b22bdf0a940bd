"""Node and edge tables: CSV, TSV and Parquet files, and what they have in common with data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError, nearest
from fossil.graph.assemble import RawGraph
from fossil.graph.cells import Column, NodeTable
from fossil.graph.encoding import ColumnChoices, EncodingPlan, encode_table
from fossil.graph.findings import Finding
from fossil.graph.graph import Array

SUFFIXES = (".csv", ".tsv", ".parquet")
ID_NAMES = ("id", "node", "node_id", "__index_level_0__")  # the last is how pandas stores an unnamed index
EDGE_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of equal length, and the place of every row in its source, for error messages."""

    where: str
    columns: Mapping[str, Column]
    lines: Sequence[int]
    unit: str = "line"


def read_tables(
    nodes_path: Path, edges_path: Path | None, choices: ColumnChoices | None = None, name: str = "graph"
) -> tuple[RawGraph, EncodingPlan]:
    """Read a node table and an edge table.

    Args:
        nodes_path: one row a node: an id, then columns.
        edges_path: one row an edge: the ids of its two ends; None for a graph without edges.
        choices: what the caller said about columns.
        name: what to call the graph.

    Raises:
        GraphError: a file is missing, malformed, or does not fit the other one.
    """
    edges = None if edges_path is None else read_frame(edges_path)
    return raw_from_frames(read_frame(nodes_path), edges, choices, name)


def raw_from_frames(
    nodes: Frame,
    edges: Frame | None,
    choices: ColumnChoices | None = None,
    name: str = "graph",
    id_name: str | None = None,
) -> tuple[RawGraph, EncodingPlan]:
    """Encode the node columns and look up the ends of every edge; `id_name` overrides the search for the ids."""
    choices = choices or ColumnChoices()
    table = node_table(nodes, id_name or id_column(nodes, choices))
    encoded = encode_table(table, choices)
    positions = {text: row for row, text in enumerate(map(str, table.ids.tolist()))}
    source, target, ignored = edge_positions(edges, positions)
    raw = RawGraph(
        name=name,
        source=source,
        target=target,
        features=encoded.features,
        ids=table.ids,
        labels=encoded.labels,
        label_names=encoded.label_names,
        feature_names=encoded.feature_names,
        findings=(*encoded.findings, *ignored),
    )
    return raw, encoded.plan


def table_paths(source: Path, edges: Path | None) -> tuple[Path, Path | None]:
    """Return the node file and the edge file that a folder, or a node file, stands for.

    Raises:
        GraphError: a folder without exactly one node file, or with several edge files.
    """
    folder = source if source.is_dir() else source.parent
    nodes = _only(folder, "nodes") if source.is_dir() else source
    if nodes is None:
        wanted = ", ".join(f"nodes{suffix}" for suffix in SUFFIXES)
        raise GraphError(f"Folder {folder} has none of {wanted}.", remedy="Put a node table there, or name the file.")
    return nodes, edges or _only(folder, "edges")


def _only(folder: Path, stem: str) -> Path | None:
    found = [folder / f"{stem}{suffix}" for suffix in SUFFIXES if (folder / f"{stem}{suffix}").is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise GraphError(f"Folder {folder} has both {names}.", remedy="Keep one, or name the file to read.")
    return found[0] if found else None


def read_frame(path: Path) -> Frame:
    """Read one table; the suffix tells the format.

    Raises:
        GraphError: the file is missing, unreadable, empty or malformed.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise GraphError(f"{path} is no table this package reads.", remedy=f"Use one of {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise GraphError(f"{path} does not exist.", remedy="Check the spelling of the path.")
    return _read_parquet(path) if suffix == ".parquet" else _read_delimited(path)


def _read_delimited(path: Path) -> Frame:
    text = _decode(path)
    first = text.partition("\n")[0]
    usual = ";" if first.count(";") > first.count(",") else ","
    delimiter = "\t" if path.suffix.lower() == ".tsv" else usual
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise GraphError(
            f"{path}, line {reader.line_num}: {error}.", remedy="Check the quotation marks around that line."
        ) from error
    if not rows:
        raise GraphError(f"{path} is empty.", remedy="The first line must name the columns.")
    header = _header(path, rows[0])
    for row, line in zip(rows[1:], lines[1:], strict=True):
        if len(row) != len(header):
            raise GraphError(
                f"{path}, line {line} has {len(row)} cells, but the header names {len(header)} columns.",
                remedy="Every row needs one cell a column; quote cells that contain the delimiter.",
            )
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return Frame(str(path), dict(zip(header, columns, strict=True)), lines[1:])


def _decode(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{path} is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start:,}.",
            remedy="Save the file as UTF-8.",
        ) from error
    except OSError as error:
        raise GraphError(
            f"{path} cannot be read: {error.strerror}.", remedy="Check the path and its permissions."
        ) from error


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(cells)]
    repeated = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if repeated is not None:
        raise GraphError(f"{path} has two columns named {repeated!r}.", remedy="Give every column its own name.")
    if all(_is_number(cell) for cell in cells):
        raise GraphError(
            f"The header of {path} holds numbers ({', '.join(cells[:3])}), not column names.",
            remedy="Add a header line, for example id,x1,x2 for nodes or source,target for edges.",
        )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> Frame:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise GraphError(
            f"Reading {path} needs pyarrow, which is not installed.", remedy="pip install 'fossil-gnn[tables]'"
        ) from error
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise GraphError(
            f"{path} is not a Parquet file that can be read ({error}).", remedy="Write it again."
        ) from error
    columns: dict[str, Column] = {}
    for name, column in zip(_header(path, table.column_names), table.columns, strict=True):
        kind = column.type
        plain = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
        columns[name] = column.to_numpy() if plain and not column.null_count else column.to_pylist()
    if not columns:
        raise GraphError(f"{path} has no columns.", remedy="A table needs at least an id column.")
    return Frame(str(path), columns, range(1, table.num_rows + 1), unit="row")


def id_column(frame: Frame, choices: ColumnChoices) -> str:
    """Return the column of node ids: the declared one, that of the plan, `id`, `node`, `node_id`, or the first."""
    declared = next((name for name, role in choices.roles.items() if role == "id"), None)
    if declared is not None and declared not in frame.columns:
        raise GraphError(f"{frame.where} has no column {declared!r}.", remedy=nearest(declared, frame.columns))
    if declared is None and choices.plan is not None:
        planned = next((column.name for column in choices.plan.columns if column.role == "id"), None)
        declared = planned if planned in frame.columns else None
    lower = {name.lower(): name for name in reversed(list(frame.columns))}
    usual = next((lower[name] for name in ID_NAMES if name in lower), None)
    return declared or usual or next(iter(frame.columns))


def node_table(frame: Frame, id_name: str) -> NodeTable:
    """Return the nodes of `frame` with `id_name` as their ids.

    Raises:
        GraphError: no rows, or an id that is empty, repeated or contains the NUL character.
    """
    texts = id_texts(frame.columns[id_name])
    if not texts:
        raise GraphError(f"{frame.where} has no nodes.", remedy="Give each node one row.")
    seen: dict[str, int] = {}
    for text, line in zip(texts, frame.lines, strict=True):
        place = f"{frame.where}, {frame.unit} {line}"
        if not text or "\0" in text:
            raise GraphError(f"{place}: the node id {text!r} is not usable.", remedy=f"Fill column {id_name!r}.")
        if text in seen:
            raise GraphError(
                f"{place}: node id {text!r} was already given in {frame.unit} {seen[text]}.",
                remedy="Ids must be distinct; keep one row a node, or choose the id column with --column NAME=id.",
            )
        seen[text] = line
    columns = {name: column for name, column in frame.columns.items() if name != id_name}
    return NodeTable(frame.where, as_ids(texts), columns, id_name)


def edge_positions(frame: Frame | None, positions: Mapping[str, int]) -> tuple[Array, Array, tuple[Finding, ...]]:
    """Return E sources and E targets as node positions, and the finding about columns that were not read.

    Args:
        frame: the edge table, or None for no edges.
        positions: the row of every node, by id.

    Raises:
        GraphError: fewer than two columns, no header, or an edge that names an unknown node.
    """
    if frame is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), ()
    names = list(frame.columns)
    if len(names) < 2:
        raise GraphError(
            f"{frame.where} has one column ({names[0]!r}); an edge has two ends.",
            remedy="Name the columns source,target and check the delimiter (, or ; in .csv, a tab in .tsv).",
        )
    lower = {name.lower(): name for name in names}
    pairs = [(lower[a], lower[b]) for a, b in EDGE_NAMES if a in lower and b in lower]
    ends = pairs[0] if pairs else (names[0], names[1])
    if not pairs and all(end in positions for end in ends):
        raise GraphError(
            f"The first line of {frame.where} is an edge ({ends[0]}, {ends[1]}), not column names.",
            remedy="Add the header line source,target.",
        )
    source, target = (_look_up(frame, end, positions) for end in ends)
    extra = tuple(name for name in names if name not in ends)
    ignored = (Finding("further edge columns", len(extra), "ignored", extra[:3]),) if extra else ()
    return source, target, ignored


def _look_up(frame: Frame, column: str, positions: Mapping[str, int]) -> Array:
    texts = id_texts(frame.columns[column])
    rows = np.asarray([positions.get(text, -1) for text in texts], dtype=np.int64)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        text = texts[unknown[0]]
        hint = " It is known without the spaces around it." if text.strip() in positions else ""
        raise GraphError(
            f"{frame.where}, {frame.unit} {frame.lines[unknown[0]]}: {column} names node {text!r}, which is not in the "
            f"node table ({len({texts[i] for i in unknown}):,} such ids).{hint}",
            remedy="Add the node to the node table, or remove the edge.",
        )
    return rows


def id_texts(column: Column) -> list[str]:
    """Return ids as text, exactly as written; missing ids become empty."""
    cells: Iterable[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return [cell if isinstance(cell, str) else _id_text(cell) for cell in cells]


def _id_text(cell: object) -> str:
    if cell is None or cell != cell:
        return ""
    # A column with a gap turns integers into floats: 3.0 is still node 3.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def as_ids(texts: Sequence[str]) -> Array:
    """Return ids as int64 when every one is an integer written the usual way, else as strings.

    >>> as_ids(["10", "2"]), as_ids(["10", "02"])
    (array([10,  2]), array(['10', '02'], dtype='<U2'))
    """
    try:
        numbers = np.asarray([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.asarray(texts, dtype=np.str_)
    return numbers if list(map(str, numbers.tolist())) == list(texts) else np.asarray(texts, dtype=np.str_)
