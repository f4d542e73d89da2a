"""Commands about tenants, and the table that one has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.common import (
    MOST,
    DatabaseOption,
    JsonFlag,
    TenantArgument,
    actor,
    answer,
    opened,
    parse_json_object,
)
from steersman.console import tables
from steersman.console import tenants as looks
from steersman.errors import InvalidInputError, NotFoundError
from steersman.usecases.apply import apply_file
from steersman.usecases.audit import export_audit
from steersman.usecases.declarations import read_declarations
from steersman.usecases.export import export
from steersman.usecases.show import show
from steersman.usecases.tenants import (
    audit_trail,
    change_tenant,
    create_tenant,
    erase,
    list_tenants,
    retire,
    show_tenant,
)

__all__ = [
    "app",
    "apply_command",
    "audit_command",
    "change_command",
    "create_command",
    "erase_command",
    "export_audit_command",
    "export_command",
    "list_command",
    "number_or_name",
    "retire_command",
    "show_command",
    "show_table",
]

app = typer.Typer(no_args_is_help=True, help="Create, show, list, change, retire, export and erase tenants.")

_FromOption = Annotated[
    Path | None, typer.Option("--from", help="A YAML or TOML file that declares the tenant.")
]
_PartOption = Annotated[
    str | None,
    typer.Option("--set", help='Parts of the declaration as JSON, such as {"exploration": {"c": 1}}.'),
]
_LARGEST_VERSION = 2**31 - 1  # of the column
_DryRunFlag = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would be kept, moved, new, parked.")
]


def _declared(tenant: str, file: Path | None, parts: str | None) -> dict[str, object]:
    if (file is None) == (parts is None):
        raise InvalidInputError("expected either --from FILE or --set JSON")
    if file is None:
        return parse_json_object(parts, option="--set") or {}
    found = read_declarations(file).tenants.get(tenant)
    if found is None:
        raise InvalidInputError(f"expected a tenant {tenant!r} in the file", where=str(file))
    return found.to_json()


@app.command("create")
def create_command(
    tenant: TenantArgument,
    file: _FromOption = None,
    parts: _PartOption = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a tenant from a file, or from a declaration in JSON."""
    declaration = _declared(tenant, file, parts)
    with opened(database, create=True) as store:
        owner = create_tenant(store, tenant, declaration, actor=actor())
        answer(owner, as_json=as_json, render=lambda: looks.tenant_parts(owner))


@app.command("apply")
def apply_command(
    file: Annotated[Path, typer.Argument(help="A YAML or TOML file of many tenants and bases.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create what a file declares and change what differs, all or nothing."""
    with opened(database, create=True) as store:
        applied = apply_file(store, file, actor=actor())
        answer(applied, as_json=as_json, render=lambda: looks.applied_table(applied))


@app.command("show")
def show_command(tenant: TenantArgument, database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """Show what a tenant declares."""
    with opened(database) as store:
        owner = show_tenant(store, tenant)
        answer(owner, as_json=as_json, render=lambda: looks.tenant_parts(owner))


@app.command("list")
def list_command(database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """List every tenant."""
    with opened(database) as store:
        owners = list_tenants(store)
        answer(owners, as_json=as_json, render=lambda: looks.owners_table("Tenants", owners))


@app.command("change")
def change_command(
    tenant: TenantArgument,
    file: _FromOption = None,
    parts: _PartOption = None,
    dry_run: _DryRunFlag = False,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Change what a tenant declares; learning moves along by action id and state meaning."""
    changes = _declared(tenant, file, parts)
    with opened(database) as store:
        plan = change_tenant(store, tenant, changes, dry_run=dry_run, actor=actor())
        answer(plan, as_json=as_json, render=lambda: looks.plan_parts(plan, dry_run=dry_run))


@app.command("retire")
def retire_command(
    tenant: TenantArgument, database: DatabaseOption = None, as_json: JsonFlag = False
) -> None:
    """Retire a tenant: it decides no more, and everything of it stays."""
    with opened(database) as store:
        owner = retire(store, tenant, actor=actor())
        answer(owner, as_json=as_json, render=lambda: f"{tenant}: retired")


@app.command("export")
def export_command(
    tenant: TenantArgument,
    file: Annotated[Path, typer.Argument(help="A new file of JSON lines.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write everything of a tenant to a file, enough to audit it elsewhere."""
    with opened(database) as store:
        exported = export(store, tenant, file)
        answer(
            exported, as_json=as_json, render=lambda: looks.rows_table(f"Exported to {file}", exported.rows)
        )


@app.command("erase")
def erase_command(
    tenant: TenantArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Erase every row of a tenant; one line of the audit trail keeps the counts."""
    if as_json and not yes:
        raise InvalidInputError("expected --yes: a caller that reads JSON is not asked", hint="add --yes")
    with opened(database) as store:
        if not yes:
            typer.confirm(f"Erase everything of {tenant}? It cannot be undone.", abort=True, err=True)
        erased = erase(store, tenant, actor=actor())
        answer(erased, as_json=as_json, render=lambda: looks.rows_table(f"Erased {tenant}", erased.rows))


@app.command("audit")
def audit_command(
    tenant: TenantArgument,
    by: Annotated[str | None, typer.Option(help="Only what this one changed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, the newest.")] = 100,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List who changed what of a tenant, newest first; @NAME is a base, and @ alone the operators."""
    with opened(database) as store:
        lines = audit_trail(store, tenant, actor=by, limit=limit)
        answer(lines, as_json=as_json, render=lambda: looks.audit_table(lines))


@app.command("export-audit")
def export_audit_command(
    tenant: TenantArgument,
    file: Annotated[Path, typer.Argument(help="A new file of JSON lines.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write who changed what of a tenant to a file, oldest first; @NAME is a base, and @ alone the operators."""
    with opened(database) as store:
        exported = export_audit(store, tenant, file)
        answer(
            exported, as_json=as_json, render=lambda: looks.rows_table(f"Exported to {file}", exported.rows)
        )


def show_table(
    tenant: TenantArgument,
    version: Annotated[
        str | None, typer.Option(help="A version's number or name. [default: the active one]")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST, help="At most so many states, those with the most evidence.")
    ] = 20,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print what a tenant has learned: states by meaning, actions by label, the greedy one, what was never tried."""
    with opened(database) as store:
        table = show(store, tenant, version=number_or_name(version), limit=limit)
        answer(table, as_json=as_json, render=lambda: tables.learned_parts(table))


def number_or_name(text: str | None) -> int | str | None:
    """Return the number or the name of a version; raise NotFoundError for a number that no version can have."""
    if text is None or not text.isdecimal():
        return text
    digits = text.lstrip("0") or "0"
    if len(digits) > 10 or int(digits) > _LARGEST_VERSION:
        raise NotFoundError(f"there is no version {digits if len(digits) <= 40 else digits[:37] + '...'}")
    return int(digits)
