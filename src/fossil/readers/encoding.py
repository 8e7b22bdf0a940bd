"""From the columns of a node table to a feature matrix, by a plan that can be read, saved and applied again.

The plan is made once, on the data it is trained with: it remembers means, standard deviations and categories,
so that new nodes get exactly the columns that the old ones had.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, cast, get_args

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError, nearest
from fossil.graph.assemble import encode_labels
from fossil.graph.findings import Finding
from fossil.graph.graph import Array, Features
from fossil.readers.cells import Column, NodeTable, as_floats, cell_text, finite_numbers, plain_cells

ColumnRole: TypeAlias = Literal["numeric", "boolean", "categorical", "drop", "label", "id"]
Scale: TypeAlias = Literal["auto", "standard", "none"]

ROLES: tuple[str, ...] = get_args(ColumnRole)
LABEL_NAMES = ("label", "class", "target", "y")
SPARSE_WIDTH, SPARSE_DENSITY = 50, 0.25


@dataclass(frozen=True)
class ColumnPlan:
    """How one column is encoded; `scale` 0 marks a constant numeric column, which becomes zeros."""

    name: str
    role: ColumnRole
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    note: str = ""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the feature columns this column becomes."""
        if self.role == "categorical":
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name,) if self.role in ("numeric", "boolean") else ()

    def standardise(self, values: Array) -> Array:
        """Return (values - mean) / scale; zeros for a constant column."""
        return (values - self.mean) / self.scale if self.scale else np.zeros(len(values))

    def describe(self) -> str:
        """Say in a few words how the column is encoded."""
        if self.role == "numeric":
            plain = "as it is" if (self.mean, self.scale) == (0.0, 1.0) else ""
            return plain or (f"(x - {self.mean:.4g}) / {self.scale:.4g}" if self.scale else "constant, becomes zeros")
        text = {"boolean": "0 or 1", "categorical": "one-hot", "drop": "left out", "label": "class", "id": "node id"}
        return text[self.role] + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class EncodingPlan:
    """What becomes of every column, in order; `structural` holds the scaling of features built from the edges."""

    columns: tuple[ColumnPlan, ...] = ()
    sparse: bool = False
    structural: tuple[ColumnPlan, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the feature columns that `encode` returns."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def label_column(self) -> str | None:
        """Name of the column that holds the classes, if there is one."""
        return next((column.name for column in self.columns if column.role == "label"), None)

    def encode(self, table: NodeTable) -> tuple[Features, tuple[str, ...], tuple[Finding, ...]]:
        """Return N×F float32 features (dense or CSR), the F names, and what was noticed.

        Raises:
            GraphError: a column of the plan is missing, or a cell cannot be read as its role asks.
        """
        used = [column for column in self.columns if column.feature_names]
        for column in used:
            if column.name not in table.columns:
                raise GraphError(
                    f"{table.where} has no column {column.name!r}, which the encoding plan needs.",
                    remedy=nearest(column.name, table.columns),
                )
        findings = list(self._notices(table))
        rows, places, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        width = 0
        for column in used:
            if column.role == "categorical":
                row, place, unread = _one_hot(column, table.columns[column.name])
                findings += unread
                value = np.ones(len(row))
            else:
                number = column.standardise(finite_numbers(table, column.name, column.role))
                row = np.flatnonzero(number)
                place, value = np.zeros(len(row), np.int64), number[row]
            rows.append(row)
            places.append(place + width)
            values.append(value.astype(np.float32))
            width += len(column.feature_names)
        row, place, value = np.concatenate(rows), np.concatenate(places), np.concatenate(values)
        shape = (len(table.ids), width)
        features: Features
        if self.sparse:
            features = sp.csr_array((value, (row, place)), shape=shape)
        else:
            features = np.zeros(shape, np.float32)
            features[row, place] = value
        return features, self.feature_names, tuple(findings)

    def _notices(self, table: NodeTable) -> Iterator[Finding]:
        known = {column.name for column in self.columns}
        yield from _finding("columns unknown to the plan", [c for c in table.columns if c not in known], "ignored")
        constant = [c.name for c in self.columns if c.role == "numeric" and not c.scale]
        yield from _finding("constant columns", constant, "encoded as zeros")
        empty = [c.name for c in self.columns if c.role == "drop" and c.note]
        yield from _finding("empty columns", empty, "left out")

    def describe(self) -> list[tuple[str, str, str, int]]:
        """Return one row a column for a printed table: column, role, how it is encoded, width."""
        every = (*self.columns, *self.structural)
        return [(c.name, c.role, c.describe(), len(c.feature_names)) for c in every]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values for a JSON file."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild a plan from what `to_json` gave.

        Raises:
            GraphError: the value is not an encoding plan.
        """
        try:
            return cls(
                columns=tuple(_column_from_json(part) for part in value["columns"]),
                sparse=bool(value["sparse"]),
                structural=tuple(_column_from_json(part) for part in value["structural"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise GraphError(
                f"This is not an encoding plan ({error!r}).", remedy="Use the plan saved beside the model."
            ) from error


@dataclass(frozen=True)
class ColumnChoices:
    """What the user said about columns: roles by name, the label column, or a saved plan."""

    roles: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    plan: EncodingPlan | None = None
    scale: Scale = "auto"
    max_categories: int = 50

    def __post_init__(self) -> None:
        _checked(self.roles)
        if self.plan is not None and self.roles:
            raise GraphError("Column roles were given together with a saved plan.", remedy="Leave out one of them.")


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Features and labels of a node table, with the plan that made them."""

    plan: EncodingPlan
    features: Features
    feature_names: tuple[str, ...]
    labels: Array | None
    label_names: tuple[str, ...]
    findings: tuple[Finding, ...]


def encode_table(table: NodeTable, choices: ColumnChoices | None = None) -> EncodedTable:
    """Plan the columns of `table` (or take the saved plan) and encode them, labels included."""
    choices = choices or ColumnChoices()
    plan = choices.plan or plan_columns(
        table, choices.roles, choices.label, scale=choices.scale, max_categories=choices.max_categories
    )
    features, names, findings = plan.encode(table)
    label = choices.label or plan.label_column
    labels, label_names = None, tuple[str, ...]()
    if label in table.columns and label is not None:
        labels, label_names = encode_labels([cell_text(cell) for cell in plain_cells(table.columns[label])])
    elif choices.label is not None:
        raise _unknown_column(table, choices.label)
    return EncodedTable(plan, features, names, labels, label_names, findings)


def plan_columns(
    table: NodeTable,
    roles: Mapping[str, str] | None = None,
    label_column: str | None = None,
    *,
    scale: Scale = "auto",
    max_categories: int = 50,
) -> EncodingPlan:
    """Decide how every column of `table` is encoded.

    Args:
        table: the nodes the plan is made for.
        roles: what the caller declared, by column; the rest is inferred.
        label_column: the column of classes; `label`, `class`, `target` or `y` when nothing is said.
        scale: `standard` standardises numeric columns; `auto` leaves them alone when they look like word counts
            (more than 50 columns, non-negative, fewer than a quarter of the cells filled).
        max_categories: a text column with more distinct values is refused, unless it is declared categorical.

    Raises:
        GraphError: an unknown column or role, free text, a numeric column with a cell that is no finite number, or
            a column called like a label that nobody spoke of, beside another that is the label.
    """
    declared = _checked(roles or {})
    for name in declared:
        if name not in table.columns and name != table.id_column:
            raise _unknown_column(table, name)
    called_so = [c for c in table.columns if c not in declared and c.lower() in LABEL_NAMES]
    if label_column is None:
        label_column = next((c for c, role in declared.items() if role == "label"), next(iter(called_so), None))
    elif label_column not in table.columns:
        raise _unknown_column(table, label_column)
    elif declared.get(label_column, "label") != "label":
        raise GraphError(
            f"Column {label_column!r} is declared {declared[label_column]!r} and label.", remedy="Choose one."
        )
    if label_column is not None:
        declared[label_column] = "label"
    for name in called_so:
        if name != label_column:
            raise GraphError(
                f"Column {name!r} of {table.where} is called like a label, and the label is {label_column!r}.",
                remedy=f"Leave it out with --column {name}=drop, or declare it numeric, boolean or categorical.",
            )
    columns = [ColumnPlan(table.id_column, "id")] if table.id_column else []
    columns += [_plan_column(table, name, declared.get(name), max_categories) for name in table.columns]
    if scale == "standard" or (scale == "auto" and not _looks_like_counts(table, columns)):
        columns = [
            fit_scale(c.name, finite_numbers(table, c.name, "numeric")) if c.role == "numeric" else c for c in columns
        ]
    plan = EncodingPlan(tuple(columns), sparse=True)
    if len(plan.feature_names) <= SPARSE_WIDTH:
        return replace(plan, sparse=False)
    features = plan.encode(table)[0]
    filled = np.count_nonzero(features.data) if sp.issparse(features) else 0
    return replace(plan, sparse=bool(filled < SPARSE_DENSITY * features.shape[0] * features.shape[1]))


def _plan_column(table: NodeTable, name: str, declared: ColumnRole | None, max_categories: int) -> ColumnPlan:
    cells = plain_cells(table.columns[name])
    if declared == "drop" or declared == "label" or declared == "id":
        return ColumnPlan(name, declared)
    if any(isinstance(cell, list | tuple | dict | set | np.ndarray) for cell in itertools.islice(cells, 100)):
        raise GraphError(
            f"Column {name!r} of {table.where} holds lists, not single values.",
            remedy=f"Spread it over numeric columns, one number a cell, or leave it out with --column {name}=drop.",
        )
    if declared == "numeric" or declared == "boolean":
        return ColumnPlan(name, declared)
    texts = [cell_text(cell) for cell in cells]
    present = [text for text in texts if text]
    if declared is None:
        if not present:
            return ColumnPlan(name, "drop", note="empty")
        if all(text.lower() in ("true", "false") for text in present):
            return ColumnPlan(name, "boolean")
        # A few unreadable cells do not make numbers a category: they are reported as errors instead.
        if 2 * np.count_nonzero(~np.isnan(as_floats(cells))) > len(present):
            return ColumnPlan(name, "numeric")
    categories = tuple(sorted(set(present)))
    if declared is None and len(categories) > max_categories:
        example = present[0] if len(present[0]) <= 60 else present[0][:57] + "..."
        raise GraphError(
            f"Column {name!r} of {table.where} is text with {len(categories):,} distinct values "
            f"(for example {example!r}); at most {max_categories} are taken as categories.",
            remedy=f"Leave it out with --column {name}=drop, force it with --column {name}=categorical, or replace it "
            "by numeric columns such as sentence embeddings.",
        )
    return ColumnPlan(name, "categorical", categories=categories)


def _looks_like_counts(table: NodeTable, columns: Sequence[ColumnPlan]) -> bool:
    numeric = [column.name for column in columns if column.role == "numeric"]
    if len(numeric) <= SPARSE_WIDTH:
        return False
    filled = 0
    for name in numeric:
        values = finite_numbers(table, name, "numeric")
        if values.min(initial=0.0) < 0:
            return False
        filled += int(np.count_nonzero(values))
    return filled < SPARSE_DENSITY * len(numeric) * len(table.ids)


def fit_scale(name: str, values: Array) -> ColumnPlan:
    """Return a numeric column plan with the mean and (population) standard deviation of `values`."""
    if len(values) == 0 or values.min() == values.max():
        return ColumnPlan(name, "numeric", mean=float(values[0]) if len(values) else 0.0, scale=0.0)
    largest = float(np.abs(values).max())  # squares of very large or tiny numbers leave the range of a double
    unit = values / largest
    return ColumnPlan(name, "numeric", mean=float(unit.mean() * largest), scale=float(unit.std() * largest))


def _one_hot(column: ColumnPlan, cells: Column) -> tuple[Array, Array, list[Finding]]:
    number = {category: i for i, category in enumerate(column.categories)}
    texts = [cell_text(cell) for cell in plain_cells(cells)]
    codes = np.asarray([number.get(text, -1) for text in texts], dtype=np.int64)
    unknown = [text for text, code in zip(texts, codes, strict=True) if code < 0 and text]
    empty = sum(not text for text in texts)
    findings = list(_finding(f"unknown categories in column {column.name!r}", unknown, "encoded as zeros"))
    if empty:
        findings.append(Finding(f"empty cells in column {column.name!r}", empty, "encoded as zeros"))
    rows = np.flatnonzero(codes >= 0)
    return rows, codes[rows], findings


def _finding(kind: str, examples: Sequence[str], done: str) -> Iterator[Finding]:
    if examples:
        yield Finding(kind, len(examples), done, tuple(dict.fromkeys(examples))[:3])


def _checked(roles: Mapping[str, str]) -> dict[str, ColumnRole]:
    for column, role in roles.items():
        if role not in ROLES:
            raise GraphError(f"Column {column!r} has unknown role {role!r}.", remedy=nearest(role, ROLES))
    return {column: cast(ColumnRole, role) for column, role in roles.items()}


def _unknown_column(table: NodeTable, name: str) -> GraphError:
    return GraphError(f"{table.where} has no column {name!r}.", remedy=nearest(name, table.columns))


def _column_from_json(value: Mapping[str, Any]) -> ColumnPlan:
    if value["role"] not in ROLES:
        raise ValueError(f"unknown role {value['role']!r}")
    return ColumnPlan(**{**value, "categories": tuple(value["categories"])})
