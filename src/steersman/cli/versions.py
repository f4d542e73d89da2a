"""Commands about versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.common import MOST, DatabaseOption, JsonFlag, TenantArgument, actor, answer, opened
from steersman.cli.tenants import number_or_name
from steersman.console import versions as looks
from steersman.usecases.import_table import import_table
from steersman.usecases.version_diff import diff_versions
from steersman.usecases.versions import activate, freeze, list_versions, roll_back, show_version

__all__ = [
    "activate_command",
    "app",
    "diff_command",
    "freeze_command",
    "import_command",
    "list_command",
    "rollback_command",
    "show_command",
]

app = typer.Typer(
    no_args_is_help=True, help="List, compare, freeze, activate, roll back and import versions."
)

_OwnerArgument = Annotated[str, typer.Argument(help="A tenant's id, or @NAME for a base.")]
_VersionArgument = Annotated[str, typer.Argument(help="A version's number or name.")]


@app.command("list")
def list_command(owner: _OwnerArgument, database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """List every version, oldest first."""
    with opened(database) as store:
        found = list_versions(store, owner)
        answer(found, as_json=as_json, render=lambda: looks.versions_table(owner, found))


@app.command("show")
def show_command(
    owner: _OwnerArgument,
    version: Annotated[str | None, typer.Argument(help="Number or name. [default: the active one]")] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one version: where it came from and how much it holds."""
    with opened(database) as store:
        detail = show_version(store, owner, number_or_name(version))
        answer(detail, as_json=as_json, render=lambda: looks.version_facts(detail))


@app.command("diff")
def diff_command(
    owner: _OwnerArgument,
    before: _VersionArgument,
    after: Annotated[str | None, typer.Argument(help="Number or name. [default: the active one]")] = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many cells.")] = 20,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the cells that changed most between two versions."""
    with opened(database) as store:
        first, second = number_or_name(before), number_or_name(after)
        diff = diff_versions(store, owner, first if first is not None else before, second, top=top)
        answer(diff, as_json=as_json, render=lambda: looks.diff_parts(diff))


@app.command("freeze")
def freeze_command(
    tenant: TenantArgument,
    name: Annotated[str, typer.Argument(help="What the frozen copy is called.")],
    version: Annotated[str | None, typer.Option(help="Number or name. [default: the active one]")] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Keep a copy of a version, under a name, as it is now."""
    with opened(database) as store:
        made = freeze(store, tenant, name, version=number_or_name(version), actor=actor())
        answer(
            made,
            as_json=as_json,
            render=lambda: f"{tenant}: version {made.number} is the frozen copy {name!r}",
        )


@app.command("activate")
def activate_command(
    tenant: TenantArgument,
    version: _VersionArgument,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a copy of a version the active one."""
    with opened(database) as store:
        chosen = number_or_name(version)
        made = activate(store, tenant, chosen if chosen is not None else version, actor=actor())
        answer(made, as_json=as_json, render=lambda: f"{tenant}: version {made.number} is active")


@app.command("rollback")
def rollback_command(
    tenant: TenantArgument,
    to: Annotated[
        str | None, typer.Option(help="Number or name. [default: the parent of the active one]")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Go back to an earlier version, by a copy of it."""
    with opened(database) as store:
        made = roll_back(store, tenant, to=number_or_name(to), actor=actor())
        answer(made, as_json=as_json, render=lambda: f"{tenant}: version {made.number} is active")


@app.command("import")
def import_command(
    tenant: TenantArgument,
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file of cells.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a new version of a table that was learned elsewhere."""
    with opened(database) as store:
        imported = import_table(store, tenant, file, actor=actor())
        answer(imported, as_json=as_json, render=lambda: looks.imported_facts(imported))
