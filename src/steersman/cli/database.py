"""Commands about the database itself."""

from __future__ import annotations

import typer

from steersman.cli.common import DatabaseOption, JsonFlag, answer
from steersman.console.grid import facts
from steersman.usecases.database import database_status, upgrade_database

__all__ = ["app", "status_command", "upgrade_command"]

app = typer.Typer(no_args_is_help=True, help="Show and upgrade the database's schema.")


@app.command("upgrade")
def upgrade_command(database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """Bring the schema to this release. SQLite files are upgraded when they are opened; servers by this."""
    done = upgrade_database(database)
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
