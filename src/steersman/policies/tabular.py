"""A table of action values per state, explored with UCB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import SeenRow
from steersman.domain.settings import PolicySettings
from steersman.policies.arithmetic import (
    draw_uniform,
    greedy_by_ucb,
    greedy_by_value,
    mixture,
    q_update,
    step_size,
)
from steersman.policies.base import Choice, choose_from_greedy

__all__ = ["QTable", "StateRow", "UCBQTablePolicy", "choose_in_row", "greedy_in_row", "opening_row"]


def greedy_in_row(row: SeenRow | StateRow, settings: PolicySettings, *, explore: bool) -> list[int]:
    """Return the greedy set of `row` as positions within it: by UCB score, or by q without exploration."""
    if explore:
        return greedy_by_ucb(row.q, row.visits, row.borrowed, settings.c * settings.width)
    return greedy_by_value(row.q, row.updates, row.borrowed)


def choose_in_row(row: SeenRow | StateRow, settings: PolicySettings, u: float, *, explore: bool) -> Choice:
    """Return the choice that the draw `u` in [0, 1) falls on; its position is within the row."""
    greedy = greedy_in_row(row, settings, explore=explore)
    return choose_from_greedy(greedy, len(row.q), settings.epsilon if explore else 0.0, u)


@dataclass(slots=True)
class StateRow:
    """The cells of one state over the whole catalogue; lists of [A]."""

    q: list[float]
    visits: list[int]
    updates: list[int]
    borrowed: list[float]


def opening_row(catalogue: ActionCatalogue, settings: PolicySettings) -> StateRow:
    """Return the cells of a state that nothing is known of: the priors, or 0."""
    size = len(catalogue)
    row = StateRow([0.0] * size, [0] * size, [0] * size, [0.0] * size)
    for action, prior in settings.priors:
        position = catalogue.position[action]
        row.q[position], row.borrowed[position] = prior.q, prior.weight
    return row


@dataclass(slots=True)
class QTable:
    """Rows by state index; a state without a row is as it opened."""

    rows: dict[int, StateRow] = field(default_factory=dict)


@dataclass(slots=True)
class UCBQTablePolicy:
    """Q-learning over a table with UCB exploration and an epsilon mixture, in memory."""

    catalogue: ActionCatalogue
    settings: PolicySettings = field(default_factory=PolicySettings)
    table: QTable = field(default_factory=QTable, repr=False)  # it would fill pages

    kind: ClassVar[str] = "ucb_q_table"

    def row(self, state: int) -> StateRow:
        """Return the row of `state`, as it opened when nothing was recorded there."""
        row = self.table.rows.get(state)
        return opening_row(self.catalogue, self.settings) if row is None else row

    def seen(self, state: int, feasible: Sequence[int]) -> StateRow:
        """Return the cells of the feasible positions of `state`: its row itself when that is all of them."""
        row = self.row(state)
        if len(feasible) == len(self.catalogue.ids):
            return row
        return StateRow(
            [row.q[i] for i in feasible],
            [row.visits[i] for i in feasible],
            [row.updates[i] for i in feasible],
            [row.borrowed[i] for i in feasible],
        )

    def action_values(self, observation: int, feasible: Sequence[int]) -> list[float]:
        """Return q of each feasible action, [F] float64."""
        return list(self.seen(observation, feasible).q)

    def probabilities(
        self, observation: int, feasible: Sequence[int], *, explore: bool = True
    ) -> list[float]:
        """Return the exact probability of each feasible action, [F] float64."""
        greedy = greedy_in_row(self.seen(observation, feasible), self.settings, explore=explore)
        return mixture(greedy, len(feasible), self.settings.epsilon if explore else 0.0)

    def choose(self, observation: int, feasible: Sequence[int], u: float, *, explore: bool = True) -> Choice:
        """Return the action that the draw `u` in [0, 1) falls on."""
        choice = choose_in_row(self.seen(observation, feasible), self.settings, u, explore=explore)
        position = feasible[choice.position]
        return choice if position == choice.position else replace(choice, position=position)

    def decide(self, secret: bytes, decision_id: str, state: int, feasible: Sequence[int]) -> Choice:
        """Choose by the draw of `decision_id` and count the visit."""
        choice = self.choose(state, feasible, draw_uniform(secret, decision_id))
        self.table.rows.setdefault(state, self.row(state)).visits[choice.position] += 1
        return choice

    def learn(self, state: int, position: int, target: float) -> None:
        """Move q of one cell toward `target` by the step size of the settings."""
        row = self.table.rows.setdefault(state, self.row(state))
        row.updates[position] += 1
        size = step_size(self.settings.alpha, row.borrowed[position], row.updates[position])
        row.q[position] = q_update(row.q[position], target, size)

    def to_payload(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        return {
            "actions": list(self.catalogue.ids),
            "settings": self.settings.to_json(),
            "rows": {
                str(state): [row.q, row.visits, row.updates, row.borrowed]
                for state, row in sorted(self.table.rows.items())
            },
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described."""
        rows = {
            int(state): StateRow(*(list(column) for column in row)) for state, row in payload["rows"].items()
        }
        settings = PolicySettings.from_json(payload["settings"])
        return cls(ActionCatalogue.of(payload["actions"]), settings, QTable(rows))
