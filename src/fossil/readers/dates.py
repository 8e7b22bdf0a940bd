"""Dates as people write them, as days since 1970-01-01."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from fossil.graph.graph import Array

CYCLES = ("year_sin", "year_cos", "week_sin", "week_cos")
"""What `cyclic_parts` returns, by column."""

_EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_YEAR = re.compile(r"\d{4}")
_TIME = r"(?:[T ]+(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?"
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})(?:[-/.](?P<month>\d{{1,2}})(?:[-/.](?P<day>\d{{1,2}}){_TIME})?)?")
_DAY_DOT_MONTH = re.compile(rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}}){_TIME}")
_EITHER_ORDER = re.compile(rf"(?P<first>\d{{1,2}})(?P<mark>[-/])(?P<second>\d{{1,2}})(?P=mark)(?P<year>\d{{4}}){_TIME}")
_DAY_AND_WORD = re.compile(rf"(?P<day>\d{{1,2}})\.?[ -](?P<word>[a-z]{{3,9}})\.?[ -](?P<year>\d{{4}}){_TIME}", re.I)
_WORD_AND_DAY = re.compile(rf"(?P<word>[a-z]{{3,9}})\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_TIME}", re.I)


def day_comes_first(texts: Sequence[str]) -> bool | None:
    """Tell whether 03/04/2021 is in April, by those cells of a column that leave no choice; None where none does.

    >>> day_comes_first(["03/04/2021", "31/12/2021"]), day_comes_first(["03/04/2021"])
    (True, None)
    """
    day_first, month_first = order_evidence(texts)
    return None if day_first == month_first else day_first


def order_evidence(texts: Sequence[str]) -> tuple[bool, bool]:
    """Tell whether some cell has its day first, and whether some has its month first, beyond doubt."""
    matches = [match for text in texts if (match := _EITHER_ORDER.fullmatch(text))]
    return any(int(match["first"]) > 12 for match in matches), any(int(match["second"]) > 12 for match in matches)


def read_dates(texts: Sequence[str], day_first: bool | None) -> Array:
    """Return days since 1970-01-01 (N doubles), NaN where a text is no date.

    Read are ISO 8601 (a year, a month, a day, with or without time and offset), 2021/3/4, 4.3.2021, 4 Mar 2021,
    March 4, 2021, and 4/3/2021 or 4-3-2021 where `day_first` tells its order. An offset is turned into UTC.

    >>> read_dates(["1970-01-02", "3 Jan 1970", "01/05/1970 12:00", "tomorrow"], day_first=False).tolist()
    [1.0, 2.0, 4.5, nan]
    """
    days = {text: _days(text, day_first) for text in set(texts)}  # a category is looked at once, not once a cell
    return np.asarray([days[text] for text in texts], dtype=np.float64)


def _days(text: str, day_first: bool | None) -> float:
    if not _YEAR.search(text):
        return float("nan")
    try:
        moment = _moment(text, day_first)
    except (ValueError, OverflowError):
        return float("nan")
    if moment is None:
        return float("nan")
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) / _DAY


def _moment(text: str, day_first: bool | None) -> datetime | None:
    for form in (_YEAR_FIRST, _DAY_DOT_MONTH, _DAY_AND_WORD, _WORD_AND_DAY):
        if match := form.fullmatch(text):
            parts = match.groupdict()
            month = _month(parts["word"]) if "word" in parts else int(parts["month"] or 1)
            return _at(int(parts["year"]), month, int(parts["day"] or 1), parts["time"])
    if match := _EITHER_ORDER.fullmatch(text):
        if day_first is None:
            return None
        first, second = int(match["first"]), int(match["second"])
        month, day = (second, first) if day_first else (first, second)
        return _at(int(match["year"]), month, day, match["time"])
    return datetime.fromisoformat(text)


def _at(year: int, month: int, day: int, time: str | None) -> datetime:
    moment = datetime(year, month, day)
    if time is None:
        return moment
    hours, minutes, seconds = (*map(float, time.split(":")), 0.0)[:3]
    if hours > 23 or minutes > 59 or seconds >= 60:
        raise ValueError(time)
    return moment + timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _month(word: str) -> int:
    return [month.startswith(word.lower()) for month in _MONTHS].index(True) + 1


def as_date(days: float) -> str:
    """Return the date in ISO form.

    >>> as_date(0.75)
    '1970-01-01'
    """
    return (_EPOCH + int(np.floor(days)) * _DAY).date().isoformat()


def cyclic_parts(days: Array) -> Array:
    """Return sine and cosine of the place in the year and in the week (N×4); zeros where there is no date.

    A year begins on January 1, a week on Monday.
    """
    known = np.nan_to_num(days)
    whole = np.floor(known).astype("datetime64[D]")
    year = whole.astype("datetime64[Y]")
    start, end = (when.astype("datetime64[D]").astype(np.float64) for when in (year, year + 1))
    angles = 2 * np.pi * np.stack([(known - start) / (end - start), (known + 3) % 7 / 7])  # day 0 was a Thursday
    parts = np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)
    return np.where(np.isnan(days)[:, None], 0.0, parts)
