"""The audit trail: who changed what, before and after."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

import uuid_utils
from sqlalchemy import Connection, Row, insert, select

from steersman.domain.answers import AuditLine
from steersman.domain.canonical import canonical_json
from steersman.store.access import require_sight
from steersman.store.clock import now
from steersman.store.tables import audit

__all__ = ["iterate_lines", "list_lines", "write_line"]

_PAGE = 500


def write_line(
    connection: Connection, tenant: str, *, actor: str, verb: str, detail: Mapping[str, Any]
) -> None:
    """Add a line to the audit trail of `tenant`."""
    connection.execute(
        insert(audit).values(
            tenant=tenant,
            audit_id=str(uuid_utils.uuid7()),
            created_at=now(),
            actor=actor,
            verb=verb,
            detail=canonical_json(dict(detail)),
        )
    )


def list_lines(
    connection: Connection,
    tenant: str,
    *,
    actor: str | None = None,
    after: str | None = None,
    limit: int = 1000,
) -> list[AuditLine]:
    """Return the audit trail of `tenant`, newest first, optionally of one actor.

    `after` is the id of the line that the page before ended with. Raises as `require_sight` does.
    """
    require_sight(connection)
    query = select(audit).where(audit.c.tenant == tenant).order_by(audit.c.audit_id.desc()).limit(limit)
    if actor is not None:
        query = query.where(audit.c.actor == actor)
    if after is not None:
        query = query.where(audit.c.audit_id < after)
    return [_line_of(row) for row in connection.execute(query)]


def iterate_lines(connection: Connection, tenant: str) -> Generator[AuditLine]:
    """Yield the whole audit trail of `tenant`, oldest first, streamed; raise as `require_sight` does."""
    require_sight(connection)
    query = select(audit).where(audit.c.tenant == tenant).order_by(audit.c.audit_id)
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as result:
        for row in result:
            yield _line_of(row)


def _line_of(row: Row[Any]) -> AuditLine:
    return AuditLine(row.tenant, row.audit_id, row.created_at, row.actor, row.verb, json.loads(row.detail))
