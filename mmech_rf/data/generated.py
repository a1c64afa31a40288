"""Data sets that need no download.

Car, nursery, balance scale, tic-tac-toe and the three monk's problems follow
exact rules, so they are generated here: the same rows, in the same order, as the
files of the UCI Machine Learning Repository. Iris comes with scikit-learn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.utils import Bunch

from mmech.checks import check_integer
from mmech_rf.schema import Attribute, Schema

# The tables of car and nursery number intermediate values from the worst, 0.
_CAR = {
    "buying": ("vhigh", "high", "med", "low"),
    "maint": ("vhigh", "high", "med", "low"),
    "doors": ("2", "3", "4", "5more"),
    "persons": ("2", "4", "more"),
    "lug_boot": ("small", "med", "big"),
    "safety": ("low", "med", "high"),
}
_CAR_CLASSES = ("unacc", "acc", "good", "vgood")
_CAR_PRICE = ((0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 2, 3), (1, 2, 3, 3))
_CAR_COMFORT = (  # by persons, doors, lug_boot
    ((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ((1, 1, 2), (1, 1, 2), (1, 2, 2), (1, 2, 2)),
    ((0, 1, 2), (1, 2, 2), (1, 2, 2), (1, 2, 2)),
)
_CAR_TECH = ((0, 0, 0), (0, 1, 2), (0, 2, 3))
_CAR_CLASS = ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 2), (0, 1, 3, 3))

_NURSERY = {
    "parents": ("usual", "pretentious", "great_pret"),
    "has_nurs": ("proper", "less_proper", "improper", "critical", "very_crit"),
    "form": ("complete", "completed", "incomplete", "foster"),
    "children": ("1", "2", "3", "more"),
    "housing": ("convenient", "less_conv", "critical"),
    "finance": ("convenient", "inconv"),
    "social": ("nonprob", "slightly_prob", "problematic"),
    "health": ("recommended", "priority", "not_recom"),
}
_NURSERY_CLASSES = ("not_recom", "recommend", "very_recom", "priority", "spec_prior")
_NURSERY_EMPLOY = ((3, 2, 2, 1, 0), (2, 2, 1, 0, 0), (1, 1, 0, 0, 0))
_NURSERY_STRUCTURE = ((2, 1, 0, 0), (1, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0))
_NURSERY_FINANCE = (  # by structure, housing, finance
    ((1, 0), (0, 0), (0, 0)),
    ((1, 1), (1, 1), (0, 0)),
    ((2, 1), (1, 1), (1, 1)),
)
_NURSERY_HEALTH = ((2, 1, 0), (2, 1, 0), (1, 1, 0))
_NURSERY_CLASS = (  # by health, finance, employ; letters begin the class names
    ("NNNN", "NNNN", "NNNN"),
    ("SSPP", "SPPP", "PPPP"),
    ("SPPP", "PPVV", "PPVR"),
)

_BOARD = tuple(
    f"{row}-{column}"
    for row in ("top", "middle", "bottom")
    for column in ("left", "middle", "right")
)
_LINES = (
    *((i, i + 1, i + 2) for i in (0, 3, 6)),
    *((i, i + 3, i + 6) for i in (0, 1, 2)),
    (0, 4, 8),
    (2, 4, 6),
)


def bunch(data: Any, target: Any, schema: Schema) -> Any:
    """Return records, and their columns: attributes, and then required ones."""
    names = [*schema.feature_names, *schema.required][: np.shape(data)[1]]
    return Bunch(
        data=data, target=target, schema=schema, feature_names=names, name=schema.name
    )


def _bunch(rows: Sequence[Sequence[Any]], target: Sequence[Any], schema: Schema) -> Any:
    data = np.empty((len(rows), schema.n_features), dtype=object)
    data[:] = rows
    return bunch(data, schema.decode_target(schema.encode_target(target)), schema)


def _factorial(
    name: str,
    domain: Mapping[str, Sequence[str]],
    kind: str,
    class_labels: Sequence[str],
    label: Callable[..., str],
) -> Any:
    """Return all combinations, the last attribute fastest, labelled by a rule.

    `label` is called with the positions of the values in their attributes.
    """
    attributes = [Attribute(key, kind, tuple(domain[key])) for key in domain]
    schema = Schema(tuple(attributes), tuple(class_labels), name=name)
    rows = list(itertools.product(*domain.values()))
    cells = itertools.product(*(range(len(values)) for values in domain.values()))
    return _bunch(rows, [label(*cell) for cell in cells], schema)


def load_car() -> Any:
    """Generate the car evaluation data: 1728 cars, 6 attributes, 4 classes.

    The data cover every combination once; the class follows from tables that were
    recovered from the data by decomposition.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, an object array (1728, 6) of text; ``target`` (1728,);
        ``schema``, with ordinal attributes, worst category first;
        ``feature_names`` and ``name``.

    References
    ----------
    .. [1] M. Bohanec, V. Rajkovic, Knowledge acquisition and explanation for
       multi-attribute decision making, 8th Intl. Workshop on Expert Systems and
       their Applications, 1988. UCI Machine Learning Repository, Car Evaluation.

    Examples
    --------
    >>> car = load_car()
    >>> car.data.shape, car.schema.domain_shape
    ((1728, 6), (4, 4, 4, 3, 3, 3))
    >>> car.data[0].tolist(), str(car.target[0])
    (['vhigh', 'vhigh', '2', '2', 'small', 'low'], 'unacc')
    """

    def label(
        buying: int, maint: int, doors: int, persons: int, boot: int, safety: int
    ) -> str:
        tech = _CAR_TECH[_CAR_COMFORT[persons][doors][boot]][safety]
        return _CAR_CLASSES[_CAR_CLASS[tech][_CAR_PRICE[buying][maint]]]

    return _factorial("car", _CAR, "ordinal", _CAR_CLASSES, label)


def load_nursery() -> Any:
    """Generate the nursery data: 12960 applications, 8 attributes, 5 classes.

    The data cover every combination once. The class ``"recommend"`` has two
    records only.

    Returns
    -------
    sklearn.utils.Bunch
        As in `load_car`: ``data`` (12960, 8), ``target``, ``schema``,
        ``feature_names`` and ``name``. Attributes are ordinal, best category first.

    References
    ----------
    .. [1] M. Olave, V. Rajkovic, M. Bohanec, An application for admission in
       public school systems, Expert Systems in Public Administration, 1989.
       UCI Machine Learning Repository, Nursery.

    Examples
    --------
    >>> nursery = load_nursery()
    >>> nursery.schema.n_cells, int((nursery.target == "recommend").sum())
    (12960, 2)
    """
    names = {name[0].upper(): name for name in _NURSERY_CLASSES}

    def label(
        parents: int,
        has_nurs: int,
        form: int,
        children: int,
        housing: int,
        finance: int,
        social: int,
        health: int,
    ) -> str:
        structure = _NURSERY_STRUCTURE[form][children]
        standing = _NURSERY_FINANCE[structure][housing][finance]
        employ = _NURSERY_EMPLOY[parents][has_nurs]
        return names[_NURSERY_CLASS[_NURSERY_HEALTH[social][health]][standing][employ]]

    return _factorial("nursery", _NURSERY, "ordinal", _NURSERY_CLASSES, label)


def load_balance_scale() -> Any:
    """Generate the balance scale data: 625 scales, 4 attributes, 3 classes.

    The scale tips to the side with the larger product of weight and distance, or
    is balanced.

    Returns
    -------
    sklearn.utils.Bunch
        As in `load_car`: ``data`` (625, 4), ``target`` with the classes L, B and R,
        ``schema`` with ordinal attributes, ``feature_names`` and ``name``.

    References
    ----------
    .. [1] R. Siegler, Three aspects of cognitive development, Cognitive
       Psychology 8, 1976. UCI Machine Learning Repository, Balance Scale.

    Examples
    --------
    >>> scale = load_balance_scale()
    >>> [int((scale.target == side).sum()) for side in "LBR"]
    [288, 49, 288]
    """
    names = ("left_weight", "left_distance", "right_weight", "right_distance")
    domain = {name: ("1", "2", "3", "4", "5") for name in names}

    def label(weight_l: int, distance_l: int, weight_r: int, distance_r: int) -> str:
        left = (weight_l + 1) * (distance_l + 1)
        right = (weight_r + 1) * (distance_r + 1)
        return "L" if left > right else "R" if right > left else "B"

    return _factorial("balance-scale", domain, "ordinal", ("L", "B", "R"), label)


def load_tic_tac_toe() -> Any:
    """Generate the tic-tac-toe data: 958 final boards, 9 fields, 2 classes.

    The boards are those where x moved first and somebody has three in a row or the
    board is full. They are positive when x has won. Wins of x come first, then wins
    of o, then draws, each in the order x, o, b (blank) of their fields.

    Returns
    -------
    sklearn.utils.Bunch
        As in `load_car`: ``data`` (958, 9), ``target``, ``schema`` with categorical
        attributes, ``feature_names`` and ``name``.

    References
    ----------
    .. [1] D. Aha, Incremental constructive induction: an instance-based approach,
       8th Intl. Workshop on Machine Learning, 1991. UCI Machine Learning
       Repository, Tic-Tac-Toe Endgame.

    Examples
    --------
    >>> game = load_tic_tac_toe()
    >>> game.data.shape, int((game.target == "positive").sum())
    ((958, 9), 626)
    """

    def has_won(player: str, board: Sequence[str]) -> bool:
        return any(all(board[i] == player for i in line) for line in _LINES)

    def rank(board: Sequence[str]) -> tuple[int, list[int]]:
        order = ["xob".index(mark) for mark in board]
        return (0 if has_won("x", board) else 1 if has_won("o", board) else 2), order

    boards: set[tuple[str, ...]] = {("b",) * 9}
    finals: set[tuple[str, ...]] = set()
    for player in "xoxoxoxox":
        moved: set[tuple[str, ...]] = set()
        for board in boards:
            for field in (i for i in range(9) if board[i] == "b"):
                after = (*board[:field], player, *board[field + 1 :])
                final = "b" not in after or has_won(player, after)
                (finals if final else moved).add(after)
        boards = moved
    rows = sorted(finals, key=rank)
    attributes = tuple(Attribute(key, "categorical", ("x", "o", "b")) for key in _BOARD)
    schema = Schema(attributes, ("positive", "negative"), name="tic-tac-toe")
    target = ["positive" if has_won("x", row) else "negative" for row in rows]
    return _bunch(rows, target, schema)


def load_monks(problem: int = 1) -> Any:
    """Generate a monk's problem: 432 robots, 6 attributes, 2 classes.

    The class of a robot is 1 where, in problem 1, ``a1 == a2`` or ``a5 == 1``; in
    problem 2, exactly two of the six attributes are 1; in problem 3, ``a5 == 3`` and
    ``a4 == 1``, or ``a5 != 4`` and ``a2 != 3``. These are the complete, noise-free
    test sets.

    Parameters
    ----------
    problem : {1, 2, 3}, default=1

    Returns
    -------
    sklearn.utils.Bunch
        As in `load_car`: ``data`` (432, 6), ``target`` with the classes ``"0"`` and
        ``"1"``, ``schema`` with categorical attributes, ``feature_names`` and
        ``name``.

    References
    ----------
    .. [1] S. Thrun et al., The MONK's problems: a performance comparison of
       different learning algorithms, Carnegie Mellon University, CMU-CS-91-197,
       1991. UCI Machine Learning Repository, MONK's Problems.

    Examples
    --------
    >>> [int((load_monks(problem).target == "1").sum()) for problem in (1, 2, 3)]
    [216, 142, 228]
    """
    if (problem := check_integer(problem, "problem")) > 3:
        raise ValueError(f"problem must be 1, 2 or 3, got {problem}")
    sizes = {"a1": 3, "a2": 3, "a3": 2, "a4": 3, "a5": 4, "a6": 2}
    domain = {key: tuple("1234"[:size]) for key, size in sizes.items()}

    def label(*cell: int) -> str:
        a1, a2, a3, a4, a5, a6 = (code + 1 for code in cell)
        positive = (
            a1 == a2 or a5 == 1,
            (a1, a2, a3, a4, a5, a6).count(1) == 2,
            (a5 == 3 and a4 == 1) or (a5 != 4 and a2 != 3),
        )[problem - 1]
        return "1" if positive else "0"

    return _factorial(f"monks-{problem}", domain, "categorical", ("0", "1"), label)


def load_iris(*, n_bins: int | None = None) -> Any:
    """Load Fisher's iris data: 150 flowers, 4 measures in cm, 3 classes.

    Parameters
    ----------
    n_bins : int, optional
        Number of bins of equal width inside round public bounds, 0 to 10 cm for
        lengths and 0 to 5 cm for widths. By default the cut points of the
        matrix-random-forest paper are used: 360 cells, and any finite number is
        accepted.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, a float array (150, 4); ``target``; ``schema`` with numeric
        attributes; ``feature_names`` and ``name``.

    Notes
    -----
    The measures are those of scikit-learn, which follow Fisher's paper. The file of
    the UCI repository differs in two flowers: row 34 has petal width 0.1 instead of
    0.2, and row 37 has sepal width 3.1 instead of 3.6 and petal length 1.5 instead
    of 1.4. With the default cut points both give the same codes.

    The bounds are round numbers, chosen with knowledge of the data.

    References
    ----------
    .. [1] R. A. Fisher, The use of multiple measurements in taxonomic problems,
       Annals of Eugenics 7, 1936.

    Examples
    --------
    >>> iris = load_iris()
    >>> iris.schema.domain_shape
    (4, 3, 6, 5)
    >>> iris.schema.encode(iris.data[:2])
    array([[1, 1, 0, 0],
           [0, 0, 0, 0]])
    """
    source = sklearn.datasets.load_iris()
    cuts: dict[str, tuple[float, ...]] = {
        "sepal_length": (5, 6, 7),
        "sepal_width": (3, 4),
        "petal_length": (2, 3, 4, 5, 6),
        "petal_width": (0.5, 1, 1.5, 2),
    }
    if n_bins is None:
        attributes = [Attribute.numeric(key, cut_points=cuts[key]) for key in cuts]
    else:
        attributes = [
            Attribute.numeric(key, lower=0, upper=upper, n_bins=n_bins)
            for key, upper in zip(cuts, (10, 5, 10, 5), strict=True)
        ]
    labels = ("Iris-setosa", "Iris-versicolor", "Iris-virginica")
    schema = Schema(tuple(attributes), labels, name="iris")
    return bunch(source.data, schema.decode_target(source.target), schema)
