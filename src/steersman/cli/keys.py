"""Commands about API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from steersman.cli.common import DatabaseOption, JsonFlag, actor, answer, opened
from steersman.console import keys as looks
from steersman.errors import InvalidInputError
from steersman.usecases.keys import (
    MOST_OVERLAP,
    SCOPES,
    create_key,
    list_keys,
    revoke_key,
    rotate_key,
)

__all__ = ["app", "create_command", "list_command", "revoke_command", "rotate_command"]

app = typer.Typer(no_args_is_help=True, help="Keys with which callers of the service show who they are.")

_OwnerArgument = Annotated[str | None, typer.Argument(help="The tenant's id.", show_default=False)]
_OperatorFlag = Annotated[
    bool, typer.Option("--operator", help="Of operators, who may act for every tenant.")
]
_KeyArgument = Annotated[str, typer.Argument(help="The key's id: the 12 digits after sk_.")]


def _owner(tenant: str | None, *, operator: bool) -> str | None:
    if (tenant is None) != operator:
        raise InvalidInputError("expected either a tenant or --operator")
    return tenant


@app.command("create")
def create_command(
    tenant: _OwnerArgument = None,
    operator: _OperatorFlag = False,
    name: Annotated[str, typer.Option(help="What people know the key by.")] = "",
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help=f"Allow one of {', '.join(SCOPES)}; may be repeated. [default: all]"),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a key of a tenant or of an operator. Its text is shown this once."""
    owner = _owner(tenant, operator=operator)
    with opened(database) as store:
        issued = create_key(store, tenant=owner, name=name, scopes=scopes or SCOPES, actor=actor())
        answer(issued, as_json=as_json, render=lambda: looks.issued_parts(issued))


@app.command("list")
def list_command(
    tenant: _OwnerArgument = None,
    operator: _OperatorFlag = False,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the keys of a tenant or of operators, oldest first."""
    owner = _owner(tenant, operator=operator)
    with opened(database) as store:
        found = list_keys(store, owner)
        answer(found, as_json=as_json, render=lambda: looks.keys_table(found))


@app.command("revoke")
def revoke_command(key: _KeyArgument, database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """Revoke a key: it opens nothing from now on."""
    with opened(database) as store:
        revoked = revoke_key(store, key, actor=actor())
        answer(revoked, as_json=as_json, render=lambda: f"{key}: revoked")


@app.command("rotate")
def rotate_command(
    key: _KeyArgument,
    overlap: Annotated[
        float, typer.Option(min=0, max=MOST_OVERLAP, help="Seconds for which the old key goes on.")
    ] = 0.0,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a key that takes over from another one. Its text is shown this once."""
    with opened(database) as store:
        issued = rotate_key(store, key, overlap=overlap, actor=actor())
        answer(issued, as_json=as_json, render=lambda: looks.issued_parts(issued))
