"""Every verb as the requests that it makes and the record that it returns: the one place that the clients share.

Names, arguments, records and errors are those of `steersman.library.Steersman`, whose docstrings say more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from steersman.client.exchange import Call, Request
from steersman.client.lists import LONGEST_LIST, every_page, in_parts, up_to
from steersman.client.wire import (
    close_body,
    decide_body,
    declaration_body,
    encode,
    new_id,
    owner_of,
    read,
    reward_body,
    segment,
    version_of,
    with_id,
)
from steersman.domain.answers import (
    ApiKey,
    AuditLine,
    BaseBuild,
    Checkup,
    Episode,
    EpisodeDetail,
    Erased,
    Expired,
    Explanation,
    IssuedKey,
    LearnedTable,
    MigrationPlan,
    Owner,
    Refresh,
    Verification,
)
from steersman.domain.identifiers import check_choice, check_id, check_limit, check_metadata, check_name
from steersman.domain.operation_ids import check_operation_id
from steersman.domain.records import (
    ClosedEpisode,
    CloseRequest,
    DecideRequest,
    Decision,
    PolicyVersion,
    Reward,
    RewardRequest,
)
from steersman.domain.settings import TenantSpec
from steersman.domain.states import State
from steersman.errors import SteersmanError, StoreError

__all__ = [
    "activate",
    "build_base",
    "change_tenant",
    "close_episode",
    "close_many",
    "create_base",
    "create_key",
    "create_tenant",
    "decide",
    "decide_many",
    "doctor",
    "erase_tenant",
    "expire",
    "explain",
    "freeze",
    "list_audit",
    "list_decisions",
    "list_episodes",
    "list_keys",
    "list_tenants",
    "list_versions",
    "refresh",
    "retire_tenant",
    "revoke_key",
    "reward",
    "reward_many",
    "roll_back",
    "rotate_key",
    "show",
    "show_episode",
    "show_tenant",
    "verify",
    "void",
]

_SCOPES = ("decide", "reward", "read", "manage")

_read_decision = read(Decision)
_read_reward = read(Reward)
_read_closed = read(ClosedEpisode)
_read_key = read(ApiKey)
_read_episode = read(Episode)
_read_line = read(AuditLine)


def decide(
    tenant: str,
    state: State,
    *,
    feasible: Sequence[str | int] | None = None,
    episode: str | None = None,
    decision_id: str | None = None,
    explore: bool = True,
    metadata: Mapping[str, Any] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Call[Decision]:
    """Return one decision; without a `decision_id` the client makes one, so that a retry is the same call.

    A StoreError names the id that was made in a note, since the decision may be there all the same.
    """
    request = with_id(
        DecideRequest(tenant, state, feasible, episode, decision_id, explore, metadata, reasons)
    )
    try:
        return _read_decision((yield Request("POST", "/v1/decide", body=decide_body(request))))
    except StoreError as error:
        if decision_id is None:
            error.add_note(f"decision id: {request.decision_id}")
        raise


def decide_many(requests: Sequence[DecideRequest]) -> Call[list[Decision | SteersmanError]]:
    """Decide a list; return a decision or an error for each, in order.

    A long list is sent as several, each of them one transaction. Raises when the first of them fails as a whole; when
    another does, its requests and those behind it are answered with its error. A StoreError names the ids that were
    made by the client in a note.
    """
    named = [with_id(request) for request in requests]
    try:
        answers = yield from in_parts("/v1/decide:batch", named, decide_body, _read_decision)
    except StoreError as error:
        made = [new.decision_id or "" for new, old in zip(named, requests, strict=True) if new is not old]
        if made:
            error.add_note(f"decision ids: {', '.join(made[:LONGEST_LIST])}")
        raise
    for answer, new, old in zip(answers, named, requests, strict=True):
        if isinstance(answer, StoreError) and new is not old:
            answer.add_note(f"decision id: {new.decision_id}")
    return answers


def reward(tenant: str, decision_id: str, value: float, *, reward_id: str | None = None) -> Call[Reward]:
    """Record one reward; without a `reward_id` it has the decision's id."""
    body = reward_body(RewardRequest(tenant, decision_id, value, reward_id))
    return _read_reward((yield Request("POST", "/v1/reward", body=body)))


