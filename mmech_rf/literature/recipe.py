r"""The choices that make a private forest: what they cost, and what they say in words.

``choices.toml`` lists the choices, ``presets.toml`` the forests of the literature.
Where a paper is not private as published, the preset of its name is a corrected one and
says what was corrected; the original is refused by name.

Node levels are numbered from the root, 0, to the leaves, `n_levels`. A rule says which
weight the tests of levels 0 .. n_levels - 1 and the class counts of levels 0 ..
n_levels have; shares are weights over their sum, so that they add up exactly.

Every record goes to trees by itself, so that an added or removed record moves no other
one. `multiplicities` says how often each record is in each tree; `tree_epsilon` says
what a tree may cost so that all trees together cost epsilon:

========  ==========================================  ========================
disjoint  each record in one tree, drawn for it       epsilon
all       each record in each tree                    epsilon / trees
poisson   a bag per tree, each record K ~ Poisson(1)  log(1 + epsilon / trees)
========  ==========================================  ========================
"""

from __future__ import annotations

import difflib
import html
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache, partial
from importlib import resources
from typing import Any

import numpy as np

from mmech import ParameterError
from mmech.checks import check_choice, check_integer
from mmech.noise import assign_records, poisson_bags
from mmech.privacy.cost import poisson_bag_epsilon
from mmech.privacy.neighbours import Relation
from mmech.storage.codec import storable
from mmech_rf.arrays import Integers
from mmech_rf.forest.growth import fletcher_islam_depth
from mmech_rf.schema import Schema

ROOT_BITS = 40
"""Powers of the cube root of two are rounded down to multiples of 2**-40."""


@dataclass(frozen=True)
class Budget:
    """What the releases of one tree cost, level by level, in nats."""

    tests: tuple[Fraction, ...]  # of every level, from the root
    # for every level, from the root; the last are the leaves'
    counts: tuple[Fraction, ...]

    @property
    def total(self) -> Fraction:
        """Cost of the tree."""
        return sum((*self.tests, *self.counts), Fraction(0))


Weights = Sequence[Fraction]
Rule = Callable[[int, Fraction], tuple[Weights, Weights]]


def _at_leaves(n_levels: int, weight: Fraction) -> Weights:
    return [Fraction(0)] * n_levels + [weight]


def _powers(
    n_levels: int, leaves: Fraction, ratio: Fraction = Fraction(1)
) -> tuple[Weights, Weights]:
    raw = [ratio**level for level in range(n_levels)]
    tests = [(1 - leaves) * weight / sum(raw) for weight in raw]
    return tests, _at_leaves(n_levels, leaves)


