"""Raw records as counts of cells, with a domain or with anything that encodes them."""

from types import SimpleNamespace

import numpy as np
import pyarrow.dataset
import pyarrow.parquet
import pytest
from refusals import refused

from mmech import Attribute, Counts, Domain, PrivacyLeakWarning, count, read
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


def in_files(folder):
    """Write a csv file and a Parquet file, each of all records; return the folder."""
    (shapes, sizes), folder = zip(*ROWS, strict=True), folder / "records"
    columns = {"size": sizes, "shape": shapes, "class": LABELS}
    table = pyarrow.table(columns)
    folder.mkdir()
    pyarrow.parquet.write_table(table, folder / "b.parquet")
    rows = zip(*table.to_pydict().values(), strict=True)
    lines = [",".join(map(str, row)) for row in (table.column_names, *rows)]
    (folder / "a.csv").write_text("\n".join(lines))
    return folder


def test_files_and_pairs_have_the_class_in_them(tmp_path):
    folder = in_files(tmp_path)
    classes = np.column_stack([CODES, [1, 0, 1]])
    expected = Counts([*classes, *classes], (2, 3, 2))
    pairs = [(frame("pandas"), LABELS), (np.array(ROWS, object), LABELS)]
    for records in (folder, pairs, iter(pairs), read(folder, SCHEMA, chunk_rows=2)):
        assert count(records, SCHEMA) == expected


def test_a_row_in_parts_is_named_by_its_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("shape,size\n" + "round,1\n" * 4 + "SECRET,2\n")
    for source in (path, read(path, DOMAIN, chunk_rows=2)):
        with pytest.raises(ValueError, match=r"a.csv.*row 4, column 'shape'") as caught:
            count(source, DOMAIN)
        assert "SECRET" not in str(caught.value)
    parts = read(path, DOMAIN, chunk_rows=1)
    refused(lambda: count(parts, DOMAIN), "row 4", ValueError)
    assert list(parts) == []
    refused(lambda: count(iter([]), DOMAIN), "has no part; read them", ValueError)
    refused(lambda: count(iter([5]), DOMAIN), "must yield frames", TypeError)
    # A column of values is no list of files, which messages would name.
    with pytest.raises(ValueError, match="two-dimensional") as caught:
        count(["SECRET", "round"], DOMAIN)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("known", [DOMAIN, SCHEMA], ids=["domain", "schema"])
def test_rows_and_frames(known):
    for records in (ROWS, frame("pandas"), frame("polars")):
        assert count(records, known) == Counts(CODES, (2, 3))
    texts = [(shape, str(size)) for shape, size in ROWS]  # no pairs of X and y
    assert count(texts, known) == Counts(CODES, (2, 3))


def test_the_class_is_the_last_attribute():
    found = count(ROWS, SCHEMA, LABELS)
    assert found == Counts([[0, 1, 1], [1, 2, 0], [0, 1, 1]], (2, 3, 2))
    assert count([], SCHEMA, y=[]) == Counts(np.empty((0, 3)), (2, 3, 2))


def test_a_schema_is_what_encodes_records():
    own = SimpleNamespace(shape=(2, 3), encode=DOMAIN.encode)
    assert count(ROWS, own) == Counts(CODES, (2, 3))


def test_values_that_were_read_from_the_records_are_warned_of():
    read = Domain(ATTRIBUTES, read_from_records=True)
    with pytest.warns(PrivacyLeakWarning, match="no guarantee covers") as caught:
        count(ROWS, read)
    assert caught[0].filename == __file__