def reward_many(requests: Sequence[RewardRequest]) -> Call[list[Reward | SteersmanError]]:
    """Record a list of rewards; return a reward or an error for each, in order. See `decide_many`."""
    return (yield from in_parts("/v1/reward:batch", requests, reward_body, _read_reward))


def close_episode(tenant: str, episode: str, outcome: float | None = None) -> Call[ClosedEpisode]:
    """Close one episode, with its outcome if there is one."""
    (answer,) = yield from close_many([CloseRequest(tenant, episode, outcome)])
    if isinstance(answer, SteersmanError):
        raise answer
    return answer


def close_many(requests: Sequence[CloseRequest]) -> Call[list[ClosedEpisode | SteersmanError]]:
    """Close a list of episodes; return a closed episode or an error for each, in order. See `decide_many`."""
    return (yield from in_parts("/v1/episodes/close:batch", requests, close_body, _read_closed))


def void(tenant: str, decision_id: str) -> Call[Decision]:
    """Take back a decision that was never acted upon, and return it."""
    path = f"/v1/decisions/{segment(decision_id, what='decision_id')}/void"
    # What a service answers to a repeated call is the same for ever, so that it leaves out what changes.
    return replace(_read_decision((yield _post(path, tenant))), status="void")


def expire(tenant: str) -> Call[Expired]:
    """Settle what has waited too long for its reward."""
    return read(Expired)((yield _post("/v1/expire", tenant, lengthy=True)))


def explain(tenant: str, decision_id: str) -> Call[Explanation]:
    """Return why a decision was made."""
    path = f"/v1/decisions/{segment(decision_id, what='decision_id')}"
    return read(Explanation)((yield _look(path, tenant)))