def _hou(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    # Level i of d has 2 / (d - i + 1), half of it for a count, half for a choice; the
    # leaves have no choice.
    halves = [Fraction(1, n_levels + 1 - level) for level in range(n_levels + 1)]
    return halves[:-1], halves


def _liu(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    weights = [Fraction(1, n_levels + 1 - level) for level in range(n_levels + 1)]
    return weights[:-1], _at_leaves(n_levels, weights[-1])


def _guan(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    roots = [_cube_root(2**level) for level in range(n_levels)] or [Fraction(1)]
    counts = [leaves * root / sum(roots) for root in roots]
    counts = [Fraction(0)] * (n_levels + 1 - len(counts)) + counts
    return _powers(n_levels, leaves)[0], counts


def _alternating(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    one = Fraction(1)
    return [one] * n_levels, [one * (n_levels == 0)] + [one] * n_levels


def _cube_root(number: int) -> Fraction:
    """Return the cube root of a whole number, rounded down to 2**-40."""
    scaled, low, high = number << 3 * ROOT_BITS, 0, number << ROOT_BITS + 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= scaled else (low, middle - 1)
    return Fraction(low, 2**ROOT_BITS)


RULES: dict[str, Rule] = {
    "uniform": _powers,
    "geometric": partial(_powers, ratio=Fraction(3, 2)),
    "hou": _hou,
    "liu": _liu,
    "guan": _guan,
    "alternating": _alternating,
}
"""Rules by name: weights of the tests and of the counts. Their arguments are the number
of levels with tests and the share of the leaves, which only some rules use."""


def shares(rule: str, n_levels: int, leaves: Fraction) -> Budget:
    """Return the share of every release of a tree; they sum to one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech_rf.literature.recipe import shares
    >>> shares("liu", 2, Fraction(1, 2))  # doctest: +NORMALIZE_WHITESPACE
    Budget(tests=(Fraction(2, 11), Fraction(3, 11)),
           counts=(Fraction(0, 1), Fraction(0, 1), Fraction(6, 11)))
    """
    tests, counts = RULES[rule](n_levels, leaves)
    total = sum((*tests, *counts), Fraction(0))
    return Budget(tuple(w / total for w in tests), tuple(w / total for w in counts))


# ---- which records train which tree ---------------------------------------------


def tree_epsilon(
    records: str, epsilon: Fraction, n_trees: int, relation: Relation
) -> Fraction:
    """Return what the releases of one tree may cost in all.

    Costs of bags hold for one added or removed record, and trees of bags are calibrated
    to that. For neighbours further apart, epsilon is divided here.
    """
    if records == "disjoint":
        return epsilon
    if records == "all":
        return epsilon / n_trees
    return poisson_bag_epsilon(epsilon / (n_trees * relation.factor))


def multiplicities(
    records: str,
    n_records: int,
    n_trees: int,
    noise: np.random.Generator | None,
) -> Integers:
    """Draw how often each record is in each tree, shape (n_records, n_trees).

    Sensitive, because its length is.
    """
    if records == "disjoint":
        trees = assign_records(n_records, n_trees, insecure_rng=noise)
        return (trees[:, None] == np.arange(n_trees)).astype(np.int64)
    if records == "all":
        return np.ones((n_records, n_trees), np.int64)
    return poisson_bags(n_records, n_trees, insecure_rng=noise)


@cache
def listed_in(name: str) -> dict[str, Any]:
    """Return what a TOML file of this folder lists."""
    file = resources.files("mmech_rf") / "literature" / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


WORDS: dict[str, dict[str, str]] = listed_in("choices")["choices"]
"""What every choice says in `Recipe.describe`."""

CHOICES = {name: tuple(words) for name, words in WORDS.items()}

NUMBERS: dict[str, dict[str, str]] = listed_in("choices")["rules"]
"""What a rule for a number says in `Recipe.describe`."""

ONE_CANDIDATE = (
    "The attribute of a node is public and random; its cut is drawn by the exponential "
    "mechanism."
)
"""What a joint draw says where nodes have a single candidate."""

LEAF_RECORDS = 10
"""Stopping by size: about so many records are in a leaf; exactly, where tests are exact
and attributes public."""


@storable("Recipe")
@dataclass(frozen=True)
class Recipe:
    r"""A private forest: one choice for each of its parts.

    Attributes
    ----------
    structure : {"random", "drawn", "two-phase", "two-ensembles"}
        Where tests come from. In two phases, a record weighs in the second phase as
        often as the trees of the first are wrong about it. The first of two ensembles
        labels ``X_unlabelled``; these records label the leaves of the second ensemble.
    n_trees : int, "log-records" or "support"
        Number of trees; the logarithm of the number of records; or as many as
        leave signal in leaves, for random multiway trees that share epsilon.
    depth : int or str
        Levels of tests: a number, the number of "attributes", "half" of it,
        "half-or-log" of the records, or "fletcher-islam". "support": as long as the
        expected number of records on a path is more than noise. "records": until about
        10 records are in a leaf, by their public number.
    stopping : {"depth", "size", "labelled", "noisy-counts"}
        What limits the depth further: about 10 records in a leaf, by their public
        number, or exactly for exact tests; 10 records with labels, for exact tests; or
        noisy numbers of records.
    splits : {"multiway", "threshold", "binary"}
        "binary": two outcomes for all tests. "threshold": a child per value for
        attributes without order. "multiway": a child per value for all, random tests
        only.
    candidates : int, "sqrt" or "all"
        Attributes that a node looks at, public and random.
    selection : {"joint", "cut-then-attribute", "noisy-counts", "exact"}
        How a test is drawn. "exact" needs ``guarantee="labels"``, and with random
        samples it needs tests from unlabelled records. For an exact test shows which
        records were sampled, and the price of samples assumes that nothing shows it.
    score : {"median", "max", "gini", "entropy", "gain-and-ratio"}
        Score of a test, see `mmech_rf.literature.grow`.
    cuts : {"exponential", "class-means"}
        How "cut-then-attribute" draws cuts: near the median, or between noisy means.
    grid : int, optional
        Number of cut points of an attribute that are looked at; all when omitted.
    levels : {"uniform", "geometric", "hou", "liu", "guan", "alternating"}
        Rule for the share of every level, see `mmech_rf.literature.recipe`.
    leaf_share : Fraction
        Share of the leaves, where the rule asks for it.
    records : {"disjoint", "all", "poisson"}
        Which records train which tree, see `mmech_rf.literature.recipe`.
    first_phase : Fraction
        Share of the trees that are grown first, in two phases or two ensembles.
    leaves : {"laplace", "exponential", "permute-and-flip", "levels"}
        What is released of the leaves.
    vote : str
        "hard", "weight", "mean" or "most-confident".
    pruning : {"none", "signal-to-noise", "selective"}
        Post-processing of the released trees.
    guarantee : {"pure", "labels"}
        What is protected: records, or only their labels.
    unlabelled : bool
        Whether tests come from ``X_unlabelled``.
    name, paper, corrected : str
        Name of a preset, where it is from, and what was corrected of it. `replace`
        adds to the name which choices are others.
    preset : Recipe, optional
        The preset that other choices were made in.

    Raises
    ------
    ParameterError
        If a choice is none of those, or choices do not go together.

    Examples
    --------
    >>> from mmech_rf import recipes
    >>> spe = recipes()["spe"]
    >>> budget = spe.budget(1, n_levels=4)
    >>> [round(float(2 * share), 4) for share in budget.tests], budget.counts[-1]
    ([0.1231, 0.1846, 0.2769, 0.4154], Fraction(1, 2))
    >>> spe.replace(n_trees=5).replace(depth=3).name
    'spe with n_trees=5, depth=3'
    """

    structure: str = "drawn"
    n_trees: int | str = 10
    depth: int | str = "half"
    stopping: str = "depth"
    splits: str = "binary"
    candidates: int | str = "all"
    selection: str = "joint"
    score: str = "gini"
    cuts: str = "exponential"
    grid: int | None = None
    levels: str = "uniform"
    leaf_share: Fraction = Fraction(1, 2)
    records: str = "disjoint"
    first_phase: Fraction = Fraction(3, 10)
    leaves: str = "laplace"
    vote: str = "weight"
    pruning: str = "none"
    guarantee: str = "pure"
    unlabelled: bool = False
    name: str = field(default="own", compare=False)
    paper: str = field(default="", compare=False)
    corrected: str = field(default="", compare=False)
    preset: Recipe | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(getattr(self, name), name, choices)
        for name, rules in NUMBERS.items():
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, name, rules)
            else:
                check_integer(value, name)
        if self.grid is not None:
            check_integer(self.grid, "grid")
        for name in ("leaf_share", "first_phase"):
            share = Fraction(getattr(self, name))
            object.__setattr__(self, name, share)
            most = ")" if name == "leaf_share" else "]"  # tests cost something
            if not 0 < share <= 1 or (share == 1 and most == ")"):
                words = f"must be a share in (0, 1{most}"
                raise ParameterError(name, words, str(share))
        for rule in listed_in("choices")["together"]:
            if self._has(rule["where"]) and not self._has(rule["needs"]):
                name, remedy = rule["name"], tuple(rule["remedy"])
                raise ParameterError(name, rule["words"], getattr(self, name), remedy)

    def _has(self, choices: dict[str, list[Any]]) -> bool:
        """Return whether each choice is one of those that are listed for it."""
        return all(getattr(self, name) in allowed for name, allowed in choices.items())

    # ---- what follows from public numbers --------------------------------------

    def replace(self, **choices: Any) -> Recipe:
        """Return the recipe with other choices, which its name then lists.

        Parameters
        ----------
        **choices
            As in `Recipe`.

        Returns
        -------
        Recipe
            Of a preset with a name such as ``"spe with depth=4"``; the name of other
            recipes is kept.
        """
        changed = replace(self, **choices)
        preset = self.preset or self
        if "name" in choices or not preset.paper:
            return changed
        if changed == preset:
            return preset
        names = [part.name for part in fields(self) if part.compare]
        others = {n: getattr(changed, n) for n in names}
        words = ", ".join(
            f"{name}={value}"
            for name, value in others.items()
            if value != getattr(preset, name)
        )
        return replace(changed, name=f"{preset.name} with {words}", preset=preset)

    @property
    def needs_records(self) -> bool:
        """Whether something follows from the number of records."""
        return (
            self.stopping == "size"
            or self.depth in ("half-or-log", "support", "records")
            or isinstance(self.n_trees, str)
            or (self.draws and self.score in ("entropy", "gain-and-ratio"))
        )

    @property
    def draws(self) -> bool:
        """Whether tests are drawn from records."""
        return self.structure != "random"

    @property
    def draws_from_others(self) -> bool:
        """Whether tests cost other persons than leaves do."""
        return self.unlabelled and self.selection != "exact"

    def n_candidates(self, n_attributes: int) -> int:
        """Return how many attributes a node looks at."""
        if self.candidates == "all":
            return n_attributes
        if self.candidates == "sqrt":
            return math.isqrt(n_attributes - 1) + 1
        return min(int(self.candidates), n_attributes)

    def branching(self, schema: Schema) -> float:
        """Return the mean number of children, over attributes."""
        multiway = self.splits == "multiway"
        return float(
            np.mean(
                [
                    a.size
                    if multiway or (a.kind == "categorical" and self.splits != "binary")
                    else 2
                    for a in schema.attributes
                ]
            )
        )

    def trees(self, schema: Schema, epsilon: float, n_records: float) -> int:
        """Return the number of trees, from public numbers."""
        if self.n_trees == "log-records":
            return max(1, math.ceil(math.log(n_records)))
        if self.n_trees == "support":
            # Fletcher and Islam 2015: as many as leave two levels with signal.
            most = n_records / self.branching(schema) ** 2
            fits = self.support(schema, epsilon, most)
            return min(max(math.ceil(fits) - 1, 1), schema.n_features)
        return int(self.n_trees)

    def support(self, schema: Schema, epsilon: float, n_records: float) -> float:
        """Return how many leaves of a tree of epsilon may have more signal than noise.

        Records over theta, the noise of a leaf (Fletcher and Islam 2015).
        """
        return n_records * epsilon / (math.sqrt(2) * schema.n_classes)

    def n_levels(self, schema: Schema, epsilon: float, n_records: float) -> int:
        """Return how many levels have tests, from public numbers."""
        d = schema.n_features
        n_trees = self.trees(schema, epsilon, n_records)
        branching = self.branching(schema)
        if self.depth == "records":
            levels = self._levels_by_size(schema, n_trees, n_records)
        elif self.depth == "attributes":
            levels = d
        elif self.depth == "half":
            levels = max(1, d // 2)
        elif self.depth == "half-or-log":
            levels = max(1, min(d // 2, int(math.log(n_records, branching)) - 1))
        elif self.depth == "fletcher-islam":
            ordered = sum(a.kind != "categorical" for a in schema.attributes)
            levels = max(1, fletcher_islam_depth(ordered, d - ordered))
        elif self.depth == "support":
            # Paths over small attributes first are the longest.
            support = self.support(schema, epsilon / n_trees, n_records)
            sizes = np.cumprod(np.sort(np.array(schema.domain_shape, float)))
            levels = max(1, int((sizes <= support).sum()))
        else:
            levels = int(self.depth)
        if self.stopping == "size" and self.selection != "exact":
            levels = min(levels, self._levels_by_size(schema, n_trees, n_records))
        return levels

    def _levels_by_size(self, schema: Schema, n_trees: int, n_records: float) -> int:
        parts = n_trees if self.records == "disjoint" else 1
        leaves = max(n_records / (LEAF_RECORDS * parts), 1)
        return max(1, math.ceil(math.log(leaves, self.branching(schema))))

    def budget(self, epsilon: Any, n_levels: int) -> Budget:
        """Return what the releases of one tree cost, exactly.

        Parameters
        ----------
        epsilon : Fraction or int
            Cost of the tree in all, nats.
        n_levels : int
            Levels of tests.

        Returns
        -------
        Budget
            Its parts sum to epsilon; its tests and its counts do so by themselves
            where tests come from unlabelled records, which are other persons.
        """
        epsilon = Fraction(epsilon)
        if not self.draws or self.selection == "exact":
            budget = Budget(
                (Fraction(0),) * n_levels, (Fraction(0),) * n_levels + (Fraction(1),)
            )
        else:
            budget = shares(self.levels, n_levels, self.leaf_share)
        tests, counts = epsilon, epsilon
        if self.draws_from_others and n_levels:
            tests, counts = epsilon / sum(budget.tests), epsilon / sum(budget.counts)
        return Budget(
            tuple(tests * share for share in budget.tests),
            tuple(counts * share for share in budget.counts),
        )

    # ---- words -------------------------------------------------------------

    def describe(self) -> str:
        """Return in words what the recipe does, where it is from, what was corrected.

        Returns
        -------
        str
        """
        source = f"after {self.paper}" if self.preset else self.paper
        lines = [f"{self.name}: {source}" if source else self.name]
        words = {name: says[getattr(self, name)] for name, says in WORDS.items()}
        lines.append(f"Guarantee: {words.pop('guarantee')}.")
        score = words.pop("score")
        if self.selection == "joint" and self.candidates == 1:
            words["selection"] = ONE_CANDIDATE
        if not self.draws:
            del words["selection"]
        order = [part.name for part in fields(self) if words.get(part.name)]
        lines += [words[name] for name in order]
        if self.draws:
            n = self.candidates
            some = NUMBERS["candidates"].get(str(n), f"random attributes, {n} for each")
            cuts = f" at {self.grid} cut points each" * (self.grid is not None)
            lines.append(
                f"Candidates of a node: {some}{cuts}; splits: {self.splits}. Tests are "
                f"compared by {score}; shares of levels: {self.levels}."
            )
        trees = NUMBERS["n_trees"].get(str(self.n_trees), f"{self.n_trees} trees")
        depth = NUMBERS["depth"].get(str(self.depth), f"of depth {self.depth}")
        lines.append(f"{trees}, {depth}, {self.vote} vote.")
        if self.corrected:
            lines.append(f"Corrected: {self.corrected}")
        return "\n".join(lines)


def _choices(name: str) -> dict[str, Any]:
    row = dict(listed_in("presets")[name])
    return (_choices(row.pop("like")) if "like" in row else {}) | row


class Recipes(Mapping[str, Recipe]):
    """The presets by name; shows them as a table."""

    def __getitem__(self, name: str) -> Recipe:
        if name == "refused":
            raise KeyError(name)
        return Recipe(**_choices(name), name=name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in listed_in("presets") if name != "refused")

    def __len__(self) -> int:
        return len(list(iter(self)))

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return name, paper, guarantee and corrections of every preset."""
        words = WORDS["guarantee"]
        return [
            (one.name, one.paper, words[one.guarantee], one.corrected or "-")
            for one in self.values()
        ]

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}\n  {paper}\n  {guarantee}\n  corrected: {corrected}"
            for name, paper, guarantee, corrected in self.rows()
        )

    def _repr_html_(self) -> str:
        rows = [("recipe", "paper", "guarantee", "corrected"), *self.rows()]
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in r) for r in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def recipes() -> Recipes:
    """Return the presets by name, with paper, guarantee and what was corrected.

    Returns
    -------
    Recipes
        A mapping of names to `Recipe`, which prints as a table.

    Examples
    --------
    >>> from mmech_rf import recipes
    >>> recipes()["pte"].guarantee
    'labels'
    """
    return Recipes()


def refused() -> dict[str, tuple[str, str]]:
    """Return names of what is refused: why, and the preset that is corrected."""
    rows = listed_in("presets")["refused"].items()
    return {name: (row["why"], row["instead"]) for name, row in rows}


def find_recipe(recipe: Any) -> Recipe:
    """Return a recipe by its name, or the recipe that it is.

    Raises
    ------
    ParameterError
        If no recipe has the name, or the recipe is not private as published. Also if a
        recipe with other choices has the name of a preset.
    """
    if isinstance(recipe, Recipe):
        if recipe != recipes().get(recipe.name, recipe):
            raise ParameterError(
                "recipe",
                f"{{recipe}} has the name of the preset {recipe.name!r}, but other "
                "choices",
                remedy=(
                    "give it a name of its own",
                    f"change the preset by recipes()[{recipe.name!r}].replace(...)",
                ),
            )
        return recipe
    if not isinstance(recipe, str):
        raise TypeError(
            f"recipe must be a Recipe or the name of one, got {type(recipe).__name__}; "
            "choose from recipes()"
        )
    if recipe in refused():
        why, instead = refused()[recipe]
        words = f"{{recipe={recipe!r}}} is refused: {why}"
        raise ParameterError("recipe", words, remedy=f"use {{recipe={instead!r}}}")
    presets = recipes()
    if recipe not in presets:
        near = difflib.get_close_matches(recipe, presets, n=3, cutoff=0.3)
        known = ", ".join(presets)
        remedy = f"did you mean {' or '.join(near)}" if near else f"choose {known}"
        raise ParameterError("recipe", "must be the name of a recipe", recipe, remedy)
    return presets[recipe]
