"""How a plan for the columns of a table is made: by what the caller said, and else by what the cells look like."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError, nearest
from fossil.graph.assemble import encode_labels
from fossil.graph.findings import Finding, Missing
from fossil.graph.graph import Array, Features
from fossil.graph.troubles import Troubles, listed
from fossil.readers.cells import DATES, NodeTable, as_floats, cell_texts, is_gap, plain_cells
from fossil.readers.column import MEASURED, ROLES, ColumnPlan, ColumnRole, fit_scale, some
from fossil.readers.dates import day_comes_first, read_dates
from fossil.readers.encoding import EncodingPlan

Scale: TypeAlias = Literal["auto", "standard", "none"]

LABEL_NAMES = ("label", "class", "target", "y")
SPARSE_WIDTH, SPARSE_DENSITY = 50, 0.25
MINUS_ONE = ("-1", "-1.0")
FEW_CODES = range(3, 11)  # so many distinct whole numbers may be codes
_OTHER_NUMBER = re.compile(
    r"[-+]?(\d+(,\d+)+(\.\d+)?"  # 0,5 and 1,234.5
    r"|\d{1,3}(\.\d{3})+,\d+|\d{1,3}([ '’\u00a0\u202f]\d{3})+([.,]\d+)?"  # 1.234,5 and 1 234,5 and 1'234.5
    r"|[$€£]\s*\d+([.,]\d+)*|\d+([.,]\d+)*\s*[%$€£])"  # $1,200 and 5,50 € and 12 %
)
FILLING = "Fill what is empty, choose --missing median (or mean, most_frequent, zero), or --column {}=drop."


class Declared(NamedTuple):
    """What a caller said about a column: what it is, and what is done about its empty cells, if that was said."""

    role: ColumnRole
    missing: Missing | None = None


@dataclass(frozen=True)
class ColumnChoices:
    """What the user said about columns.

    Attributes:
        roles: what a column is, by name; `numeric:zero` also says how the empty cells of this column are filled.
        label: the column of classes; `label`, `class`, `target` or `y` when nothing is said.
        plan: a saved plan, in place of all others.
        scale: `standard` standardises numeric columns; `auto` leaves them alone when they look like word counts (more
            than 50 columns, non-negative, fewer than a quarter of the cells filled).
        max_categories: a text column with more distinct values is refused, unless it is declared categorical.
        missing: what is done about empty cells of numeric, boolean and date columns.
        missing_indicator: whether one more feature tells the empty cells of a column that has some.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    plan: EncodingPlan | None = None
    scale: Scale = "auto"
    max_categories: int = 50
    missing: Missing = "refuse"
    missing_indicator: bool = False

    def __post_init__(self) -> None:
        self.declared()
        if self.plan is not None and self.roles:
            raise GraphError("Column roles were given together with a saved plan.", remedy="Leave out one of them.")

    def declared(self) -> dict[str, Declared]:
        """Return the roles, checked.

        Raises:
            GraphError: a role, or what is said about empty cells, is unknown, or several columns are the ids or
                the label.
        """
        found, troubles = {}, Troubles("This choice of columns")
        for name, text in self.roles.items():
            with troubles.gathered():
                found[name] = _declared(name, text)
        for role, other in (("id", None), ("label", self.label)):
            names = dict.fromkeys([*filter(None, [other]), *(name for name in found if found[name].role == role)])
            if len(names) > 1:
                troubles.add(
                    f"Columns {listed(map(repr, names), len(names))} are each declared {role}.", remedy="Choose one."
                )
        troubles.raise_any()
        return found


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
    """Plan the columns of `table` (or take the saved plan) and encode them, labels included.

    Raises:
        GraphError: as `plan_columns` and `EncodingPlan.encode` do.
    """
    choices = choices or ColumnChoices()
    plan = choices.plan or plan_columns(table, choices)
    features, names, findings = plan.encode(table)
    if choices.plan is None:
        findings += _possible_codes(table, plan, choices)
    label = choices.label or plan.label_column
    labels, label_names = None, tuple[str, ...]()
    if label in table.columns and label is not None:
        texts = cell_texts(table.columns[label])
        labels, label_names = encode_labels(texts)
        findings += unknown_classes(Counter(texts))
    elif choices.label is not None:
        raise _unknown_column(table, choices.label)
    return EncodedTable(plan, features, names, labels, label_names, findings)


