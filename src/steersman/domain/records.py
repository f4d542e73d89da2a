"""The records that cross modules: what was decided, what came of it, what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.settings import PolicySettings
from steersman.domain.states import State, StateSpace

__all__ = [
    "Cell",
    "CellKey",
    "CloseRequest",
    "ClosedEpisode",
    "DecideRequest",
    "Decision",
    "LearningStep",
    "PolicyVersion",
    "Reward",
    "RewardRequest",
    "SeenRow",
]


@dataclass(frozen=True, slots=True)
class SeenRow:
    """The cells of the feasible actions of one state, in catalogue order, as a decision saw them."""

    q: tuple[float, ...]  # [F] float64
    visits: tuple[int, ...]  # [F] int, times chosen
    updates: tuple[int, ...]  # [F] int, times learned from
    borrowed: tuple[float, ...]  # [F] float64, evidence the cell started with


@dataclass(frozen=True, slots=True)
class DecideRequest:
    """A request for one action.

    `feasible` None means every action; `reasons` says of actions left out why they may not be played now.
    `decision_id` None lets Steersman name the decision; an id of the caller's makes a retry safe.
    """

    tenant: str
    state: State
    feasible: Sequence[str | int] | None = None
    episode: str | None = None
    decision_id: str | None = None
    explore: bool = True
    metadata: Mapping[str, Any] | None = None
    reasons: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice, with all that is needed to recompute why it was made."""

    tenant: str
    decision_id: str
    version: int
    state: int
    action: str
    propensity: float  # the probability with which the action was chosen
    explored: bool  # whether the action is outside the greedy set
    explore: bool  # what the caller asked for
    epsilon: float  # the mixture that was played: 0 without exploration
    c: float  # the exploration constant that was played
    feasible: tuple[str, ...]  # [F] str, catalogue order
    seen: SeenRow  # of the feasible actions
    episode: str | None = None
    step: int | None = None  # position in its episode, from 0
    metadata: Mapping[str, Any] | None = None
    reasons: Mapping[str, str] | None = None
    created_at: int = 0  # microseconds since 1970, UTC
    status: str = "open"  # open, learned or void


@dataclass(frozen=True, slots=True)
class RewardRequest:
    """A reward to record; `reward_id` None means the decision's own id."""

    tenant: str
    decision_id: str
    value: float
    reward_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reward:
    """What came of a decision, and what it did: `learned`, `waits`, `further` or `parked`."""

    tenant: str
    reward_id: str
    decision_id: str
    value: float
    effect: str
    kind: str = "reward"  # or default
    created_at: int = 0  # microseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """A request to close an episode, with its outcome if there is one."""

    tenant: str
    episode: str
    outcome: float | None = None


@dataclass(frozen=True, slots=True)
class ClosedEpisode:
    """A closed episode: its outcome, how many decisions it holds, how many were learned from at the close."""

    tenant: str
    episode: str
    outcome: float | None
    decisions: int
    learned: int
    kind: str = "close"  # or default
    closed_at: int = 0  # microseconds since 1970, UTC


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """Where a cell is, within its tenant."""

    version: int
    state: int
    action: str


@dataclass(frozen=True, slots=True)
class Cell:
    """(version, state, action) → what is known of it."""

    key: CellKey
    q: float
    visits: int  # times chosen
    updates: int  # times learned from
    borrowed: float  # evidence it started with


@dataclass(frozen=True, slots=True)
class LearningStep:
    """One change of one q, numbered within its cell from 1: q += step_size * (target - q).

    kind `update` counts as an update, with target = reward + discount * bootstrap; kind `further` does not
    count and adds step_size * reward to q instead.
    """

    tenant: str
    key: CellKey
    number: int
    decision_id: str
    kind: str
    reward: float
    discount: float  # gamma as it was when the step was taken
    bootstrap: float  # the value that the return continues with; 0 beyond a terminal step
    target: float
    step_size: float
    created_at: int = 0  # microseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """One policy with its lineage. `number` counts up within the tenant."""

    tenant: str
    number: int
    kind: str
    status: str  # active, superseded or frozen
    name: str | None
    states: StateSpace
    actions: ActionCatalogue
    settings: PolicySettings
    parent: int | None
    origin: str  # empty, warm_start, migrated, imported or restored
    provenance: Mapping[str, Any] = field(default_factory=dict)
    created_at: int = 0  # microseconds since 1970, UTC
