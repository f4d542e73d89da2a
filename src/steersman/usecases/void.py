"""Void: take back a decision that was never acted upon."""

from __future__ import annotations

from dataclasses import replace

from steersman.domain.identifiers import check_id, check_name
from steersman.domain.records import Decision
from steersman.errors import ArchivedError, ConflictError, DecisionLearnedError, NotFoundError
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.usecases.learning import Learner, Pending
from steersman.usecases.scope import Scope

__all__ = ["void"]


def void(database: Database, tenant: str, decision_id: str) -> Decision:
    """Take the visit of a decision back and return the decision, now void; the same call again changes nothing.

    It refuses rewards from now on and is left out of every evaluation. Raises NotFoundError,
    ArchivedError, DecisionLearnedError when it was learned from, ConflictError when it has a reward.
    """
    check_name(tenant, what="tenant")
    check_id(decision_id, what="decision_id")
    return database.run_hot(
        lambda transaction: _void_within(Scope(database, transaction), tenant, decision_id), tenants=[tenant]
    )


def _void_within(scope: Scope, tenant: str, decision_id: str) -> Decision:
    scope.lock_tenants([tenant])
    scope.head(tenant)
    learner = Learner(scope, now())
    pending = _find(scope, learner, tenant, decision_id)
    if pending.episode is not None:
        scope.hot.lock_episodes(scope.cursor, [(tenant, pending.episode)])
    # Rewards lock the cell that learns, voids that one and the cell that holds the visit.
    scope.load([pending.cell, learner.holder_of(pending)])
    pending = _find(scope, learner, tenant, decision_id)
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


def _find(scope: Scope, learner: Learner, tenant: str, decision_id: str) -> Pending:
    found = learner.remember(scope.hot.find_decisions(scope.cursor, [(tenant, decision_id)]))
    if not found:
        if scope.archived([(tenant, decision_id)]):
            raise ArchivedError(f"decision {decision_id!r} of tenant {tenant!r} was archived")
        raise NotFoundError(f"tenant {tenant!r} has no decision {decision_id!r}")
    return found[0]
