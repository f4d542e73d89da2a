"""A tenant to test with: plays the action it is told to, and reads back what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from steersman.domain.records import Cell, CellKey, ClosedEpisode, Decision, LearningStep, Reward
from steersman.library import Steersman
from steersman.store.cells import state_cells
from steersman.store.steps import step_of
from steersman.store.tables import metadata

__all__ = ["Company"]


@dataclass(frozen=True, slots=True)
class Company:
    """A tenant of two actions and two plain states, unless declared otherwise."""

    library: Steersman
    name: str

    @classmethod
    def found(cls, library: Steersman, **declaration: Any) -> Company:
        """Create a tenant with a name of its own."""
        name = f"company-{uuid4().hex}"
        library.create_tenant(name, {"actions": ["hold", "trade"], "states": 2} | declaration)
        return cls(library, name)

    def decide(self, state: int | Mapping[str, Any] = 0, **options: Any) -> Decision:
        """Return a decision in `state`."""
        return self.library.decide(self.name, state, **options)

    def play(self, action: str, state: int | Mapping[str, Any] = 0, **options: Any) -> Decision:
        """Return a decision for which `action` alone was feasible."""
        return self.library.decide(self.name, state, feasible=[action], **options)

    def reward(self, decision: Decision | str, value: float, *, reward_id: str | None = None) -> Reward:
        """Record a reward."""
        decision_id = decision if isinstance(decision, str) else decision.decision_id
        return self.library.reward(self.name, decision_id, value, reward_id=reward_id)

    def close(self, episode: str, outcome: float | None = None) -> ClosedEpisode:
        """Close an episode."""
        return self.library.close_episode(self.name, episode, outcome)

    def void(self, decision: Decision) -> Decision:
        """Take a decision back."""
        return self.library.void(self.name, decision.decision_id)

    def teach(self, action: str, *values: float, state: int | Mapping[str, Any] = 0) -> None:
        """Play an action and reward it, outside of episodes, for each of `values`."""
        for value in values:
            self.reward(self.play(action, state), value)

    def cell(self, action: str, state: int = 0, *, version: int = 1) -> Cell:
        """Return a cell, as it opens (without a prior) where it has no row."""
        with self.library.database.snapshot() as connection:
            cells = {cell.key.action: cell for cell in state_cells(connection, self.name, version, state)}
        return cells.get(action, Cell(CellKey(version, state, action), 0.0, 0, 0, 0.0))

    def q(self, action: str, state: int = 0, *, version: int = 1) -> float:
        """Return the value of a cell."""
        return self.cell(action, state, version=version).q

    def steps(self) -> list[LearningStep]:
        """Return the learning steps of every cell, by cell and number."""
        return [step_of(row) for row in self.rows("learning_steps")]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table, by primary key."""
        declared = metadata.tables[table]
        query = select(declared).where(declared.c.tenant == self.name).order_by(*declared.primary_key.columns)
        with self.library.database.snapshot() as connection:
            return [tuple(row) for row in connection.execute(query)]
