"""The command ``mmech tables``: files in, files out, errors in one sentence."""

import io
import json
import re
import runpy
import shlex
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from mmech import Attribute, Domain, threads
from mmech.cli import build_parser, main
from mmech.tables import measured as measured_module

DOMAIN = {
    "features": [
        {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
        {"name": "size", "type": "ordinal", "categories": ["s", "m", "l"]},
        {"name": "age", "type": "numeric", "lower": 0, "upper": 90, "n_bins": 3},
    ]
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder with the files of a user, where the command runs."""
    monkeypatch.chdir(tmp_path)
    Path("d.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 91, 200),
            "sex": rng.choice(["f", "m"], 200),
            "size": rng.choice(["s", "m", "l"], 200),
        }
    )
    frame.to_csv("in.csv", index=False)
    return tmp_path


def run(line, capsys):
    code = main(shlex.split(line))
    return code, *capsys.readouterr()


@pytest.mark.parametrize("asked", ["--ways 1 2", "--auto"])
def test_all_tables_are_measured_where_that_is_asked_for(asked, folder, capsys):
    """In place of steps, which leave the pairs out that they do not choose."""
    domain = Domain([Attribute.categorical(n, [0, 1]) for n in "abcde"])
    domain.to_json("five.json")
    Path("five.csv").write_text("a,b,c,d,e\n0,1,0,1,0\n", encoding="utf-8")
    line = f"tables five.csv --domain five.json {asked} --epsilon 1"
    for more, steps in (("", True), (" --measure all", False)):
        code, out, _ = run(f"{line}{more} --out made{steps}", capsys)
        assert code == 0
        assert ("in steps" in out) == steps
        tables = [path.name for path in Path(f"made{steps}").glob("*.csv")]
        assert len(tables) == 5 + 10


def test_tables_are_released_into_a_folder(folder, capsys):
    line = "tables in.csv --domain d.json --ways 1 2 --epsilon 1/2 --out made"
    code, out, err = run(f"{line} --synthetic 30 --level 0.9", capsys)
    assert (code, err) == (0, "")
    assert "The tables are in" in out
    statement = Path("made/statement.txt").read_text(encoding="utf-8")
    assert " ".join(statement.split()) in " ".join(out.split())
    assert not Path("made.measured").exists()
    facts = json.loads(Path("made/evidence.json").read_text(encoding="utf-8"))["about"]
    assert (facts["cost"], facts["level"], len(facts["files"])) == ("1/2", 0.9, 6)
    synthetic = pd.read_csv("made/synthetic.csv")
    assert Domain.from_json("d.json").encode(synthetic).shape == (30, 3)


def test_statistics_alone_count_their_groups(folder, capsys):
    few = pd.read_csv("in.csv").rename(columns={"size": "id"})
    few.to_csv("few.csv", index=False)  # other columns need not be there
    line = "tables few.csv --domain d.json --mean age --by sex --epsilon 9 --out made"
    line += " --standard-deviation age --by sex"
    left_out = "mmech: columns that the domain does not name: id\n"
    assert run(line, capsys)[::2] == (0, left_out)
    names = {path.name for path in Path("made").glob("*.csv")}
    assert names == {
        "sex.csv",
        "mean_of_age_by_sex.csv",
        "standard_deviation_of_age_by_sex.csv",
    }


def test_names_with_commas_stand_in_quotes(folder, capsys):
    domain = Domain.from_json("d.json")
    sex = Attribute.categorical("sex, as told", ["f", "m"])
    Domain([sex, *domain.attributes[1:]]).to_json("commas.json")
    line = "tables --domain commas.json --epsilon 1 --dry-run --mean age --by '{0}'"
    for names in ('"sex, as told",size', 'size, "sex, as told"'):
        code, out, _ = run(f"{line} --table '{{0}}'".format(names), capsys)
        assert code == 0
        assert "\nsex, as told x size " in out
    for name in ("sex, as told", "", "sex\nsize", '"sex'):
        code, out, err = run(line.format(name), capsys)
        assert (code, out) == (2, "")
        assert "must" in err


def test_shares_of_tables_and_statistics(folder, capsys):
    line = "tables --domain d.json --ways 1 --epsilon 1 --dry-run --share 1/4"
    code, out, err = run(f"{line} --mean age --by sex --share .7 --sum age", capsys)
    out = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "mean of age by sex: epsilon = 7/10, a standard error of" in out
    assert "sum of age: epsilon = 1/20, a standard error of" in out
    assert "more than a tenth of the sum in every group of fewer than" in out
    apart = "--sum age --by sex --bounds 0,50 --mean age --by sex"
    out = " ".join(run(f"{line} {apart}", capsys)[1].split())
    assert "each is measured by itself, and they need not agree" in out


def test_a_ledger_on_disk_pays_for_tables(folder, capsys):
    made = "budget b.json --total 1/2 --neighbours replace"
    assert "Left: epsilon = 1/2 of 1/2." in run(made, capsys)[1]
    line = "tables in.csv --domain d.json --ways 1 --epsilon 1/4 --ledger b.json"
    code, _, err = run(f"{line} --out made", capsys)
    assert code == 2
    assert "replacing one record" in err
    code, out, err = run(f"{line} --neighbours replace --out made", capsys)
    assert (code, err) == (0, "")
    assert "Left in 'b.json': epsilon = 1/4 of 1/2." in out
    code, out, err = run("budget b.json", capsys)
    assert (code, err) == (0, "")
    assert "Spent: epsilon = 1/4." in out
    assert "epsilon = 1/4, 3 tables of counts over 3 attributes" in " ".join(
        out.split()
    )
    too_much = r"needs epsilon = 0\.333.* only 0\.25 of 0\.5 is left"
    for wrong, message in {
        line.replace("1/4", "1/3"): too_much,
        line.replace("--epsilon", "--rho"): "counts pure epsilon, which cannot pay",
        line.replace("b.json", "c.json"): "no ledger 'c.json'",
        line.replace("b.json", "d.json"): "'.*d.json' is not a ledger",
    }.items():
        code, out, err = run(f"{wrong} --neighbours replace --out again", capsys)
        assert (code, out) == (2, "")
        assert re.search(message, err)
    assert "1/4 of 1/2" in run("budget b.json", capsys)[1]


def test_what_was_paid_for_is_finished_after_an_interruption(
    folder, capsys, monkeypatch
):
    run("budget b.json --total 1", capsys)
    line = "tables in.csv --domain d.json --ways 1 2 --epsilon 1/2 --ledger b.json"
    with monkeypatch.context() as patch:
        patch.setattr(measured_module, "settle", Mock(side_effect=KeyboardInterrupt))
        code, out, err = run(f"{line} --out made", capsys)
    assert (code, out) == (130, "")
    assert "epsilon = 1/2 is spent; what was measured is kept in 'made.measured'" in err
    assert "`mmech resume made.measured --out FOLDER` makes the tables" in err
    code, out, err = run(f"{line} --out made", capsys)
    assert code == 2
    assert "'made.measured' has what an earlier run paid for" in err
    code, out, err = run("resume made.measured --out made", capsys)
    assert (code, err) == (0, "")
    assert "epsilon = 1/2 (pure differential privacy)" in out
    assert "Left: epsilon = 1/2 of 1." in run("budget b.json", capsys)[1]
    assert run("resume made.measured --out made", capsys)[0] == 2


def test_what_could_not_be_kept_is_said_to_be_spent(folder, capsys, monkeypatch):
    full = Mock(side_effect=OSError("no space left"))
    monkeypatch.setattr(measured_module.MeasuredTables, "save", full)
    line = "tables in.csv --domain d.json --ways 1 --epsilon 1 --out made"
    code, _, err = run(line, capsys)
    assert code == 2
    assert "epsilon = 1 is spent, and not kept" in err


def test_dropping_is_said_before_and_counted_after(folder, capsys):
    Path("in.csv").write_text("sex,size,age\n" + "x,s,3\n" * 90, encoding="utf-8")
    line = "tables in.csv --domain d.json --ways 1 --epsilon 2 --handle-unknown drop"
    code, out, err = run(f"{line} --out made", capsys)
    assert code == 0
    assert "records that are dropped will count in no table" in err
    facts = json.loads(Path("made/evidence.json").read_text(encoding="utf-8"))["about"]
    assert f"Left out: about {facts['left_out']} records" in " ".join(out.split())
    assert abs(facts["left_out"] - 90) < 20  # false alarms: 1e-16
    assert run(f"{line} --dry-run", capsys)[2] == ""


def test_a_dry_run_needs_no_records_and_writes_nothing(folder, capsys):
    before = sorted(folder.rglob("*"))
    line = "tables --domain d.json --ways 2 --epsilon 1 --dry-run"
    code, out, err = run(line, capsys)
    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert rows[0].startswith("table       cells  std. error  10 % from  90 % within")
    assert [row.split("  ")[0] for row in rows[1:4]] == [
        "sex x size", "sex x age", "size x age",
    ]  # fmt: skip
    error, tenth, *within = (float(number) for number in rows[1].split()[-4:])
    assert 0 < error < within[0] < within[1]
    assert abs(tenth - 10 * error) < 1.5  # a count that was rounded up
    assert "nothing was spent" in " ".join(out.split())
    assert max(map(len, rows)) <= 80
    # The errors to expect do not depend on records that are named.
    assert run(f"{line[:7]} in.csv {line[7:]}", capsys)[1] == out
    assert sorted(folder.rglob("*")) == before


WRITTEN = {
    "separators, encoding and decimals": ("in.csv",
        "sex;größe;age\nf;s;30,5\nm;l;1.060,0\nm;l;NA\n".encode("latin-1"),
        r"--sep ';' --encoding latin-1 --decimal , --thousands . --na NA"),
    "the standard input, line breaks in quotes": ("-",
        'sex,größe,age,note\nf,s,30.5,"a\nb"\nm,l,1060,\nm,l,,\n'.encode(),
        "--multiline"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN)
def test_records_are_read_as_for_forests(case, folder, capsys, monkeypatch):
    name, data, options = WRITTEN[case]
    domain = json.loads(json.dumps(DOMAIN).replace("size", "größe"))
    domain["features"][2] |= {"upper": 2000, "cut_points": [1000], "other": "?"}
    del domain["features"][2]["n_bins"]
    Path("d.json").write_text(json.dumps(domain), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    Path("in.csv").write_bytes(data)
    line = f"tables {name} --domain d.json --epsilon 1e6 --out made --ways 1"
    code, _, err = run(f"{line} --handle-missing category {options}", capsys)
    assert code == 0, err
    # So little noise that released counts are those of the file.
    assert pd.read_csv("made/sex.csv")["count"].tolist() == [1, 2]
    assert pd.read_csv("made/age.csv")["count"].tolist() == [1, 1, 1]
    assert pd.read_csv("made/größe.csv")["count"].tolist() == [1, 0, 2]


def test_a_domain_is_suggested_and_checked(folder, capsys):
    header = '"","sex","größe","age"'.replace(",", ";")
    text = f"{header}\n" + "".join(
        f'"{i}";"f";"s{i % 20}";"{30 + 100 * (i == 5)}"\n' for i in range(60)
    )
    Path("r.csv").write_text(text, encoding="utf-8")
    code, out, err = run("schema suggest r.csv", capsys)
    assert (code, out) == (2, "")
    assert (
        "line 1 of the file opens a quote whose end is followed by neither --sep" in err
    )
    Path("one.csv").write_text("sex;age\nf;3\n")
    code, _, err = run("schema suggest one.csv", capsys)
    assert (code, "another separator than --sep" in err) == (2, True)
    code, out, _ = run("schema suggest r.csv --sep ';'", capsys)
    assert code == 0
    entries = json.loads(out)["features"]
    assert [entry["name"] for entry in entries] == ["sex", "größe", "age"]
    assert "target" not in json.loads(out)
    domain = json.loads(json.dumps(DOMAIN).replace("size", "größe"))
    Path("d.json").write_text(json.dumps(domain), encoding="utf-8")
    code, out, err = run("schema check r.csv d.json --sep ';'", capsys)
    assert code == 1
    assert "for the owner of the records only" in err
    lines = out.splitlines()
    assert lines[1].startswith("column 'größe': a value outside the domain")
    assert lines[2] == "  's0' in 3 rows, first in row 0"
    assert lines[10] == "  and 12 other values"
    # A number out of bounds counts as the nearest one.
    assert lines[11] == (
        "column 'age': 1 row outside the bounds count as the nearest number within"
    )
    assert lines[12] == "0 of 60 records fit the domain 'd.json'."
    assert run("schema check in.csv d.json", capsys)[0] == 2


def test_a_dry_run_says_that_tables_are_told_by_one_hierarchy(folder, capsys):
    tree = {name: [f"{name}{i}" for i in range(8)] for name in "ABC"}
    entries = [
        {"name": n, "type": "hierarchy", "tree": tree, "levels": [up]}
        for n, up in (("city", "region"), ("job", "field"))
    ]
    Path("d.json").write_text(json.dumps({"features": entries}))
    tables = "--table city --table region --table job --table field"
    for cost, measured in [
        ("--rho 1", "only these tables"),
        ("--epsilon 1", "city with job; region with field"),
    ]:
        line = f"tables --domain d.json {tables} {cost} --dry-run"
        code, out, _ = run(line, capsys)
        assert code == 0
        assert f"Measured: {measured}. Each table is told" in " ".join(out.split())
    crossed = " ".join(
        f"--table {place},{work}"
        for place in ("city", "region")
        for work in ("job", "field")
    )
    code, out, _ = run(f"tables --domain d.json {crossed} --rho 1 --dry-run", capsys)
    assert (code, "told by the levels" in " ".join(out.split())) == (0, False)


def test_means_and_quantiles_of_dates_are_dates(folder, capsys):
    """Days and months of records, intervals around the exact dates, and no sums."""
    when = {"name": "seen", "type": "date", "lower": "2026-01-01"}
    entries = [DOMAIN["features"][0], when | {"upper": "2026-12-31", "unit": "month"}]
    Path("d.json").write_text(json.dumps({"features": entries}))
    days = np.datetime64("2026-03-01") + np.arange(0, 184)  # to the end of August
    rows = [f"{sex},{day}" for sex in "fm" for day in days.astype(str)] * 20
    rows += ["f,2026-06"] * 20  # the first day of the month
    Path("when.csv").write_text("\n".join(["sex,seen", *rows]) + "\n")
    line = "tables when.csv --domain d.json --ways 1 --epsilon 40"
    asked = "--mean seen --by sex --quantiles seen --probabilities .25,.5"
    assert run(f"{line} {asked} --out made", capsys)[0] == 0
    read = {"dtype": str, "keep_default_na": False}
    means = pd.read_csv("made/mean_of_seen_by_sex.csv", **read)
    places = pd.read_csv("made/quantiles_of_seen.csv", **read)
    assert means["sex"].tolist() == ["f", "m"]
    exact = [["2026-05-31", "2026-05-31"], ["2026-04-15", "2026-05-31"]]
    for table, found, dates in (
        (means, "mean", exact[0]),
        (places, "quantile", exact[1]),
    ):
        columns = (table[name].to_numpy("M8[D]") for name in ("lower", found, "upper"))
        low, value, high = columns
        goal = np.array(dates, "M8[D]")
        assert ((low <= value) & (value <= high)).all()
        assert ((low - 1 <= goal) & (goal <= high + 1)).all()
        assert (np.abs(value - goal) <= np.timedelta64(3, "D")).all()
    code, _, err = run(f"{line} --sum seen --out more", capsys)
    assert code == 2
    assert "means and quantiles of dates, but 'seen'" in err
    assert not Path("more").exists()


def test_places_in_several_columns_are_one_hierarchy(folder, capsys):
    Path("r.csv").write_text("City,sex,Region\nA,f,N\nA,f,S\nB,m,N\n")
    code, out, _ = run("schema suggest r.csv --out d.json --force", capsys)
    assert (code, out) == (0, "")
    document = json.loads(Path("d.json").read_text())
    place, sex = document["features"]
    assert (place["columns"], sex["name"]) == (["Region", "City"], "sex")
    code, _, err = run("schema check r.csv d.json", capsys)
    assert "the tree of attribute 'place' must have at least one value" in err
    place["tree"], sex["categories"] = {"N": ["A"], "S": ["A", "B"]}, ["f", "m"]
    Path("d.json").write_text(json.dumps(document))
    code, out, _ = run("schema check r.csv d.json --na x", capsys)
    assert code == 1
    assert out.splitlines()[1:] == [
        "column 'City': a value that the tree does not have below those of the columns "
        "above, in 1 row",
        "  'B' in row 2",
        "2 of 3 records fit the domain 'd.json'.",
    ]
    line = "tables r.csv --domain d.json --table City,sex --table Region --epsilon 1"
    code, out, err = run(f"{line} --handle-unknown drop --out made", capsys)
    assert code == 0, err
    lines = Path("made/City_x_sex.csv").read_text().splitlines()
    assert [line[:6] for line in lines[1:]] == [
        "N,A,f,", "N,A,m,", "S,A,f,", "S,A,m,", "S,B,f,", "S,B,m,",
    ]  # fmt: skip
    Path("k.csv").write_text("Region,count\nN,2\nS,1\n")
    Path("r.csv").write_text("City,sex,Region\nA,f,N\nB,f,S\nA,m,N\n")
    code, _, err = run(f"{line} --known k.csv --out known", capsys)
    assert code == 0, err
    lines = Path("known/Region.csv").read_text().splitlines()
    assert [line[:4] for line in lines[1:]] == ["N,2,", "S,1,"]
    Path("r.csv").write_text("City,sex\nA,f\n")
    code, _, err = run(f"{line} --out other", capsys)
    assert code == 2
    assert "named 'Region'" in err


def test_the_command_is_a_module(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mmech", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("mmech", run_name="__main__")
    assert end.value.code in (None, 0)


def test_what_is_done_is_shown_from_the_start(folder, capsys, monkeypatch):
    shown = []

    class Screen(list):
        def append(self, doing):
            shown.append(doing)
            super().append(doing)

    monkeypatch.setattr(threads, "_shown", Screen([lambda: "as on a terminal"]))
    line = "tables --domain d.json --ways 2 --epsilon 1 --dry-run"
    assert run(line, capsys)[0] == 0
    assert shown[0]().startswith("choosing what to measure")


def test_examples_of_the_help_are_commands_line_by_line(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["tables", "--help"])
    shown = capsys.readouterr().out.partition("examples:")[2].replace("\\\n", "")
    lines = [line for line in shown.splitlines() if line.startswith("  mmech ")]
    assert lines
    for line in lines:
        args = build_parser().parse_args(shlex.split(line)[1:])
        assert args.out or args.dry_run
