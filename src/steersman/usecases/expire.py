"""Expire: settle decisions and episodes whose rewards never came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.domain.answers import Expired
from steersman.domain.records import CloseRequest, RewardRequest
from steersman.errors import ConflictError, DecisionVoidError, SteersmanError
from steersman.store import tenants
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.store.episodes import overdue_decisions, overdue_episodes
from steersman.usecases.close_episode import close_many
from steersman.usecases.reward import reward_many

__all__ = ["expire"]

_BATCH = 200


def expire(database: Database, tenant: str, *, at: int | None = None) -> Expired:
    """Give the default reward to what has waited for longer than the tenant's `reward_wait`; return the counts.

    Decisions outside of episodes get it as their reward; episodes without a decide or reward for so long are
    closed with it as their outcome. Without those settings there is nothing to do. `at` is the time that
    counts as now, in microseconds since 1970 (default: the clock's). Raises NotFoundError.
    """
    with database.snapshot() as connection:
        spec = tenants.get_tenant(connection, tenant).spec
    if spec.reward_wait is None or spec.default_reward is None:
        return Expired(tenant, 0, 0)
    before = (now() if at is None else at) - int(spec.reward_wait * 1e6)
    value = spec.default_reward

    def due_decisions() -> list[str]:
        with database.snapshot() as connection:
            return overdue_decisions(connection, tenant, before=before, limit=_BATCH)

    def due_episodes() -> list[str]:
        with database.snapshot() as connection:
            return overdue_episodes(connection, tenant, before=before, limit=_BATCH)

    return Expired(
        tenant,
        _settle(
            due_decisions,
            lambda ids: reward_many(database, [RewardRequest(tenant, i, value) for i in ids], kind="default"),
        ),
        _settle(
            due_episodes,
            lambda ids: close_many(database, [CloseRequest(tenant, i, value) for i in ids], kind="default"),
        ),
    )


def _settle(due: Callable[[], list[str]], apply: Callable[[list[str]], list[Any]]) -> int:
    """Apply to what is due, batch by batch, until nothing is; return how many were settled here.

    What somebody else settled at the same moment is refused as a conflict and is not due any more.
    """
    count = 0
    while ids := due():
        for answer in apply(ids):
            if not isinstance(answer, SteersmanError):
                count += 1
            elif not isinstance(answer, (ConflictError, DecisionVoidError)):
                raise answer
    return count
