"""Normalisation of features and targets, from training rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from steersman.domain.features import FeatureSchema
from steersman.policies.inputs import FeatureScaling, ranked_columns
from steersman.policies.ranks import KNOTS, RankScores

__all__ = [
    "MIN_FEATURE_SCALE",
    "MIN_TARGET_SCALE",
    "TargetScaling",
    "scale_features",
    "scale_targets",
    "score_ranks",
]

MIN_FEATURE_SCALE = 1e-6  # a feature that varies no more than this is only centred
MIN_TARGET_SCALE = 1e-6

_NORMAL = NormalDist()
_BLOCK_ROWS = 2048  # of 75 features in float64 they take a megabyte, which stays in the processor's cache


@dataclass(frozen=True, slots=True)
class TargetScaling:
    """Mean and spread of what is to be predicted; both are float32 numbers."""

    mean: float
    scale: float


def scale_features(
    features: NDArray[np.float32], schema: FeatureSchema, *, ranked: bool = False
) -> FeatureScaling:
    """Return mean and population standard deviation of each feature, computed in float64, kept as float32.

    `features`: [N, D] float32, NaN where missing (left out of both figures). Categorical indicators of `schema`
    keep mean 0 and scale 1. A scale of at most 1e-6 becomes 1. A feature that is nowhere present has mean 0.
    With `ranked`, normal scores of the features stand beside them.
    """
    categorical = schema.categorical_mask()
    mean = _mean_of_present(features, np.zeros(features.shape[1]), power=1)
    scale = np.sqrt(_mean_of_present(features, mean, power=2))
    still = categorical | (scale <= MIN_FEATURE_SCALE)
    return FeatureScaling.of(
        schema,
        np.where(categorical, 0.0, mean).astype(np.float32),
        np.where(still, 1.0, scale).astype(np.float32),
        score_ranks(features, schema) if ranked else None,
    )


def _mean_of_present(
    features: NDArray[np.float32], centre: NDArray[np.float64], *, power: int
) -> NDArray[np.float64]:
    """Return the mean of (x - centre)**power over the values x of each feature that are present, 0 without any: [D].

    Block by block, so that no float64 copy of the whole is made.
    """
    total, count = np.zeros(len(centre)), np.zeros(len(centre), dtype=np.int64)
    for first in range(0, len(features), _BLOCK_ROWS):
        block = features[first : first + _BLOCK_ROWS] - centre  # [n, D] float64
        missing = np.isnan(block)
        block[missing] = 0.0
        total += (block if power == 1 else np.square(block, out=block)).sum(axis=0)
        count += len(block) - np.count_nonzero(missing, axis=0)
    return total / np.maximum(count, 1)


def score_ranks(features: NDArray[np.float32], schema: FeatureSchema) -> RankScores:
    """Return the map from each feature that is no categorical indicator to its normal score.

    A value's score is the normal quantile of its mid-rank, (rows below + half of the rows equal) / rows (van der
    Waerden 1952, with mid-ranks), taken at up to 64 of the values, evenly spaced by rank. Scores have mean 0 and
    standard deviation 1 over the training rows, unless they are all the same.
    """
    columns = ranked_columns(schema)
    knots, scores = np.zeros((2, KNOTS, len(columns)), dtype=np.float32)
    for place, column in enumerate(columns):
        values = features[~np.isnan(features[:, column]), column]
        if not values.size:
            continue
        distinct, equal = np.unique(values, return_counts=True)
        middle = (np.cumsum(equal) - equal / 2.0) / len(values)
        chosen = _spread_out(middle)
        raw = np.array([_NORMAL.inv_cdf(share) for share in middle[chosen]])
        kept, first = np.unique(chosen, return_index=True)
        along = np.interp(values, distinct[kept].astype(np.float64), raw[first])
        spread = float(along.std())
        knots[:, place] = distinct[chosen]
        scores[:, place] = (raw - along.mean()) / (spread if spread > MIN_FEATURE_SCALE else 1.0)
    return RankScores.of(columns, knots, scores)


def _spread_out(middle: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return which of the ascending mid-ranks are knots: 64 positions, the first and the last among them."""
    last = len(middle) - 1
    if last < KNOTS:
        return np.minimum(np.arange(KNOTS), last)
    chosen = np.searchsorted(middle, np.linspace(middle[0], middle[-1], KNOTS)).clip(0, last)
    chosen[0], chosen[-1] = 0, last
    return chosen


def scale_targets(gains: NDArray[np.float64], feasible: NDArray[np.bool_]) -> TargetScaling:
    """Return mean and population standard deviation over the feasible entries; the latter at least 1e-6.

    `gains`: [N, A] float64; `feasible`: [N, A] bool.
    """
    values = gains[feasible]
    return TargetScaling(
        float(np.float32(values.mean())), float(np.float32(max(float(values.std()), MIN_TARGET_SCALE)))
    )
