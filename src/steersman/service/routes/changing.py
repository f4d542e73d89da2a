"""Routes that change: voids, expiry, versions, and the declaration of a tenant."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from steersman.domain.answers import Expired, MigrationPlan, Refresh
from steersman.domain.records import PolicyVersion
from steersman.service.routes.bodies import FreezeBody, NoBody, RollBackBody
from steersman.service.routes.calls import Call, OperationId, allowed, answer, body_of, version_of
from steersman.service.routes.operations import operation, reference, request_body
from steersman.service.wire import encode_decision
from steersman.usecases.bases import refresh
from steersman.usecases.expire import expire
from steersman.usecases.tenants import change_tenant
from steersman.usecases.versions import activate, freeze, roll_back
from steersman.usecases.void import void

__all__ = [
    "patch_tenant",
    "post_activate",
    "post_expire",
    "post_freeze",
    "post_refresh",
    "post_roll_back",
    "post_void",
    "router",
]

router = APIRouter(tags=["changing"])

_Rewarding = Annotated[Call, Depends(allowed("reward"))]
_Managing = Annotated[Call, Depends(allowed("manage"))]
_Nothing = Annotated[NoBody, Depends(body_of(NoBody))]

_NOTHING = request_body(reference(NoBody), {}, required=False)
_CHANGES: dict[str, Any] = {"$ref": "#/components/schemas/Changes"}
_MADE = {"$ref": "#/components/schemas/DecisionAnswer"}


@router.post("/v1/decisions/{decision_id:id}/void", **operation("void", _MADE, scope="reward", body=_NOTHING))
def post_void(call: _Rewarding, decision_id: str, _: _Nothing) -> Response:
    """Take back a decision that was never acted upon, and return it."""
    body = encode_decision(void(call.database, call.tenant, decision_id))
    return Response(body, media_type="application/json")


@router.post("/v1/expire", **operation("expire", reference(Expired), scope="reward", body=_NOTHING))
def post_expire(call: _Rewarding, _: _Nothing) -> Response:
    """Give the default reward to decisions and episodes that have waited for longer than the tenant allows."""
    return answer(expire(call.database, call.tenant))


@router.post(
    "/v1/versions/{version:id}/freeze",
    **operation(
        "freeze",
        reference(PolicyVersion),
        scope="manage",
        body=request_body(reference(FreezeBody), {"name": "may-2026"}),
    ),
)
def post_freeze(
    call: _Managing,
    version: str,
    operation_id: OperationId,
    body: Annotated[FreezeBody, Depends(body_of(FreezeBody))],
) -> Response:
    """Keep a copy of a version (`active`: of the active one) under a name; it never changes."""
    made = freeze(
        call.database,
        call.tenant,
        body.name,
        version=version_of(version),
        operation_id=operation_id,
        actor=call.actor,
    )
    return answer(made)


@router.post(
    "/v1/versions/{version:id}/activate",
    **operation("activate", reference(PolicyVersion), scope="manage", body=_NOTHING),
)
def post_activate(call: _Managing, version: str, operation_id: OperationId, _: _Nothing) -> Response:
    """Make a copy of a version the active one, and return it."""
    made = activate(
        call.database, call.tenant, version_of(version), operation_id=operation_id, actor=call.actor
    )
    return answer(made)


@router.post(
    "/v1/roll-back",
    **operation(
        "roll_back",
        reference(PolicyVersion),
        scope="manage",
        body=request_body(reference(RollBackBody), {"to": 1}, required=False),
    ),
)
def post_roll_back(
    call: _Managing,
    operation_id: OperationId,
    body: Annotated[RollBackBody, Depends(body_of(RollBackBody))],
) -> Response:
    """Make a copy of the parent of the active version, or of another ancestor, the active one."""
    made = roll_back(call.database, call.tenant, to=body.to, operation_id=operation_id, actor=call.actor)
    return answer(made)


@router.patch(
    "/v1/tenant",
    **operation(
        "change_own_tenant",
        reference(MigrationPlan),
        scope="manage",
        body=request_body(_CHANGES, {"exploration": {"epsilon": 0.05}}),
    ),
)
def patch_tenant(
    call: _Managing,
    operation_id: OperationId,
    body: Annotated[dict[str, Any], Depends(body_of(dict[str, Any]))],
    *,
    dry_run: Annotated[bool, Query(description="Only say what would be kept, moved, new, parked.")] = False,
) -> Response:
    """Change parts of what the tenant declares; learning moves along. A dry run takes no Idempotency-Key."""
    plan = change_tenant(
        call.database, call.tenant, body, dry_run=dry_run, operation_id=operation_id, actor=call.actor
    )
    return answer(plan)


@router.post("/v1/refresh", **operation("refresh", reference(Refresh), scope="manage", body=_NOTHING))
def post_refresh(call: _Managing, operation_id: OperationId, _: _Nothing) -> Response:
    """Borrow anew what the tenant's base holds now, for cells that nothing was learned in."""
    return answer(refresh(call.database, call.tenant, operation_id=operation_id, actor=call.actor))
