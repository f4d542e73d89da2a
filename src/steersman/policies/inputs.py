"""From features to the inputs of a fitted policy: missing ones imputed and indicated, ranks beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidCheckpointError
from steersman.policies.ranks import RankScores

__all__ = ["FeatureScaling", "input_count", "ranked_columns", "read_epsilon"]


def ranked_columns(schema: FeatureSchema) -> NDArray[np.int64]:
    """Return the positions of the R features that ranked inputs score: all but categorical indicators."""
    return np.flatnonzero(~schema.categorical_mask())


def input_count(schema: FeatureSchema, *, ranked: bool = False) -> int:
    """Return the number of inputs: D features, R scores if `ranked`, an indicator for each of K nullable ones."""
    return len(schema) + (len(ranked_columns(schema)) if ranked else 0) + len(schema.nullable)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureScaling:
    """What is taken from each feature and what the rest is divided by, learned from training rows.

    Inputs are the features, a missing one at its training mean; the normal scores of the features if `ranks` are
    there; and an indicator (1 where missing) for each nullable feature in schema order. Scores are normalised
    already, and indicators are left alone.
    """

    mean: NDArray[np.float32]  # [D]
    scale: NDArray[np.float32]  # [D], above 0
    nullable: NDArray[np.int64]  # [K], positions of the features that may be missing, ascending
    ranks: RankScores | None = None

    @classmethod
    def of(
        cls,
        schema: FeatureSchema,
        mean: NDArray[np.float32],
        scale: NDArray[np.float32],
        ranks: RankScores | None = None,
    ) -> Self:
        """Make the scaling of the features of `schema`; raise InvalidCheckpointError for a scale not above 0."""
        if not (scale > 0).all():
            raise InvalidCheckpointError("normalisation.scale: expected numbers above 0")
        return cls(mean, scale, np.flatnonzero(schema.nullable_mask()), ranks)

    @property
    def plain(self) -> bool:
        """Whether the inputs are just the features."""
        return self.ranks is None and not self.nullable.size

    def inputs_of_vector(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inputs of one vector, not yet normalised: [D] -> [D + R + K]."""
        return self._joined(vector, None if self.ranks is None else self.ranks.of_vector(vector))

    def inputs_of_rows(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inputs of many rows, not yet normalised: [N, D] float32 -> [N, D + R + K] float32."""
        if self.plain:
            return features
        scores = None if self.ranks is None else self.ranks.of_rows(features).astype(np.float32)
        return self._joined(features, scores)

    def normalise(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the normalised inputs of many rows: [N, D] float32 -> [N, D + R + K] float32."""
        normalised: NDArray[np.float32] = self.inputs_of_rows(features) - self.input_mean(np.float32)
        normalised /= self.input_scale(np.float32)  # in place: the rows may be most of the memory
        return normalised

    def input_mean(self, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """Return the mean of each input: [D + R + K]."""
        return np.concatenate([self.mean, np.zeros(self._further)]).astype(dtype)

    def input_scale(self, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """Return the scale of each input: [D + R + K]."""
        return np.concatenate([self.scale, np.ones(self._further)]).astype(dtype)

    @property
    def _further(self) -> int:
        return (0 if self.ranks is None else len(self.ranks.columns)) + len(self.nullable)

    def _joined(self, features: NDArray[Any], scores: NDArray[Any] | None) -> NDArray[Any]:
        missing = np.isnan(features)
        filled = np.where(missing, self.mean, features)
        indicators = missing[..., self.nullable].astype(filled.dtype)
        parts = [filled, indicators] if scores is None else [filled, scores, indicators]
        return np.concatenate(parts, axis=-1)


def read_epsilon(config: Mapping[str, Any]) -> float:
    """Return the share of uniform choice of a stored policy; raise InvalidCheckpointError when outside [0, 1]."""
    epsilon = config.get("epsilon")
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0.0 <= epsilon <= 1.0:
        raise InvalidCheckpointError(f"policy.epsilon: expected 0 to 1, got {epsilon!r}")
    return float(epsilon)
