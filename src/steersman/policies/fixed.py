"""Policies that never learn: baselines to compare with, and roll-ins that lead to the states worth a look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.domain.identifiers import check_finite
from steersman.errors import InvalidSpecError
from steersman.policies.arithmetic import draw_uniform, mixture
from steersman.policies.base import Choice, choose_from_greedy

__all__ = ["BaselinePolicy", "FixedActionPolicy", "SeededRandomPolicy", "ThresholdPolicy"]


@dataclass(frozen=True)
class BaselinePolicy(ABC):
    """A policy that plays one of a set of equals and does not explore beyond it."""

    catalogue: ActionCatalogue  # A actions

    kind: ClassVar[str]

    @abstractmethod
    def greedy(self, observation: Any, feasible: Sequence[int]) -> list[int]:
        """Return the places in `feasible` that may be played, each as likely as the others; never none."""

    def action_values(self, observation: Any, feasible: Sequence[int]) -> list[float]:
        """Return 1 for each feasible action that may be played and 0 for the others, [F] float64."""
        greedy = self.greedy(observation, feasible)
        return [float(place in greedy) for place in range(len(feasible))]

    def probabilities(
        self,
        observation: Any,
        feasible: Sequence[int],
        *,
        explore: bool = True,  # noqa: ARG002 - there is nothing to explore for
    ) -> list[float]:
        """Return the exact probability of each feasible action, [F] float64; the same with `explore` or without."""
        return mixture(self.greedy(observation, feasible), len(feasible), 0.0)

    def choose(
        self,
        observation: Any,
        feasible: Sequence[int],
        u: float,
        *,
        explore: bool = True,  # noqa: ARG002 - there is nothing to explore for
    ) -> Choice:
        """Return the action that the draw `u` in [0, 1) falls on; the same with `explore` or without."""
        drawn = choose_from_greedy(self.greedy(observation, feasible), len(feasible), 0.0, u)
        return Choice(feasible[drawn.position], drawn.propensity, drawn.explored)

    @abstractmethod
    def to_payload(self) -> dict[str, Any]:
        """Return the policy as JSON."""

    @classmethod
    @abstractmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described; raise InvalidSpecError when it is none."""


@dataclass(frozen=True)
class FixedActionPolicy(BaselinePolicy):
    """Plays one action whatever it sees, and the first feasible one where that may not be played.

    Raises InvalidSpecError when the action is not in the catalogue.
    """

    action: str

    kind: ClassVar[str] = "fixed_action"

    def __post_init__(self) -> None:
        """Check that the action is in the catalogue."""
        _check_known(self.catalogue, self.action, what="action")

    def greedy(self, observation: Any, feasible: Sequence[int]) -> list[int]:  # noqa: ARG002
        """Return the place of the action in `feasible`, or the first."""
        return [_place_of(self.catalogue, self.action, feasible)]

    def to_payload(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        return {"actions": list(self.catalogue.ids), "action": self.action}

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described; raise InvalidSpecError when it is none."""
        return cls(ActionCatalogue.of(payload["actions"]), payload["action"])


@dataclass(frozen=True)
class ThresholdPolicy(BaselinePolicy):
    """Plays by where one feature lies among ascending edges, and the first feasible action where it may not.

    With K edges there are K + 1 actions, which may repeat: below the first edge, [edge, next edge) between, and
    from the last upward. An observation is a vector in the order of `schema`, or a mapping by name.
    Raises InvalidSpecError when a part does not fit the others.
    """

    schema: FeatureSchema  # D features
    feature: str
    edges: tuple[float, ...]  # [K] float64, strictly ascending
    actions: tuple[str, ...]  # [K + 1] str

    kind: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        """Check how the parts go together."""
        if self.feature not in self.schema.position:
            raise InvalidSpecError(f"feature: expected a name of the feature schema, got {self.feature!r}")
        for index, edge in enumerate(self.edges):
            check_finite(edge, what=f"edges[{index}]")
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise InvalidSpecError(f"edges: expected strictly ascending numbers, got {list(self.edges)}")
        if len(self.actions) != len(self.edges) + 1:
            raise InvalidSpecError(
                f"actions: expected {len(self.edges) + 1} for {len(self.edges)} edges, got {len(self.actions)}"
            )
        for index, action in enumerate(self.actions):
            _check_known(self.catalogue, action, what=f"actions[{index}]")

    def greedy(self, observation: Any, feasible: Sequence[int]) -> list[int]:
        """Return the place in `feasible` of the action for the feature's value, or the first.

        Raises InvalidInputError when the value is missing or no finite number.
        """
        key = self.feature if isinstance(observation, Mapping) else self.schema.position[self.feature]
        value = check_finite(observation[key], what=f"features.{self.feature}")
        return [_place_of(self.catalogue, self.actions[bisect_right(self.edges, value)], feasible)]

    def to_payload(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        return {
            "actions": list(self.catalogue.ids),
            "features": self.schema.to_json(),
            "feature": self.feature,
            "edges": list(self.edges),
            "plays": list(self.actions),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described; raise InvalidSpecError when it is none."""
        return cls(
            ActionCatalogue.of(payload["actions"]),
            FeatureSchema.from_json(payload["features"]),
            payload["feature"],
            tuple(payload["edges"]),
            tuple(payload["plays"]),
        )


@dataclass(frozen=True)
class SeededRandomPolicy(BaselinePolicy):
    """Plays every feasible action with the same probability.

    Its seed makes a roll-in repeatable where there is no tenant whose secret could: see `draw`.
    """

    seed: int

    kind: ClassVar[str] = "seeded_random"

    def greedy(self, observation: Any, feasible: Sequence[int]) -> list[int]:  # noqa: ARG002
        """Return every place in `feasible`."""
        return list(range(len(feasible)))

    def draw(self, name: str) -> float:
        """Return the number in [0, 1) that the seed gives to `name`, such as an episode's and a step's."""
        return draw_uniform(str(self.seed).encode("ascii"), name)

    def to_payload(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        return {"actions": list(self.catalogue.ids), "seed": self.seed}

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described."""
        return cls(ActionCatalogue.of(payload["actions"]), payload["seed"])


def _check_known(catalogue: ActionCatalogue, action: str, *, what: str) -> None:
    if action not in catalogue.position:
        raise InvalidSpecError(f"{what}: expected an id of the catalogue, got {action!r}")


def _place_of(catalogue: ActionCatalogue, action: str, feasible: Sequence[int]) -> int:
    position = catalogue.position[action]
    return feasible.index(position) if position in feasible else 0
