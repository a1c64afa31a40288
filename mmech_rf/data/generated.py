"""Data sets that need no download.

Car, nursery, balance scale, tic-tac-toe and the three monk's problems follow
exact rules, so they are generated here: the same rows, in the same order, as the
files of the UCI Machine Learning Repository. Iris comes with scikit-learn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np
import sklearn.datasets
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from mmech.checks import check_integer
from mmech_rf.schema import Schema

# The tables of car and nursery number intermediate values from the worst, 0.
_CAR_PRICE = ((0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 2, 3), (1, 2, 3, 3))
_CAR_COMFORT = (  # by persons, doors, lug_boot
    ((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ((1, 1, 2), (1, 1, 2), (1, 2, 2), (1, 2, 2)),
    ((0, 1, 2), (1, 2, 2), (1, 2, 2), (1, 2, 2)),
)
_CAR_TECH = ((0, 0, 0), (0, 1, 2), (0, 2, 3))
_CAR_CLASS = ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 2), (0, 1, 3, 3))

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


def _bunch(rows: Sequence[Sequence[Any]], target: ArrayLike, schema: Schema) -> Any:
    data = np.empty((len(rows), schema.n_features), dtype=object)
    data[:] = rows
    return bunch(data, schema.decode_target(schema.encode_target(target)), schema)


def load_schema(name: str, *, n_bins: int | None = None) -> Schema:
    """Return a public schema that comes with this package.

    Parameters
    ----------
    name : str
        A set of `mmech_rf.data.catalogue`.
    n_bins : int, optional
        Number of bins of equal width inside public bounds, for numeric attributes. By
        default the discretisation of the matrix-random-forest paper is returned, where
        there is one.

    Returns
    -------
    Schema

    Examples
    --------
    >>> load_schema("adult").n_cells
    168000
    >>> load_schema("heart", n_bins=4).domain_shape
    (4, 2, 4, 4, 4, 2, 3, 4, 2, 4, 3, 4, 3)
    """
    folder = resources.files("mmech_rf") / "data" / "schemas"
    paper = folder / f"{name}.paper.json"
    if n_bins is None and paper.is_file():
        return Schema.from_json(paper.read_text(encoding="utf-8"))
    n_bins = 10 if n_bins is None else check_integer(n_bins, "n_bins")
    text = (folder / f"{name}.json").read_text(encoding="utf-8")
    return Schema.from_json(text, n_bins=n_bins)


def _factorial(name: str, rule: Callable[..., int]) -> Any:
    """Return all combinations, the last attribute fastest, with the class of a rule.

    The rule is called with the positions of the values in their attributes, and returns
    the position of the class.
    """
    schema = load_schema(name)
    rows = list(itertools.product(*(a.categories for a in schema.attributes)))
    codes = [rule(*cell) for cell in np.ndindex(*schema.domain_shape)]
    return _bunch(rows, schema.decode_target(codes), schema)


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

    def rule(
        buying: int, maint: int, doors: int, persons: int, boot: int, safety: int
    ) -> int:
        tech = _CAR_TECH[_CAR_COMFORT[persons][doors][boot]][safety]
        return _CAR_CLASS[tech][_CAR_PRICE[buying][maint]]

    return _factorial("car", rule)


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

    def rule(*cell: int) -> int:
        parents, has_nurs, form, children, housing, finance, social, health = cell
        structure = _NURSERY_STRUCTURE[form][children]
        standing = _NURSERY_FINANCE[structure][housing][finance]
        employ = _NURSERY_EMPLOY[parents][has_nurs]
        letter = _NURSERY_CLASS[_NURSERY_HEALTH[social][health]][standing][employ]
        return "NRVPS".index(letter)

    return _factorial("nursery", rule)


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

    def rule(weight_l: int, distance_l: int, weight_r: int, distance_r: int) -> int:
        left = (weight_l + 1) * (distance_l + 1)
        right = (weight_r + 1) * (distance_r + 1)
        return 1 + (right > left) - (left > right)

    return _factorial("balance-scale", rule)


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
    target = ["positive" if has_won("x", row) else "negative" for row in rows]
    return _bunch(rows, target, load_schema("tic-tac-toe"))


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

    def rule(*cell: int) -> int:
        a1, a2, a3, a4, a5, a6 = (code + 1 for code in cell)
        positive = (
            a1 == a2 or a5 == 1,
            (a1, a2, a3, a4, a5, a6).count(1) == 2,
            (a5 == 3 and a4 == 1) or (a5 != 4 and a2 != 3),
        )[problem - 1]
        return int(positive)

    return _factorial(f"monks-{problem}", rule)


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
    source, schema = sklearn.datasets.load_iris(), load_schema("iris", n_bins=n_bins)
    return bunch(source.data, schema.decode_target(source.target), schema)
