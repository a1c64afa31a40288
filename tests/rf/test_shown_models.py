"""Models in the words of their schema: rules, importances, pages, cards."""

import itertools
import json
import math
import re
from fractions import Fraction
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest

import mmech_rf as rf
from mmech_rf.cli import main
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.drawn.views import View, public_views
from mmech_rf.drawn.words import drawn_trees, notes_on
from mmech_rf.show.page import class_shares
from mmech_rf.show.trees import Node, by_values, values_in_words

VALUES = {"size": ["s", "m", "l"], "colour": ["red", "green", "blue"], "on": ["n", "y"]}
SCHEMA = rf.Schema(
    [
        rf.Attribute.ordinal("size", VALUES["size"]),
        rf.Attribute.categorical("colour", VALUES["colour"]),
        rf.Attribute.categorical("on", VALUES["on"]),
    ],
    ["no", "yes", "maybe"],
    target="sold",
)
BEGUN = rf.Attribute.date("begun", "2025-01-09", "2025-04-08", other="none")
CELLS = list(itertools.product(*VALUES.values()))
LABELS = ["yes" if c == "red" else "maybe" if on == "y" else "no" for _, c, on in CELLS]
MODELS = [
    (rf.PrivateForestClassifier, {}),
    (rf.PrivateForestClassifier, {"n_records": 10**6}),
    (rf.BatchTrainingClassifier, {"n_trees": math.inf, "depth": 2}),
]


def fitted(cls=rf.PrivateForestClassifier, epsilon=40, schema=SCHEMA, **options):
    return cls(schema, epsilon=epsilon, **options).fit(CELLS * 20, LABELS * 20)


def holds(test, record):
    """Whether a test of values, in words, holds for a record, as a mapping."""
    name, _, words = test.partition(" ")
    values = VALUES[name]
    if words.startswith("not "):
        return record[name] not in re.split(", | or ", words.removeprefix("not "))
    if match := re.fullmatch(r"(\w+) to (\w+)", words):
        first, last = map(values.index, match.groups())
        return first <= values.index(record[name]) <= last
    return record[name] in re.split(", | or ", words)


def outcomes(rules, record):
    """Return the outcomes of all rules that hold for a record."""
    found = []
    for rule in rules:
        tests, _, outcome = rule.rpartition(": ")
        tests = [] if tests == "any record" else tests.split(" and ")
        if all(holds(test, record) for test in tests):
            found.append(outcome)
    return found


# ---- words ---------------------------------------------------------------------


AGE = partial(rf.Attribute.numeric, "age")
BY_15 = AGE(lower=0, upper=90, n_bins=6)
YEARS = AGE(lower=2003, upper=2009, n_bins=7, integer=True)
SIZES = rf.Attribute.ordinal("size", [*"abcde"])
LETTERS = rf.Attribute.categorical("c", [*"abcd"])


@pytest.mark.parametrize(
    ("attribute", "codes", "text"),
    [
        (BY_15, [4], "age 60 to 75"),
        (BY_15, [0, 1], "age up to 30"),
        (AGE(cut_points=[1.5, 2]), [1, 2], "age above 1.5"),
        (AGE(cut_points=[1, 2], other="?"), [0, 2, 3], "age up to 1, above 2 or ?"),
        (YEARS, [0], "age up to 2003"),
        (YEARS, [1], "age 2004"),
        (YEARS, [2, 3], "age 2005 to 2006"),
        (YEARS, [5, 6], "age above 2007"),
        (AGE(cut_points=[1], other="?"), [0, 1], "age any but ?"),
        (AGE(cut_points=[1, 2], categories=["a", "b", "c"]), [1, 2], "age b or c"),
        (SIZES, [1, 2, 3], "size b to d"),
        (SIZES, [0, 3, 4], "size a, d or e"),
        (BEGUN, [1, 2, 3], "begun 2025-02 to 2025-04"),
        (BEGUN, [0, 4], "begun 2025-01 or none"),
        (LETTERS, [0, 1, 3], "c not c"),
        (LETTERS, [2, 0], "c a or c"),
        (rf.Attribute.categorical("c\x1b[2J", ["a\n", "b"]), [0], "c\\x1b[2J a\\n"),
    ],
)  # fmt: skip
def test_values_in_words(attribute, codes, text):
    assert values_in_words(attribute, codes) == text


