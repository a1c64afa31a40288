"""What the evidence of releases says, and who says it."""

import base64
import csv
import hashlib
import itertools
import json
import shutil
import zlib
from fractions import Fraction

import numpy as np
import pytest
from replay import entropy

import mmech as mm
from mmech.cli import main as run_mmech
from mmech.evidence import LONG, term
from mmech.integer_strategy import integer_strategy
from mmech.noise import GAUSSIAN, LAPLACE, k_norm
from mmech.noise import seam as seams
from mmech.operators.compose import Merged
from mmech.tables import Histogram, Mean, Quantiles, Sum, recompute
from mmech.verify import examine

SEX = mm.Attribute.categorical("sex", ["f", "m"])
AGE = mm.Attribute.numeric("age", lower=0, upper=90, n_bins=3)


def numbers(packed):
    """Return the whole numbers of a list that may be packed."""
    if isinstance(packed, list):
        return np.array(packed, np.int64)
    steps = np.frombuffer(zlib.decompress(base64.b64decode(packed["packed"])), "<i8")
    assert len(steps) == packed["n"] > LONG
    return np.cumsum(steps)


def evidence_of(release):
    with mm.record_evidence() as record:
        release()
    return record.evidence().content


def draws_of(node):
    """Return all draws of a tree, in order."""
    if "law" in node:
        return [node]
    return [draw for own in node["of"] for draw in draws_of(own)]


