"""Normalisation of features and targets, from training rows alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steersman.domain.features import FeatureSchema
from steersman.policies.inputs import FeatureScaling

__all__ = ["MIN_FEATURE_SCALE", "MIN_TARGET_SCALE", "TargetScaling", "scale_features", "scale_targets"]

MIN_FEATURE_SCALE = 1e-6  # a feature that varies no more than this is only centred
MIN_TARGET_SCALE = 1e-6


@dataclass(frozen=True, slots=True)
class TargetScaling:
    """Mean and spread of what is to be predicted; both are float32 numbers."""

    mean: float
    scale: float


def scale_features(features: NDArray[np.float32], schema: FeatureSchema) -> FeatureScaling:
    """Return mean and population standard deviation of each feature, computed in float64, kept as float32.

    `features`: [N, D] float32, NaN where missing (left out of both figures). Categorical indicators of `schema`
    keep mean 0 and scale 1. A scale of at most 1e-6 becomes 1. A feature that is nowhere present has mean 0.
    """
    categorical = schema.categorical_mask()
    present = ~np.isnan(features)
    count = np.maximum(present.sum(axis=0), 1)
    mean = np.zeros(features.shape[1])
    variance = np.zeros(features.shape[1])
    for column in range(features.shape[1]):  # column by column: no float64 copy of the whole
        values = features[present[:, column], column].astype(np.float64)
        mean[column] = values.sum() / count[column]
        variance[column] = np.square(values - mean[column]).sum() / count[column]
    scale = np.sqrt(variance)
    still = categorical | (scale <= MIN_FEATURE_SCALE)
    return FeatureScaling.of(
        schema,
        np.where(categorical, 0.0, mean).astype(np.float32),
        np.where(still, 1.0, scale).astype(np.float32),
    )


def scale_targets(gains: NDArray[np.float64], feasible: NDArray[np.bool_]) -> TargetScaling:
    """Return mean and population standard deviation over the feasible entries; the latter at least 1e-6.

    `gains`: [N, A] float64; `feasible`: [N, A] bool.
    """
    values = gains[feasible]
    return TargetScaling(
        float(np.float32(values.mean())), float(np.float32(max(float(values.std()), MIN_TARGET_SCALE)))
    )
