"""Normal scores of features: where a number stands among those of the training rows, whatever their scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidCheckpointError

__all__ = ["KNOTS", "RankScores"]

KNOTS = 64

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RankScores:
    """A piecewise linear map for each of R features: from knots, ascending, to normalised scores.

    Outside its knots a feature has the score of the nearest one. Knots that repeat count once.
    """

    columns: NDArray[np.int64]  # [R], positions of the features
    knots: NDArray[np.float32]  # [Q, R]
    scores: NDArray[np.float32]  # [Q, R]
    _low: _Floats = field(init=False, repr=False)  # [Q, R]
    _width: _Floats = field(init=False, repr=False)  # [Q - 1, R]
    _slope: _Floats = field(init=False, repr=False)  # [Q - 1, R]
    _every: NDArray[np.int64] = field(init=False, repr=False)  # [R]

    def __post_init__(self) -> None:
        """Prepare the slope of each piece."""
        low, scores = self.knots.astype(np.float64), self.scores.astype(np.float64)
        width = np.diff(low, axis=0)
        slope = np.divide(np.diff(scores, axis=0), width, out=np.zeros_like(width), where=width > 0.0)
        for name, value in (("_low", low), ("_width", width), ("_slope", slope)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_every", np.arange(len(self.columns)))

    @classmethod
    def of(cls, columns: NDArray[np.int64], knots: NDArray[np.float32], scores: NDArray[np.float32]) -> Self:
        """Make the map; raise InvalidCheckpointError for knots that do not ascend."""
        if (np.diff(knots, axis=0) < 0.0).any():
            raise InvalidCheckpointError("normalisation.knots: expected ascending numbers for each feature")
        return cls(columns, knots, scores)

    def of_vector(self, vector: _Floats) -> _Floats:
        """Return the scores of one feature vector, [D] -> [R]; 0 for a missing feature."""
        values = vector[self.columns]
        piece = (values >= self._low).sum(axis=0) - 1
        return self._on_pieces(values, piece, self._every)

    def of_rows(self, features: NDArray[np.float32]) -> _Floats:
        """Return the scores of many rows, [N, D] -> [N, R], equal to those of `of_vector`."""
        found = np.empty((len(features), len(self.columns)))
        for place, column in enumerate(self.columns):
            values = features[:, column].astype(np.float64)
            piece = np.searchsorted(self._low[:, place], values, side="right") - 1
            found[:, place] = self._on_pieces(values, piece, np.intp(place))
        return found

    def _on_pieces(
        self, values: _Floats, piece: NDArray[np.int64], place: NDArray[np.int64] | np.intp
    ) -> _Floats:
        piece = piece.clip(0, len(self._width) - 1)
        along = (values - self._low[piece, place]).clip(0.0, self._width[piece, place])
        scores: _Floats = self.scores[piece, place] + along * self._slope[piece, place]
        return np.where(np.isnan(values), 0.0, scores)
