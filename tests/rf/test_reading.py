"""Files in parts: every record once, as the reader of whole files has it."""

import csv
import gzip
import io
import os
import threading
import traceback
import zipfile

import numpy as np
import pytest
from catalogue import of_all
from refusals import refused

import mmech.domain.parts as reading
from mmech import Domain
from mmech.domain.csv_files import CsvFormat, read_cells, read_tables
from mmech.domain.parts import NULL_PARTITION
from mmech_rf import Attribute, PrivateForestClassifier, Schema, datasets, read

SCHEMA = Schema(
    [
        Attribute.categorical("colour", ["red", "blå", "?"]),
        Attribute.numeric("size", lower=0, upper=10, n_bins=5),
    ],
    ["yes", "no"],
    target="answer",
)
LINES = [
    "size,other,answer,colour",
    *(
        "3.5,x,yes,red",
        ",x,no,red",
        "7,,no,blå",
        "0,x,yes,?",
        "10,x,no,",
        "3.5,y,yes,red",
    ),
]
POLICIES = {"handle_missing": "drop", "handle_unknown": "drop"}


def written(path, lines, end="\n"):
    data = (end.join([*lines, ""]) if end else "\n".join(lines)).encode(
        errors="surrogateescape"
    )
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def encoded(parts, policies=POLICIES):
    """Codes and classes of all parts, and their names."""
    found = [(*SCHEMA.encode(X, y, **policies), chunk) for X, y, chunk in parts]
    codes, classes, chunks = zip(*found, strict=True)
    return np.concatenate(codes).tolist(), np.concatenate(classes).tolist(), chunks