# ---- rules ---------------------------------------------------------------------


@pytest.mark.by_day(2)
@pytest.mark.parametrize("epsilon", [1, 40])
@pytest.mark.parametrize("splits", ["multiway", "binary"])
def test_rules_of_random_trees_are_their_leaves(epsilon, splits):
    model = fitted(
        rf.BatchTrainingClassifier, epsilon, n_trees=4, splits=splits, random_state=0
    )
    codes = SCHEMA.encode(CELLS)
    leaves = model.ensembles_[0].forest.apply(codes)
    offsets = model.ensembles_[0].forest.leaf_offsets
    for t, tree in enumerate(model._shown_trees()):
        rules = list(tree.root.rules())
        labels = model.classes_[model.leaf_labels_[0][leaves[:, t] + offsets[t]]]
        for cell, label in zip(CELLS, labels, strict=True):
            record = dict(zip(VALUES, cell, strict=True))
            assert outcomes(rules, record) == [label]


@pytest.mark.parametrize("family", ["whole", "single", "pair"])
def test_rules_of_drawn_trees_are_their_leaves(family, rng):
    items = [v for v in public_views(SCHEMA.domain_shape).items if v.family == family]
    seconds = [v for v in public_views(SCHEMA.domain_shape).items if not v.cuts]
    for root in items:
        branches = tuple(rng.choice([None, *seconds]) for _ in range(root.size))
        sizes = [1 if branch is None else branch.size for branch in branches]
        labels = tuple(rng.integers(0, 3, size) for size in sizes)
        tree = SelectedTree(root, branches, labels)
        odds = np.zeros((tree.n_leaves, 3))
        (shown,) = drawn_trees(SelectedTrees((tree,), (odds,)), SCHEMA)
        rules = list(shown.root.rules())
        leaves = tree.leaves(SCHEMA.encode(CELLS))
        records = [dict(zip(VALUES, cell, strict=True)) for cell in CELLS]
        for record, label in zip(records, np.concatenate(labels)[leaves], strict=True):
            assert outcomes(rules, record) == [SCHEMA.class_labels[label]]
        # No rule asks for values that its own tests rule out.
        assert all(any(outcomes([rule], r) for r in records) for rule in rules)


def test_sums_are_ranges_of_positions():
    view = View((0, 2), ((-64, 0, 64), (64, -64)), (-63, 1), 3, "sum")
    tree = SelectedTree(view, (None,) * 3, tuple(np.array([c]) for c in (0, 1, 1)))
    (shown,) = drawn_trees(SelectedTrees((tree,), (np.zeros((3, 3)),)), SCHEMA)
    assert list(shown.root.rules()) == [
        "size - on up to -1: no",
        "size - on above -1: yes",
    ]


def test_the_order_of_categories_in_a_sum_is_told():
    view = View((0, 1), ((-64, 0, 64), (64, 0, -64)), (1,), 2, "sum")
    tree = SelectedTree(view, (None,) * 2, (np.array([0]), np.array([1])))
    _, order = notes_on(SelectedTrees((tree,), (np.zeros((2, 3)),)), SCHEMA)
    assert order == "In a sum colour has the order: red, green, blue."


def test_leaves_of_several_trees_say_how_much():
    view = View((2,), ((0, 1),), (), 2, "single")
    tree = SelectedTree(view, (None, None), (np.array([0]), np.array([1])))
    odds = np.array([[2.0, 0.5, 0.5], [0.01, 0.0, 0.0]])
    one, two = drawn_trees(SelectedTrees((tree, tree), (odds, odds)), SCHEMA)
    assert one.title != two.title
    assert list(one.root.rules()) == ["on n: no +1.0", "on y: no preference"]


