"""Apply a file of declarations: create what is new and change what differs, all or nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import uuid_utils

from steersman.domain.answers import MigrationPlan
from steersman.errors import InvalidSpecError, TenantRetiredError
from steersman.store import tenants
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.bases import change_base_within, create_base_within
from steersman.usecases.declarations import Declarations, read_declarations
from steersman.usecases.migrate import change_within
from steersman.usecases.tenants import create_within, unchanged_plan

__all__ = ["Applied", "apply_file"]


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one declaration."""

    kind: str  # base or tenant
    name: str
    outcome: str  # created, changed or unchanged
    plan: MigrationPlan | None = None  # of a tenant that was there


def apply_file(database: Database, path: Path, *, actor: str = "library") -> list[Applied]:
    """Create or change every base and tenant that a YAML or TOML file declares, in one transaction.

    What the file does not name stays as it is. Raises InvalidSpecError, naming the place, or
    TenantRetiredError; nothing is changed then.
    """
    declared = read_declarations(path)
    # Made before the transaction, so that a repeated try finds its own work.
    marks = {tenant: (secrets.token_bytes(32), str(uuid_utils.uuid7())) for tenant in declared.tenants}
    return database.run(lambda connection: _apply_within(connection, path, declared, marks, actor))


def _apply_within(
    connection: Connection,
    path: Path,
    declared: Declarations,
    marks: dict[str, tuple[bytes, str]],
    actor: str,
) -> list[Applied]:
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
        secret, operation_id = marks[tenant]
        try:
            if tenant in there:
                owner = tenants.get_tenant(connection, tenant, lock=True)
                # A retired tenant may stand in the file as it is; only a change of it is refused.
                plan = unchanged_plan(owner, spec) or change_within(
                    connection, tenant, spec, operation_id, actor=actor
                )
                applied.append(Applied("tenant", tenant, "changed" if plan.changed else "unchanged", plan))
            else:
                create_within(connection, tenant, spec, secret, actor=actor)
                applied.append(Applied("tenant", tenant, "created"))
        except (InvalidSpecError, TenantRetiredError) as error:
            raise type(error)(error.message, where=f"{path}: tenants.{tenant}", hint=error.hint) from None
    return applied
