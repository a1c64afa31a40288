"""Domains: names and values of attributes, records to cells, files."""

import json
from datetime import date, timedelta
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from mmech import Attribute, Domain, release_tables
from mmech.domain.attribute import infer_attribute

COLOUR = Attribute.categorical("colour", ["red", "green", "?"])
SIZE = Attribute.ordinal("size", ["small", "big"])
AGE = Attribute.numeric("age", lower=0, upper=100, n_bins=4)
TOY = Domain([COLOUR, SIZE, AGE], name="toy")
PLAIN = Domain([SIZE, AGE])

ROWS = [["red", "big", 30], ["green", "small", 99.5], [None, "big", 0]]
CODES = [[0, 1, 1], [1, 0, 3], [2, 1, 0]]


# ---- names and sizes -----------------------------------------------------------


def test_the_number_of_cells_has_no_limit():
    domain = Domain([Attribute.categorical(f"a{i}", [0, 1]) for i in range(200)])
    assert domain.n_cells == 2**200
    assert repr(domain) == (
        "Domain(shape=(2, 2, 2, 2, 2, 2, 2, 2, ... 200 attributes), n_cells=1.61e+60)"
    )


def test_domains_are_values():
    again = Domain((COLOUR, SIZE, AGE), name="toy")
    assert again == TOY
    assert hash(again) == hash(TOY)
    assert TOY.select(["colour", "size"]) != TOY
    with pytest.raises(AttributeError):
        TOY.name = "other"


def test_some_attributes():
    chosen = TOY.select(["age", "colour"])
    assert chosen.names == ("age", "colour")
    assert chosen.name == "toy"


# ---- records -------------------------------------------------------------------


def test_columns_are_named_from_outside():
    colours, sizes, ages = zip(*ROWS, strict=True)
    swapped = {"age": ages, "size": sizes, "colour": colours}
    assert TOY.encode(swapped).tolist() == CODES


def test_decoding_names_the_cells():
    assert TOY.decode(CODES)[1].tolist() == ["green", "small", "(75, 100]"]
    assert TOY.decode(CODES[2]).tolist() == ["?", "big", "[0, 25]"]


def test_a_domain_without_records():
    assert TOY.encode([]).shape == (0, 3)


MISFITS = [["big", 30], ["huge", 30], ["big", 130], ["", 30]]


def test_bins_of_whole_numbers_each_hold_one():
    whole = partial(Attribute.numeric, "n", integer=True)
    assert whole(lower=0.4, upper=9, n_bins=4).cut_points == (2, 4, 6)
    assert whole(lower=0, upper=3).cut_points == (0, 1, 2)
    assert whole(lower=-3, upper=3, n_bins=2).labels == ("-3 to 0", "1 to 3")
    assert whole(cut_points=[1, 2, 4]).labels == ("<= 1", "2", "3 to 4", "> 4")
    rare = whole(lower=0, upper=1, cut_points=[0.25, 0.5])
    assert rare.labels == ("0", "(0.25, 0.5]", "1")
    assert infer_attribute("n", np.array([7, 2, 4]), 10).size == 6
    assert not infer_attribute("n", np.array([7, 2.5]), 10).integer


def test_what_does_not_fit_is_left_out():
    policies = {"handle_unknown": "drop", "handle_missing": "drop"}
    assert PLAIN.encode(MISFITS, **policies).tolist() == [[1, 1]]


def test_what_does_not_fit_gets_a_designated_cell():
    age = Attribute.numeric("age", lower=0, upper=100, n_bins=4, other="unknown")
    domain = Domain([COLOUR, age])
    rows = [["blue", 30], ["red", 130], ["red", None], ["red", "old"]]
    policies = {"handle_unknown": "category", "handle_missing": "category"}
    codes = domain.encode(rows, **policies)
    assert codes.tolist() == [[2, 1], [0, 4], [0, 4], [0, 4]]


def test_numbers_out_of_bounds_move_to_the_nearest_bin():
    rows = [["big", -5], ["big", 130], ["big", np.inf]]
    for policy in ({}, {"handle_unknown": "clip"}):
        assert PLAIN.encode(rows, **policy).tolist() == [[1, 0], [1, 3], [1, 3]]


def test_all_that_does_not_fit_is_listed_for_its_owner():
    expected = [(1, "size", "huge"), (2, "age", 130), (3, "size", "")]
    found = PLAIN.check(MISFITS, handle_unknown="drop")
    assert [(m.row, m.column, m.value) for m in found] == expected
    # A number that is clipped fits.
    found = PLAIN.check(MISFITS)
    assert [(m.row, m.column, m.value) for m in found] == expected[::2]
    assert PLAIN.check(MISFITS[:1]) == []


class Unreadable:
    """A value that nothing can be done with."""

    def fail(self, *_):
        raise RuntimeError

    __hash__ = __eq__ = __str__ = __float__ = fail


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("case", ["digits", "several", "class"])
def test_a_value_that_cannot_be_read_drops_its_record_only(case, column):
    odd = {"digits": 10**5000, "several": np.array([1, 2]), "class": Unreadable()}
    rows = [list(row) for row in ROWS]
    rows[1][column] = odd[case]
    policies = {"handle_unknown": "drop", "handle_missing": "category"}
    codes = TOY.encode(rows, **policies)
    np.testing.assert_array_equal(codes, np.delete(CODES, 1, axis=0))


# ---- files ---------------------------------------------------------------------


