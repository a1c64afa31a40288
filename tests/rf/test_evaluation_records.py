"""The harness of comparison: records, and outcomes that a file keeps."""

import pytest

import mmech_rf.evaluation as evaluation
from benchmarks import results
from mmech_rf import Attribute, Schema


def test_required_columns_drop_records_and_are_not_asked_for_again(tmp_path):
    size = Attribute.categorical("size", ["small", "large"])
    schema = Schema([size], ["no", "yes"], target="class", required=("country",))
    lines = ["size,country,class"]
    for i in range(30):
        country = "" if i % 3 == 0 else "here"
        lines.append(f"{('small', 'large')[i % 2]},{country},{('no', 'yes')[i % 2]}")
    table, description = tmp_path / "t.csv", tmp_path / "t.json"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    schema.to_json(description)
    records = evaluation.load_records(str(table), str(description), missing="drop")
    assert (records.X.shape, records.n_dropped) == ((20, 1), 10)
    methods = evaluation.make_methods(["training"], n_trees=1, depth=1)
    found = evaluation.evaluate(records, methods, [1], repeats=1)
    assert len(found.trials) == 1


def squares(number):
    if number > 3:
        raise ValueError("stopped")
    return [((number, "square"), (number**2 / 3, str(number)))]


def test_an_interrupted_run_goes_on_from_its_file(tmp_path):
    path = tmp_path / "results.csv"
    columns = {"n": int, "what": str}, {"value": float, "text": str}
    found = results.Results(path, *columns)
    assert not path.exists()
    with pytest.raises(ValueError, match="stopped"):
        found.run([2, 3, 4], squares)
    assert found == {(2, "square"): (1.333333, "2"), (3, "square"): (3.0, "3")}
    assert results.Results(path, *columns) == found
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == "n,what,value,text"
    path.write_text(text[:-2], encoding="utf-8")  # "3" and the end of its line
    again = results.Results(path, *columns)
    assert again == {(2, "square"): (1.333333, "2")}
    again.run([1], squares, jobs=2)
    again.keep(lambda key: key[0] == 1)
    assert results.Results(path, *columns) == {(1, "square"): (0.333333, "1")}


def test_standard_error_of_a_mean():
    assert results.standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert results.standard_error([1.0]) != results.standard_error([1.0])
