"""Dates as people write them, against pandas."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fossil.errors import GraphError
from fossil.readers.cells import NodeTable
from fossil.readers.dates import cyclic_parts, day_comes_first, read_dates
from fossil.readers.encoding import EncodingPlan
from fossil.readers.planning import ColumnChoices, encode_table, plan_columns

MOMENTS = pd.date_range("1899-12-25", "2101-01-07", periods=300).round("s").to_series()
DAYS = ((MOMENTS - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy()
FORMS = ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"]
FORMS += ["%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%B %d, %Y", "%b %d %Y", "%Y%m%d"]


def table(**columns: object) -> NodeTable:
    length = len(next(iter(columns.values())))  # type: ignore[call-overload]
    return NodeTable("nodes.csv", np.asarray([f"n{i}" for i in range(length)]), columns, "id")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_common_forms_are_read_as_pandas_reads_them(form: str) -> None:
    texts = MOMENTS.dt.strftime(form).tolist()
    np.testing.assert_array_equal(read_dates(texts, day_comes_first(texts)), np.floor(DAYS))


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S"])
def test_times_are_parts_of_a_day(form: str) -> None:
    texts = MOMENTS.dt.strftime(form).tolist()
    np.testing.assert_allclose(read_dates(texts, day_comes_first(texts)), DAYS, rtol=0, atol=1e-9)


def test_years_months_and_offsets() -> None:
    texts = ["2021", "2021-03", "2021-03-04T05:06Z", "2021-03-04T05:06:07.5+02:00"]
    expected = [pd.Timestamp(text) for text in texts]
    naive = [when.tz_convert("UTC").tz_localize(None) if when.tzinfo else when for when in expected]
    days = [(when - pd.Timestamp(0)) / pd.Timedelta(days=1) for when in naive]
    np.testing.assert_allclose(read_dates(texts, None), days, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "text", ["", "soon", "30.02.2021", "2021-13-01", "1/2/21", "12", "1e5", "4 Marchy 2021", "4.5.2021 25:00", "99999"]
)
def test_other_texts_are_no_dates(text: str) -> None:
    for order in (True, False, None):
        assert np.isnan(read_dates([text], order)).all()


def test_day_and_month_are_told_apart_by_the_column_or_not_at_all() -> None:
    assert day_comes_first(["03/04/2021", "13/04/2021"]) is True
    assert day_comes_first(["03/04/2021", "04/13/2021"]) is False
    assert day_comes_first(["13/04/2021", "04/13/2021"]) is None
    with pytest.raises(
        GraphError, match=r"2 cells of column 'when'.* no date: '03/04/2021' and '05/06/2021'"
    ) as caught:
        plan_columns(table(when=["03/04/2021", "05/06/2021"]))
    assert "write 2021-04-03" in caught.value.remedy


def test_a_date_becomes_standardised_days_since_the_earliest() -> None:
    texts = ["2021-03-04", "2020-03-04", "2021-06-30", "2019-12-31"]
    nodes = table(when=texts)
    plan = plan_columns(nodes)
    column = plan.columns[1]
    days = (pd.to_datetime(pd.Series(texts)) - pd.Timestamp("2019-12-31")).dt.days.to_numpy()
    assert column.role == "date" and plan.feature_names == ("when",)
    assert column.describe() == f"days since 2019-12-31, (x - {days.mean():.4g}) / {days.std():.4g}"
    features = plan.encode(nodes)[0][:, 0]
    np.testing.assert_allclose(features, (days - days.mean()) / days.std(), rtol=1e-6)


def test_new_dates_are_read_in_the_order_of_the_old() -> None:
    plan = plan_columns(table(when=["31/01/2021", "02/01/2021"]))
    again = EncodingPlan.from_json(json.loads(json.dumps(plan.to_json(), allow_nan=False)))
    new = again.encode(table(when=["03/02/2021"]))[0]  # which alone would leave the order open
    column = again.columns[1]
    assert float(new[0, 0]) == pytest.approx((32 - column.mean) / column.scale)


def test_columns_of_dates_and_times_that_are_no_text() -> None:
    moments = pd.to_datetime(["2021-03-04 12:00", "2021-03-06 00:00"]).to_pydatetime().tolist()
    plan = plan_columns(table(when=moments))
    np.testing.assert_allclose(plan.encode(table(when=moments))[0][:, 0], [-1, 1], rtol=1e-6)


def test_whole_numbers_are_dates_only_where_that_is_said() -> None:
    assert plan_columns(table(year=[1999, 2001, 2004])).columns[1].role == "numeric"
    said = ColumnChoices(roles={"year": "date"})
    assert plan_columns(table(year=[1999, 2001, 2004]), said).columns[1].describe().startswith("days since 1999-01-01")


def test_cyclic_parts_are_where_pandas_says() -> None:
    parts = cyclic_parts(np.floor(DAYS))
    year = (MOMENTS.dt.day_of_year - 1) / np.where(MOMENTS.dt.is_leap_year, 366, 365)
    for place, turn in ((0, year), (2, MOMENTS.dt.day_of_week / 7)):
        np.testing.assert_allclose(parts[:, place], np.sin(2 * np.pi * turn), atol=1e-9)
        np.testing.assert_allclose(parts[:, place + 1], np.cos(2 * np.pi * turn), atol=1e-9)


def test_a_calendar_has_the_place_in_year_and_week_beside_the_date() -> None:
    nodes = table(when=["2021-03-04", "2020-07-05", None])
    choices = ColumnChoices(roles={"when": "calendar"}, missing="median")
    encoded = encode_table(nodes, choices)
    assert encoded.feature_names == ("when", "when_year_sin", "when_year_cos", "when_week_sin", "when_week_cos")
    np.testing.assert_allclose(encoded.features[:2, 1:] ** 2 @ np.kron(np.eye(2), np.ones((2, 1))), 1, rtol=1e-6)
    assert encoded.features[2, 1:].tolist() == [0, 0, 0, 0] and encoded.features[2, 0] == pytest.approx(0, abs=1e-6)
    middle = pd.to_datetime(pd.Series(["2021-03-04", "2020-07-05"])).median()
    assert [f.done for f in encoded.findings] == [f"filled with {middle:%Y-%m-%d}"]
