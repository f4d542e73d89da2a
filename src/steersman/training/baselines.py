"""What a policy must beat: fixed actions, uniform random, and the oracle that nobody can beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steersman.training.examples import Examples
from steersman.training.metrics import choices, regrets

__all__ = ["Outcomes", "Ranking", "outcomes_of_choices", "outcomes_of_uniform", "rank_actions"]


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What a way of choosing came to, row by row."""

    regrets: NDArray[np.float64]  # [N]
    costs: NDArray[np.float64]  # [N]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The actions by their mean gain over the training rows where they are feasible."""

    values: NDArray[np.float64]  # [A]; an action that was never feasible stands below all others

    @property
    def best(self) -> int:
        """The position of the first action; ties go to catalogue order."""
        return int(np.argmax(self.values))

    def choose(self, feasible: NDArray[np.bool_], action: int) -> NDArray[np.int64]:
        """Return `action` where it is feasible, elsewhere the highest feasible: [N, A] -> [N] positions."""
        highest = choices(self.values, feasible)
        return np.where(feasible[:, action], action, highest)


def rank_actions(examples: Examples) -> Ranking:
    """Return the ranking of the actions on `examples`."""
    count = examples.feasible.sum(axis=0)
    means = np.where(examples.feasible, examples.gains, 0.0).sum(axis=0) / np.maximum(count, 1)
    return Ranking(np.where(count > 0, means, means.min() - 1.0))


def outcomes_of_choices(examples: Examples, chosen: NDArray[np.int64]) -> Outcomes:
    """Return what playing the positions `chosen` ([N]) comes to."""
    rows = np.arange(len(examples))
    return Outcomes(regrets(examples.gains, examples.feasible, chosen), examples.costs[rows, chosen])


def outcomes_of_uniform(examples: Examples) -> Outcomes:
    """Return the exact expectation of playing each feasible action with the same probability."""
    count = examples.feasible.sum(axis=1)
    best = np.max(np.where(examples.feasible, examples.gains, -np.inf), axis=1)
    mean = np.where(examples.feasible, examples.gains, 0.0).sum(axis=1) / count
    return Outcomes(best - mean, np.where(examples.feasible, examples.costs, 0.0).sum(axis=1) / count)