def plan_columns(table: NodeTable, choices: ColumnChoices | None = None) -> EncodingPlan:
    """Decide how every column of `table` is encoded.

    Raises:
        GraphError: an unknown column, free text, a cell that is empty or cannot be read, or a column called like a
            label that nobody spoke of, beside another that is the label; all in one message.
    """
    choices, troubles = choices or ColumnChoices(), Troubles(table.where)
    declared = settled_roles(table, choices, troubles)
    columns = [ColumnPlan(table.id_column, "id")] if table.id_column else []
    for name in table.columns:
        with troubles.gathered():
            columns.append(_plan_column(table, name, declared.get(name), choices))
    troubles.raise_any()
    scaled = DATES if choices.scale == "auto" and _looks_like_counts(table, columns) else MEASURED
    if choices.scale != "none":
        columns = [_scaled(table, column) if column.role in scaled else column for column in columns]
    plan = EncodingPlan(tuple(columns), sparse=True)
    if len(plan.feature_names) <= SPARSE_WIDTH:
        return replace(plan, sparse=False)
    features = plan.encode(table)[0]
    filled = np.count_nonzero(features.data) if sp.issparse(features) else 0
    return replace(plan, sparse=bool(filled < SPARSE_DENSITY * features.shape[0] * features.shape[1]))


def settled_roles(table: NodeTable, choices: ColumnChoices, troubles: Troubles) -> dict[str, Declared]:
    """Return what the caller said about columns, and which one is the label; `troubles` keeps what is wrong with that.

    Of the table only the names of its columns are asked.
    """
    declared = choices.declared()
    for name in declared:
        with troubles.gathered():
            _refuse_ids(table, name, declared[name].role)
            if name not in table.columns and name != table.id_column:
                raise _unknown_column(table, name)
    with troubles.gathered():
        called_so = [name for name in table.columns if name not in declared and name.lower() in LABEL_NAMES]
        label = _label_column(table, choices.label, declared)
        if label is not None:
            declared[label] = Declared("label")
        for name in called_so:
            if name != label:
                raise GraphError(
                    f"Column {name!r} of {table.where} is called like a label, and the label is {label!r}.",
                    remedy=f"Leave it out with --column {name}=drop, or declare it numeric, boolean or categorical.",
                )
    return declared


def _label_column(table: NodeTable, label: str | None, declared: Mapping[str, Declared]) -> str | None:
    if label is None:
        free = (name for name in table.columns if name not in declared and name.lower() in LABEL_NAMES)
        return next((name for name, said in declared.items() if said.role == "label"), next(free, None))
    _refuse_ids(table, label, "label")
    if label not in table.columns:
        raise _unknown_column(table, label)
    if label in declared and declared[label].role != "label":
        raise GraphError(f"Column {label!r} is declared {declared[label].role!r} and label.", remedy="Choose one.")
    return label


def _refuse_ids(table: NodeTable, name: str, role: ColumnRole) -> None:
    """Raise GraphError where a column that holds the ids is to be something else."""
    if name == table.id_column and role != "id":
        raise GraphError(
            f"Column {name!r} of {table.where} holds the node ids, and is declared {role!r}.",
            remedy="Leave that out, or choose another column of ids with --column NAME=id.",
        )


def _plan_column(table: NodeTable, name: str, declared: Declared | None, choices: ColumnChoices) -> ColumnPlan:
    cells = plain_cells(table.columns[name])
    role = None if declared is None else declared.role
    if role == "drop" or role == "label" or role == "id":
        return ColumnPlan(name, role)
    if any(isinstance(cell, list | tuple | dict | set | np.ndarray) for cell in itertools.islice(cells, 100)):
        raise holds_lists(table.where, name)
    texts = cell_texts(cells)
    role = role or _inferred(texts, cells)
    if role is None:
        return ColumnPlan(name, "drop", note="empty")
    missing = (declared and declared.missing) or choices.missing
    if role == "categorical":
        return _plan_categories(table, name, texts, declared is not None, missing, choices)
    order = day_comes_first(texts) if role in DATES else None
    return _with_fill(table, ColumnPlan(name, role, day_first=order), missing, choices.missing_indicator)