def test_equal_branches_have_their_records_together():
    groups = [([0], Node("a", size=3)), ([1], Node("b")), ([2], Node("a", size=4))]
    node = by_values(SIZES, groups)
    assert next((test, n.size) for test, n in node.branches) == ("size a or c", 7)
    inner = [
        Node(branches=(("x", Node("a", size=n)), ("y", Node("b")))) for n in (1, 2)
    ]
    joined = by_values(SIZES, [([0], inner[0]), ([1], inner[1])])
    assert joined.branches[0][1].size == 3


def test_rare_branches_are_left_out_where_sizes_are_known():
    node = Node(branches=(("x", Node("a", size=3)), ("y", Node("b", size=40))))
    assert [test for test, _ in node.frequent(10).branches] == ["y"]
    assert node.frequent(math.nan) == node.frequent(50) == node


def test_shares_of_classes_are_those_of_released_counts():
    counts = np.array([[60.0, 4.0], [30.0, 6.0], [-5.0, 5.0]])
    yes, no = class_shares(
        ("yes", "no"), counts, np.array([0, 0, 1, 1]), np.arange(4) % 2
    )
    assert (yes.records, yes.predicted) == (0.85, 0.5)
    assert (no.records, no.predicted) == (0.15, 0.5)


def test_a_threshold_predicts_a_rare_class(tmp_path):
    model = fitted(epsilon=2)
    shares, plain = model.predict_proba(CELLS), model.predict(CELLS)
    least = float(np.median(shares[:, 1]))
    model.set_threshold("yes", least).save(tmp_path / "model.npz")
    for known in (model, rf.load_model(tmp_path / "model.npz")):
        labels = known.predict(CELLS)
        assert ((labels == "yes") == (shares[:, 1] >= least)).all()
        assert "yes is predicted wherever it is at least" in known.describe()
    model.set_threshold("no", 1 - 1e-12)
    others = np.array(["yes", "maybe"])[shares[:, 1:].argmax(axis=1)]
    assert (model.predict(CELLS) == np.where(plain == "no", others, plain)).all()
    assert (model.set_threshold("no", None).predict(CELLS) == plain).all()
    again = model.set_threshold("no", 0.5).fit(CELLS, LABELS)
    assert "wherever" not in again.describe()
    half = model.set_threshold("no", 0.5).describe()
    for least in (np.float32(0.5), Fraction(1, 2)):
        assert model.set_threshold("no", least).describe() == half
    for arguments, words in [
        (("none", 0.5), "one of"), (("no", 1), "between 0 and 1"),
        (("no", True), "between 0 and 1"), (("no", "half"), "between 0 and 1"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            model.set_threshold(*arguments)


def test_a_page_says_that_a_class_is_never_predicted():
    rare = ["maybe"] * 3 + ["no"] * 57
    model = rf.PrivateForestClassifier(SCHEMA, epsilon=40)
    page = model.fit(CELLS * 60, rare * 18).to_html()
    assert "yes is never predicted" in page
    share = re.search(r"maybe is never predicted; (.*)% of the records have it", page)
    assert float(share[1]) == pytest.approx(5.0, abs=1.5)  # of noisy counts
    assert "no is never" not in page
    assert sum(leaf_sizes(page)) == pytest.approx(18 * 60, abs=30)


def leaf_sizes(page):
    """Return the numbers of records that a page shows of leaves."""
    return [
        int(n.replace(",", "")) for n in re.findall(r"</b>, ([\d,]+) records", page)
    ]


@pytest.mark.parametrize("recipe", ["spe", "hou", "jpw"])
def test_pages_of_recipes_show_released_counts_and_their_noise(recipe):
    model = fitted(
        rf.RecipeForestClassifier, 40, recipe=recipe, n_records=360, random_state=0
    )
    page = model.to_html(n_trees=model.forest_.n_trees)
    assert "give or take" in page
    assert "share of records" in page
    (entry,) = [e for e in model.releases_ if e.released == "class counts of leaves"]
    error = math.sqrt(2 * SCHEMA.n_classes) * entry.sensitivity / entry.cost
    # All trees together: a sample has a random number of records. Sizes are whole, and
    # cut off at zero; the noise of all is beyond six standard errors in 1e-7 of fits.
    sizes, once = leaf_sizes(page), model.recipe_.records == "disjoint"
    records = 360 * (1 if once else model.forest_.n_trees)
    most = 6 * error * math.sqrt(len(sizes)) + len(sizes) * (1 + error)
    assert sum(sizes) == pytest.approx(records, abs=float(most))
    assert next(model._shown_trees()).error == pytest.approx(float(error))


@pytest.mark.parametrize("recipe", ["fi-2021", "fi-2015", "li-gini"])
def test_pages_show_no_sizes_where_no_numbers_of_records_were_released(recipe):
    model = fitted(rf.RecipeForestClassifier, 40, recipe=recipe, n_records=360)
    page = model.to_html(n_trees=1)
    assert leaf_sizes(page) == []
    assert "share of records" not in page


@pytest.mark.parametrize(("cls", "options"), MODELS)
def test_every_released_forest_describes_itself(cls, options):
    model = fitted(cls, **options)
    text = model.describe()
    assert all(name in text for name in VALUES if name in ("colour", "on"))
    several = fitted(rf.BatchTrainingClassifier, n_trees=3)
    assert "further trees" in several.describe(n_trees=2)
    with pytest.raises(ValueError, match="n_trees must be"):
        model.describe(n_trees=0)


def test_trees_of_very_many_leaves_are_counted_only():
    attributes = [rf.Attribute.categorical(f"x{i}", [*range(50)]) for i in range(3)]
    schema = rf.Schema(attributes, ["no", "yes"])
    model = rf.LaplaceForestClassifier(schema, epsilon=1, n_trees=1, depth=3)
    text = model.fit([[0, 1, 2]] * 9, ["no"] * 9).describe()
    assert "125,000 leaves" in text
    assert len(text) < 200


# ---- importances ---------------------------------------------------------------


@pytest.mark.parametrize(("cls", "options"), MODELS)
def test_attributes_that_matter_are_important(cls, options):
    size, colour, on = fitted(cls, **options).feature_importances_
    assert colour > on > size
    assert size + colour + on == pytest.approx(1)


def test_a_model_that_knows_nothing_has_no_importances():
    model = rf.LaplaceForestClassifier(SCHEMA, epsilon=1e6, n_trees=3)
    model.fit(CELLS * 50, ["no"] * len(CELLS) * 50)
    np.testing.assert_array_equal(model.feature_importances_, 0)


# ---- pages ----------------------------------------------------------------------

HOSTILE = "<script>alert('&')</script>"


def hostile():
    schema = rf.Schema(
        [
            rf.Attribute.categorical(HOSTILE, ["<b>", "$\\frac{"]),
            rf.Attribute.categorical('"><i>', ["x", "y"]),
        ],
        ["<u>no", "yes"],
        target="<a>",
        name="<em>",
    )
    rows = list(itertools.product(["<b>", "$\\frac{"], ["x", "y"])) * 40
    labels = ["yes" if a == "<b>" else "<u>no" for a, _ in rows]
    return rf.PrivateForestClassifier(schema, epsilon=30).fit(rows, labels)


def test_names_in_pages_are_escaped():
    tags = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.add(tag)
            assert not any(name.startswith("on") for name, _ in attrs)

    page = hostile().to_html(title="a\u202eb\x1b[31m")
    assert page.replace("\n", "").isprintable()
    Tags(convert_charrefs=True).feed(page)
    assert not tags & {"script", "i", "u", "a", "em"}
    assert "&lt;script&gt;" in page
    assert "epsilon = 30" in page


# ---- cards -----------------------------------------------------------------------


def test_a_card_says_what_was_spent(tmp_path):
    model = fitted(epsilon="0.5", records_per_person=2)
    card = model.card()
    assert (card["epsilon"], card["delta"], card["rho"]) == (0.5, 0, None)
    assert (card["relation"], card["records_per_person"]) == ("add_remove", 2)
    assert card["private"]
    assert card["date"] is None
    assert "Released: epsilon = 0.5, for one person" in model.to_html()
    assert [r["cost"] for r in card["releases"]] == [
        str(entry.cost) for entry in model.releases_
    ]
    model.save(tmp_path / "model.npz")
    saved, loaded = model.card(), rf.load_model(tmp_path / "model.npz").card()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", loaded["date"])
    assert loaded == saved
    assert json.loads(json.dumps(loaded)) == loaded


def test_what_is_not_private_is_called_so():
    with pytest.warns(UserWarning, match="insecure_rng"):
        model = fitted(insecure_rng=0)
    assert not model.card()["private"]
    assert "NOT PRIVATE" in model.to_html()
    model = rf.NonPrivateForestClassifier(SCHEMA).fit(CELLS, LABELS)
    assert not model.card()["private"]


def test_a_card_of_a_batch_counts_what_was_answered():
    model = fitted(rf.BatchPredictionClassifier, epsilon=2, n_trees=2)
    assert model.card()["epsilon"] == 0
    model.predict(CELLS[:2])
    assert model.card()["epsilon"] == 2


def test_schemas_that_differ_have_other_hashes():
    other = rf.Schema(SCHEMA.attributes, ["no", "yes", "perhaps"], target="sold")
    found = []
    for schema in (SCHEMA, rf.Schema.from_json(SCHEMA.to_json()), other):
        model = rf.PrivateForestClassifier(schema, epsilon=1).fit(CELLS, ["no"] * 18)
        found.append(model.card()["schema_hash"])
    assert found[0] == found[1] != found[2]


# ---- the command -----------------------------------------------------------------


def test_show_prints_a_model_or_its_card_or_writes_its_page(tmp_path, capsys):
    path, page = tmp_path / "model.npz", tmp_path / "shown.html"
    fitted().save(path)
    model = rf.load_model(path)
    assert main(["show", str(path)]) == 0
    out = capsys.readouterr().out
    assert model.describe() in out
    assert re.search(r"%  colour$", out, re.MULTILINE)
    assert "epsilon = 40" in out
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == model.card()
    for code in (0, 2):
        assert main(["show", str(path), "--html", str(page)]) == code
        assert page.read_text("utf-8") == model.to_html(title="model")
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(("cls", "options"), MODELS)
def test_dates_are_attributes_of_every_forest(cls, options, tmp_path):
    quarters = "2025-01-01", "2026-06-30", "quarter"
    begun = rf.Attribute.date("begun", *quarters, other="?")
    on = rf.Attribute.categorical("on", ["n", "y"])
    schema = rf.Schema([begun, on], ["early", "late"])
    X = [[f"2025-{m:02}-17", on] for m in range(1, 13) for on in "ny"] + [["", "n"]]
    y = ["early" if day < "2025-07" else "late" for day, _ in X]
    model = cls(schema, epsilon=400, handle_missing="category", **options)
    model = model.fit(X * 50, y * 50)
    assert (model.predict(X[:-1]) == y[:-1]).mean() == 1
    model.save(tmp_path / "m.npz")
    loaded = rf.load_model(tmp_path / "m.npz")
    assert loaded.schema_ == schema
    assert "2025-Q2" in loaded.describe() or "2025-Q3" in loaded.describe()
