"""One side of a domain: its outcomes and what each is worth to it, as tables that cards read quickly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from negmas.outcomes import DiscreteCartesianOutcomeSpace
from negmas.preferences import BaseUtilityFunction
from numpy.typing import NDArray

from steersman.errors import InvalidInputError

__all__ = ["TOLERANCE", "Outcome", "Side"]

Outcome = tuple[Any, ...]
"""A value for each issue."""

TOLERANCE = 1e-9
"""Utilities that differ by less are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What one party wants. Outcomes are known by position: O of them over I issues."""

    function: BaseUtilityFunction  # NegMAS's own, in raw units, with the reserved value set
    outcomes: tuple[Outcome, ...]  # [O]
    position: Mapping[Outcome, int]
    utility: tuple[float, ...]  # [O] float64, 0 for walking away and 1 for the best outcome
    ascending: tuple[int, ...]  # [O] int, positions by utility, ties in the order of the domain
    levels: tuple[float, ...]  # [O] float64, utilities in that order
    places: NDArray[np.float64]  # [O, I] float64, where each value lies within its issue
    ordered: NDArray[np.bool_]  # [I] bool, whether an issue's values are numbers

    @classmethod
    def of(cls, function: BaseUtilityFunction, space: DiscreteCartesianOutcomeSpace) -> Side:
        """Tabulate `function` over every outcome of `space`.

        A utility is scaled as (raw - reserved) / (best - reserved), so that walking away is 0 and an outcome
        that is worse than that is negative. A function without a finite reserved value makes walking away as bad
        as the worst outcome. Raises InvalidInputError when issues are not discrete, or no outcome beats walking
        away.
        """
        if not isinstance(space, DiscreteCartesianOutcomeSpace):
            raise InvalidInputError(f"expected discrete issues, got {space!r}")
        outcomes = tuple(space.enumerate())
        raw = np.array([float(function(outcome)) for outcome in outcomes])
        reserved = float(function.reserved_value)
        if not np.isfinite(reserved):
            reserved = float(raw.min())
        if not (np.isfinite(raw).all() and raw.max() - reserved > TOLERANCE):
            raise InvalidInputError(
                f"expected finite utilities, some above walking away ({reserved:g}); the best is {raw.max():g}"
            )
        utility = (raw - reserved) / (raw.max() - reserved)
        ascending = np.argsort(utility, kind="stable")
        places, ordered = _places(outcomes, [list(issue.all) for issue in space.issues])
        return cls(
            function=function,
            outcomes=outcomes,
            position={outcome: index for index, outcome in enumerate(outcomes)},
            utility=tuple(utility.tolist()),
            ascending=tuple(ascending.tolist()),
            levels=tuple(utility[ascending].tolist()),
            places=places,
            ordered=ordered,
        )

    def cheapest(self, target: float) -> int:
        """Return the outcome that is worth the least, yet at least `target`; the best one when none is."""
        return self.ascending[min(bisect_left(self.levels, target - TOLERANCE), len(self.levels) - 1)]

    def nearest(self, target: float, wanted: int, *, band: float) -> int:
        """Return, of the outcomes worth `target` to `target + band`, the one most like the outcome `wanted`.

        The distance of two outcomes is summed over issues: of numbers, their difference as a share of the
        issue's range; of names, 1 when they differ. Where nothing is worth so little, the band starts at the
        next level above. Ties go to what is worth least.
        """
        low = min(bisect_left(self.levels, target - TOLERANCE), len(self.levels) - 1)
        high = bisect_left(self.levels, max(target, self.levels[low]) + band + TOLERANCE)
        candidates = np.array(self.ascending[low:high])
        apart = self.places[candidates] - self.places[wanted]
        distance = np.where(self.ordered, np.abs(apart), apart != 0.0).sum(axis=1)
        return int(candidates[np.argmin(distance)])


def _places(
    outcomes: Sequence[Outcome], values: Sequence[Sequence[Any]]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    columns, ordered = [], []
    for issue, known in enumerate(values):
        numeric = all(isinstance(value, (int, float)) for value in known)
        if numeric:
            low, high = float(min(known)), float(max(known))
            place = {value: (value - low) / max(high - low, TOLERANCE) for value in known}
        else:
            place = {value: float(index) for index, value in enumerate(known)}
        columns.append([place[outcome[issue]] for outcome in outcomes])
        ordered.append(numeric)
    return np.array(columns, dtype=np.float64).T, np.array(ordered, dtype=np.bool_)
