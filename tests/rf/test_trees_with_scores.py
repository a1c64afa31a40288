"""Trees of which leaves stand for scores of all attributes: votes, fits and files."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from model_files import description, drop_last, find, refused_when_changed, set_in
from rf_cases import CELLS, CLASSES, SCHEMA, SHAPE, paying, records, some_scores

import mmech_rf as rf
from benchmarks.accuracy.ranking import calibration_error
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.scores import SUMS, VOTE_STEPS, WEIGHED_SUMS, score_views
from mmech_rf.drawn.settings import Plan
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.drawn.views import ScoreView, public_views
from mmech_rf.estimator.records import EncodedRecords

pytestmark = pytest.mark.usefixtures("scores_of_few")


# ------------------------------------------------------------------------------ votes
def some_trees(scores, n_trees=3, seed=0):
    """Trees of public views and of scores, whose leaves have labels of every kind."""
    rng = np.random.default_rng(seed)
    k = scores.constant.size
    offered = [*public_views(SHAPE).items[1:], *score_views(scores), None]
    trees, votes = [], []
    for number in range(n_trees):
        root = score_views(scores)[0] if number == 0 else offered[rng.integers(12)]
        branches = tuple(rng.choice(offered, root.size))
        sizes = [1 if branch is None else branch.size for branch in branches]
        labels = np.resize(rng.permutation(k + 1), sum(sizes))
        parts = tuple(np.split(labels, np.cumsum(sizes)[:-1]))
        trees.append(SelectedTree(root, branches, parts))
        own = rng.normal(size=(labels.size, k))
        votes.append(np.where(labels[:, None] == k, 0, own))
    return tuple(trees), tuple(votes)


def vote_by_hand(trees, votes, scores, answers, record):
    """Return what one record is told, tree after tree."""
    code, k = record[None], votes[0].shape[1]
    total, whole = np.zeros(k), np.zeros(k, np.int64)
    for tree, vote in zip(trees, votes, strict=True):
        cell = int(tree.root.cells(code)[0])
        leaf = sum(labels.size for labels in tree.labels[:cell])
        branch = tree.branches[cell]
        inside = 0 if branch is None else int(branch.cells(code)[0])
        if tree.labels[cell][inside] != k:
            total += vote[leaf + inside]
            whole += np.rint(VOTE_STEPS * vote[leaf + inside]).astype(int)
            continue
        said = scores.whole(code)[0]
        whole += said
        total += said / VOTE_STEPS if answers is None else answers[np.argmax(said)]
    return total, whole


ANSWERS = np.log(np.where(np.eye(3, dtype=bool), 0.7, 0.15))


@pytest.mark.parametrize("answers", [None, ANSWERS], ids=["scores", "answers"])
def test_votes_are_those_of_a_loop(answers):
    scores = some_scores()
    trees, votes = some_trees(scores)
    forest = SelectedTrees(trees, votes, scores, answers)
    odds = forest.log_odds(CELLS)
    whole = forest.whole_votes(CELLS) if answers is None else None
    for place, cell in enumerate(CELLS):
        total, steps = vote_by_hand(trees, votes, scores, answers, cell)
        np.testing.assert_allclose(odds[place], total, atol=1e-8)
        if whole is not None:
            np.testing.assert_array_equal(whole[place], steps)
    np.testing.assert_array_equal(forest.log_odds(CELLS[:0]), np.zeros((0, 3)))
    order = np.random.default_rng(0).permutation(len(CELLS))
    np.testing.assert_array_equal(forest.log_odds(CELLS[order]), odds[order])


def test_scores_rank_the_records_of_a_label_and_leave_it_the_likeliest():
    scores = some_scores(seed=3)
    n_classes = scores.constant.size
    root = public_views(SHAPE).items[1]
    tree = SelectedTree(root, (None,) * root.size, (np.array([0]),) * root.size)
    votes = ANSWERS[np.zeros(root.size, np.int64)]
    assert n_classes == len(ANSWERS)
    experts = SelectedTrees((tree,), (votes,), scores, ANSWERS)
    found = experts.probabilities(CELLS)
    assert (found.argmax(axis=1) == 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    whole = scores.whole(CELLS)
    own = whole[:, 0] - whole.mean(axis=1)
    first, *_, last = np.argsort(own)
    assert found[first, 0] < found[last, 0]
    alike = SelectedTrees((tree,), (votes,)).probabilities(CELLS)
    assert np.ptp(alike[:, 0]) < 1e-12


@pytest.mark.parametrize("answers", [None, ANSWERS], ids=["scores", "answers"])
def test_scores_with_a_weight_vote_on_every_record(answers):
    scores = some_scores(seed=3)
    trees, votes = some_trees(scores)
    plain = SelectedTrees(trees, votes, scores, answers)
    forest = replace(plain, score_weight=0.5)
    forest.check(SHAPE, 3)
    expected = plain.log_odds(CELLS) + 0.5 * scores.whole(CELLS) / VOTE_STEPS
    np.testing.assert_allclose(forest.log_odds(CELLS), expected)
    found = forest.probabilities(CELLS)
    np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))
    assert len(np.unique(found[:, 0])) == len(CELLS)
    with pytest.raises(ValueError, match="score weight"):
        replace(forest, additive=None, answers=None).check(SHAPE, 3)


# ------------------------------------------------------------------------- for ranking
def graded(n_records, rng):
    """Four binary attributes twice, and two classes whose log-odds are their sum."""
    codes = rng.integers(0, 2, (n_records, 4))
    odds = (2 * codes - 1) @ [1.3, 1.2, 1.0, 0.6]
    classes = (rng.random(n_records) < 1 / (1 + np.exp(-odds))).astype(int)
    return np.tile(codes, (1, 2)), classes


def test_corrections_take_back_what_two_attributes_say_twice():
    """With next to no noise, probabilities become those of the records."""
    rng = np.random.default_rng(1)
    X, y = graded(20_000, rng)
    gaps = []
    for corrections in (0, 1, 3):
        settings = replace(rf.DrawnSettings.for_ranking(), corrections=corrections)
        seen, session = EncodedRecords.once(X, y), paying(Fraction(1000))
        grower = Grower((2,) * 8, seen, 2, 20_000, session, settings)
        scores = grower._released_scores(Fraction(1000), corrections)
        odds = np.diff(scores.whole(X) / VOTE_STEPS)[:, 0]
        found = 1 / (1 + np.exp(-odds))
        gaps.append(calibration_error(y, found))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < gaps[0] / 2


@pytest.mark.parametrize("n_records", [200, 10**5])
def test_models_for_ranking_say_so(n_records):
    settings = rf.DrawnSettings.for_ranking()
    model = rf.PrivateForestClassifier(
        SCHEMA, epsilon=1, n_records=n_records, settings=settings
    )
    model.fit(*records(200))
    assert "are added for every record" in model.describe()
    named = [entry.released for entry in model.releases_]
    assert (WEIGHED_SUMS in named) == (model.choice_.rounds > 0)


# ----------------------------------------------------------------- fitted, and in files
STRONG = {"n_records": 2000, "epsilon": 1}


def fitted(**settings):
    model = rf.PrivateForestClassifier(SCHEMA, **(STRONG | settings))
    return model.fit(*records(200))


def test_leaves_vote_with_counts_or_with_scores_never_with_both(watch_all):
    """With boosting, where both are known of every leaf of the first tree."""
    (first, second), _ = some_trees(some_scores(), 2)
    labels = tuple(part % 3 for part in second.labels)
    second = replace(second, labels=labels)
    trees = iter((first, second, second))
    watch_all(lambda draw, sample: next(trees) if draw.kind == "tree" else sample())
    seen = EncodedRecords.once(*SCHEMA.encode(*records(200)))
    plan = Plan(Fraction(1, 4), Fraction(1, 4), Fraction(1, 4), 2)
    forest = Grower(SHAPE, seen, 3, 200, paying(Fraction(1))).grow(Fraction(1), plan)
    stands = np.concatenate(first.labels) == 3
    assert 0 < stands.sum() < stands.size
    assert not forest.scores[0][stands].any()
    assert forest.scores[0][~stands].all(axis=1).all()
    assert forest.answers is None
    odds = forest.log_odds(CELLS)
    leaves = first.leaves(CELLS)
    own = forest.additive.whole(CELLS) / VOTE_STEPS
    start = np.where(stands[leaves, None], own, forest.scores[0][leaves])
    rest = sum(scores[second.leaves(CELLS)] for scores in forest.scores[1:])
    np.testing.assert_allclose(odds, start + rest)


@pytest.fixture
def made_up(monkeypatch):
    """Let models be loaded that follow from no evidence, as `with_trees_of_scores`."""
    monkeypatch.setattr(
        rf.PrivateForestClassifier, "_follows_from_evidence", lambda *of: True
    )


def with_trees_of_scores(answers=None):
    """A fitted model, given trees that use all that a file may hold."""
    model = fitted()
    scores = some_scores(seed=3)
    trees, votes = some_trees(scores)
    model._experts = SelectedTrees(trees, votes, scores, answers)
    model.trees_ = trees
    model.choice_ = replace(
        model.choice_, n_trees=len(trees), n_scores=len(scores.views)
    )
    return model


@pytest.mark.parametrize("answers", [None, ANSWERS], ids=["scores", "answers"])
@pytest.mark.usefixtures("made_up")
def test_files_keep_all_of_it(answers, tmp_path):
    model = with_trees_of_scores(answers)
    path = tmp_path / "model.npz"
    model.save(path)
    copy = rf.load_model(path)
    assert (copy._experts.answers is None) == (answers is None)
    assert any(isinstance(tree.root, ScoreView) for tree in copy.trees_)
    raw = CELLS.astype(str)
    assert copy.predict_proba(raw).tobytes() == model.predict_proba(raw).tobytes()
    assert copy.describe(n_trees=99) == model.describe(n_trees=99)
    whole = path.read_bytes()
    copy.save(path)
    assert path.read_bytes() == whole


def in_score_view(key, change):
    """Return a change of what the first view of scores has."""
    return lambda content: change(find(content, "ScoreView", key))


def score_of_scores(content):
    for name in ("ScoreView", "AdditiveScores"):
        found = find(content, "ScoreView")
        key = "parts" if name == "ScoreView" else "views"
        place = [entry["arguments"] for entry in content["entries"]].index(found)
        find(content, name)[key][0] = {"entry": place}


CHANGES = [
    set_in("ScoreView", "parts", to=[{"entry": 0}]),
    set_in("ScoreView", "parts", to=[]), drop_last("ScoreView", "parts"),
    set_in("ScoreView", "parts", 0, to={"entry": 99}),
    set_in("ScoreView", "tables", to=[]),
    in_score_view("tables", lambda tables: tables[0].pop()),
    in_score_view("tables", lambda tables: tables[0].__setitem__(0, 2**60)),
    in_score_view("cuts", lambda cuts: cuts.reverse()),
    in_score_view("cuts", lambda cuts: cuts.append(cuts[-1])),
    in_score_view("cuts", lambda cuts: cuts.append(2**60)),
    set_in("ScoreView", "cuts", to=[]),
    set_in("ScoreView", "cuts", to=list(range(300))), score_of_scores,
    set_in("experts", "additive", to=None), set_in("AdditiveScores", "views", to=[]),
    set_in("AdditiveScores", "tables", to=[]),
    lambda content: find(content, "AdditiveScores", "tables").reverse(),
    set_in("AdditiveScores", "constant", to={"array": 1}),
    set_in("experts", "answers", to=0.5),
    set_in("experts", "scores", to=[]), drop_last("experts", "scores"),
    lambda content: find(content, "experts", "scores").reverse(),
    set_in("choice", "n_scores", to=0), set_in("choice", "n_scores", to="3"),
]  # fmt: skip


@pytest.mark.parametrize("answers", [None, ANSWERS], ids=["arrays", "descriptions"])
@pytest.mark.usefixtures("made_up")
def test_damaged_files_are_refused(answers, tmp_path):
    path = tmp_path / "model.npz"
    with_trees_of_scores(answers).save(path)
    scores = find(description(path), "AdditiveScores")
    edits = [lambda a: a.astype(float), lambda a: a[:-1], lambda a: a[None]]
    stored = scores["constant"], scores["tables"][0]
    arrays = [(one["array"], edit) for one in stored for edit in edits]
    changes = arrays if answers is None else CHANGES
    refused_when_changed(path, changes, rf.load_model)


def test_descriptions_have_the_scores_after_the_trees():
    text = with_trees_of_scores().describe(n_trees=99)
    assert 0 < text.index("score of x0:") < text.index("score of x2:")
    assert all(label in text for label in CLASSES)
    assert "score of" not in fitted(n_records=1).describe()
    assert SUMS in fitted().privacy_statement_
