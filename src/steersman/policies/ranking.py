"""The policy that looks at nothing: it plays the highest feasible action of a fixed ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.policies.fitted import FittedPolicy, Tensors, check_tensors
from steersman.policies.inputs import read_epsilon

__all__ = ["FixedRankingPolicy"]


@dataclass(frozen=True, eq=False, repr=False)
class FixedRankingPolicy(FittedPolicy):
    """One value per action, the same whatever the features are.

    It is what a checkpoint holds when no fit was better than the best fixed action.
    """

    values: NDArray[np.float64]  # [A]

    kind: ClassVar[str] = "fixed_ranking"

    @property
    def declared_work_units(self) -> int:
        """A: each value is looked at once."""
        return len(self.catalogue)

    def evaluate(self, vector: NDArray[np.float64]) -> list[float]:  # noqa: ARG002 - that is the point of it
        """Return the value of every action: [A]."""
        values: list[float] = self.values.tolist()
        return values

    def config(self) -> dict[str, Any]:
        """Return the work of one decision."""
        return {"declared_work_units": self.declared_work_units}

    def order(self) -> tuple[str, ...]:
        """Return the actions, the one that is played first in front; ties go to catalogue order: [A]."""
        return tuple(self.catalogue.ids[position] for position in np.argsort(-self.values, kind="stable"))

    def traits(self) -> dict[str, Any]:
        """Return the action that is played wherever it is feasible, and the config."""
        return {"plays": self.order()[0], **self.config()}

    def tensors(self) -> Tensors:
        """Return the values by name."""
        return {"values": self.values}

    @classmethod
    def from_parts(
        cls, catalogue: ActionCatalogue, schema: FeatureSchema, config: Mapping[str, Any], tensors: Tensors
    ) -> Self:
        """Make the policy whose `config` and `tensors` these are; raise InvalidCheckpointError where they are not."""
        check_tensors(tensors, {"values": ("float64", (len(catalogue),))})
        policy = cls(catalogue, schema, tensors["values"], epsilon=read_epsilon(config))
        policy.check_config(config)
        return policy
