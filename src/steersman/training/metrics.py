"""How good choices are on rows where every feasible action was tried: pure functions on arrays.

Shapes: N rows, A actions. Gains of infeasible actions are never read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from steersman.training.examples import Examples

__all__ = [
    "ChoiceMetrics",
    "choice_metrics",
    "choices",
    "near_tie_coverage",
    "regrets",
    "spreads",
    "squared_errors",
]

_Floats = NDArray[np.float64]
_Mask = NDArray[np.bool_]


def choices(values: _Floats, feasible: _Mask) -> NDArray[np.int64]:
    """Return the position of the largest feasible value of each row, ties to the first: [N] int64.

    `values`: [N, A] or [A] for all rows alike; `feasible`: [N, A].
    """
    chosen: NDArray[np.int64] = np.argmax(np.where(feasible, values, -np.inf), axis=1)
    return chosen


def regrets(gains: _Floats, feasible: _Mask, chosen: NDArray[np.int64]) -> _Floats:
    """Return the best feasible gain less that of the chosen action, per row: [N] float64, at least 0."""
    best: _Floats = np.max(np.where(feasible, gains, -np.inf), axis=1)
    return best - gains[np.arange(len(gains)), chosen]


def spreads(gains: _Floats, feasible: _Mask) -> _Floats:
    """Return the largest less the smallest feasible gain, per row: [N] float64."""
    largest: _Floats = np.max(np.where(feasible, gains, -np.inf), axis=1)
    smallest: _Floats = np.min(np.where(feasible, gains, np.inf), axis=1)
    return largest - smallest


def squared_errors(values: _Floats, targets: _Floats, feasible: _Mask) -> _Floats:
    """Return the mean squared error over the feasible actions of each row: [N] float64.

    `values` and `targets`: [N, A], in the same units.
    """
    errors = np.where(feasible, np.square(values - targets), 0.0)
    result: _Floats = errors.sum(axis=1) / feasible.sum(axis=1)
    return result


def near_tie_coverage(examples: Examples, tie_tolerance: float) -> float | None:
    """Return the share of rows whose spread is at most `tie_tolerance`: there the choice hardly matters."""
    if not len(examples):
        return None
    return float(np.mean(spreads(examples.gains, examples.feasible) <= tie_tolerance))


@dataclass(frozen=True, slots=True)
class ChoiceMetrics:
    """What a policy is worth on rows that it was not fitted to; None where there is no such row."""

    row_count: int
    scene_count: int
    loss: float | None = (
        None  # mean over rows of the mean squared normalised error; None without such a meaning
    )
    regret: float | None = None  # mean, in units of the gains
    top_accuracy: float | None = None  # share of rows whose choice is within the tolerance of the best
    near_tie_coverage: float | None = None
    mean_cost: float | None = None  # of the chosen actions

    def to_json(self) -> dict[str, float | int | None]:
        """Return the metrics as a flat JSON object."""
        return asdict(self)


def choice_metrics(
    values: _Floats,
    examples: Examples,
    *,
    target_mean: float,
    target_scale: float,
    tie_tolerance: float,
    predicts: bool,
) -> ChoiceMetrics:
    """Return the metrics of choosing by `values` ([N, A], normalised) on `examples`.

    `predicts` says whether values estimate the normalised gains, so that a loss has a meaning.
    """
    if not len(examples):
        return ChoiceMetrics(0, 0)
    chosen = choices(values, examples.feasible)
    lost = regrets(examples.gains, examples.feasible, chosen)
    targets = (examples.gains - target_mean) / target_scale
    return ChoiceMetrics(
        row_count=len(examples),
        scene_count=len(np.unique(examples.scenes)),
        loss=float(np.mean(squared_errors(values, targets, examples.feasible))) if predicts else None,
        regret=float(np.mean(lost)),
        top_accuracy=float(np.mean(lost <= tie_tolerance)),
        near_tie_coverage=near_tie_coverage(examples, tie_tolerance),
        mean_cost=float(np.mean(examples.costs[np.arange(len(examples)), chosen])),
    )
