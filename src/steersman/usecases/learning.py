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
from steersman.store.decisions import decision_head, decision_of
from steersman.store.hot.text import Key, Row
from steersman.store.steps import pack_step
from steersman.usecases.lineage import Lineage
from steersman.usecases.scope import Scope, StateCells

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
    """A decision as a transaction sees it: where it is learned, its rewards so far, and its status to be."""

    tenant: str
    decision_id: str
    action: str
    episode: str | None
    status: str
    cell: Key  # (tenant, version, state) where it is learned
    lineage: Lineage
    row: Row
    rewards: list[float] = field(default_factory=list)

    @property
    def reward(self) -> float:
        """The sum of the rewards, exactly rounded, so that their order does not matter."""
        return fsum(self.rewards)

    @property
    def key(self) -> tuple[str, str]:
        """(tenant, decision id)."""
        return self.tenant, self.decision_id

    @property
    def decision(self) -> Decision:
        """The whole decision, unpacked anew: most rewards need none of the row that it saw."""
        return decision_of(self.row, self.lineage.path[-1].actions.ids)


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
            head = decision_head(row)
            pending = self.known.get(head.key)
            if pending is None:
                lineage = self.scope.lineage(head.tenant, head.version)
                version, state = lineage.resolve(head.state, head.action)
                cell = (head.tenant, version.number, state)
                pending = Pending(
                    head.tenant, head.decision_id, head.action, head.episode, head.status, cell, lineage, row
                )
                self.known[head.key] = pending
            elif pending.status == "open":
                pending.status = head.status
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

    def row_keys(self, pending: Pending) -> set[Key]:
        """Return every (tenant, version, state) that the value of the state of a decision is read from."""
        return {key for key, _ in self._row(pending)}

    def is_parked(self, key: Key) -> bool:
        """Return whether a cell belongs to a version that is not active."""
        return bool(key[1] != self.scope.heads[key[0]].active_version)

    def state_value(self, pending: Pending) -> float:
        """Return the largest q among the feasible actions of the state that a decision was made in."""
        values = []
        for key, action in self._row(pending):
            cells = self.scope.cells(key)
            values.append(cells.q[cells.version.actions.position[action]])
        return max(values)

    def learn_one(self, pending: Pending, *, successor: Pending | None) -> None:
        """Learn one decision with the one-step target."""
        gamma = self.settings(pending.tenant).gamma
        bootstrap = self.state_value(successor) if successor is not None else 0.0
        self._update(pending, gamma, bootstrap, one_step_target(pending.reward, gamma, bootstrap))

    def learn_ready(self, chain: Sequence[Pending]) -> None:
        """Learn the decisions of an open episode whose reward and successor are known, last step first.

        `chain` holds decisions that are not void, in step order, from the first open one on.
        """
        for index in range(len(chain) - 2, -1, -1):
            pending = chain[index]
            if pending.status == "open" and pending.rewards:
                self.learn_one(pending, successor=chain[index + 1])

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
        settings = self.settings(last.tenant)
        still_open = [pending for pending in chain if pending.status == "open"]
        if settings.gamma > 0.0 and settings.lam > 0.0:
            self._learn_by_lambda(chain, settings)
        else:
            for index in range(len(chain) - 1, -1, -1):
                pending = chain[index]
                if pending.status == "open":
                    terminal = index == len(chain) - 1 or settings.gamma == 0.0
                    self.learn_one(pending, successor=None if terminal else chain[index + 1])
        return len(still_open)

    def _learn_by_lambda(self, chain: Sequence[Pending], settings: PolicySettings) -> None:
        returns = lambda_returns(
            [pending.reward for pending in chain],
            [self.state_value(pending) for pending in chain[1:]],
            [_was_greedy(pending.decision) for pending in chain],
            settings.lam,
            settings.gamma,
        )
        for pending, (bootstrap, target) in zip(chain, returns, strict=True):
            if pending.status == "open":
                self._update(pending, settings.gamma, bootstrap, target)

    def further(self, pending: Pending, value: float) -> None:
        """Add a further reward to the cell of a decision that was learned already."""
        cells = self.scope.cells(pending.cell)
        position = cells.version.actions.position[pending.action]
        size = further_step_size(
            cells.version.settings.alpha, cells.borrowed[position], cells.updates[position]
        )
        cells.add_step(position, cells.q[position] + size * value, updates=cells.updates[position])
        self._log(pending, cells, position, _Change("further", value, 0.0, 0.0, value, size))

    def _update(self, pending: Pending, gamma: float, bootstrap: float, target: float) -> None:
        cells = self.scope.cells(pending.cell)
        position = cells.version.actions.position[pending.action]
        updates = cells.updates[position] + 1
        size = step_size(cells.version.settings.alpha, cells.borrowed[position], updates)
        cells.add_step(position, q_update(cells.q[position], target, size), updates=updates)
        pending.status = "learned"
        self._marks[pending.key] = ("learned", None, None, *pending.key)
        change = _Change("update", pending.reward, gamma, bootstrap, target, size)
        self._log(pending, cells, position, change)

    def _log(self, pending: Pending, cells: StateCells, position: int, change: _Change) -> None:
        _, version, state = pending.cell
        step = LearningStep(
            pending.tenant,
            CellKey(version, state, pending.action),
            cells.steps[position],
            pending.decision_id,
            *change,
            self.at,
        )
        self._steps.append(pack_step(step))
        self.scope.changed(pending.cell, position)

    def void(self, pending: Pending) -> None:
        """Take back the visit of a decision where it is counted now."""
        key = self.holder_of(pending)
        cells = self.scope.cells(key)
        position = cells.version.actions.position[pending.action]
        cells.add_visit(position, -1)
        self.scope.changed(key, position)
        pending.status = "void"
        self._marks[pending.key] = ("void", key[1], key[2], *pending.key)

    def holder_of(self, pending: Pending) -> Key:
        """Return (tenant, version, state) where the visit of a decision is counted now."""
        head = decision_head(pending.row)
        version, state = pending.lineage.visit_holder(
            head.state, head.action, latest_version=head.latest_version
        )
        return pending.tenant, version.number, state

    def write(self) -> None:
        """Write the steps, the marks and the cells."""
        if self._steps:
            self.scope.hot.insert_steps(self.scope.cursor, self._steps)
        if self._marks:
            self.scope.hot.mark_decisions(
                self.scope.cursor, [self._marks[key] for key in sorted(self._marks)]
            )
        self.scope.write_cells()

    def _row(self, pending: Pending) -> list[tuple[Key, str]]:
        """Return where each feasible action of a decision is learned: (tenant, version, state) and its id."""
        decision = pending.decision
        row: list[tuple[Key, str]] = []
        for action in decision.feasible:
            version, state = pending.lineage.resolve(decision.state, action)
            row.append(((pending.tenant, version.number, state), action))
        return row


def _was_greedy(decision: Decision) -> bool:
    return is_maximal(decision.seen.q, decision.feasible.index(decision.action))
