"""What the evidence of releases says, and who says it."""

import base64
import hashlib
import itertools
import json
import zlib
from fractions import Fraction

import numpy as np
import pytest

import mmech as mm
from mmech.cli import main as run_mmech
from mmech.evidence import LONG, term
from mmech.integer_strategy import integer_strategy
from mmech.noise import GAUSSIAN, LAPLACE, k_norm
from mmech.noise import seam as seams
from mmech.operators.merged import Merged
from mmech.tables import Mean, Quantiles
from mmech.tables.recompute import recomputed
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


def test_other_text_is_no_evidence():
    with pytest.raises(ValueError, match="no evidence"):
        mm.Evidence("[1]")


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("not known: .'price'", lambda own: own["cost"].update(price=1)),
        ("not known: .'scale'", lambda own: draw_in(own).update(scale=1)),
        ("not known: .'x'", lambda own: draw_in(own)["strategy"].update(x=1)),
        ("predictable", lambda own: own["cost"]["of"][0].update(insecure=True)),
        ("occurs twice", lambda own: own["cost"].update({"\uff50aid": "9"})),
    ],
)
def test_evidence_has_no_fact_that_nobody_reads(words, change):
    content = evidence_of(
        lambda: mm.MatrixMechanism(mm.Identity(2), epsilon=1).answer([3, 4])
    )
    mm.Evidence(json.dumps(content))
    change(content)
    with pytest.raises(ValueError, match=f"no evidence .*, because .*{words}"):
        mm.Evidence(json.dumps(content))


def draw_in(content):
    return draws_of(content["cost"])[0]


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
    assert [len(draws_of(own)) for own in payments] == [1, 1, 2]
    (parts,) = payments[-1]["of"]  # what tables count, and the number that they leave
    assert parts["how"] == "largest"
    assert "strategy" not in draws_of(parts)[1]
    names = {path.name for path in folder.iterdir()} - {"evidence.json"}
    assert content["published"]["files"].keys() == names


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


@pytest.mark.parametrize("options", [{"ways": (1, 2)}, {"tables": ["sex"]}], ids=str)
def test_published_cells_are_made_again(options, tmp_path, capsys):
    """A cell that was changed, with its hash, passes the verifier and not the package.

    Where several tables hold the cell, they disagree, and the verifier refuses them.
    """
    records = [["f", 20], ["m", 80], ["f", None]] * 40
    released = mm.release_tables(
        records, mm.Domain([SEX, AGE]), epsilon=1, handle_missing="drop",
        statistics=[Mean("age"), Quantiles("age", by="sex")], **options,
    )  # fmt: skip
    folder = released.write(tmp_path / "out", synthetic=9)
    assert run_mmech(["verify", str(folder), "--recompute"]) == 0
    assert "all cells of all tables follow" in capsys.readouterr().out
    table, evidence = folder / "sex.csv", folder / "evidence.json"
    lines = table.read_text("utf-8").splitlines()
    name, count, *rest = lines[1].split(",")
    lines[1] = ",".join([name, str(int(count) + 1), *rest])
    before = hashlib.sha256(table.read_bytes()).hexdigest()
    table.write_text("\n".join(lines) + "\n", "utf-8")
    after = hashlib.sha256(table.read_bytes()).hexdigest()
    evidence.write_text(evidence.read_text("utf-8").replace(before, after), "utf-8")
    for command in ("verify", "show"):
        assert run_mmech([command, str(folder)]) == int("ways" in options)
    assert "Evidence: checked on 2" in capsys.readouterr().out
    words = f"sex.csv, row 1, column 2: {int(count) + 1} was published, and {count}"
    assert recomputed(folder) == [f"{words} follows"]
    assert run_mmech(["verify", str(folder), "--recompute"]) == 1
    assert words in capsys.readouterr().out


def test_steps_are_paid_as_a_whole_and_made_again(tmp_path):
    domain = mm.Domain([mm.Attribute.categorical(name, [0, 1]) for name in "abcde"])
    records = np.random.default_rng(0).integers(0, 2, (60, 5))
    folder = mm.release_tables(records, domain, ways=2, epsilon=1).write(tmp_path / "o")
    assert recomputed(folder) == []
    path = folder / "evidence.json"
    content = json.loads(path.read_text("utf-8"))
    (payment,) = content["cost"]["of"]
    assert len(payment["of"]) == len(draws_of(payment)) > 1
    payment["of"][0]["values"][0] += 1
    path.write_text(json.dumps(content), "utf-8")
    assert "are not those of the evidence" in recomputed(folder)[0]


def test_models_are_not_made_again(tmp_path, capsys):
    with mm.record_evidence() as record:
        mm.noisy_release([4], sensitivity=1, epsilon=1, released="a count")
    record.evidence().save(tmp_path / "evidence.json")
    assert run_mmech(["verify", str(tmp_path / "nothing")]) == 2
    assert run_mmech(["verify", str(tmp_path), "--recompute"]) == 2
    assert "must be a folder of released tables" in capsys.readouterr().err


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