def list_decisions(
    tenant: str,
    *,
    episode: str | None = None,
    status: Literal["open", "learned", "void"] | None = None,
    metadata: Mapping[str, Any] | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Call[list[Decision]]:
    """Return decisions, newest first, of one episode, status or with some metadata.

    `after` is the decision that the page before ended with. More than 1,000 are read as several requests, between
    which decisions may change.
    """
    check_choice(status, ("open", "learned", "void"), what="status")
    limit = check_limit(limit)
    for what, value in (("episode", episode), ("after", after)):
        if value is not None:
            check_id(value, what=what)
    wanted = None if metadata is None else check_metadata(metadata)
    look = partial(_look, "/v1/decisions", tenant, episode=episode, status=status, metadata=wanted)
    return (yield from up_to(limit, look, _read_decision, after=after))


def list_episodes(
    tenant: str,
    *,
    status: Literal["open", "closed"] | None = None,
    after: tuple[int, str] | None = None,
    limit: int = 100,
) -> Call[list[Episode]]:
    """Return episodes, the latest touched first, optionally open or closed ones.

    `after` is `touched_at` and `episode` of the one that the page before ended with. See `list_decisions`.
    """
    check_choice(status, ("open", "closed"), what="status")
    limit = check_limit(limit)
    since = None if after is None else f"{after[0]}:{check_id(after[1], what='after')}"
    look = partial(_look, "/v1/episodes", tenant, status=status)
    return (yield from up_to(limit, look, _read_episode, after=since))


def show_episode(tenant: str, episode: str) -> Call[EpisodeDetail]:
    """Return one episode and its decisions, in step order."""
    path = f"/v1/episodes/{segment(episode, what='episode')}"
    return read(EpisodeDetail)((yield _look(path, tenant)))


def list_audit(owner: str, *, after: str | None = None, limit: int = 100) -> Call[list[AuditLine]]:
    """Return who changed what of a tenant, newest first.

    An operator's key is needed for the base `@NAME`, and for operators (`@`). `after` is the `audit_id` of the line
    that the page before ended with. See `list_decisions`.
    """
    limit = check_limit(limit)
    if after is not None:
        check_id(after, what="after")
    look = partial(_look, "/v1/audit", owner)
    if owner == "@":
        look = partial(_look, "/v1/operator-audit")
    elif owner.startswith("@"):
        look = partial(_look, f"/v1/bases/{segment(owner[1:], what='base')}/audit")
    return (yield from up_to(limit, look, _read_line, after=after))


def show(tenant: str, *, version: int | str | None = None, limit: int = 20) -> Call[LearnedTable]:
    """Return what was learned, for reading."""
    if isinstance(version, str):
        check_name(version, what="version")
    return read(LearnedTable)((yield _look("/v1/cells", tenant, lengthy=True, version=version, limit=limit)))


def list_versions(tenant: str) -> Call[list[PolicyVersion]]:
    """Return every version, oldest first."""
    return (yield from every_page(partial(_look, "/v1/versions", tenant), version_of))


def freeze(
    tenant: str, name: str, *, version: int | str | None = None, operation_id: str | None = None
) -> Call[PolicyVersion]:
    """Keep a copy of a version (default: the active one) under a name."""
    # Which one is active is for the service to find, so that the same call made again is the same request.
    chosen = "active" if version is None else str(version)
    path = f"/v1/versions/{segment(chosen, what='version')}/freeze"
    request = _post(path, tenant, body={"name": name}, lengthy=True)
    return version_of((yield from _once(request, operation_id)))


def activate(tenant: str, version: int | str, *, operation_id: str | None = None) -> Call[PolicyVersion]:
    """Make a copy of a version the active one."""
    path = f"/v1/versions/{segment(str(version), what='version')}/activate"
    return version_of((yield from _once(_post(path, tenant, lengthy=True), operation_id)))


def roll_back(
    tenant: str, *, to: int | str | None = None, operation_id: str | None = None
) -> Call[PolicyVersion]:
    """Go back to the parent of the active version, or to another ancestor."""
    request = _post("/v1/roll-back", tenant, body={"to": to}, lengthy=True)
    return version_of((yield from _once(request, operation_id)))


def refresh(tenant: str, *, operation_id: str | None = None) -> Call[Refresh]:
    """Let a tenant borrow anew from its base."""
    request = _post("/v1/refresh", tenant, lengthy=True)
    return read(Refresh)((yield from _once(request, operation_id)))


def verify(tenant: str | None = None) -> Call[Verification]:
    """Recompute the logbook of one tenant (default: the key's own)."""
    return read(Verification)((yield _post("/v1/verify", tenant, lengthy=True)))


def doctor(tenant: str | None = None) -> Call[Checkup]:
    """Say what goes wrong quietly with one tenant (default: the key's own)."""
    return read(Checkup)((yield _look("/v1/doctor", tenant, lengthy=True)))


def show_tenant(tenant: str) -> Call[Owner]:
    """Return one tenant, without its secret."""
    return owner_of((yield _look("/v1/tenant", tenant)))


def change_tenant(
    tenant: str,
    changes: Mapping[str, Any],
    *,
    dry_run: bool = False,
    operation_id: str | None = None,
) -> Call[MigrationPlan]:
    """Change parts of a declaration, learning moves along."""
    query = _about(tenant) | {"dry_run": "true" if dry_run else "false"}
    request = Request("PATCH", "/v1/tenant", query, encode(changes), lengthy=True)
    if dry_run and operation_id is None:
        return read(MigrationPlan)((yield request))
    return read(MigrationPlan)((yield from _once(request, operation_id)))


def create_tenant(
    tenant: str, declaration: TenantSpec | Mapping[str, Any], *, operation_id: str | None = None
) -> Call[Owner]:
    """Create a tenant; an operator's key is needed."""
    body = {"tenant": tenant, "declaration": declaration_body(declaration)}
    return owner_of((yield from _once(_post("/v1/tenants", body=body), operation_id)))


def list_tenants() -> Call[list[Owner]]:
    """Return every tenant, by id; an operator's key is needed."""
    return (yield from every_page(partial(_look, "/v1/tenants"), owner_of))


def retire_tenant(tenant: str, *, operation_id: str | None = None) -> Call[Owner]:
    """Retire a tenant; an operator's key is needed."""
    path = f"/v1/tenants/{segment(tenant, what='tenant')}/retire"
    return owner_of((yield from _once(_post(path), operation_id)))


def erase_tenant(tenant: str, *, operation_id: str | None = None) -> Call[Erased]:
    """Erase every row of a tenant; an operator's key is needed."""
    path = f"/v1/tenants/{segment(tenant, what='tenant')}"
    return read(Erased)((yield from _once(Request("DELETE", path, lengthy=True), operation_id)))


def create_base(
    base: str, declaration: TenantSpec | Mapping[str, Any], *, operation_id: str | None = None
) -> Call[Owner]:
    """Create a base; an operator's key is needed."""
    body = {"base": base, "declaration": declaration_body(declaration)}
    return owner_of((yield from _once(_post("/v1/bases", body=body), operation_id)))


def build_base(base: str, *, operation_id: str | None = None) -> Call[BaseBuild]:
    """Merge what the contributing tenants learned; an operator's key is needed."""
    path = f"/v1/bases/{segment(base, what='base')}/build"
    return read(BaseBuild)((yield from _once(_post(path, lengthy=True), operation_id)))


def create_key(
    tenant: str | None,
    *,
    name: str,
    scopes: Collection[str] = _SCOPES,
    operation_id: str | None = None,
) -> Call[IssuedKey]:
    """Create a key of a tenant, or with None of an operator; an operator's key is needed.

    Its text is in the first answer alone. Where that is lost on the way, ConflictError names the key that was made.
    """
    if tenant is None:
        request = _post("/v1/operator-keys", body={"name": name})
    else:
        path = f"/v1/tenants/{segment(tenant, what='tenant')}/keys"
        request = _post(path, body={"name": name, "scopes": list(scopes)})
    return read(IssuedKey)((yield from _once(request, operation_id)))


def list_keys(tenant: str | None) -> Call[list[ApiKey]]:
    """Return the keys of a tenant, or with None those of operators; an operator's key is needed."""
    path = "/v1/operator-keys" if tenant is None else f"/v1/tenants/{segment(tenant, what='tenant')}/keys"
    return (yield from every_page(partial(_look, path), _read_key))


def revoke_key(key_id: str, *, operation_id: str | None = None) -> Call[ApiKey]:
    """Let a key open nothing from now on; an operator's key is needed."""
    request = Request("DELETE", f"/v1/keys/{segment(key_id, what='key')}")
    return _read_key((yield from _once(request, operation_id)))


def rotate_key(key_id: str, *, overlap: float = 0.0, operation_id: str | None = None) -> Call[IssuedKey]:
    """Create a key that takes over from another; an operator's key is needed. Of its text, see `create_key`."""
    path = f"/v1/keys/{segment(key_id, what='key')}/rotate"
    return read(IssuedKey)((yield from _once(_post(path, body={"overlap": overlap}), operation_id)))


def _once(request: Request, operation_id: str | None) -> Call[bytes]:
    """Make a request that changes something, under the id that was given or one that is named where it is needed."""
    named = new_id() if operation_id is None else check_operation_id(operation_id)
    try:
        return (yield replace(request, operation_id=named))
    except StoreError as error:
        if operation_id is None:
            error.add_note(f"operation id: {named}")
        raise


def _look(
    path: str, tenant: str | None = None, *, lengthy: bool = False, **query: str | int | None
) -> Request:
    stated = {name: value for name, value in query.items() if value is not None}
    return Request("GET", path, _about(tenant) | stated, lengthy=lengthy)


def _post(
    path: str,
    tenant: str | None = None,
    *,
    body: Mapping[str, Any] | None = None,
    lengthy: bool = False,
) -> Request:
    return Request("POST", path, _about(tenant), encode(body or {}), lengthy=lengthy)


def _about(tenant: str | None) -> dict[str, str | int]:
    return {} if tenant is None else {"tenant": check_name(tenant, what="tenant")}
