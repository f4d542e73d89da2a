"""Decisions as rows: packing, sealing, reading, and the queries about them that are not hot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, select, tuple_

from steersman.domain.canonical import canonical_json
from steersman.domain.records import Decision, SeenRow
from steersman.errors import ArchivedError, NotFoundError
from steersman.store.archive import find_archived, row_of_stub
from steersman.store.hot.text import DECISIONS, Row
from steersman.store.seals import seal
from steersman.store.tables import decisions

__all__ = [
    "DecisionHead",
    "decision_head",
    "decision_of",
    "fingerprint_of",
    "get_decision",
    "list_decisions",
    "pack_decision",
    "sealed_part",
]

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_AT = {name: index for index, name in enumerate(DECISIONS)}
_SEAL, _EPISODE, _STATUS = _AT["seal"], _AT["episode"], _AT["status"]
_PAGE = 2000


class DecisionHead(NamedTuple):
    """What is learned by of a decision."""

    tenant: str
    decision_id: str
    version: int
    latest_version: int  # the tenant's newest when it was made
    state: int
    action: str
    episode: str | None
    status: str

    @property
    def key(self) -> tuple[str, str]:
        """(tenant, decision id)."""
        return self.tenant, self.decision_id


def pack_decision(
    decision: Decision,
    *,
    whole_catalogue: bool,
    latest_version: int,
    fingerprint: bytes,
    metadata: str | None,
) -> Row:
    """Return the sealed row of a new decision.

    `whole_catalogue` says that every action was feasible, `latest_version` is the tenant's newest version at the
    time, and `metadata` is the checked JSON text of the caller's own.
    """
    seen = decision.seen
    columns = (
        decision.tenant,
        decision.decision_id,
        decision.version,
        latest_version,
        decision.state,
        decision.action,
        decision.propensity,
        int(decision.explored),
        int(decision.explore),
        decision.epsilon,
        decision.c,
        None if whole_catalogue else _encode(decision.feasible).decode(),
        _encode((seen.q, seen.visits, seen.updates, seen.borrowed)).decode(),
        decision.episode,
        decision.step,
        metadata,
        None if decision.reasons is None else json.dumps(dict(decision.reasons)),
        decision.created_at,
        fingerprint,
    )
    return (*columns, seal(columns), decision.status, None, None)


def decision_of(row: Row, catalogue: tuple[str, ...]) -> Decision:
    """Return the decision of a row; `catalogue` holds the ids of its version, [A] str."""
    (
        tenant,
        decision_id,
        version,
        _,
        state,
        action,
        propensity,
        explored,
        explore,
        epsilon,
        c,
        feasible,
        seen,
        episode,
        step,
        metadata,
        reasons,
        created_at,
        _,
        _,
        status,
        _,
        _,
    ) = row
    q, visits, updates, borrowed = _decode(seen)
    return Decision(
        tenant=tenant,
        decision_id=decision_id,
        version=version,
        state=state,
        action=action,
        propensity=propensity,
        explored=bool(explored),
        explore=bool(explore),
        epsilon=epsilon,
        c=c,
        feasible=catalogue if feasible is None else tuple(_decode(feasible)),
        seen=SeenRow(tuple(map(float, q)), tuple(visits), tuple(updates), tuple(map(float, borrowed))),
        episode=episode,
        step=step,
        metadata=None if metadata is None else json.loads(metadata),
        reasons=None if reasons is None else json.loads(reasons),
        created_at=created_at,
        status=status,
    )


def fingerprint_of(row: Row) -> bytes:
    """Return the fingerprint of the request of a row."""
    return bytes(row[_AT["fingerprint"]])


def decision_head(row: Row) -> DecisionHead:
    """Return what is learned by of a row, without unpacking what the decision saw."""
    return DecisionHead(row[0], row[1], row[2], row[3], row[4], row[5], row[_EPISODE], row[_STATUS])


def sealed_part(row: Row) -> tuple[tuple[Any, ...], bytes]:
    """Return the columns of a row that its seal covers, and the seal."""
    columns = tuple(bytes(value) if isinstance(value, memoryview) else value for value in row[:_SEAL])
    return columns, bytes(row[_SEAL])


def get_decision(connection: Connection, tenant: str, decision_id: str) -> Row:
    """Return the row of one decision; raise NotFoundError, or ArchivedError."""
    query = select(decisions).where(decisions.c.tenant == tenant, decisions.c.decision_id == decision_id)
    row = connection.execute(query).first()
    if row is None:
        if find_archived(connection, tenant, decision_id) is not None:
            raise ArchivedError(f"decision {decision_id!r} of tenant {tenant!r} was archived")
        raise NotFoundError(f"tenant {tenant!r} has no decision {decision_id!r}")
    return tuple(row)


def _made_at(connection: Connection, tenant: str, decision_id: str) -> int:
    """Return when a decision was made that is there or was archived; raise NotFoundError."""
    stub = find_archived(connection, tenant, decision_id)
    row = get_decision(connection, tenant, decision_id) if stub is None else row_of_stub(stub)
    return int(row[_AT["created_at"]])


def list_decisions(
    connection: Connection,
    tenant: str,
    *,
    episode: str | None = None,
    status: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[Row]:
    """Return rows of a tenant's decisions, newest first, optionally of one episode, one status, and metadata.

    `metadata` filters by equality of each key at the top of the caller's own object. `after` is the decision that
    the page before ended with, which may have been archived since. Raises NotFoundError where there is no such one.
    """
    query: Select[Any] = select(decisions).where(decisions.c.tenant == tenant)
    if episode is not None:
        query = query.where(decisions.c.episode == episode)
    if status is not None:
        query = query.where(decisions.c.status == status)
    if after is not None:
        made = _made_at(connection, tenant, after)
        query = query.where(tuple_(decisions.c.created_at, decisions.c.decision_id) < tuple_(made, after))
    query = query.order_by(decisions.c.created_at.desc(), decisions.c.decision_id.desc())
    if not metadata:
        return [tuple(row) for row in connection.execute(query.limit(limit))]
    found: list[Row] = []
    described_by = {key: canonical_json(value) for key, value in metadata.items()}
    described = query.where(decisions.c.metadata.is_not(None))
    # Closed at once when the limit is reached, since a server keeps the rest of the stream ready.
    with connection.execute(described, execution_options={"yield_per": _PAGE}) as result:
        for row in result:
            body = json.loads(row.metadata)
            # Typed equality: 1 and true are not the same to the caller who wrote one of them.
            if all(
                key in body and canonical_json(body[key]) == wanted for key, wanted in described_by.items()
            ):
                found.append(tuple(row))
                if len(found) == limit:
                    break
    return found
