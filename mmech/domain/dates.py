"""Dates: the days of raw values, and the periods of the calendar that they are in."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.domain.values import is_missing

UNITS = ("day", "week", "month", "quarter", "year")
"""Periods that dates are told apart by. Weeks begin on Monday, as ISO 8601 has them."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONDAY = 3
"""Days from a Monday to day 0, which is a Thursday."""

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
    if unit == "day":
        return days
    if unit == "week":
        return (days + _MONDAY) // 7
    if unit == "year":
        return days.astype("M8[D]").astype("M8[Y]").astype(np.int64)
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    return months // 3 if unit == "quarter" else months


def first_days(numbers: NDArray[np.int64], unit: str) -> Days:
    """Return the first day of every period, by its number."""
    if unit == "day":
        return numbers
    if unit == "week":
        return 7 * numbers - _MONDAY
    of_calendar = {"year": "M8[Y]", "month": "M8[M]", "quarter": "M8[M]"}[unit]
    months = 3 * numbers if unit == "quarter" else numbers
    return months.astype(of_calendar).astype("M8[D]").astype(np.int64)


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
