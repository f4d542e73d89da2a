"""Teacher rows as the fit reads them: one array per noun."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema

__all__ = ["Examples"]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """N rows over A actions and D features, grouped into scenes.

    What is to be predicted are the *gains*: the advantages, less the costs where those are weighed in.
    """

    catalogue: ActionCatalogue  # A actions
    schema: FeatureSchema  # D features
    features: NDArray[np.float32]  # [N, D], NaN where a feature is missing
    feasible: NDArray[np.bool_]  # [N, A]
    gains: NDArray[np.float64]  # [N, A], 0 where infeasible
    costs: NDArray[np.float64]  # [N, A], 0 where infeasible
    scenes: NDArray[np.int64]  # [N], index into scene_ids
    scene_ids: tuple[str, ...]  # every scene of the data set, sorted; not all need have rows here

    def __len__(self) -> int:
        """Return the number of rows, N."""
        return len(self.features)

    @property
    def present_scenes(self) -> tuple[str, ...]:
        """The ids of the scenes that have rows here, sorted."""
        return tuple(self.scene_ids[index] for index in np.unique(self.scenes))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Examples:
        """Return the examples at `rows`: indices, or a mask of [N] bool."""
        return replace(
            self,
            features=self.features[rows],
            feasible=self.feasible[rows],
            gains=self.gains[rows],
            costs=self.costs[rows],
            scenes=self.scenes[rows],
        )

    def less_costs(self, weight: float) -> Examples:
        """Return the same rows with `weight` times the costs taken from the gains."""
        return replace(self, gains=self.gains - weight * self.costs) if weight else self

    def of_scenes(self, scene_ids: Iterable[str]) -> NDArray[np.bool_]:
        """Return which rows belong to one of `scene_ids`: [N] bool."""
        wanted = set(scene_ids)
        member = np.array([scene in wanted for scene in self.scene_ids], dtype=bool)
        return member[self.scenes]
