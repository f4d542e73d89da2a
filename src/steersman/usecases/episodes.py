"""Episodes, for reading."""

from __future__ import annotations

from steersman.domain.answers import Episode, EpisodeDetail
from steersman.domain.identifiers import check_choice, check_id, check_limit
from steersman.errors import InvalidInputError
from steersman.store import decisions, episodes, tenants, versions
from steersman.store.engine import Database

__all__ = ["list_episodes", "show_episode"]

_LONGEST = 100_000


def list_episodes(
    database: Database,
    tenant: str,
    *,
    status: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int = 100,
) -> list[Episode]:
    """Return a tenant's episodes, the latest touched first, optionally open or closed ones.

    `after` is `touched_at` and `episode` of the one that the page before ended with; who is touched meanwhile moves
    to the front and may come again. Raises NotFoundError, or InvalidInputError for a status, an `after` or a limit
    that can be none.
    """
    check_choice(status, ("open", "closed"), what="status")
    limit = check_limit(limit)
    if after is not None:
        at, episode = after
        if not 0 <= at < 2**63:
            raise InvalidInputError(f"after: expected microseconds since 1970, got {at}")
        check_id(episode, what="after")
    with database.snapshot() as connection:
        tenants.get_tenant(connection, tenant)
        return episodes.list_episodes(connection, tenant, status=status, after=after, limit=limit)


def show_episode(database: Database, tenant: str, episode: str) -> EpisodeDetail:
    """Return one episode and its decisions; raise NotFoundError."""
    with database.snapshot() as connection:
        found = episodes.get_episode(connection, tenant, episode)
        catalogues = {item.number: item.actions.ids for item in versions.list_versions(connection, tenant)}
        rows = decisions.list_decisions(connection, tenant, episode=episode, limit=_LONGEST)
        made = [decisions.decision_of(row, catalogues[decisions.decision_head(row).version]) for row in rows]
    return EpisodeDetail(found, tuple(sorted(made, key=lambda decision: decision.step or 0)))
