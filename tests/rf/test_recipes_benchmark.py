"""The comparison of recipes with what was published of them, on one small set."""

from benchmarks.recipes import __main__ as recipe_benchmark
from benchmarks.recipes.__main__ import main, published
from mmech_rf import recipes


def test_every_recipe_has_a_row():
    rows = published()
    assert {row.recipe for row in rows} == set(recipes())
    assert all(0 < float(row.published or 1) <= 100 for row in rows)
    assert all(float(row.epsilon) for row in rows)
    assert len({(row.key, row.source) for row in rows}) == len(rows)


def test_a_run_goes_on_where_it_was_stopped(tmp_path, capsys):
    arguments = ["--recipes", "jpw", "pte", "--datasets", "car", "--output"]
    arguments += [str(tmp_path), "--splits"]
    main([*arguments, "1"])
    first = (tmp_path / "trials.csv").read_text().splitlines()
    assert len(first) == 3  # two recipes, and the private forest once for both
    with open(tmp_path / "trials.csv", "a") as stream:
        stream.write("car|jpw|2|,1")  # cut off
    capsys.readouterr()
    main([*arguments, "2"])
    rows = (tmp_path / "trials.csv").read_text().splitlines()
    assert rows[:3] == first
    assert len(rows) == 7  # the three, what was cut off, and three of the second split
    table = capsys.readouterr().out
    assert "| jpw | car | 2 | 69.38 |" in table
    assert (tmp_path / "RESULTS.md").read_text() in table
    assert len(recipe_benchmark.read(tmp_path / "trials.csv")) == 6
