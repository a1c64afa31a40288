"""Records of a comparison: columns that only decide which records to drop."""

from mmech_rf import Attribute, Schema
from mmech_rf.evaluation import evaluate, load_records, make_methods


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
    records = load_records(str(table), str(description), missing="drop")
    assert (records.X.shape, records.n_dropped) == ((20, 1), 10)
    methods = make_methods(["training"], n_trees=1, depth=1)
    found = evaluate(records, methods, [1], repeats=1)
    assert len(found.trials) == 1
