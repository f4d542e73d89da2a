"""Episodes as rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select

from steersman.domain.answers import Episode
from steersman.domain.records import ClosedEpisode
from steersman.errors import NotFoundError
from steersman.store.hot.text import Row
from steersman.store.tables import decisions, episodes

__all__ = ["episode_of", "get_episode", "list_episodes", "overdue_decisions", "overdue_episodes"]


def episode_of(row: Row) -> Episode:
    """Return the episode of a row."""
    tenant, episode, status, steps, opened_at, touched_at, outcome, kind, count, learned, closed_at = row
    closed = None
    if status == "closed":
        closed = ClosedEpisode(tenant, episode, outcome, count, learned, kind, closed_at)
    return Episode(tenant, episode, status, steps, opened_at, touched_at, closed)


def get_episode(connection: Connection, tenant: str, episode: str) -> Episode:
    """Return one episode; raise NotFoundError."""
    query = select(episodes).where(episodes.c.tenant == tenant, episodes.c.episode == episode)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"tenant {tenant!r} has no episode {episode!r}")
    return episode_of(tuple(row))


def list_episodes(
    connection: Connection,
    tenant: str,
    *,
    status: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int = 100,
) -> list[Episode]:
    """Return a tenant's episodes, the latest touched first, optionally of one status.

    `after` is when the last episode of the page before was touched, and its id.
    """
    query: Select[Any] = select(episodes).where(episodes.c.tenant == tenant)
    if status is not None:
        query = query.where(episodes.c.status == status)
    if after is not None:
        at, episode = after
        query = query.where(
            or_(
                episodes.c.touched_at < at,
                and_(episodes.c.touched_at == at, episodes.c.episode > episode),
            )
        )
    query = query.order_by(episodes.c.touched_at.desc(), episodes.c.episode).limit(limit)
    return [episode_of(tuple(row)) for row in connection.execute(query)]


def overdue_decisions(connection: Connection, tenant: str, *, before: int, limit: int) -> list[str]:
    """Return the ids of open decisions outside of episodes that were made before a time, oldest first."""
    query = (
        select(decisions.c.decision_id)
        .where(
            decisions.c.tenant == tenant,
            decisions.c.status == "open",
            decisions.c.created_at < before,
            decisions.c.episode.is_(None),
        )
        .order_by(decisions.c.created_at, decisions.c.decision_id)
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def overdue_episodes(connection: Connection, tenant: str, *, before: int, limit: int) -> list[str]:
    """Return the names of open episodes that were last touched before a time, oldest first."""
    query = (
        select(episodes.c.episode)
        .where(episodes.c.tenant == tenant, episodes.c.status == "open", episodes.c.touched_at < before)
        .order_by(episodes.c.touched_at, episodes.c.episode)
        .limit(limit)
    )
    return list(connection.execute(query).scalars())
