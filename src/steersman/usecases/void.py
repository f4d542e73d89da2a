"""Void: take back a decision that was never acted upon."""

from __future__ import annotations

from dataclasses import replace

from steersman.domain.identifiers import check_id, check_name
from steersman.domain.records import Decision
from steersman.errors import ArchivedError, ConflictError, DecisionLearnedError, NotFoundError
from steersman.store.clock import now
from steersman.store.decisions import decision_head, decision_of
from steersman.store.engine import Database
from steersman.usecases.learning import Learner
from steersman.usecases.scope import Scope

__all__ = ["void"]


def void(database: Database, tenant: str, decision_id: str) -> Decision:
    """Take the visit of a decision back and return the decision, now void; the same call again changes nothing.

    It refuses rewards from now on and is left out of every evaluation. Raises NotFoundError, ArchivedError for one
    that was archived and is not void, DecisionLearnedError when it was learned from, ConflictError when it has a
    reward.
    """
    check_name(tenant, what="tenant")
    check_id(decision_id, what="decision_id")
    return database.run_hot(
        lambda transaction: _void_within(Scope(database, transaction), tenant, decision_id), tenants=[tenant]
    )


def _void_within(scope: Scope, tenant: str, decision_id: str) -> Decision:
    key = (tenant, decision_id)
    scope.lock_tenants([tenant])
    scope.head(tenant)
    learner = Learner(scope, now())
    found = learner.remember(scope.hot.find_decisions(scope.cursor, [key]))
    if not found:
        return _archived(scope, key)
    (pending,) = found
    if pending.episode is not None:
        scope.hot.lock_episodes(scope.cursor, [(tenant, pending.episode)])
    # Rewards lock the cell that learns, voids that one and the cell that holds the visit.
    scope.load([pending.cell, learner.holder_of(pending)])
    # Another transaction may have learned from it or taken it back between the first look and the locks.
    learner.remember(scope.hot.find_decisions(scope.cursor, [key]))
    if pending.status == "learned":
        raise DecisionLearnedError(f"decision {decision_id!r} of tenant {tenant!r} was learned from")
    if pending.status == "open":
        learner.load_rewards([pending])
        if pending.rewards:
            raise ConflictError(
                f"decision {decision_id!r} of tenant {tenant!r} has a reward, so it was acted upon"
            )
        learner.void(pending)
        learner.write()
    return replace(pending.decision, status="void")


def _archived(scope: Scope, key: tuple[str, str]) -> Decision:
    """Return a decision that was void when it was archived; raise ArchivedError, or NotFoundError."""
    tenant, decision_id = key
    row = scope.archived([key]).get(key)
    if row is None:
        raise NotFoundError(f"tenant {tenant!r} has no decision {decision_id!r}")
    decision = decision_of(row, scope.version(tenant, decision_head(row).version).actions.ids)
    if decision.status != "void":
        raise ArchivedError(f"decision {decision_id!r} of tenant {tenant!r} was archived")
    return decision
