"""Apply a file of declarations: create what is new and change what differs, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uuid_utils

from steersman.domain.answers import MigrationPlan
from steersman.domain.settings import TenantSpec
from steersman.errors import InvalidSpecError, TenantRetiredError
from steersman.store import tenants
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import name_operation
from steersman.usecases.bases import change_base_within, create_base_within
from steersman.usecases.declarations import Declarations, read_declarations
from steersman.usecases.keys import OPERATORS
from steersman.usecases.migrate import change_within
from steersman.usecases.operations import Unchanged, record_form, run_once
from steersman.usecases.tenants import create_within

__all__ = ["Applied", "apply_file"]


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one declaration."""

    kind: str  # base or tenant
    name: str
    outcome: str  # created, changed or unchanged
    plan: MigrationPlan | None = None  # of a tenant that was there


_APPLIED = record_form(list[Applied])


def apply_file(
    database: Database, path: Path, *, operation_id: str | None = None, actor: str = "library"
) -> list[Applied]:
    """Create or change every base and tenant that a YAML or TOML file declares, in one transaction.

    What the file does not name stays as it is. Under the same `operation_id` the same declarations are applied once
    and answered as before. Raises InvalidSpecError, naming the place, TenantRetiredError or IdReusedError; nothing is
    changed then.
    """
    declared = read_declarations(path)
    operation = name_operation(
        "apply",
        operation_id,
        bases={base: spec.to_json() for base, spec in declared.bases.items()},
        tenants={tenant: spec.to_json() for tenant, spec in declared.tenants.items()},
    )

    def work(connection: Connection) -> list[Applied] | Unchanged[list[Applied]]:
        applied = _apply_within(connection, path, declared, actor)
        return applied if any(each.outcome != "unchanged" for each in applied) else Unchanged(applied)

    return run_once(database, OPERATORS, operation, _APPLIED, work)


def _apply_within(connection: Connection, path: Path, declared: Declarations, actor: str) -> list[Applied]:
    there = {owner.tenant for owner in (*tenants.list_bases(connection), *tenants.list_tenants(connection))}
    applied = []
    for base, spec in sorted(declared.bases.items()):
        if tenants.base_owner(base) in there:
            changed = change_base_within(connection, base, spec, actor=actor)
            applied.append(Applied("base", base, "changed" if changed else "unchanged"))
        else:
            create_base_within(connection, base, spec, actor=actor)
            applied.append(Applied("base", base, "created"))
    for tenant, spec in sorted(declared.tenants.items()):
        try:
            if tenant in there:
                # Ids of operators' calls are not the tenant's, which may use the same for another call.
                mark = str(uuid_utils.uuid7())
                plan = change_within(connection, tenant, partial(_as_declared, spec), mark, actor=actor)
                applied.append(Applied("tenant", tenant, "changed" if plan.changed else "unchanged", plan))
            else:
                create_within(connection, tenant, spec, actor=actor)
                applied.append(Applied("tenant", tenant, "created"))
        except (InvalidSpecError, TenantRetiredError) as error:
            raise type(error)(error.message, where=f"{path}: tenants.{tenant}", hint=error.hint) from None
    return applied


def _as_declared(spec: TenantSpec, _: TenantSpec) -> TenantSpec:
    return spec
