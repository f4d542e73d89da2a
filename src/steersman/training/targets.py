"""What a learner is asked to predict: shapes of the gains that keep their order within a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steersman.training.examples import Examples
from steersman.training.normalise import TargetScaling

__all__ = ["SHAPES", "log_shortfalls", "normalise_targets", "row_ranks", "shaped_gains", "shapes_of"]

SHAPES = ("gain", "log", "rank")

_Floats = NDArray[np.float64]
_Mask = NDArray[np.bool_]


def row_ranks(gains: _Floats, feasible: _Mask) -> _Floats:
    """Return the rank of each feasible gain within its row, from -1 (least) to 1 (largest): [N, A].

    It is the share of the other feasible actions that are worse less the share that are better, so ties have
    their mean rank; 0 where infeasible or alone.
    """
    others = np.maximum(feasible.sum(axis=1, keepdims=True) - 1, 1)
    ranks = np.zeros(gains.shape)
    for position in range(gains.shape[1]):
        ahead = np.sign(gains - gains[:, [position]])  # [N, A], 1 where another is better
        ranks[:, position] = -np.where(feasible, ahead, 0.0).sum(axis=1)
    return np.where(feasible, ranks / others, 0.0)


def log_shortfalls(gains: _Floats, feasible: _Mask) -> _Floats:
    """Return -ln(1 + s / m) of each feasible gain, s what it falls short of the row's best by: [N, A].

    m is the median of all shortfalls above 0, so small differences count in full and a disaster, however large,
    no more than it must. 0 where infeasible.
    """
    best = np.max(np.where(feasible, gains, -np.inf), axis=1, keepdims=True)
    short = np.where(feasible, best - gains, 0.0)
    positive = short[short > 0.0]
    median = float(np.median(positive)) if positive.size else 1.0
    return -np.log1p(short / median)


def shaped_gains(examples: Examples, shape: str) -> _Floats:
    """Return the gains of `examples` in `shape`, not yet normalised: [N, A]; infeasible entries mean nothing."""
    if shape == "gain":
        return examples.gains
    return (row_ranks if shape == "rank" else log_shortfalls)(examples.gains, examples.feasible)


def normalise_targets(shaped: _Floats, feasible: _Mask, scaling: TargetScaling) -> _Floats:
    """Return shaped gains in units of `scaling`, 0 where infeasible: [N, A]."""
    return np.where(feasible, (shaped - scaling.mean) / scaling.scale, 0.0)


def shapes_of(loss: str) -> tuple[str, ...]:
    """Return the shapes that learners with `loss` are fitted to; of several, the values are averaged."""
    return {"squared": ("gain",), "pairwise": ("gain",), "mixed": SHAPES}.get(loss, (loss,))
