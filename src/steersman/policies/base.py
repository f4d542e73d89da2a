"""The contract that every policy keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from steersman.domain.catalogue import ActionCatalogue
from steersman.policies.arithmetic import draw_from_mixture

__all__ = ["Choice", "Policy", "choose_from_greedy"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One action drawn by a policy, with the exact probability that it had."""

    position: int  # in the catalogue
    propensity: float
    explored: bool  # whether the action is outside the greedy set


def choose_from_greedy(greedy: Sequence[int], size: int, epsilon: float, u: float) -> Choice:
    """Return the choice among `size` positions that `u` in [0, 1) falls on, under the epsilon mixture.

    Every policy plays a mixture around its greedy set, so that every logged probability is exact.
    """
    position = draw_from_mixture(greedy, size, epsilon, u)
    share = epsilon / size
    if position in greedy:
        return Choice(position, (1.0 - epsilon) / len(greedy) + share, explored=False)
    return Choice(position, share, explored=True)


class Policy(Protocol):
    """From an observation and the feasible positions to values, probabilities and a choice.

    The observation is a state index for tabular policies and a feature vector for fitted ones. `feasible` holds
    catalogue positions in ascending order, never none; results about actions are aligned with it ([F] float64).
    """

    kind: ClassVar[str]

    @property
    def catalogue(self) -> ActionCatalogue:
        """The actions that it chooses among."""
        ...

    def action_values(self, observation: Any, feasible: Sequence[int]) -> list[float]:
        """Return the value of each feasible action."""
        ...

    def probabilities(
        self, observation: Any, feasible: Sequence[int], *, explore: bool = True
    ) -> list[float]:
        """Return the probability of each feasible action; they sum to one."""
        ...

    def choose(self, observation: Any, feasible: Sequence[int], u: float, *, explore: bool = True) -> Choice:
        """Return the action that the draw `u` in [0, 1) falls on, with its probability."""
        ...

    def to_payload(self) -> dict[str, Any]:
        """Return all that `from_payload` needs to make an equal policy, as JSON."""
        ...

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described."""
        ...
