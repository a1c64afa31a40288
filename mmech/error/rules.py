"""Tables of what is known of pairs: a rule per type of strategy and type of workload.

A file that holds a strategy registers its rules here, and nothing else has to be
edited. Weights and unions of a workload are undone before its blocks are looked up. A
rule may return ``None``: then the answer is computed, at a cost that is known before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import UnionType
from typing import Any, TypeVar, get_args

import numpy as np

from mmech.lazy import load_families
from mmech.operators.base import QueryMatrix
from mmech.operators.known import normal_form

Rule = TypeVar("Rule", bound=Callable[..., Any])
Kind = type | UnionType


class PairQuestion:
    """A question about (workload, strategy), ``None`` where no rule answers it."""

    def __init__(
        self,
        combine: Callable[..., Any] | None = None,
        of_zero: Callable[[QueryMatrix], Any] = lambda block: 0.0,
        otherwise: Callable[..., Any] = lambda workload, strategy: None,
    ) -> None:
        self._rules: dict[tuple[type, type], Callable[..., Any]] = {}
        self._combine, self._of_zero = combine, of_zero
        self._otherwise = otherwise

    def rule(
        self, strategies: Kind, workloads: Kind = QueryMatrix
    ) -> Callable[[Rule], Rule]:
        """Return a decorator of the rule for types, which derived ones inherit."""

        def registered(rule: Rule) -> Rule:
            for strategy in get_args(strategies) or (strategies,):
                for workload in get_args(workloads) or (workloads,):
                    self._rules[strategy, workload] = rule
            return rule

        return registered

    def _by_block(self, workload: QueryMatrix, strategy: QueryMatrix) -> list[Any]:
        """Return the answer for each block of a union, or none if one is unknown."""
        blocks = normal_form(workload).blocks
        answers: list[Any] = []
        if blocks[0][1] is workload:
            return answers
        for weight, block in blocks:
            answer = self(block, strategy) if weight else self._of_zero(block)
            if answer is None:
                return []
            answers.append(float(weight) ** 2 * answer)
        return answers

    def __call__(self, workload: QueryMatrix, strategy: QueryMatrix) -> Any:
        """Return the answer by the nearest rule, else by those for the blocks."""
        load_families()
        for kinds in product(type(strategy).__mro__, type(workload).__mro__):
            if kinds in self._rules:
                answer = self._rules[kinds](workload, strategy)
                if answer is not None:
                    return answer
        if self._combine is not None:
            answers = self._by_block(workload, strategy)
            if answers:
                return self._combine(answers)
        return self._otherwise(workload, strategy)


known_rows = PairQuestion(np.concatenate, lambda block: np.zeros(block.shape[0]))
"""The squared row norms of W A⁺, shape (m,); refuses a pair that is not supported."""


def _sum_of_rows(workload: QueryMatrix, strategy: QueryMatrix) -> float | None:
    rows = known_rows(workload, strategy)
    return None if rows is None else float(rows.sum())


known_gain = PairQuestion(sum, otherwise=_sum_of_rows)
"""‖W A⁺‖_F²; refuses like `known_rows`, whose sum it is."""

missing_attributes = PairQuestion()
"""Subsets of attributes that queries need together and the strategy separates: none
where every query lies in its row space."""