def whole(path):
    """Codes and classes of a file as the reader of Python has it."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        header, *rows = filter(None, csv.reader(stream))
    places = [header.index(name) for name in (*SCHEMA.feature_names, SCHEMA.target)]
    cells = np.array(rows, object)[:, places]
    codes, classes = SCHEMA.encode(cells[:, :-1], cells[:, -1], **POLICIES)
    return codes.tolist(), classes.tolist()


@of_all(
    change=["none", "quotes", "empty lines", "mark", "spaces", "no end", "twice",
        "long"],
    chunk_rows=[1, 4], name=["a.csv", "a.csv.gz"], end=["\n", "\r\n"],
)  # fmt: skip
def test_parts_are_the_file(name, end, chunk_rows, change, tmp_path):
    lines = list(LINES)
    if change == "quotes":
        lines.insert(2, '4,"a ""word"", x",no,"red"')
    elif change == "empty lines":
        lines[3:3] = ["", ""]
    elif change == "mark":
        lines[0] = "\ufeff" + lines[0]
    elif change == "spaces":
        lines[2:4] = [" ,x, no ,red", "7 ,\t, no, blå "]
    elif change == "twice":  # a column that nobody asks for
        lines = [line.replace(",", ",x,", 1) for line in lines]
        lines[0] = "size,other,other,answer,colour"
    elif change == "long":
        lines[3] = f"1,{'z' * 100_000},yes,red"
    path = written(tmp_path / name, lines, "" if change == "no end" else end)
    codes, classes, chunks = encoded(read(path, SCHEMA, chunk_rows=chunk_rows))
    assert (codes, classes) == whole(path)
    stops = [stop for _, _, stop in chunks]
    assert [first for _, first, _ in chunks] == [0, *stops[:-1]]
    assert {file for file, *_ in chunks} == {str(path)}
    assert stops[-1] == len(lines) - 1 - 2 * (change == "empty lines")
    assert max(np.diff([0, *stops])) <= chunk_rows


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_of_one_column_is_a_missing_value(end, tmp_path):
    domain = Domain([Attribute.numeric("a", lower=0, upper=10, other="none")])
    path = written(tmp_path / "a.csv", ["a", "1", "", "3", "", "5"], end)
    parts = read(path, domain, chunk_rows=2)
    codes = [domain.encode(part.X, handle_missing="category") for part in parts]
    assert np.concatenate(codes).ravel().tolist() == [0, 10, 2, 10, 4]
    refused(lambda: domain.encode(read_cells(path, ["a"])), "row 1.*missing value")


def by_python(text, sep, multiline):
    """Records of a file, or the line of the first that is wrong, as Python has them."""
    lines = io.StringIO(text, newline="")
    records, reader = [], csv.reader(lines, strict=True, delimiter=sep)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return records
        except csv.Error:
            return line
        if reader.line_num > line and not multiline:
            return line
        one = len(records[0]) if records else 0
        if fields or one < 2:
            records.append(fields or [""])
            if len(records[-1]) != len(records[0]):
                return line


@pytest.mark.parametrize("n_files", [150, pytest.param(5_000, marks=pytest.mark.slow)])
def test_records_are_those_of_the_reader_of_python(n_files, tmp_path):
    """And so are lines that do not parse, whichever blocks the file is read in."""
    rng, path = np.random.default_rng(0), tmp_path / "a.csv"
    outcomes = set()
    for _ in range(n_files):
        sep, multiline = rng.choice([",", ";"]), bool(rng.integers(2))
        pieces = ["é", "b ", '"', '""', "\n", "\r", "\r\n", "\0", '"x"', f'"{sep}\n"']
        weights = np.array([4, 4, 1, 1, 2, 1, 2, 1, 4, 1, 8])
        drawn = rng.choice([*pieces, sep], rng.integers(30), p=weights / weights.sum())
        text = sep.join("abc"[: rng.integers(1, 4)]) + "\n" + "".join(drawn)
        path.write_bytes(text.encode())
        form, block = CsvFormat(multiline, sep), int(rng.integers(1, 40))
        expected = by_python(text, sep, multiline)
        tables = read_tables(path, text.split("\n")[0].split(sep), (), form, block)
        if isinstance(expected, int):
            with pytest.raises(ValueError, match=f"line {expected} of"):
                list(tables)
        else:
            columns = [t.to_pydict().values() for t in tables]
            rows = [list(row) for c in columns for row in zip(*c, strict=True)]
            assert rows == expected[1:], text
        outcomes.add(type(expected))
    assert outcomes == {int, list}


@pytest.mark.parametrize("cells", ["x,1", "x"], ids=["whole", "cut off"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "gbk"])
def test_a_line_that_is_not_decoded_is_named(encoding, cells, tmp_path):
    """Also where it does not parse either."""
    path = tmp_path / "a.csv"
    path.write_bytes(f"size,other\n3,x\n4,{cells}".encode(encoding) + b"\xff")
    form = CsvFormat(encoding=encoding)
    with pytest.raises(ValueError, match=f"line 3 .*{encoding.upper()}, the encoding"):
        list(read_tables(path, ["size"], (), form))


def broken_file(rng):
    """Return the bytes of a file that is no table of SCHEMA, and all its cells."""
    rows = [
        [f"{k}{i}{j}".replace(".", "q") for j, k in enumerate(rng.random(4))]
        for i in range(4)
    ]
    cells, sep, end = [*np.ravel(rows)], str(rng.choice([",", ";", "\t"])), "\n"
    header = ["size", "other", "answer", "colour"]
    own = rows[int(rng.integers(4))]
    place, way = int(rng.integers(len(own))), int(rng.integers(10))
    if way == 0:
        del own[place]
    elif way == 1:
        own.insert(place, own[place])
    elif way < 6:
        marks = ['"{}', '"{}" {}', '"{}\n{}"', "{}\r{}"]
        own[place] = marks[way - 2].format(own[place], own[place])
    elif way == 6:
        own[place] = own[place] * 9_000
    elif way == 7:
        header = rows[0]
    elif way == 8:
        end = '"\n'
    text = end.join(map(sep.join, [header, *rows]))
    encoding = str(rng.choice(["utf-8", "utf-16", "latin-1"]))
    return text.encode(encoding) + b"\xff" * (way == 9), cells


def pass_all(data, sep, n_fields, multiline, last, longest, out):
    """Let the rest of a file through, whatever it is, after the first line."""
    end = data.size if n_fields else bytes(data).find(b"\n") + 1
    out[:] = end, 1, 3 if n_fields else 1, 0, 4


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("n_files", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_no_cell_is_in_the_message_of_a_broken_file(
    n_files, checked, tmp_path, monkeypatch
):
    """Neither of our words, nor where pyarrow reads what it should not."""
    if not checked:
        monkeypatch.setattr("mmech._kernels.csv_records", pass_all)
    rng, path = np.random.default_rng(1), tmp_path / "a.csv"
    for _ in range(n_files):
        data, cells = broken_file(rng)
        path.write_bytes(data)
        parts = read(path, SCHEMA, multiline=bool(rng.integers(2)))
        with pytest.raises(ValueError, match=r"\w") as caught:
            encoded(parts, {})
        shown = "".join(traceback.format_exception_only(caught.value))
        shown += repr(caught.value.__cause__)
        assert not [cell for cell in cells if cell in shown]
        assert "\n" not in str(caught.value)


def test_a_folder_is_all_its_files(tmp_path):
    (tmp_path / "more").mkdir()
    first = written(tmp_path / "a.csv", LINES)
    second = written(tmp_path / "more" / "b.csv.gz", LINES[:3])
    written(tmp_path / "notes.txt", ["no table"])
    expected = [x + y for x, y in zip(whole(first), whole(second), strict=True)]
    for source in (tmp_path, [first, second], str(tmp_path)):
        assert list(encoded(read(source, SCHEMA))[:2]) == expected
    with pytest.raises(ValueError, match="twice"):
        read([first, tmp_path / "more" / ".." / "a.csv"], SCHEMA)


def test_columns_that_nobody_asks_for_may_be_called_by_anything(tmp_path):
    path = written(tmp_path / "b.csv", ["size,2019,answer,colour", *LINES[1:]])
    assert len(list(read(path, SCHEMA))) == 1


def test_columns_that_are_found_are_not_suggested(tmp_path):
    """Only one that nothing reads may be meant."""
    sizes = [Attribute.numeric(f"size{i}", lower=0, upper=1) for i in (1, 2)]
    pair, path = Domain(sizes), tmp_path / "a.csv"
    for header, words in (("size1,b", "add it"), ("size1,Size2", "mean 'Size2'")):
        written(path, [header, "0,1"])
        refused(lambda: list(read(path, pair)), f"named 'size2'.*{words}", ValueError)
    refused(lambda: pair.encode({"size1": [1]}), "'size2'.*rename or", ValueError)
    schema = Schema(pair.attributes, [0, 1], target="size3")
    frame = pytest.importorskip("pandas").DataFrame({"size1": [1], "size2": [1]})
    refused(lambda: list(read(frame, schema)), "named 'size3'.*rename or", ValueError)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("array", r"an archive of NumPy \(.npz\)"),
        ("book", r"a workbook \(.xlsx\) or another zip archive"),
        ("table", "a Parquet file"),
        ("packed", "compressed with gzip"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_files_of_other_kinds_are_called_by_their_kind(name, kind, encoding, tmp_path):
    path = tmp_path / "a.csv"
    if name == "array":
        with open(path, "wb") as stream:
            np.savez_compressed(stream, a=np.arange(9))
    elif name == "book":
        with zipfile.ZipFile(path, "w") as book:
            book.writestr("[Content_Types].xml", "<?xml?>")
    else:
        path.write_bytes(b"PAR1" if name == "table" else gzip.compress(b"a\n1\n"))
    with open(path, "rb") as stream:
        for source in (path, stream):
            reading = read(source, SCHEMA, encoding=encoding)
            refused(lambda reading=reading: list(reading), f"is {kind}", ValueError)
    if name in ("array", "book"):
        refused(lambda: Schema.from_json(path), f"the schema is {kind}", ValueError)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_files_whose_names_are_not_utf8(name, tmp_path):
    folder = tmp_path / os.fsdecode(b"colour=bl\xe5")
    path = folder / os.fsdecode(b"\xff" + name.encode())
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system holds names in UTF-8")
    if name == "a.parquet":
        parquet_file(tmp_path / name).rename(path)
    else:
        written(path, LINES)
    codes, _, chunks = encoded(read(path, SCHEMA))
    assert len(codes) == (9 if name == "a.parquet" else 5)
    assert chunks[0][0] == str(path)
    if name == "a.parquet":
        assert reading.columns_of(path) == ["colour", "size", "answer"]
        # A folder says a value; this one says none that is known.
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(parquet_file(tmp_path / name))
        parquet.write_table(table.drop(["colour"]), tmp_path / name)
        (tmp_path / name).rename(path)
        assert encoded(read(tmp_path, SCHEMA))[0] == []


def test_a_file_without_records_is_a_part_without_records(tmp_path):
    path = written(tmp_path / "a.csv", LINES[:1])
    codes, classes, chunks = encoded(read(path, SCHEMA))
    assert codes == classes == []
    assert chunks == ((str(path), 0, 0),)


@pytest.mark.parametrize("other", ["absolute", "link", "roundabout"])
def test_a_file_of_another_name_is_not_counted_twice(other, tmp_path, monkeypatch):
    car = datasets.load_car()
    lines = [",".join([*car.schema.feature_names, car.schema.target])]
    lines += [",".join(map(str, (*x, "acc"))) for x in car.data[:20]]
    written(tmp_path / "car.csv", lines)
    (tmp_path / "folder").mkdir()
    os.symlink("../car.csv", tmp_path / "folder" / "link.csv")
    monkeypatch.chdir(tmp_path)
    names = {
        "absolute": tmp_path / "car.csv",
        "link": "folder/link.csv",
        "roundabout": "folder/../car.csv",
    }
    model = PrivateForestClassifier(car.schema, epsilon=2, n_records=40)
    for X, y, chunk_id in read("car.csv", car.schema):
        model.count(X, y, chunk_id=chunk_id)
    ((X, y, chunk_id),) = read(names[other], car.schema)
    refused(lambda: model.count(X, y, chunk_id=chunk_id), "twice", ValueError)


@pytest.mark.parametrize("chunk_rows", [2, 100])
def test_parquet(chunk_rows, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table(
        {
            "size": [3.5, None, 7.0, 0.0, 10.0],
            "answer": ["yes", "no", "no", "yes", "no"],
            "other": [1, 2, 3, 4, 5],
            "colour": ["red", "red", "blå", "?", None],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    expected = SCHEMA.encode(
        table.select(["colour", "size"]), table["answer"], **POLICIES
    )
    codes, classes, chunks = encoded(read(tmp_path, SCHEMA, chunk_rows=chunk_rows))
    assert codes == expected[0].tolist()
    assert classes == expected[1].tolist()
    assert chunks[-1][2] == 5
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    refused(lambda: list(read(tmp_path, SCHEMA)), r"b.parquet.*cut off", ValueError)
    parquet.write_table(table.drop(["size"]), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="no column named 'size'"):
        list(read(tmp_path / "b.parquet", SCHEMA))


def parquet_file(path, rows=9):
    """Write as many records in three row groups, and return the path."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = {"colour": ["red"] * rows, "size": [1.0] * rows, "answer": ["no"] * rows}
    parquet.write_table(arrow.table(values), path, row_group_size=-(-rows // 3))
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_that_changes_is_noticed(name, tmp_path):
    """Also after the last of its rows was read, or read ahead."""
    path, is_csv = tmp_path / name, name == "a.csv"
    for rows in (9, 12):
        lines = [LINES[0], *["1,x,yes,red"] * rows]
        written(path, lines) if is_csv else parquet_file(path, rows=rows)
        if rows == 9:
            parts = read(path, SCHEMA, chunk_rows=3)
            found = [next(parts).chunk_id[1:] for _ in range(3)]
            assert found == [(0, 3), (3, 6), (6, 9)]
    words = f"{name}.*changed while it was read"
    refused(lambda: list(parts), words, ValueError)


def test_parquet_that_is_damaged_within_is_named(tmp_path):
    path = parquet_file(tmp_path / "a.parquet", rows=300)
    data = bytearray(path.read_bytes())
    data[4:60] = b"\xff" * 56
    path.write_bytes(data)
    refused(lambda: list(read(path, SCHEMA)), r"a.parquet.*damaged", ValueError)


def test_reading_that_stops_leaves_no_thread(tmp_path):
    path = parquet_file(tmp_path / "a.parquet")
    parts = read(path, SCHEMA, chunk_rows=2)
    before = threading.active_count()
    next(parts)
    assert threading.active_count() > before
    parts.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("line", "place"),
    [("3,x,yes,secret", "row 5, column 'colour'"), ("3,x,secret,red", "row 5 of y")],
)
def test_rows_in_errors_are_those_of_the_file(line, place, tmp_path):
    path = written(tmp_path / "a.csv", [*LINES[:6], line])
    model = PrivateForestClassifier(SCHEMA, epsilon=1, handle_missing="drop")
    *parts, (X, y, chunk_id) = read(path, SCHEMA, chunk_rows=2)
    assert len(parts) == 2
    with pytest.raises(ValueError, match=place) as caught:
        model.count(X, y, chunk_id=chunk_id)
    assert "secret" not in str(caught.value)


# ---- folders of partitions -----------------------------------------------------------


def test_names_of_folders_are_columns(tmp_path):
    expected = []
    header = "size,answer"
    for folder, colour in (("blå", "blå"), ("%3F", "?"), (NULL_PARTITION, "")):
        path = tmp_path / "other=1" / f"colour={folder}"
        path.mkdir(parents=True)
        written(path / "a.csv", [header, "3,yes", "9,no"])
        expected += [[colour, "3", "yes"], [colour, "9", "no"]]
    (tmp_path / "_temporary").mkdir()
    written(tmp_path / "_temporary" / "b.csv", [header, "1,no"])
    expected = SCHEMA.encode(
        [row[:2] for row in expected], [row[2] for row in expected], **POLICIES
    )
    codes, classes, chunks = encoded(read(tmp_path, SCHEMA, chunk_rows=1))
    assert sorted(codes) == sorted(expected[0].tolist())
    assert sorted(classes) == sorted(expected[1].tolist())
    assert len(set(chunks)) == 6
    written(path / "b.csv", LINES)
    with pytest.raises(ValueError, match=r"a column 'colour', and its folder"):
        list(read(tmp_path, SCHEMA))


def test_folders_may_give_all_columns(tmp_path):
    """Their files have only columns that nobody asks for, and still their records."""
    arrow, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    for colour, name in (("red", "a.csv"), ("blå", "b.parquet")):
        path = tmp_path / f"colour={colour}" / name
        path.parent.mkdir()
        if name == "a.csv":
            written(path, ["other,more", "x,1", "y,2"])
        else:
            parquet.write_table(arrow.table({"other": [1, 2, 3]}), path)
    domain = Domain(SCHEMA.attributes[:1])
    codes = [domain.encode(part.X).ravel() for part in read(tmp_path, domain)]
    assert sorted(np.concatenate(codes)) == [0, 0, 1, 1, 1]


# ---- frames and iterators ------------------------------------------------------------

ROWS = {
    "size": [3.5, 7.0, 0.0, 10.0, 4.0],
    "other": [1, 2, 3, 4, 5],
    "answer": ["yes", "no", "yes", "no", "no"],
    "colour": ["red", "blå", "?", "red", "red"],
}


def frame_of(library):
    if library == "pyarrow":
        return pytest.importorskip("pyarrow").table(ROWS)
    return pytest.importorskip(library).DataFrame(ROWS)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_read_in_parts(library):
    frame = frame_of(library)
    codes, classes, chunks = encoded(read(frame, SCHEMA, chunk_rows=2))
    rows = list(zip(ROWS["colour"], ROWS["size"], strict=True))
    expected = SCHEMA.encode(rows, ROWS["answer"])
    assert codes == expected[0].tolist()
    assert classes == expected[1].tolist()
    assert chunks == (None, None, None)
    if library == "pandas":  # rows are taken by their places, not by their labels
        frame.index = [4.0, 3.0, 2.0, 1.0, 0.0]
        assert encoded(read(frame, SCHEMA, chunk_rows=2))[0] == codes
    again = encoded(read(iter([frame, frame]), SCHEMA))
    assert again[0] == codes * 2


def test_pairs_and_datasets_are_read():
    rows = list(zip(ROWS["colour"], ROWS["size"], strict=True))
    pairs = ((rows[i : i + 2], ROWS["answer"][i : i + 2]) for i in (0, 2, 4))
    codes, _, _ = encoded(read(pairs, SCHEMA))
    assert codes == SCHEMA.encode(rows).tolist()
    dataset = pytest.importorskip("pyarrow.dataset").dataset(frame_of("pyarrow"))
    assert encoded(read(dataset, SCHEMA))[0] == codes


def test_other_sources_are_refused():
    frame = frame_of("pandas").drop(columns="answer")
    refused(lambda: list(read(frame, SCHEMA)), "no column named 'answer'", ValueError)


# ---- numbers as people write them ----------------------------------------------------

GERMAN = {"sep": ";", "decimal": ",", "thousands": "."}


@of_all(
    case=[
        ({}, "1.5", 1.5),
        ({}, "1,5", None),
        ({"decimal": ","}, "1,5", 1.5),
        ({"decimal": ","}, "1.5", None),  # a group, or decimals of another file
        (GERMAN, "1.234,5", 1234.5),
        (GERMAN, "-12.345.678", -12345678),
        (GERMAN, "1,5e3", 1500),
        (GERMAN, "1.5", None),
        (GERMAN, "1.5,2", None),
        (GERMAN, "12.50", None),  # decimals of another file, not 1250
        (GERMAN, "0.75", None),
        (GERMAN, "0.750", None),
        (GERMAN, "12.34.567", 1234567),
        (GERMAN, "12.345.67", None),
        ({"thousands": ","}, "1,234.5", 1234.5),
        ({"thousands": ","}, " 12,34,567 ", 1234567),
        ({"thousands": ","}, "1,50", None),
        ({"thousands": ","}, "123,45,678", None),
        ({"thousands": ","}, "1,2", None),
        ({"thousands": ","}, "1234,567", None),
        ({"thousands": " "}, "12 345", 12345),
        ({"thousands": "'"}, "1'000", 1000),
        ({"na": "NA"}, "NA", "missing"),
        ({"na": ["-", "n/a"]}, "n/a", "missing"),
        ({"na": ["-", "n/a"]}, "NA", None),
        ({}, "12 %", None),
    ],
)
def test_numbers_are_read_as_the_file_writes_them(case, tmp_path):
    """And what is not written so is no number, rather than another one."""
    form, cell, meant = case
    path = tmp_path / "a.csv"
    path.write_text(f'colour;size\nred;"{cell}"\n'.replace(";", form.get("sep", ",")))
    domain = Domain(
        [
            Attribute.categorical("colour", ["red"]),
            Attribute.numeric("size", lower=-1e9, upper=1e9, n_bins=2),
        ]
    )
    (part,) = read(path, domain, **form)
    assert part.y is None
    misfits = [misfit.problem for misfit in domain.check(part.X)]
    if meant is None:
        assert misfits == ["a value that is not a number"]
    elif meant == "missing":
        assert misfits == ["a missing value (empty, None or NaN)"]
    else:
        assert misfits == []
        assert float(part.X["size"][0].as_py()) == meant


def test_texts_are_left_as_they_are_unless_they_stand_for_nothing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("size;colour;answer\n1,5;1,5;yes\n2,5;NA;no\n")
    schema = Schema(
        [Attribute.categorical("colour", ["1,5", "?"]), SCHEMA.attributes[1]],
        ["yes", "no"],
        target="answer",
    )
    (part,) = read(path, schema, sep=";", decimal=",", na=["NA"])
    assert part.X.to_pydict() == {"colour": ["1,5", ""], "size": ["1.5", "2.5"]}
    bunch = datasets.load_csv(path, schema, sep=";", decimal=",", na=["NA"])
    assert bunch.data.tolist() == [["1,5", "1.5"], ["", "2.5"]]
    assert bunch.target.tolist() == ["yes", "no"]


def test_a_column_that_holds_lists_is_named(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for value, kind in ((["red"], "list<"), ({"a": 1}, "struct<")):
        columns = {"colour": [value], "size": [1], "answer": ["no"]}
        parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=f"column 'colour' holds several.*{kind}"):
            next(read(tmp_path / "a.parquet", SCHEMA))