def _inferred(texts: Sequence[str], cells: Sequence[object]) -> ColumnRole | None:
    """Return what a column seems to be, None where it is empty.

    A few unreadable cells do not make numbers or dates a category: they are reported as errors instead. Cells that say
    NA, null and the like are not asked.
    """
    present = [text for text in texts if not is_gap(text)]
    if not present:
        return None
    if all(text.lower() in ("true", "false") for text in present):
        return "boolean"
    if 2 * np.count_nonzero(~np.isnan(as_floats(cells))) > len(present):
        return "numeric"
    # Either order of day and month will do here: dates that leave it open are still dates, and refused as such.
    if 2 * max(np.count_nonzero(~np.isnan(read_dates(present, order))) for order in (True, False)) > len(present):
        return "date"
    return "categorical"


def _plan_categories(
    table: NodeTable, name: str, texts: Sequence[str], declared: bool, missing: Missing, choices: ColumnChoices
) -> ColumnPlan:
    present = [text for text in texts if text]
    categories = tuple(sorted(set(present)))
    if not declared:
        refuse_other_numbers(table.where, name, categories)
    if not declared and len(categories) > choices.max_categories:
        raise too_many_categories(table.where, name, f"{len(categories):,}", present[0], choices.max_categories)
    most = max(categories, key=Counter(present).__getitem__) if missing == "most_frequent" and categories else None
    indicator = choices.missing_indicator and len(present) < len(texts)
    return ColumnPlan(name, "categorical", categories=categories, fill=most, indicator=indicator)


def refuse_other_numbers(where: str, name: str, categories: Sequence[str]) -> None:
    """Raise GraphError where most categories are numbers in a spelling that is not read, which nobody meant as such."""
    others = [text for text in categories if _OTHER_NUMBER.fullmatch(text)]
    if 2 * len(others) > len(categories):
        raise GraphError(
            f"Column {name!r} of {where} holds numbers with a comma, gaps between digits or a sign such as % (for "
            f"example {others[0]!r}), which are not read as numbers.",
            remedy=f"Write them like 1234.5, or choose --column {name}=categorical or --column {name}=drop.",
        )


def too_many_categories(where: str, name: str, count: str, example: str, most: int) -> GraphError:
    """Return what to say about a text column with more distinct values than are taken."""
    shown = example if len(example) <= 60 else example[:57] + "..."
    return GraphError(
        f"Column {name!r} of {where} is text with {count} distinct values "
        f"(for example {shown!r}); at most {most} are taken as categories.",
        remedy=f"Leave it out with --column {name}=drop, force it with --column {name}=categorical, or replace it "
        "by numeric columns such as sentence embeddings.",
    )


def holds_lists(where: str, name: str) -> GraphError:
    """Return what to say about a column of lists."""
    return GraphError(
        f"Column {name!r} of {where} holds lists, not single values.",
        remedy=f"Spread it over numeric columns, one number a cell, or leave it out with --column {name}=drop.",
    )


def nothing_to_fill_with(where: str, name: str, missing: str) -> GraphError:
    """Return what to say about a column without any value, where its empty cells are to be filled."""
    return GraphError(
        f"Column {name!r} of {where} is empty, so that there is no {missing} of it.",
        remedy=f"Leave it out with --column {name}=drop.",
    )


def _with_fill(table: NodeTable, column: ColumnPlan, missing: Missing, indicator: bool) -> ColumnPlan:
    """Return the plan with what empty cells become, and the earliest date."""
    hint = FILLING.format(column.name)
    filling = column if missing == "refuse" else replace(column, fill=0.0)
    values, gaps = filling.numbers(table, hint)
    present = values[~gaps]
    start = float(np.floor(present.min())) if column.role in DATES and len(present) else 0.0
    if missing == "refuse":
        return replace(column, start=start)
    if len(present) == 0:
        raise nothing_to_fill_with(table.where, column.name, missing)
    fill = start + statistic(present - start, missing)
    return replace(column, start=start, fill=fill, indicator=indicator and bool(gaps.any()))


