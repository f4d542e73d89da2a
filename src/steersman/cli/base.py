"""Commands about bases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.common import (
    DatabaseOption,
    JsonFlag,
    TenantArgument,
    actor,
    answer,
    opened,
    parse_json_object,
)
from steersman.console import bases as looks
from steersman.console import tenants as tenant_looks
from steersman.errors import InvalidInputError
from steersman.usecases.bases import build_base, create_base, list_bases, refresh, show_base
from steersman.usecases.declarations import read_declarations

__all__ = ["app", "build_command", "create_command", "list_command", "refresh_command", "show_command"]

app = typer.Typer(no_args_is_help=True, help="Named versions that new tenants start from.")

_BaseArgument = Annotated[str, typer.Argument(help="The base's name.")]


@app.command("create")
def create_command(
    base: _BaseArgument,
    file: Annotated[
        Path | None, typer.Option("--from", help="A YAML or TOML file that declares the base.")
    ] = None,
    parts: Annotated[str | None, typer.Option("--set", help="The declaration as a JSON object.")] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a base; it holds nothing until it is built."""
    if (file is None) == (parts is None):
        raise InvalidInputError("expected either --from FILE or --set JSON")
    declaration = parse_json_object(parts, option="--set")
    if file is not None:
        found = read_declarations(file).bases.get(base)
        if found is None:
            raise InvalidInputError(f"expected a base {base!r} in the file", where=str(file))
        declaration = found.to_json()
    with opened(database, create=True) as store:
        owner = create_base(store, base, declaration or {}, actor=actor())
        answer(owner, as_json=as_json, render=lambda: tenant_looks.tenant_parts(owner))


@app.command("list")
def list_command(database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """List every base."""
    with opened(database) as store:
        owners = list_bases(store)
        answer(owners, as_json=as_json, render=lambda: tenant_looks.owners_table("Bases", owners))


@app.command("show")
def show_command(base: _BaseArgument, database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """Show what a base declares."""
    with opened(database) as store:
        owner = show_base(store, base)
        answer(owner, as_json=as_json, render=lambda: tenant_looks.tenant_parts(owner))


@app.command("build")
def build_command(base: _BaseArgument, database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """Merge what the contributing tenants have learned into a new version of the base."""
    with opened(database) as store:
        built = build_base(store, base, actor=actor())
        answer(built, as_json=as_json, render=lambda: looks.build_table(built))


@app.command("refresh")
def refresh_command(
    tenant: TenantArgument, database: DatabaseOption = None, as_json: JsonFlag = False
) -> None:
    """Let a tenant borrow anew from its base, in cells with no visits and no updates of its own."""
    with opened(database) as store:
        refreshed = refresh(store, tenant, actor=actor())
        answer(refreshed, as_json=as_json, render=lambda: looks.refresh_facts(refreshed))
