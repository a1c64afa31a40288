"""Raw records as counts of cells, with a domain or with anything that encodes them."""

from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refused

from mmech import Attribute, Counts, Domain, PrivacyLeakWarning, count
from mmech_rf import Schema

ATTRIBUTES = (
    Attribute.categorical("shape", ["round", "oval"]),
    Attribute.numeric("size", lower=0, upper=9, n_bins=3),
)
DOMAIN = Domain(ATTRIBUTES)
SCHEMA = Schema(ATTRIBUTES, ["no", "yes"])
ROWS = [["round", 4.0], ["oval", 9.0], ["round", 4.0]]
CODES = [[0, 1], [1, 2], [0, 1]]
LABELS = ["yes", "no", "yes"]


def frame(name):
    library = pytest.importorskip(name)
    shapes, sizes = zip(*ROWS, strict=True)
    return library.DataFrame({"size": sizes, "shape": shapes})


KINDS = {
    "list": lambda: ROWS,
    "array": lambda: np.array(ROWS, object),
    "columns": lambda: {"shape": [r[0] for r in ROWS], "size": [r[1] for r in ROWS]},
    "pandas": lambda: frame("pandas"),
    "polars": lambda: frame("polars"),
}


@pytest.mark.parametrize("records", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("known", [DOMAIN, SCHEMA], ids=["domain", "schema"])
def test_records_of_any_form(records, known):
    assert count(records(), known) == Counts(CODES, (2, 3))


def test_the_class_is_the_last_attribute():
    found = count(ROWS, SCHEMA, LABELS)
    assert found == Counts([[0, 1, 1], [1, 2, 0], [0, 1, 1]], (2, 3, 2))
    assert count([], SCHEMA, y=[]) == Counts(np.empty((0, 3)), (2, 3, 2))


def test_a_schema_is_what_encodes_records():
    own = SimpleNamespace(shape=(2, 3), encode=DOMAIN.encode)
    assert count(ROWS, own) == Counts(CODES, (2, 3))


def test_what_does_not_encode_records_is_refused():
    refused(
        lambda: count(ROWS, (2, 3)), "a Schema or a Domain, .* got tuple", TypeError
    )
    words = "class labels of a Schema, got a Domain; .* leave y out"
    refused(lambda: count(ROWS, DOMAIN, LABELS), words, TypeError)
    refused(lambda: count([["flat", 1]], DOMAIN), "row 0, column 'shape'", ValueError)


def test_values_that_were_read_from_the_records_are_warned_of():
    read = Domain(ATTRIBUTES, read_from_records=True)
    with pytest.warns(PrivacyLeakWarning, match="no guarantee covers") as caught:
        count(ROWS, read)
    assert caught[0].filename == __file__
