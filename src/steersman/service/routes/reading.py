"""Routes that read: decisions and why they were made, episodes, versions, cells, catalogue, doctor, audit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response

from steersman.domain.answers import (
    AuditLine,
    Checkup,
    Episode,
    EpisodeDetail,
    Explanation,
    LearnedTable,
    Owner,
    Verification,
)
from steersman.domain.records import Decision, PolicyVersion
from steersman.errors import InvalidInputError
from steersman.service.routes.bodies import NoBody
from steersman.service.routes.calls import (
    WHOLE,
    After,
    Call,
    Limit,
    allowed,
    allowed_of_bases,
    answer,
    audit_page,
    body_of,
    listed,
    version_of,
)
from steersman.service.routes.operations import list_of, operation, reference
from steersman.service.strict import read_as, read_document
from steersman.usecases.doctor import doctor
from steersman.usecases.episodes import list_episodes, show_episode
from steersman.usecases.explain import explain, list_decisions
from steersman.usecases.show import show
from steersman.usecases.tenants import show_tenant
from steersman.usecases.verify import verify
from steersman.usecases.versions import VersionDetail, list_versions, show_version

__all__ = [
    "Catalogue",
    "get_audit",
    "get_catalogue",
    "get_cells",
    "get_decision",
    "get_decisions",
    "get_doctor",
    "get_episode",
    "get_episodes",
    "get_tenant",
    "get_version",
    "get_versions",
    "post_verify",
    "router",
]

router = APIRouter(tags=["reading"])

_Reading = Annotated[Call, Depends(allowed("read"))]
_ReadingVersions = Annotated[Call, Depends(allowed_of_bases("read"))]
_METADATA = "query.metadata"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What may be played, and the states it is played in."""

    tenant: str
    actions: tuple[Mapping[str, str], ...]  # [A] of id and label, in catalogue order
    states: Any  # a number, or factors


@router.get("/v1/decisions", **operation("list_decisions", list_of(Decision), scope="read"))
def get_decisions(
    call: _Reading,
    *,
    episode: Annotated[str | None, Query(description="Only of this episode.")] = None,
    status: Annotated[
        Literal["open", "learned", "void"] | None, Query(description="Only with this status.")
    ] = None,
    metadata: Annotated[
        str | None, Query(description="Only with these keys and values, a JSON object.")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List decisions, newest first."""
    wanted = None
    if metadata is not None:
        document = read_document(metadata.encode(), where=_METADATA)
        wanted = read_as(dict[str, Any], document, where=_METADATA)
    found = list_decisions(
        call.database,
        call.tenant,
        episode=episode,
        status=status,
        metadata=wanted,
        after=after,
        limit=limit,
    )
    return listed(found, following=found[-1].decision_id if len(found) == limit else None)


@router.get("/v1/decisions/{decision_id:id}", **operation("explain", reference(Explanation), scope="read"))
def get_decision(call: _Reading, decision_id: str) -> Response:
    """Show why an action was chosen: the row as seen, bonus, greedy set, mask with reasons, draw."""
    return answer(explain(call.database, call.tenant, decision_id))


@router.get("/v1/episodes", **operation("list_episodes", list_of(Episode), scope="read"))
def get_episodes(
    call: _Reading,
    status: Annotated[Literal["open", "closed"] | None, Query(description="Only with this status.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List episodes, the latest touched first."""
    since = None
    if after is not None:
        at, _, episode = after.partition(":")
        if not re.fullmatch("[0-9]{1,19}", at):
            raise InvalidInputError("after: expected `next` of the page before", where="query")
        since = int(at), episode
    found = list_episodes(call.database, call.tenant, status=status, after=since, limit=limit)
    last = found[-1] if len(found) == limit else None
    return listed(found, following=None if last is None else f"{last.touched_at}:{last.episode}")


@router.get("/v1/episodes/{episode:id}", **operation("show_episode", reference(EpisodeDetail), scope="read"))
def get_episode(call: _Reading, episode: str) -> Response:
    """Show one episode and its decisions, in step order."""
    return answer(show_episode(call.database, call.tenant, episode))


@router.get("/v1/versions", **operation("list_versions", list_of(PolicyVersion), scope="read"))
def get_versions(call: _ReadingVersions) -> Response:
    """List versions, oldest first."""
    return listed(list_versions(call.database, call.tenant))


@router.get("/v1/versions/{version:id}", **operation("show_version", reference(VersionDetail), scope="read"))
def get_version(call: _ReadingVersions, version: str) -> Response:
    """Show one version, by number, name or `active`, and the size of its table."""
    return answer(show_version(call.database, call.tenant, version_of(version)))


@router.get("/v1/cells", **operation("show", reference(LearnedTable), scope="read"))
def get_cells(
    call: _ReadingVersions,
    version: Annotated[str | None, Query(description="A number or name; the active one if none.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many states."), WHOLE] = 20,
) -> Response:
    """Show what was learned, by the meaning of states, those with the most evidence first."""
    chosen = None if version is None else version_of(version)
    return answer(show(call.database, call.tenant, version=chosen, limit=limit))


@router.get("/v1/catalogue", **operation("show_catalogue", reference(Catalogue), scope="read"))
def get_catalogue(call: _Reading) -> Response:
    """Show the actions with their labels, and the states, as they are declared now."""
    spec = show_tenant(call.database, call.tenant).spec.to_json()
    return answer(Catalogue(call.tenant, tuple(spec["actions"]), spec["states"]))


@router.get("/v1/tenant", **operation("show_own_tenant", reference(Owner), scope="read"))
def get_tenant(call: _Reading) -> Response:
    """Show the tenant and all that it declares."""
    return answer(show_tenant(call.database, call.tenant))


@router.get("/v1/doctor", **operation("doctor", reference(Checkup), scope="read"))
def get_doctor(call: _Reading) -> Response:
    """Look for what goes wrong quietly, and say it in plain words."""
    return answer(doctor(call.database, call.tenant))


@router.post("/v1/verify", **operation("verify", reference(Verification), scope="read"))
def post_verify(call: _Reading, _: Annotated[NoBody, Depends(body_of(NoBody))]) -> Response:
    """Recompute what was logged and rebuild what was learned, and report every difference."""
    return answer(verify(call.database, call.tenant))


@router.get("/v1/audit", **operation("list_audit", list_of(AuditLine), scope="read"))
def get_audit(call: _Reading, after: After = None, limit: Limit = 100) -> Response:
    """List who changed what, newest first."""
    return audit_page(call.database, call.tenant, after=after, limit=limit)