# ---- samplers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "parameter", "shape"),
    [
        (LAPLACE, Fraction(7, 2), (5, 2)),
        (GAUSSIAN, Fraction(9, 4), (3,)),
        (k_norm([(2, 3), 1]), Fraction(5), (6, 2)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_samplers_note_what_they_drew_with(law, parameter, shape):
    with seams.recording() as events:
        seams.drawn(law.name, 0, lambda: law.draw(parameter, shape))
    (event,) = events
    (sampled,) = event.sampled  # noise on the way to other noise is not noted
    assert sampled[:3] == (law.name, parameter, shape)
    assert tuple(map(tuple, sampled.groups or ())) == law.groups
    assert np.shape(event.outcome) == shape


def test_parts_of_which_nothing_is_drawn_are_said():
    """Nodes of a tree that have all stopped were paid for, and cost nothing."""
    with mm.record_evidence() as record:
        mm.noisy_release([4], sensitivity=1, epsilon=1, released="a count")
        with seams.disjoint():
            pass
    evidence = record.evidence()
    assert [own["law"] for own in draws_of(evidence.content["cost"])] == [
        "laplace", "nothing",
    ]  # fmt: skip
    assert evidence.verdict.startswith("holds: epsilon = 1 ")


def test_nothing_is_noted_outside_of_a_draw():
    with seams.recording() as events:
        LAPLACE.draw(Fraction(2), (3,))
        seams.drawn("ties", None, lambda: 1)
    assert not events


@pytest.mark.parametrize("ours", [True, False])
def test_what_the_sampler_drew_with_is_said_and_not_what_was_planned(monkeypatch, ours):
    honest = LAPLACE.draw

    def draw(t, shape, **rest):
        return honest(t / 4, shape, **rest) if ours else np.zeros(shape, np.int64)

    monkeypatch.setitem(vars(LAPLACE), "draw", draw)
    content = evidence_of(
        lambda: mm.MatrixMechanism(mm.Identity(3), epsilon=1).answer([1, 2, 3])
    )
    (found,) = draws_of(content["cost"])
    assert found["law"] == ("laplace" if ours else "opaque")
    assert not ours or found["sampled"] == [["laplace", "1/4", [3, 1]]]


# ---- releases ------------------------------------------------------------------------


def test_a_mechanism_says_what_it_multiplied_and_what_it_answers_from():
    mechanism = mm.MatrixMechanism(
        mm.Prefix(4), mm.Hierarchy(4, {1: 1, 4: 3}), epsilon="1/2", contribution=2
    )
    with mm.record_evidence() as record:
        measured = mechanism.measure([[1, 2], [0, 3], [5, 1], [2, 2]])
    content = record.evidence().content
    assert (content["currency"], content["cost"]["paid"]) == ("epsilon", "1/2")
    (draw,) = draws_of(content["cost"])
    assert [len(own["starts"]) for own in draw["strategy"]["blocks"]] == [4, 1]
    assert draw["contribution"] == draw["columns"] == 2
    assert numbers(draw["values"]).tolist() == measured.values.ravel().tolist()
    assert [own[1] for own in draw["sampled"]] == ["16", "16/3"]


def test_selections_say_their_rate_and_window():
    def release():
        mm.exponential_mechanism([3, 9], epsilon=1, released="a word", window=2)
        mm.permute_and_flip([3, 9], epsilon=1, released="another")

    payments = evidence_of(release)["cost"]["of"]
    ((first,), (second,)) = (own["of"] for own in payments)
    assert (first["law"], first["window"], first["signs"]) == ("exponential", "2", 1)
    assert Fraction(first["rate"]) * 2 + Fraction(12, 2**36) <= 1
    assert (second["law"], second["rate"]) == ("permute_and_flip", "1/2")


def test_costs_are_those_of_the_ledger():
    ledger = mm.PrivacyLedger(3, neighbours="replace")

    def release():
        for region in ("north", "south"):
            mm.noisy_release(
                [4], sensitivity=1, epsilon="1/2", released="a count",
                neighbours="replace", ledger=ledger.part("region", region),
            )  # fmt: skip

    content = evidence_of(release)
    assert content["cost"]["paid"] == str(ledger.spent) == "1/2"
    assert mm.Evidence(json.dumps(content)).entries == ledger.entries
    (parts,) = content["cost"]["of"]
    assert (parts["how"], parts["partition"]) == ("largest", "region")
    assert parts["names"] == ["north", "south"]
    assert [own["of"][0]["paid"] for own in parts["of"]] == ["1/2", "1/2"]
    assert content["relation"] == {"neighbours": "replace", "records": 1}


def test_records_within_records_are_in_both():
    def release():
        mm.noisy_release([4], sensitivity=1, epsilon=1, released="a count")

    with mm.record_evidence() as outer:
        inner = evidence_of(release)
    assert outer.evidence().content["cost"] == inner["cost"]


def test_a_record_without_a_charge_is_refused():
    with mm.record_evidence() as record:
        pass
    with pytest.raises(ValueError, match="nothing was charged within the record"):
        record.evidence()


def test_a_record_of_two_relations_is_refused():
    with mm.record_evidence() as record:
        for neighbours in ("add_remove", "replace"):
            mm.noisy_release(
                [4], sensitivity=1, epsilon=1, released="x", neighbours=neighbours
            )
    with pytest.raises(ValueError, match="must be for one neighbour relation"):
        record.evidence()


def test_evidence_is_what_the_verifier_can_read():
    """Which facts nobody reads, `test_verify` lists."""
    content = evidence_of(
        lambda: mm.MatrixMechanism(mm.Identity(2), epsilon=1).answer([3, 4])
    )
    mm.Evidence(json.dumps(content))
    content["cost"]["price"] = 1
    with pytest.raises(ValueError, match=r"no evidence .*, because .*known: .'price'"):
        mm.Evidence(json.dumps(content))


def test_streams_cannot_be_checked():
    with mm.record_evidence() as record:
        mm.Stream(horizon=4, epsilon=1).push(3)
    evidence = record.evidence()
    assert [own["law"] for own in draws_of(evidence.content["cost"])] == ["opaque"]
    assert evidence.verdict.startswith("cannot check: ")


# ---- tables --------------------------------------------------------------------------


def test_tables_leave_evidence_of_all_that_was_drawn(tmp_path):
    domain = mm.Domain([SEX, AGE])
    records = [["f", 20], ["m", 80], ["f", None]] * 40
    released = mm.release_tables(
        records, domain, ways=2, epsilon=1, handle_missing="drop",
        statistics=[Mean("age"), Quantiles("age", by="sex")],
    )  # fmt: skip
    folder = released.write(tmp_path / "out")
    content = json.loads((folder / "evidence.json").read_text("utf-8"))
    assert (content["currency"], content["cost"]["paid"]) == ("epsilon", "1")
    payments = content["cost"]["of"]
    assert sum(Fraction(own["paid"]) for own in payments) == 1
    assert [len(draws_of(own)) for own in payments] == [2, 1, 1]
    (parts,) = payments[0]["of"]  # what tables count, and the number that they leave
    assert parts["how"] == "largest"
    assert "strategy" not in draws_of(parts)[1]
    names = {path.name for path in folder.iterdir()} - {"evidence.json"}
    assert content["published"]["files"].keys() == names


@pytest.mark.slow
def test_tables_of_many_variances_are_checked(tmp_path):
    """Their errors have hundreds of terms, but one law."""
    sizes = dict(zip("abcdefghijklmn", range(2, 16), strict=True))
    domain = mm.Domain(
        [mm.Attribute.categorical(name, list(range(n))) for name, n in sizes.items()]
    )
    pairs = itertools.combinations(sizes, 2)
    released = mm.release_tables([[0] * 14] * 9, domain, tables=pairs, rho="1/10")
    code, report = examine(released.write(tmp_path / "out", excel=False))
    assert code == 0, report
    assert "  T16 tables with intervals of level 0.95: 91" in report


RECORDS = [["f", 20], ["m", 80], ["f", 50]] * 40


def rewritten(folder, edit=lambda rows: None, versions=(), names="*.csv"):
    """Change the rows of csv files, state other versions, and renew the hashes."""
    path = folder / "evidence.json"
    content = json.loads(path.read_text("utf-8"))
    for file in folder.glob(names):
        with open(file, encoding="utf-8", newline="") as stream:
            rows = [*csv.DictReader(stream)]
        edit(rows)
        with open(file, "w", encoding="utf-8", newline="") as stream:
            lines = csv.DictWriter(stream, rows[0], lineterminator="\n")
            lines.writeheader()
            lines.writerows(rows)
    own = content["published"]
    for name in folder.iterdir():
        if name != path:
            own["files"][name.name] = hashlib.sha256(name.read_bytes()).hexdigest()
    own["versions"].update(versions)
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")


def verified(folder, capsys, *more):
    """Return the exit code of the command, its last line, and all that it printed."""
    code = run_mmech(["verify", str(folder), *more])
    text = capsys.readouterr().out
    return code, text.splitlines()[-1], text


def test_exact_counts_that_are_published_are_refuted(tmp_path, capsys):
    """Intervals are widened where they must be, and hashes are renewed."""
    released = mm.release_tables(
        RECORDS, mm.Domain([SEX, AGE]), tables=["sex"], epsilon="1e-6"
    )
    folder = released.write(tmp_path / "out", excel=False)
    assert verified(folder, capsys)[0] == 0

    def exact(rows):  # within a unit of the published ones once in 10^12 runs
        for row, count in zip(rows, (80, 40), strict=True):
            low, high = min(int(row["lower"]), count), max(int(row["upper"]), count)
            row |= {"count": str(count), "lower": str(low), "upper": str(high)}

    rewritten(folder, exact)
    assert examine(folder)[0] == 0  # the file alone trusts them, and says so
    code, verdict, text = verified(folder, capsys)
    assert (code, verdict[:9]) == (1, "refuted: "), text
    assert "do not follow from the noisy numbers" in verdict


@pytest.fixture(scope="module")
def one_table(tmp_path_factory):
    released = mm.release_tables(
        RECORDS, mm.Domain([SEX, AGE]), tables=["sex"], epsilon=1,
        statistics=[Mean("age")],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("one") / "out"
    return released.write(path, synthetic=9, excel=False)


def counts_moved(by):
    def edit(rows):
        rows[0]["count"] = str(int(rows[0].get("count", by)) + by)

    return lambda folder: rewritten(folder, edit, names="sex.csv")


def labels_moved(rows):
    rows[0]["sex"], rows[1]["sex"] = rows[1]["sex"], rows[0]["sex"]


def words_changed(name, old, new):
    def change(folder):
        text = (folder / name).read_text("utf-8")
        (folder / name).write_text(text.replace(old, new), "utf-8")
        rewritten(folder)

    return change


def without_the_plan(folder):
    content = json.loads((folder / "evidence.json").read_text("utf-8"))
    del content["measured"]
    (folder / "evidence.json").write_text(json.dumps(content), "utf-8")


def paid_otherwise(folder):
    """State that the statistic was paid twice as much, and the sum of both, too."""
    text = (folder / "evidence.json").read_text("utf-8")
    content = json.loads(text)
    own = next(own for own in content["cost"]["of"] if "mean" in own["released"])
    own["paid"] = str(2 * Fraction(own["paid"]))
    content["cost"]["paid"] = "2"
    (folder / "evidence.json").write_text(json.dumps(content), "utf-8")


OLD = {"numpy": "0.1"}
FALSE = {
    "nothing": (rewritten, 0, "holds: "),
    "old": (lambda folder: rewritten(folder, versions=OLD), 0, "holds: "),
    "one": (counts_moved(1), 2, "by one unit, as another processor may round"),
    "two": (counts_moved(2), 1, "1 cells of 'sex.csv' do not follow"),
    "two, old": (
        lambda folder: counts_moved(2)(folder) or rewritten(folder, versions=OLD),
        2,
        "made with other versions of NumPy or mmech",
    ),
    "labels": (
        lambda folder: rewritten(folder, labels_moved, names="sex.csv"),
        1,
        "2 cells of 'sex.csv' do not follow",
    ),
    "rows": (
        lambda folder: rewritten(folder, lambda rows: rows.pop(), names="sex.csv"),
        1,
        "5 cells of 'sex.csv' do not follow",
    ),
    "page": (
        words_changed("index.html", "noisy", "exact"),
        1,
        "all words of 'index.html' do not follow",
    ),
    "facts": (
        words_changed("evidence.json", '"rounding": "margins"', '"rounding": "x"'),
        1,
        "facts of 'evidence.json' do not follow",
    ),
    "costs": (paid_otherwise, 1, "the costs of the plan are not those of the evidence"),
    "plan": (without_the_plan, 2, "no plan by which to make tables again"),
}


@pytest.mark.parametrize("name", FALSE)
def test_published_files_are_made_again(name, one_table, tmp_path, capsys):
    """With hashes of their own, so that the verifier alone believes most of them."""
    edit, code, words = FALSE[name]
    folder = tmp_path / "out"
    shutil.copytree(one_table, folder)
    edit(folder)
    found, verdict, text = verified(folder, capsys)
    assert (found, words in verdict) == (code, True), text


def test_what_is_not_made_again_is_named(one_table, capsys):
    trusted = "published counts, pages and workbooks were made of the noisy numbers"
    _, _, text = verified(one_table, capsys)
    assert "  T13 files made again of y, and alike: 6\n" in text
    names = "'synthetic.csv', 'synthetic.csv-metadata.json'"
    assert f"  files that were not made again alike ({names}) were made of the" in text
    code, _, text = verified(one_table, capsys, "--no-recompute")
    assert (code, "made again of y" in text) == (0, False)
    assert f"  {trusted} alone\n" in text
    assert "  tables made again from their noisy numbers: --no-recompute\n" in text
    assert f"  {trusted} alone" in examine(one_table)[1]
    assert run_mmech(["show", str(one_table)]) == 0
    assert "Evidence: checked on 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "found", "near"),
    [
        ("3", "4", True), ("3", "5", False), ("2.79918", "2.79919", True),
        ("2.8", "2.79999", True), ("2.8", "2.8001", True), ("2.79918", "2.7992", False),
        ("1.5", "1.7", False), ("1e+06", "999999", True), ("x", "3", False),
        ("", "3", False), ("inf", "3", False), ("nan", "nan", False),
    ],
)  # fmt: skip
def test_cells_are_near_by_one_unit_of_their_last_digit(said, found, near):
    assert recompute._are_near(said, found) == recompute._are_near(found, said) == near


@pytest.mark.filterwarnings("ignore:epsilon:mmech.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore:rho:mmech.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("case", "budget"),
    [
        ("one", {"epsilon": "1e-7"}), ("one", {"epsilon": 60}), ("one", {"rho": 70}),
        ("two", {"rho": 1000}), ("levels", {"epsilon": 1000}),
        *(
            pytest.param(case, {currency: budget}, marks=pytest.mark.slow)
            for case in ("one", "ways", "three", "levels", "known", "rules", "steps",
                "statistics")
            for currency in ("epsilon", "rho")
            for budget in ("1e-7", "1e-3", 1, 20, 60, 70, 1000)
            # The grid of sums and noise of this scale do not fit into 64 bits.
            if (case, budget) != ("statistics", "1e-7")
        ),
    ],
)  # fmt: skip
def test_honest_releases_hold(case, budget, tmp_path, capsys):
    """However little noise there is, and however much."""
    records, domain, options = HONEST[case]
    released = mm.release_tables(records, mm.Domain(domain), **options, **budget)
    found = verified(released.write(tmp_path / "out", excel=False), capsys)
    assert found[0] == 0, found[-1]


BITS = [mm.Attribute.categorical(name, [0, 1]) for name in "abcde"]
TREE = {"N": {"a": ["x"], "b": ["y", "z"]}, "S": {"c": ["w"]}}
CITY = mm.Attribute.hierarchy("city", TREE, ("region", "county"))
SIZE = mm.Attribute.ordinal("size", ["s", "m", "l"])
SIZED = [[*row, size] for row, size in zip(RECORDS, "sml" * 40, strict=True)]
HONEST = {
    "one": (RECORDS, [SEX, AGE], {"tables": ["sex"]}),
    "two": (RECORDS, [SEX, AGE], {"tables": ["sex", "age"]}),
    "ways": (RECORDS, [SEX, AGE], {"ways": (1, 2)}),
    "three": (SIZED, [SEX, AGE, SIZE], {"ways": (1, 3)}),
    "levels": ([["x"], ["w"]] * 9, [CITY], {"tables": ["region", "county", "city"]}),
    "known": (SIZED, [SEX, AGE, SIZE], {"ways": 2, "known": {"sex": [80, 40]}}),
    "rules": (
        SIZED, [SEX, AGE, SIZE], {"ways": 2, "impossible": [{"sex": "m", "size": "s"}]}
    ),
    "steps": (np.zeros((60, 5), int), BITS, {"ways": (1, 2)}),
    "statistics": (
        RECORDS, [SEX, AGE],
        {"ways": 1, "statistics": [
            Mean("age"), Sum("age", by="sex"), Histogram("age"), Quantiles("age")
        ]},
    ),
}  # fmt: skip


def test_equal_releases_are_equal(tmp_path):
    """Nothing in their files tells of the clock."""
    records, domain, options = HONEST["two"]
    found = []
    for name in "ab":
        with entropy(1):
            made = mm.release_tables(records, mm.Domain(domain), epsilon=1, **options)
        made.write(tmp_path / name, excel=False)
        paths = sorted((tmp_path / name).iterdir())
        found.append({path.name: path.read_bytes() for path in paths})
    assert found[0] == found[1]
    assert b"seconds" not in base64.b64decode(
        json.loads(found[0]["evidence.json"])["measured"]
    )


def test_steps_are_paid_as_a_whole_and_made_again(tmp_path):
    domain = mm.Domain([mm.Attribute.categorical(name, [0, 1]) for name in "abcde"])
    records = np.random.default_rng(0).integers(0, 2, (60, 5))
    folder = mm.release_tables(records, domain, ways=2, epsilon=1).write(tmp_path / "o")
    assert run_mmech(["verify", str(folder)]) == 0
    path = folder / "evidence.json"
    content = json.loads(path.read_text("utf-8"))
    (payment,) = content["cost"]["of"]
    assert len(payment["of"]) == len(draws_of(payment)) > 1
    payment["of"][0]["values"][0] += 1
    path.write_text(json.dumps(content), "utf-8")
    code, report = examine(folder, again=recompute.recomputed)
    assert (code, "are not those of the evidence" in report[-1]) == (1, True)


# ---- terms ---------------------------------------------------------------------------

UNKNOWN = mm.Conjunctions([np.array([[1, 0], [1, 1]], bool)] * 2)


def test_operators_without_a_term_are_listed_or_named():
    with mm.limits.changed(rounded_entries=1):
        assert term(UNKNOWN)["kind"] == "opaque"
    long = term(mm.Partition(np.arange(2 * LONG)))
    assert numbers(long["rows"]).tolist() == list(range(2 * LONG))


def test_what_merges_cells_is_left_out_where_it_is_one():
    """Cells that are merged are trusted counting: columns are those of the inside."""
    reduced, groups = mm.Identity(2), [0, 1, 1, -1]
    with mm.record_evidence() as record:
        mm.MatrixMechanism(Merged(reduced, groups), Merged(reduced, groups), epsilon=1
        ).measure([1, 2, 3, 4])  # fmt: skip
    (draw,) = draws_of(record.evidence().content["cost"])
    assert draw["strategy"] == term(reduced)


def test_real_strategies_are_listed_as_what_is_multiplied():
    exact = integer_strategy(mm.PIdentity([[0.5, 0.5, 0.0]]))
    (block,) = exact.blocks
    above, below = term(block.matrix)["blocks"]
    assert above["values"] == [2731, 2731, 4096]
    assert (below["rows"], below["lengths"]) == ([0], [2])
