"""Decide: choose an action, log why, count the visit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import uuid_utils

from steersman.domain.catalogue import action_text
from steersman.domain.identifiers import check_id, check_metadata, check_name, check_text, native
from steersman.domain.records import DecideRequest, Decision, PolicyVersion, SeenRow
from steersman.domain.states import State
from steersman.errors import (
    EpisodeClosedError,
    IdReusedError,
    InvalidActionError,
    InvalidInputError,
    InvalidStateError,
    SteersmanError,
    TenantRetiredError,
)
from steersman.policies.arithmetic import draw_uniform
from steersman.policies.tabular import choose_in_row
from steersman.store.clock import now
from steersman.store.decisions import decision_of, fingerprint_of, pack_decision
from steersman.store.engine import Database
from steersman.store.hot.text import Key, Row
from steersman.store.seals import request_fingerprint
from steersman.usecases.reward import DEFAULT_REWARD_PREFIX
from steersman.usecases.scope import Scope
from steersman.usecases.start import start

__all__ = ["decide", "decide_many"]


class _Asked(NamedTuple):
    """A request whose form is checked, under the id that its decision will have."""

    request: DecideRequest
    decision_id: str
    fingerprint: bytes
    state: State  # of plain numbers and texts
    feasible: tuple[str, ...] | None
    metadata: str | None  # JSON
    reasons: dict[str, str] | None
    key: tuple[str, str]  # (tenant, decision id)


class _Placed(NamedTuple):
    """A request that fits the tenant's active version."""

    asked: _Asked
    version: PolicyVersion
    state: int
    feasible: tuple[int, ...]  # [F] catalogue positions


