"""Size limits: how large a thing may get before it is refused, or done another way.

Limits keep a call from taking all memory, or hours, by mistake. They depend on public
sizes only, and a release is as private with any others. On a larger machine:

>>> from mmech import limits
>>> with limits.changed(table_entries=2**30):
...     limits.LIMITS.table_entries
1073741824
>>> limits.LIMITS.table_entries
134217728
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from mmech.checks import check_integer

__all__ = ["LIMITS", "ChangeableLimits", "Limits", "changed", "limit"]


def limit(default: int, *, least: int = 0, most: int | None = None) -> Any:
    """Return the field of a limit, and what it may be changed to."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass
class ChangeableLimits:
    """Base of tables of limits, all of them whole numbers."""

    @contextmanager
    def changed(self, **values: int) -> Iterator[None]:
        """Give limits other values within a block, in all threads of the process.

        Parameters
        ----------
        **values : int
            New values by name.

        Raises
        ------
        TypeError
            If there is no limit of a name, or a value is not a whole number.
        ValueError
            If a value is negative, or more than the code can count.
        """
        known = {own.name: own.metadata for own in fields(self)}
        new = {}
        for name, value in values.items():
            if name not in known:
                names = ", ".join(known)
                raise TypeError(f"there is no limit {name!r}; limits are {names}")
            least, most = known[name].get("least", 0), known[name].get("most")
            new[name] = check_integer(value, name, minimum=least)
            if most is not None and value > most:
                raise ValueError(f"{name} must be at most {most}, got {value}")
        before = {name: getattr(self, name) for name in new}
        vars(self).update(new)
        try:
            yield
        finally:
            vars(self).update(before)


@dataclass
class Limits(ChangeableLimits):
    """Size limits of the engine.

    Attributes
    ----------
    dense_entries : int
        Entries of an explicit matrix, 1 GiB of 8 bytes each, above which it is made
        with a warning.
    block_entries : int
        Entries of a matrix that are listed at a time, 32 MiB, where it is gone through
        in blocks.
    direct_cells : int
        Smaller side of a matrix up to which its pseudoinverse is factorised. Above it
        every product with the pseudoinverse is found by iteration.
    eigen_cells : int
        Smaller side of a matrix up to which its gram is decomposed.
    dual_cells : int
        Smaller side of a workload up to which the dual bound, and the optimum for
        Gaussian noise with it, are found.
    compared_entries : int
        Entries of a workload of fractions up to which equal columns are merged.
    visited_cells : int
        Cells of a workload of boxes up to which equal columns are found cell by cell,
        not attribute by attribute.
    box_signatures : int
        Sets of boxes after which the search attribute by attribute is given up.
    table_entries : int
        Largest table of counts that is made from records, or that an estimate returns:
        1 GiB of 8 bytes each. More is refused.
    listed_cells : int
        Largest domain of which an estimate from marginals lists all cells. Above it
        only marginals are computed.
    joint_entries : int
        Largest table of a distribution of maximum entropy, cells of linked attributes
        times columns. More is refused.
    design_sets : int
        Most sets of attributes that a covering design is searched for. More is refused.
    design_targets : int
        Sets to cover by all tries of such a search together, beyond the first two.
        With more sets there are fewer tries.
    """

    dense_entries: int = 2**27
    block_entries: int = limit(2**22, least=1)
    direct_cells: int = 2048
    eigen_cells: int = 4096
    dual_cells: int = 3000
    compared_entries: int = 2**24
    visited_cells: int = 2 * 10**6
    box_signatures: int = 200_000
    table_entries: int = 2**27
    listed_cells: int = 2**24
    joint_entries: int = 2**23
    design_sets: int = 10**6
    design_targets: int = 10_000


LIMITS = Limits()
"""Limits in force."""

changed = LIMITS.changed
