"""From features to the inputs of a fitted policy: missing ones imputed and indicated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidCheckpointError

__all__ = ["FeatureScaling", "input_count", "read_epsilon"]


def input_count(schema: FeatureSchema) -> int:
    """Return the number of inputs: the D features and an indicator for each of the K nullable ones."""
    return len(schema.names) + len(schema.nullable)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureScaling:
    """What is taken from each feature and what the rest is divided by, learned from training rows.

    Inputs are the features, a missing one at its training mean, then an indicator (1 where missing) for each
    nullable feature in schema order; indicators keep mean 0 and scale 1.
    """

    mean: NDArray[np.float32]  # [D]
    scale: NDArray[np.float32]  # [D], above 0
    nullable: NDArray[np.int64]  # [K], positions of the features that may be missing, ascending

    @classmethod
    def of(cls, schema: FeatureSchema, mean: NDArray[np.float32], scale: NDArray[np.float32]) -> Self:
        """Make the scaling of the features of `schema`; raise InvalidCheckpointError for a scale not above 0."""
        if not (scale > 0).all():
            raise InvalidCheckpointError("normalisation.scale: expected numbers above 0")
        return cls(mean, scale, np.flatnonzero(schema.nullable_mask()))

    def impute(self, features: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs of one vector or many, not yet normalised: [..., D] -> [..., D + K]."""
        missing = np.isnan(features)
        filled = np.where(missing, self.mean, features)
        return np.concatenate([filled, missing[..., self.nullable].astype(filled.dtype)], axis=-1)

    def normalise(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the normalised inputs of many rows: [N, D] float32 -> [N, D + K] float32."""
        inputs = self.impute(features) if self.nullable.size else features
        normalised: NDArray[np.float32] = (inputs - self.input_mean(np.float32)) / self.input_scale(
            np.float32
        )
        return normalised

    def input_mean(self, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """Return the mean of each input: [D + K]."""
        return np.concatenate([self.mean, np.zeros(len(self.nullable))]).astype(dtype)

    def input_scale(self, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """Return the scale of each input: [D + K]."""
        return np.concatenate([self.scale, np.ones(len(self.nullable))]).astype(dtype)


def read_epsilon(config: Mapping[str, Any]) -> float:
    """Return the share of uniform choice of a stored policy; raise InvalidCheckpointError when outside [0, 1]."""
    epsilon = config.get("epsilon")
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0.0 <= epsilon <= 1.0:
        raise InvalidCheckpointError(f"policy.epsilon: expected 0 to 1, got {epsilon!r}")
    return float(epsilon)