def decide(
    database: Database,
    tenant: str,
    state: State,
    *,
    feasible: Sequence[str | int] | None = None,
    episode: str | None = None,
    decision_id: str | None = None,
    explore: bool = True,
    metadata: Mapping[str, Any] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Decision:
    """Return one decision; see `DecideRequest` for the arguments and `decide_many` for the errors, raised here."""
    request = DecideRequest(tenant, state, feasible, episode, decision_id, explore, metadata, reasons)
    (answer,) = decide_many(database, [request])
    if isinstance(answer, SteersmanError):
        raise answer
    return answer


def decide_many(
    database: Database, requests: Sequence[DecideRequest], *, actor: str = "library"
) -> list[Decision | SteersmanError]:
    """Decide each of `requests` in turn, in one transaction; return a decision or an error for each, in order.

    A tenant that has no version yet starts, which the audit trail lays to `actor`.

    An item that is refused leaves the others as they are: NotFoundError, TenantRetiredError, EpisodeClosedError,
    IdReusedError (the decision id was used for another request), InvalidStateError, InvalidActionError,
    InvalidInputError. An id that was used for the same request is answered as before. Raises StoreError when
    the database cannot do it; nothing of the list was kept then, or it will be found under the same ids.
    """
    prepared = [_check_form(request) for request in requests]
    tenants = {item.request.tenant for item in prepared if isinstance(item, _Asked)}
    while True:
        answers, unstarted = database.run_hot(
            lambda transaction: _decide_within(Scope(database, transaction), prepared), tenants=tenants
        )
        if not unstarted:
            return answers
        for tenant in unstarted:
            start(database, tenant, actor=actor)


def _check_form(request: DecideRequest) -> _Asked | SteersmanError:
    try:
        check_name(request.tenant, what="tenant")
        decision_id = request.decision_id
        decision_id = (
            str(uuid_utils.uuid7()) if decision_id is None else check_id(decision_id, what="decision_id")
        )
        if decision_id.startswith(DEFAULT_REWARD_PREFIX):
            raise InvalidInputError(
                f"decision_id: expected an id that does not begin with {DEFAULT_REWARD_PREFIX!r}, got {decision_id!r}"
            )
        if request.episode is not None:
            check_id(request.episode, what="episode")
        if type(request.explore) is not bool:
            raise InvalidInputError(f"explore: expected true or false, got {request.explore!r}")
        metadata = None if request.metadata is None else check_metadata(request.metadata)
        reasons = None if request.reasons is None else _check_reasons(request.reasons)
        feasible = None if request.feasible is None else _check_feasible(request.feasible)
        state = native(request.state)
        if isinstance(state, Mapping):
            state = {name: native(value) for name, value in state.items()}
        content = (state, feasible and sorted(feasible), request.episode, request.explore, metadata, reasons)
        try:
            fingerprint = request_fingerprint(content)
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise InvalidStateError(f"state: expected numbers and texts, got {request.state!r}") from None
        key = (request.tenant, decision_id)
        return _Asked(request, decision_id, fingerprint, state, feasible, metadata, reasons, key)
    except SteersmanError as error:
        return error


def _check_feasible(feasible: Sequence[str | int]) -> tuple[str, ...]:
    # A text is a sequence of letters, and what callers hand in may be anything.
    if isinstance(feasible, str) or not isinstance(feasible, Sequence):
        raise InvalidActionError(f"feasible: expected a list of action ids, got {feasible!r}")
    return tuple(action_text(action, what=f"feasible[{index}]") for index, action in enumerate(feasible))


def _check_reasons(reasons: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(reasons, Mapping):
        raise InvalidInputError(f"reasons: expected a mapping of action id to text, got {reasons!r}")
    return {
        action_text(action, what="reasons"): check_text(text, what=f"reasons.{action}")
        for action, text in reasons.items()
    }


def _decide_within(
    scope: Scope, prepared: list[_Asked | SteersmanError]
) -> tuple[list[Decision | SteersmanError], set[str]]:
    asked = [item for item in prepared if isinstance(item, _Asked)]
    scope.lock_tenants(item.request.tenant for item in asked)
    unstarted = {
        head.tenant
        for head in scope.heads.values()
        if head.active_version is None and head.status == "active"
    }
    if unstarted:
        return [], unstarted
    keys = [item.key for item in asked if item.request.tenant in scope.heads]
    stored = {(row[0], row[1]): row for row in scope.hot.find_decisions(scope.cursor, sorted(set(keys)))}
    # An id of ours is new; one of the caller's may be of a decision that was archived since.
    stored |= scope.archived(
        item.key for item in asked if item.request.decision_id is not None and item.key not in stored
    )
    placed = {id(item): _place(scope, item) for item in asked if item.key not in stored}
    steps = _lock_episodes(scope, [item for item in placed.values() if isinstance(item, _Placed)])
    scope.load(
        (item.asked.request.tenant, item.version.number, item.state)
        for item in placed.values()
        if isinstance(item, _Placed)
    )
    made: dict[tuple[str, str], tuple[bytes, Decision]] = {}
    rows: list[Row] = []
    answers: list[Decision | SteersmanError] = []
    at = now()
    for item in prepared:
        if isinstance(item, SteersmanError):
            answers.append(item)
            continue
        place = placed.get(id(item))
        if item.key in stored:
            answers.append(_replay(scope, item, stored[item.key]))
        elif item.key in made:
            answers.append(_same_or_conflict(item, *made[item.key]))
        elif isinstance(place, _Placed):
            answer = _choose(scope, place, steps, rows, at)
            if isinstance(answer, Decision):
                made[item.key] = item.fingerprint, answer
            answers.append(answer)
        elif place is not None:
            answers.append(place)
    if rows:
        scope.hot.insert_decisions(scope.cursor, rows)
        scope.write_cells()
    if steps:
        scope.hot.touch_episodes(
            scope.cursor, [(count, at, *key) for key, count in sorted(steps.items()) if count]
        )
        # An episode is opened before its first decision, which can still be refused as a conflict within the list.
        scope.hot.drop_episodes(scope.cursor, [key for key, count in sorted(steps.items()) if count == 0])
    return answers, set()


def _place(scope: Scope, item: _Asked) -> _Placed | SteersmanError:
    request = item.request
    try:
        if scope.head(request.tenant).status != "active":
            raise TenantRetiredError(f"tenant {request.tenant!r} is retired")
        version = scope.active(request.tenant)
        state = version.states.encode(item.state)
        feasible = version.actions.positions(item.feasible)
        for action in item.reasons or ():
            position = version.actions.position.get(action)
            if position is None or position in feasible:
                raise InvalidActionError(
                    f"reasons: expected ids of actions that are not feasible, got {action!r}"
                )
        return _Placed(item, version, state, feasible)
    except SteersmanError as error:
        return error


def _lock_episodes(scope: Scope, placed: list[_Placed]) -> dict[Key, int | None]:
    """Make and lock the episodes of these requests; return their lengths, None for those that are closed."""
    keys = sorted(
        {
            (item.asked.request.tenant, item.asked.request.episode)
            for item in placed
            if item.asked.request.episode
        }
    )
    if not keys:
        return {}
    at = now()
    scope.hot.open_episodes(scope.cursor, [(*key, at) for key in keys])
    locked = scope.hot.lock_episodes(scope.cursor, keys)
    return {(row[0], row[1]): row[3] if row[2] == "open" else None for row in locked}


def _choose(
    scope: Scope, place: _Placed, steps: dict[Key, int | None], rows: list[Row], at: int
) -> Decision | SteersmanError:
    item, version = place.asked, place.version
    request = item.request
    step: int | None = None
    if request.episode is not None:
        step = steps[request.tenant, request.episode]
        if step is None:
            return EpisodeClosedError(f"episode {request.episode!r} of tenant {request.tenant!r} is closed")
        steps[request.tenant, request.episode] = step + 1
    key = (request.tenant, version.number, place.state)
    cells = scope.cells(key)
    ids = version.actions.ids
    whole = len(place.feasible) == len(ids)
    if whole:
        seen = SeenRow(cells.q, cells.visits, cells.updates, cells.borrowed)
    else:
        columns = (cells.q, cells.visits, cells.updates, cells.borrowed)
        seen = SeenRow(*(tuple(column[i] for i in place.feasible) for column in columns))  # type: ignore[arg-type]
        ids = tuple(ids[i] for i in place.feasible)
    head = scope.heads[request.tenant]
    settings = version.settings
    choice = choose_in_row(
        seen, settings, draw_uniform(head.secret, item.decision_id), explore=request.explore
    )
    decision = Decision(
        request.tenant,
        item.decision_id,
        version.number,
        place.state,
        ids[choice.position],
        choice.propensity,
        choice.explored,
        request.explore,
        settings.epsilon if request.explore else 0.0,
        settings.c,
        ids,
        seen,
        request.episode,
        step,
        None if item.metadata is None else json.loads(item.metadata),
        item.reasons,
        at,
    )
    position = place.feasible[choice.position]
    cells.add_visit(position, 1)
    scope.changed(key, position)
    rows.append(
        pack_decision(
            decision,
            whole_catalogue=whole,
            latest_version=head.latest_version,
            fingerprint=item.fingerprint,
            metadata=item.metadata,
        )
    )
    return decision


def _replay(scope: Scope, item: _Asked, row: Row) -> Decision | SteersmanError:
    version = scope.version(row[0], row[2])
    return _same_or_conflict(item, fingerprint_of(row), decision_of(row, version.actions.ids))


def _same_or_conflict(item: _Asked, fingerprint: bytes, decision: Decision) -> Decision | SteersmanError:
    if fingerprint == item.fingerprint:
        return decision
    stored, given = fingerprint.hex(), item.fingerprint.hex()
    return IdReusedError(
        f"decision {item.decision_id!r} of tenant {item.request.tenant!r} was made for another request: "
        f"stored {stored} for {_stored_request(decision)}, now {given} for {_asked_request(item.request)}",
        stored_fingerprint=stored,
        given_fingerprint=given,
    )


def _stored_request(decision: Decision) -> str:
    return f"state {decision.state}, feasible {list(decision.feasible)}, episode {decision.episode!r}"


def _asked_request(request: DecideRequest) -> str:
    feasible = None if request.feasible is None else list(request.feasible)
    return f"state {request.state!r}, feasible {feasible}, episode {request.episode!r}"
