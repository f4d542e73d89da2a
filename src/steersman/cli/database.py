"""Commands about the database itself."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from steersman.cli.common import DatabaseOption, JsonFlag, actor, answer, opened
from steersman.console.grid import facts
from steersman.usecases.database import database_status, upgrade_database
from steersman.usecases.isolation import grant_roles

__all__ = ["app", "grant_command", "status_command", "upgrade_command"]

app = typer.Typer(no_args_is_help=True, help="Show and upgrade the database's schema, and grant its roles.")


@app.command("upgrade")
def upgrade_command(
    phase: Annotated[
        Literal["before", "after"] | None,
        typer.Option(help="Only what runs before this release starts, or after the last one ended."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Bring the schema to this release. SQLite files are upgraded when they are opened; servers by this."""
    done = upgrade_database(database, phase=phase)
    answer(
        done,
        as_json=as_json,
        render=lambda: facts("Schema", {"before": done.before or "empty", "now": done.after}),
    )


@app.command("status")
def status_command(database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """Show which database it is and whether its schema fits this release."""
    status = database_status(database)
    shown = {"database": status.dialect, "schema": status.revision, "tenants": f"{status.tenants:,}"}
    answer(status, as_json=as_json, render=lambda: facts("Database", shown))


@app.command("grant")
def grant_command(
    serving: Annotated[str, typer.Option(help="The role that serves tenants, held by row-level security.")],
    operator: Annotated[str, typer.Option(help="The role that looks keys up and serves operators.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Grant two roles of a PostgreSQL server what services need. Run it as the owner, and after every upgrade."""
    with opened(database) as store:
        granted = grant_roles(store, serving=serving, operator=operator, actor=actor())
        shown = {"serves tenants": granted.serving, "serves operators": granted.operator}
        answer(granted, as_json=as_json, render=lambda: facts("Granted", shown))
