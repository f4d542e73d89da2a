"""Intervals of means and ratios over scenes: a studentised bootstrap with scenes as the units.

Shapes: S scenes, K ratios of two sums over scenes. A mean over rows is such a ratio: the sum of a scene's values over
its number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

__all__ = ["BOOTSTRAP_DRAWS", "Interval", "ratio_intervals"]

BOOTSTRAP_DRAWS = 4000
_TAIL = 0.025
_LEAST_ERROR = (
    0.1  # of the standard error: that of a draw counts as no less, or draws of few scenes would rule
)
_BLOCK_CELLS = 1_000_000  # numbers drawn at a time: memory stays small however many scenes there are

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float


def ratio_intervals(
    tops: _Floats, bottoms: _Floats, *, draws: int, generator: np.random.Generator
) -> tuple[Interval, ...]:
    """Return the 95 % interval of each sum(tops) / sum(bottoms) over scenes: [S, K] and [S, K], for all of the K.

    Scenes are drawn with replacement, and all ratios see the same draws, so that what was paired stays paired. The
    draws are studentised (bootstrap-t: Efron and Tibshirani 1993, section 12.5; the standard error of a ratio by
    linearisation: Cochran 1977, section 6.4), because regrets are skewed and percentiles of the draws alone are then
    too near on the side of the long tail. With heavy tails on both sides it is Student's interval that is wider: of
    the two the wider end counts on either side. `bottoms` are at least 0, with sums above 0.
    """
    scenes = len(tops)
    total = bottoms.sum(axis=0)  # [K]
    ratio = tops.sum(axis=0) / total
    rest = tops - ratio * bottoms  # [S, K]; the sum over scenes is 0
    error = np.sqrt(np.square(rest).sum(axis=0) * scenes / (scenes - 1)) / total
    parts = np.concatenate([bottoms, rest, rest * rest, rest * bottoms, bottoms * bottoms], axis=1)  # [S, 5K]
    drawn = _draw_sums(parts, draws, generator).reshape(draws, 5, -1)
    intervals = []
    for index in range(len(ratio)):
        below, ends = float(stdtrit(scenes - 1, _TAIL)), np.zeros(2)
        if error[index] > 0.0:
            ends = _studentised_ends(drawn[:, :, index], scenes, float(error[index]))
        low = ratio[index] - max(float(ends[1]), -below) * error[index]
        high = ratio[index] - min(float(ends[0]), below) * error[index]
        intervals.append(Interval(float(low), float(high)))
    return tuple(intervals)


def _draw_sums(parts: _Floats, draws: int, generator: np.random.Generator) -> _Floats:
    """Return the sums of `parts` ([S, P]) over scenes drawn with replacement: [draws, P]."""
    scenes = len(parts)
    share = np.full(scenes, 1.0 / scenes)
    block = max(1, _BLOCK_CELLS // scenes)
    sums = np.empty((draws, parts.shape[1]))
    for first in range(0, draws, block):
        times = generator.multinomial(scenes, share, size=min(block, draws - first))
        sums[first : first + len(times)] = times @ parts
    return sums


def _studentised_ends(drawn: _Floats, scenes: int, error: float) -> _Floats:
    """Return both tails' quantiles of (drawn ratio - ratio) / standard error within the draw: [2].

    `drawn`: [draws, 5], the sums in the order of `ratio_intervals`. Draws in which nothing is below the line of the
    ratio have no ratio, and are left out.
    """
    bottom, rest, rest_squared, rest_bottom, bottom_squared = drawn[drawn[:, 0] > 0.0].T
    shift = rest / bottom
    squares = rest_squared - 2.0 * shift * rest_bottom + shift * shift * bottom_squared
    errors = np.sqrt(np.maximum(squares, 0.0) * scenes / (scenes - 1)) / bottom
    quantiles: _Floats = np.quantile(shift / np.maximum(errors, _LEAST_ERROR * error), [_TAIL, 1.0 - _TAIL])
    return quantiles
