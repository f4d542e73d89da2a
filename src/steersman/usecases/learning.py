"""Learning within one transaction: from decisions and rewards to steps and cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

from steersman.domain.records import CellKey, Decision, LearningStep
from steersman.domain.settings import PolicySettings
from steersman.policies.arithmetic import (
    further_step_size,
    is_maximal,
    lambda_returns,
    one_step_target,
    q_update,
    step_size,
)
from steersman.store.decisions import decision_of, latest_version_of
from steersman.store.hot.text import Key, Row
from steersman.store.steps import pack_step
from steersman.usecases.scope import Scope

__all__ = ["Learner", "Pending"]


class _Change(NamedTuple):
    """What a learning step does to its cell; see `LearningStep`."""

    kind: str
    reward: float
    discount: float
    bootstrap: float
    target: float
    step_size: float


@dataclass(slots=True)
class Pending:
    """A decision as a transaction sees it: its rewards so far, and its status as it will be."""

    decision: Decision
    latest_version: int  # of the tenant when it was made
    status: str
    rewards: list[float] = field(default_factory=list)

    @property
    def reward(self) -> float:
        """The sum of the rewards, exactly rounded, so that their order does not matter."""
        return fsum(self.rewards)

    @property
    def key(self) -> tuple[str, str]:
        """(tenant, decision id)."""
        return self.decision.tenant, self.decision.decision_id


class Learner:
    """Applies learning steps to the cells of a scope and gathers what is to be written."""

    def __init__(self, scope: Scope, at: int) -> None:
        """Take the scope, whose tenants are locked, and the time that new rows carry."""
        self.scope = scope
        self.at = at
        self.known: dict[tuple[str, str], Pending] = {}
        self._steps: list[Row] = []
        self._marks: dict[tuple[str, str], Row] = {}

    def remember(self, rows: Iterable[Row]) -> list[Pending]:
        """Return the decisions of `rows`, each known once within the transaction; new facts replace old."""
        found = []
        for row in rows:
            key = (row[0], row[1])
            pending = self.known.get(key)
            if pending is None:
                version = self.scope.version(row[0], row[2])
                decision = decision_of(row, version.actions.ids)
                pending = Pending(decision, latest_version_of(row), decision.status)
                self.known[key] = pending
            elif pending.status == "open":
                pending.status = row[-3]
            found.append(pending)
        return found

    def load_rewards(self, pendings: Iterable[Pending]) -> None:
        """Read the rewards that these decisions have so far; once for each decision."""
        keys = sorted({pending.key for pending in pendings})
        for tenant, decision_id, value in self.scope.hot.rewards_of(self.scope.cursor, keys):
            self.known[tenant, decision_id].rewards.append(value)

    def settings(self, tenant: str) -> PolicySettings:
        """Return the settings that a tenant learns by now: those of its active version."""
        return self.scope.active(tenant).settings

    def cell_of(self, decision: Decision) -> Key:
        """Return (tenant, version, state) where a decision is learned."""
        return self._resolve(decision, decision.action)

    def row_keys(self, decision: Decision) -> set[Key]:
        """Return every (tenant, version, state) that the value of the state of `decision` is read from."""
        return {self._resolve(decision, action) for action in decision.feasible}

    def is_parked(self, key: Key) -> bool:
        """Return whether a cell belongs to a version that is not active."""
        return bool(key[1] != self.scope.heads[key[0]].active_version)

    def state_value(self, decision: Decision) -> float:
        """Return the largest q among the feasible actions of the state that `decision` was made in."""
        values = []
        for action in decision.feasible:
            key = self._resolve(decision, action)
            cells = self.scope.cells(key)
            values.append(cells.q[cells.version.actions.position[action]])
        return max(values)

    def learn_one(self, pending: Pending, *, reward: float, successor: Decision | None) -> Key:
        """Learn one decision with the one-step target; return where."""
        gamma = self.settings(pending.decision.tenant).gamma
        bootstrap = self.state_value(successor) if successor is not None else 0.0
        return self._update(pending, reward, gamma, bootstrap, one_step_target(reward, gamma, bootstrap))

    def learn_ready(self, chain: Sequence[Pending]) -> None:
        """Learn the decisions of an open episode whose reward and successor are known, last step first.

        `chain` holds decisions that are not void, in step order, from the first open one on.
        """
        for index in range(len(chain) - 2, -1, -1):
            pending = chain[index]
            if pending.status == "open" and pending.rewards:
                self.learn_one(pending, reward=pending.reward, successor=chain[index + 1].decision)

    def learn_rest(self, chain: Sequence[Pending], outcome: float | None) -> int:
        """Learn what is open of an episode that closes; return how many decisions were.

        `chain` holds the decisions that are not void, in step order; missing rewards count 0, and the outcome
        is added to the last.
        """
        if not chain:
            return 0
        last = chain[-1]
        if outcome is not None:
            if last.status == "learned":
                self.further(last, outcome)
            else:
                last.rewards.append(outcome)
        tenant = last.decision.tenant
        settings = self.settings(tenant)
        still_open = [pending for pending in chain if pending.status == "open"]
        if settings.gamma > 0.0 and settings.lam > 0.0:
            self._learn_by_lambda(chain, settings)
        else:
            for index in range(len(chain) - 1, -1, -1):
                pending = chain[index]
                if pending.status == "open":
                    terminal = index == len(chain) - 1 or settings.gamma == 0.0
                    successor = None if terminal else chain[index + 1].decision
                    self.learn_one(pending, reward=pending.reward, successor=successor)
        return len(still_open)

    def _learn_by_lambda(self, chain: Sequence[Pending], settings: PolicySettings) -> None:
        returns = lambda_returns(
            [pending.reward for pending in chain],
            [self.state_value(pending.decision) for pending in chain[1:]],
            [_was_greedy(pending.decision) for pending in chain],
            settings.lam,
            settings.gamma,
        )
        for pending, (bootstrap, target) in zip(chain, returns, strict=True):
            if pending.status == "open":
                self._update(pending, pending.reward, settings.gamma, bootstrap, target)

    def further(self, pending: Pending, value: float) -> Key:
        """Add a further reward to the cell of a decision that was learned already; return where."""
        key = self.cell_of(pending.decision)
        cells = self.scope.cells(key)
        position = cells.version.actions.position[pending.decision.action]
        size = further_step_size(
            cells.version.settings.alpha, cells.borrowed[position], cells.updates[position]
        )
        cells.q[position] += size * value
        self._log(pending, key, _Change("further", value, 0.0, 0.0, value, size))
        return key

    def _update(self, pending: Pending, reward: float, gamma: float, bootstrap: float, target: float) -> Key:
        key = self.cell_of(pending.decision)
        cells = self.scope.cells(key)
        position = cells.version.actions.position[pending.decision.action]
        cells.updates[position] += 1
        size = step_size(cells.version.settings.alpha, cells.borrowed[position], cells.updates[position])
        cells.q[position] = q_update(cells.q[position], target, size)
        pending.status = "learned"
        self._marks[pending.key] = ("learned", None, None, *pending.key)
        self._log(pending, key, _Change("update", reward, gamma, bootstrap, target, size))
        return key

    def _log(self, pending: Pending, key: Key, change: _Change) -> None:
        decision = pending.decision
        cells = self.scope.cells(key)
        position = cells.version.actions.position[decision.action]
        cells.steps[position] += 1
        cell = CellKey(key[1], key[2], decision.action)
        step = LearningStep(
            decision.tenant, cell, cells.steps[position], decision.decision_id, *change, self.at
        )
        self._steps.append(pack_step(step))
        self.scope.changed(key, position)

    def void(self, pending: Pending) -> None:
        """Take back the visit of a decision where it is counted now."""
        key = self.holder_of(pending)
        cells = self.scope.cells(key)
        position = cells.version.actions.position[pending.decision.action]
        cells.visits[position] -= 1
        self.scope.changed(key, position)
        pending.status = "void"
        self._marks[pending.key] = ("void", key[1], key[2], *pending.key)

    def holder_of(self, pending: Pending) -> Key:
        """Return (tenant, version, state) where the visit of a decision is counted now."""
        decision = pending.decision
        lineage = self.scope.lineage(decision.tenant, decision.version)
        version, state = lineage.visit_holder(
            decision.state, decision.action, latest_version=pending.latest_version
        )
        return decision.tenant, version.number, state

    def write(self) -> None:
        """Write the steps, the marks and the cells."""
        if self._steps:
            self.scope.hot.insert_steps(self.scope.cursor, self._steps)
        if self._marks:
            self.scope.hot.mark_decisions(
                self.scope.cursor, [self._marks[key] for key in sorted(self._marks)]
            )
        self.scope.write_cells()

    def _resolve(self, decision: Decision, action: str) -> Key:
        lineage = self.scope.lineage(decision.tenant, decision.version)
        version, state = lineage.resolve(decision.state, action)
        return decision.tenant, version.number, state


def _was_greedy(decision: Decision) -> bool:
    return is_maximal(decision.seen.q, decision.feasible.index(decision.action))
