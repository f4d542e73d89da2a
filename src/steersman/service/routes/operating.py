"""Routes of operators: tenants, keys, bases, and who changed what of these."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from steersman.domain.answers import ApiKey, AuditLine, BaseBuild, Erased, IssuedKey, MigrationPlan, Owner
from steersman.domain.identifiers import check_name
from steersman.service.routes.bodies import (
    BaseBody,
    KeyBody,
    NoBody,
    OperatorKeyBody,
    RotateBody,
    TenantBody,
)
from steersman.service.routes.calls import (
    After,
    Call,
    Limit,
    OperationId,
    answer,
    audit_page,
    body_of,
    listed,
    operators,
)
from steersman.service.routes.operations import list_of, operation, reference, request_body
from steersman.usecases.bases import build_base, create_base, list_bases
from steersman.usecases.keys import OPERATORS, create_key, list_keys, revoke_key, rotate_key
from steersman.usecases.tenants import (
    change_tenant,
    create_tenant,
    erase,
    list_tenants,
    retire,
    show_tenant,
)

__all__ = [
    "delete_key",
    "delete_tenant",
    "get_base_audit",
    "get_bases",
    "get_keys",
    "get_one_tenant",
    "get_operator_audit",
    "get_operator_keys",
    "get_tenants",
    "patch_one_tenant",
    "post_base",
    "post_build",
    "post_key",
    "post_operator_key",
    "post_retire",
    "post_rotate",
    "post_tenant",
    "router",
]

router = APIRouter(tags=["operating"])

_Operating = Annotated[Call, Depends(operators)]
_Nothing = Annotated[NoBody, Depends(body_of(NoBody))]

_NOTHING = request_body(reference(NoBody), {}, required=False)
_CHANGES: dict[str, Any] = {"$ref": "#/components/schemas/Changes"}
_DECLARATION = {"actions": ["hold", "trade"], "states": 4}
_SECRET = {"cache-control": "no-store"}
_OWN = "operator"


@router.get("/v1/tenants", **operation("list_tenants", list_of(Owner), scope=_OWN))
def get_tenants(call: _Operating) -> Response:
    """List every tenant, by id."""
    return listed(list_tenants(call.all_tenants))


@router.post(
    "/v1/tenants",
    **operation(
        "create_tenant",
        reference(Owner),
        scope=_OWN,
        status=201,
        body=request_body(reference(TenantBody), {"tenant": "acme", "declaration": _DECLARATION}),
    ),
)
def post_tenant(
    call: _Operating,
    operation_id: OperationId,
    body: Annotated[TenantBody, Depends(body_of(TenantBody))],
) -> Response:
    """Create a tenant."""
    made = create_tenant(
        call.all_tenants, body.tenant, body.declaration, operation_id=operation_id, actor=call.actor
    )
    return answer(made, status=201)


@router.get("/v1/tenants/{tenant:id}", **operation("show_tenant", reference(Owner), scope=_OWN))
def get_one_tenant(call: _Operating, tenant: str) -> Response:
    """Show one tenant and all that it declares."""
    return answer(show_tenant(call.all_tenants, tenant))


@router.patch(
    "/v1/tenants/{tenant:id}",
    **operation(
        "change_tenant",
        reference(MigrationPlan),
        scope=_OWN,
        body=request_body(_CHANGES, {"exploration": {"epsilon": 0.05}}),
    ),
)
def patch_one_tenant(
    call: _Operating,
    tenant: str,
    operation_id: OperationId,
    body: Annotated[dict[str, Any], Depends(body_of(dict[str, Any]))],
    *,
    dry_run: Annotated[bool, Query(description="Only say what would be kept, moved, new, parked.")] = False,
) -> Response:
    """Change parts of what a tenant declares; learning moves along. A dry run takes no Idempotency-Key."""
    plan = change_tenant(
        call.all_tenants, tenant, body, dry_run=dry_run, operation_id=operation_id, actor=call.actor
    )
    return answer(plan)


@router.delete("/v1/tenants/{tenant:id}", **operation("erase_tenant", reference(Erased), scope=_OWN))
def delete_tenant(call: _Operating, tenant: str, operation_id: OperationId) -> Response:
    """Erase every row of a tenant; a line of its audit trail stays and counts what there was."""
    with call.ending_keys():
        return answer(erase(call.all_tenants, tenant, operation_id=operation_id, actor=call.actor))


@router.post(
    "/v1/tenants/{tenant:id}/retire",
    **operation("retire_tenant", reference(Owner), scope=_OWN, body=_NOTHING),
)
def post_retire(call: _Operating, tenant: str, operation_id: OperationId, _: _Nothing) -> Response:
    """Retire a tenant, which refuses decides and changes from then on."""
    return answer(retire(call.all_tenants, tenant, operation_id=operation_id, actor=call.actor))


@router.get("/v1/tenants/{tenant:id}/keys", **operation("list_keys", list_of(ApiKey), scope=_OWN))
def get_keys(call: _Operating, tenant: str) -> Response:
    """List the keys of a tenant, oldest first; never their texts."""
    return listed(list_keys(call.all_tenants, check_name(tenant, what="tenant")))


@router.post(
    "/v1/tenants/{tenant:id}/keys",
    **operation(
        "create_key",
        reference(IssuedKey),
        scope=_OWN,
        status=201,
        body=request_body(reference(KeyBody), {"name": "shop", "scopes": ["decide", "reward"]}),
    ),
)
def post_key(
    call: _Operating,
    tenant: str,
    operation_id: OperationId,
    body: Annotated[KeyBody, Depends(body_of(KeyBody))],
) -> Response:
    """Create a key of a tenant; its text is shown this once. Again, it is answered with 409."""
    made = create_key(
        call.all_tenants,
        tenant=check_name(tenant, what="tenant"),
        name=body.name,
        scopes=body.scopes,
        operation_id=operation_id,
        actor=call.actor,
    )
    return answer(made, status=201, headers=_SECRET)


@router.get("/v1/operator-keys", **operation("list_operator_keys", list_of(ApiKey), scope=_OWN))
def get_operator_keys(call: _Operating) -> Response:
    """List the keys of operators, oldest first; never their texts."""
    return listed(list_keys(call.all_tenants, None))


@router.post(
    "/v1/operator-keys",
    **operation(
        "create_operator_key",
        reference(IssuedKey),
        scope=_OWN,
        status=201,
        body=request_body(reference(OperatorKeyBody), {"name": "ops"}),
    ),
)
def post_operator_key(
    call: _Operating,
    operation_id: OperationId,
    body: Annotated[OperatorKeyBody, Depends(body_of(OperatorKeyBody))],
) -> Response:
    """Create a key of an operator; its text is shown this once. Again, it is answered with 409."""
    made = create_key(
        call.all_tenants, tenant=None, name=body.name, operation_id=operation_id, actor=call.actor
    )
    return answer(made, status=201, headers=_SECRET)


@router.post(
    "/v1/keys/{key_id:id}/rotate",
    **operation(
        "rotate_key",
        reference(IssuedKey),
        scope=_OWN,
        status=201,
        body=request_body(reference(RotateBody), {"overlap": 3600}, required=False),
    ),
)
def post_rotate(
    call: _Operating,
    key_id: str,
    operation_id: OperationId,
    body: Annotated[RotateBody, Depends(body_of(RotateBody))],
) -> Response:
    """Create a key like this one, which goes on beside it for as long as `overlap` says.

    Its text is shown this once. Again, it is answered with 409.
    """
    with call.ending_keys():
        made = rotate_key(
            call.all_tenants,
            key_id,
            overlap=body.overlap,
            operation_id=operation_id,
            actor=call.actor,
        )
    return answer(made, status=201, headers=_SECRET)


@router.delete("/v1/keys/{key_id:id}", **operation("revoke_key", reference(ApiKey), scope=_OWN))
def delete_key(call: _Operating, key_id: str, operation_id: OperationId) -> Response:
    """Let a key open nothing from now on."""
    with call.ending_keys():
        return answer(revoke_key(call.all_tenants, key_id, operation_id=operation_id, actor=call.actor))


@router.get("/v1/bases", **operation("list_bases", list_of(Owner), scope=_OWN))
def get_bases(call: _Operating) -> Response:
    """List every base, by name."""
    return listed(list_bases(call.all_tenants))


@router.post(
    "/v1/bases",
    **operation(
        "create_base",
        reference(Owner),
        scope=_OWN,
        status=201,
        body=request_body(reference(BaseBody), {"base": "everyone", "declaration": _DECLARATION}),
    ),
)
def post_base(
    call: _Operating,
    operation_id: OperationId,
    body: Annotated[BaseBody, Depends(body_of(BaseBody))],
) -> Response:
    """Create a base; it holds nothing until it is built."""
    made = create_base(
        call.all_tenants, body.base, body.declaration, operation_id=operation_id, actor=call.actor
    )
    return answer(made, status=201)


@router.post(
    "/v1/bases/{base:id}/build", **operation("build_base", reference(BaseBuild), scope=_OWN, body=_NOTHING)
)
def post_build(call: _Operating, base: str, operation_id: OperationId, _: _Nothing) -> Response:
    """Merge what contributing tenants learned into a new version of the base."""
    return answer(build_base(call.all_tenants, base, operation_id=operation_id, actor=call.actor))


@router.get("/v1/bases/{base:id}/audit", **operation("list_base_audit", list_of(AuditLine), scope=_OWN))
def get_base_audit(call: _Operating, base: str, after: After = None, limit: Limit = 100) -> Response:
    """List who changed what of a base, newest first."""
    return audit_page(call.all_tenants, f"@{check_name(base, what='base')}", after=after, limit=limit)


@router.get("/v1/operator-audit", **operation("list_operator_audit", list_of(AuditLine), scope=_OWN))
def get_operator_audit(call: _Operating, after: After = None, limit: Limit = 100) -> Response:
    """List who made, rotated or revoked operators' keys and granted roles, newest first."""
    return audit_page(call.all_tenants, OPERATORS, after=after, limit=limit)
