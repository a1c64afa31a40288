"""Dates: the days of raw values, and the periods of the calendar that they are in."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.domain.values import is_missing

PERIODS = {
    "day": "M8[D]",
    "week": "M8[7D]",
    "month": "M8[M]",
    "quarter": "M8[3M]",
    "year": "M8[Y]",
}
"""Periods that dates are told apart by, as NumPy calls them."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONDAY = 3
"""Days from a Monday, on which weeks begin in ISO 8601, to day 0, a Thursday."""

Days = NDArray[np.int64]
"""Days since 1970-01-01."""


def _day(value: Any) -> int | None:
    """Return the day of a date, a date with a time, or the text of one; else None."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, np.datetime64):
        return int(value.astype("M8[D]").astype(np.int64))
    return value.toordinal() - _EPOCH if isinstance(value, datetime.date) else None


def check_day(value: Any, name: str) -> datetime.date:
    """Return a public date, or raise."""
    day = None if is_missing(value) else _day(value)
    if day is None:
        raise ValueError(
            f"{name} must be a date, such as '2026-01-31', got {value!r:.60}"
        )
    return datetime.date.fromordinal(day + _EPOCH)


def day_values(
    values: NDArray[Any],
) -> tuple[Days, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the days of a column (N,), which are missing, and which are no dates."""
    if values.dtype.kind == "M":
        days = values.astype("M8[D]").astype(np.int64)
        return days, np.isnat(values), np.zeros(values.shape, dtype=bool)
    days = np.zeros(values.shape, dtype=np.int64)
    missing, bad = (np.zeros(values.shape, dtype=bool) for _ in range(2))
    for row, value in enumerate(values.tolist()):
        missing[row] = is_missing(value)
        day = None if missing[row] else _day(value)
        bad[row] = day is None and not missing[row]
        days[row] = day or 0
    return days, missing, bad


def periods(days: Days, unit: str) -> NDArray[np.int64]:
    """Return the number of the period of every day."""
    shifted = days + _MONDAY * (unit == "week")
    return shifted.astype("M8[D]").astype(PERIODS[unit]).astype(np.int64)


def first_days(numbers: NDArray[np.int64], unit: str) -> Days:
    """Return the first day of every period, by its number."""
    days = numbers.astype(PERIODS[unit]).astype("M8[D]").astype(np.int64)
    return days - _MONDAY * (unit == "week")


def period_names(numbers: NDArray[np.int64], unit: str) -> tuple[str, ...]:
    """Return what periods are called: 2026-01-31, 2026-W05, 2026-01, 2026-Q1, 2026."""
    days = first_days(numbers, unit).astype("M8[D]").tolist()
    if unit == "week":
        weeks = [day.isocalendar() for day in days]
        return tuple(f"{week.year:04}-W{week.week:02}" for week in weeks)
    if unit == "quarter":
        return tuple(f"{day.year:04}-Q{(day.month + 2) // 3}" for day in days)
    length = {"day": 10, "month": 7, "year": 4}[unit]
    return tuple(day.isoformat()[:length] for day in days)