def statistic(values: Array, name: str) -> float:
    """Return one number that stands for the others.

    Args:
        values: at least one.
        name: `mean`, `median`, `most_frequent` (the least of several) or `zero`.
    """
    if name == "mean":
        return fit_scale("", values).mean
    if name == "median":
        return float(np.median(values))
    if name == "most_frequent":
        distinct, counts = np.unique(values, return_counts=True)
        return float(distinct[counts.argmax()])
    return 0.0


def _scaled(table: NodeTable, column: ColumnPlan) -> ColumnPlan:
    fitted = fit_scale(column.name, column.numbers(table)[0] - column.start)
    return replace(column, mean=fitted.mean, scale=fitted.scale)


def _looks_like_counts(table: NodeTable, columns: Sequence[ColumnPlan]) -> bool:
    numeric = [column for column in columns if column.role == "numeric"]
    if len(numeric) <= SPARSE_WIDTH:
        return False
    filled = 0
    for column in numeric:
        values = column.numbers(table)[0]
        if values.min(initial=0.0) < 0:
            return False
        filled += int(np.count_nonzero(values))
    return filled < SPARSE_DENSITY * len(numeric) * len(table.ids)


def _possible_codes(table: NodeTable, plan: EncodingPlan, choices: ColumnChoices) -> tuple[Finding, ...]:
    """Return the finding about columns of few whole numbers, which may be codes of categories."""
    numeric = [c for c in plan.columns if c.role == "numeric" and c.name not in choices.roles]
    if len(numeric) > SPARSE_WIDTH:
        return ()
    names = []
    for column in numeric:
        values, gaps = column.numbers(table)
        if may_be_codes(np.unique(values[~gaps]), len(values)):
            names.append(column.name)
    return codes_finding(names)


def unknown_classes(counts: Mapping[str, int]) -> tuple[Finding, ...]:
    """Return the findings about nodes whose class is -1, NA or the like, which stand for an unknown class elsewhere."""
    what = "kept as a class of its own; where it means unknown, leave the cell empty"
    minus_one = sum(count for text, count in counts.items() if text in MINUS_ONE)
    nodes = {"-1": minus_one} | {text: count for text, count in sorted(counts.items()) if text and is_gap(text)}
    return tuple(Finding(f"nodes of class {text}", count, what) for text, count in nodes.items() if count)


def may_be_codes(distinct: Array, rows: int) -> bool:
    """Tell whether these distinct values of so many rows may be codes of categories."""
    # A value of a category comes more than now and then.
    return bool(len(distinct) in FEW_CODES and 5 * len(distinct) <= rows and (distinct == np.floor(distinct)).all())


def codes_finding(names: Sequence[str]) -> tuple[Finding, ...]:
    """Return the finding about columns that may hold codes."""
    return some("columns of few whole numbers", names, "taken as numbers; for codes say --column NAME=categorical")


def _declared(name: str, text: str) -> Declared:
    role, _, missing = text.partition(":")
    if role not in ROLES:
        raise GraphError(f"Column {name!r} has unknown role {role!r}.", remedy=nearest(role, ROLES))
    if missing and role in ("drop", "label", "id"):
        raise GraphError(
            f"Column {name!r} is declared {role!r}, of which no empty cell is filled.",
            remedy=f"Leave out :{missing}, or declare it numeric, boolean, categorical, date or calendar.",
        )
    if missing and missing not in get_args(Missing):
        raise GraphError(
            f"Column {name!r} has the unknown choice {missing!r} for empty cells.",
            remedy=nearest(missing, get_args(Missing)),
        )
    return Declared(cast(ColumnRole, role), cast(Missing, missing) if missing else None)


def _unknown_column(table: NodeTable, name: str) -> GraphError:
    return GraphError(f"{table.where} has no column {name!r}.", remedy=nearest(name, table.columns))
