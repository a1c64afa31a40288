"""Which data sets are neighbours, and by how much a change of one record counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mmech.checks import check_choice, check_integer

NEIGHBOURS = ("add_remove", "replace", "labels")

HOW = {
    "add_remove": "adding or removing {}",
    "replace": "replacing {}",
    "labels": "replacing the label of {}; attributes are public and not protected",
}


@dataclass(frozen=True)
class Relation:
    """The neighbour relation of a guarantee.

    A person has up to `records_per_person` records, and neighbouring data sets differ
    in all of them. A release that changes by at most D when one record is added
    changes by at most `factor` times D between neighbours, in every norm; so this
    factor is all that noise and selections need to know ([1]_, Theorem 2.2 for pure
    epsilon; for zCDP [2]_, Proposition 1.9: sensitivity r D, a cost per record of
    rho / r²).

    Attributes
    ----------
    neighbours : {"add_remove", "replace", "labels"}
        Whether the records of a person are added or removed, or replaced by as many, or
        only their labels are replaced. Under ``"labels"`` everything else, and the
        number of records, is public and gets no protection. A replaced label is a
        removed record and an added one. So a release that is calibrated for
        ``"replace"`` is private for ``"labels"``, at the same cost.
    records_per_person : int
        Largest number of records of one person; public.

    References
    ----------
    .. [1] Dwork, Roth, "The algorithmic foundations of differential privacy", 2014.
    .. [2] Bun, Steinke, "Concentrated differential privacy: simplifications,
       extensions, and lower bounds", TCC 2016.

    Examples
    --------
    >>> from mmech.privacy.neighbours import Relation
    >>> Relation("replace", 3).factor
    6
    """

    neighbours: str = "add_remove"
    records_per_person: int = 1

    def __post_init__(self) -> None:
        check_choice(self.neighbours, "neighbours", NEIGHBOURS)
        check_integer(self.records_per_person, "records_per_person")

    @property
    def factor(self) -> int:
        """How many additions or removals of one record lead to a neighbour."""
        return self.records_per_person * (1 if self.neighbours == "add_remove" else 2)

    @property
    def words(self) -> str:
        """How neighbouring data sets differ, such as "by adding one record"."""
        whose = "one record"
        if self.records_per_person > 1:
            whose = f"one person with up to {self.records_per_person} records"
        return f"by {HOW[self.neighbours].format(whose)}"


def exact_size(sensitivity: Any) -> Fraction:
    """Return a sensitivity as an exact fraction > 0."""
    try:
        exact = Fraction(sensitivity)
    except (ValueError, ArithmeticError, TypeError):
        exact = Fraction(0)
    if exact <= 0:
        raise ValueError(
            f"the sensitivity must be a finite number > 0, got {sensitivity!r}; pass "
            "how much one record changes the values, such as 1 for counts"
        )
    return exact