def test_files_are_read_as_they_were_written(tmp_path):
    grouped = Attribute.categorical("zip", ["n", "s"], groups={"n": [1, 2], "s": [3]})
    domain = Domain([COLOUR, AGE, grouped], name="toy")
    assert Domain.from_json(domain.to_json()) == domain
    assert domain.to_json(tmp_path / "toy.json") is None
    assert Domain.from_json(tmp_path / "toy.json") == domain
    document = json.loads(domain.to_json())
    assert list(document) == ["name", "features"]
    assert Domain.from_json(document).encode([["red", 3, 2]]).tolist() == [[0, 0, 0]]


FEATURES = {
    "features": [
        {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
        {"name": "age", "type": "numeric", "lower": 0, "upper": 120},
    ]
}


def test_files_that_people_write():
    domain = Domain.from_json(FEATURES, n_bins=6)
    assert domain.shape == (2, 6)
    assert domain.attributes[1].labels[0] == "[0, 20]"


def test_the_class_of_a_schema_is_one_more_attribute():
    target = {"name": "ill", "categories": [False, True], "type": "boolean"}
    domain = Domain.from_json(FEATURES | {"target": target})
    assert domain.names == (*Domain.from_json(FEATURES).names, "ill")
    assert domain.attributes[-1].categories == (False, True)
    assert Domain.from_json(domain.to_json()) == domain


# ---- dates ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "labels"),
    [
        ("day", ("2024-12-30", "2024-12-31", "2025-01-01", "2025-01-02")),
        ("week", ("2025-W01",)),
        ("month", ("2024-12", "2025-01")),
        ("quarter", ("2024-Q4", "2025-Q1")),
        ("year", ("2024", "2025")),
    ],
)
def test_dates_are_cells_of_the_calendar(unit, labels):
    attribute = Attribute.date("d", "2024-12-30", "2025-01-02", unit, other="none")
    assert attribute.labels == (*labels, "none")
    assert (attribute.size, attribute.other_code) == (len(labels) + 1, len(labels))
    domain = Domain([attribute])
    days = ["2024-12-30", "2024-12-31", "2025-01-01", "2025-01-02"]
    as_text = domain.encode([[day] for day in days])
    whole = {"day": [0, 1, 2, 3], "week": [0, 0, 0, 0]}.get(unit, [0, 0, 1, 1])
    assert as_text.ravel().tolist() == whole
    stamps = pd.to_datetime(days)
    for column in (
        stamps,
        stamps.tz_localize("Europe/Berlin"),
        stamps.date,
        np.array(days, "M8[D]"),
        [f"{day}T23:59:59.5+02:00" for day in days],
        [f" {day} 00:00" for day in days],
        pa.array(stamps),
        pa.array(stamps.date),
        pa.array(days).dictionary_encode(),
    ):
        is_arrow = isinstance(column, (pa.Array, pa.ChunkedArray))
        kind = dict if isinstance(column, list) else pd.DataFrame
        frame = (pa.table if is_arrow else kind)({"d": column})
        assert domain.encode(frame).ravel().tolist() == whole
    codes = domain.encode([[label] for label in labels]).ravel().tolist()
    assert codes == list(range(len(labels)))
    assert Domain.from_json(domain.to_json()) == domain


@given(
    day=st.dates(),
    lower=st.dates(date(1700, 1, 1), date(2100, 1, 1)),
    length=st.integers(0, 3000),
    unit=st.sampled_from(["day", "week", "month", "quarter", "year"]),
)
def test_a_date_is_in_its_period_or_the_nearest(day, lower, length, unit):
    upper = lower + timedelta(days=length)
    domain = Domain([Attribute.date("d", lower, upper, unit)])
    nearest = min(max(day, lower), upper)
    named = {
        "day": nearest.isoformat(),
        "week": "{}-W{:02}".format(*nearest.isocalendar()),
        "month": f"{nearest:%Y-%m}",
        "quarter": f"{nearest.year}-Q{-(-nearest.month // 3)}",
        "year": f"{nearest.year}",
    }[unit]
    ((code,),) = domain.encode([[day]])
    assert domain.attributes[0].labels[code] == named
    misfits = domain.check([[day]], handle_unknown="error")
    assert bool(misfits) == (nearest != day)
    assert domain.check([[day]]) == []


def test_what_is_no_date_is_said_to_be_none():
    domain = Domain([Attribute.date("d", "2025-01-01", "2025-12-31")])
    rows = [["31.12.2025"], ["SECRET"]]
    words = "not a date; look at all .*, then correct it, write dates as 2026-01"
    refused(lambda: domain.encode(rows), words)
    for missing in ("", "?", None, float("nan"), pd.NaT, np.datetime64("NaT", "D")):
        with pytest.raises(ValueError, match="holds a missing value"):
            domain.encode([[missing]])
    found = domain.encode([["SECRET"], ["2025-02-03"]], handle_unknown="drop")
    assert found.tolist() == [[1]]


def test_dates_make_tables_whose_synthetic_dates_lie_within():
    domain = Domain([Attribute.date("d", "2025-01-20", "2025-03-05", other="none")])
    rows = [["2025-01-25"]] * 3 + [["2025-03-01"]] * 2 + [[""]]
    released = release_tables(
        rows, domain, ways=1, epsilon=1e6, handle_missing="category"
    )
    table = released.table("d", frame="dict")
    assert table["d"].tolist() == ["2025-01", "2025-02", "2025-03", "none"]
    assert table["count"].tolist() == [3, 0, 2, 1]
    records = released.sample(400, frame="dict")["d"].tolist()
    codes = domain.encode([[day] for day in records], handle_missing="category")
    assert np.bincount(codes[:, 0], minlength=4)[1] == 0
    known = sorted(day for day in records if day != "?")
    assert "2025-01-20" <= known[0] < known[-1] <= "2025-03-05"
