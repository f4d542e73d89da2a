"""The command `steersman`: its subcommands, and how errors end it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from steersman import __version__
from steersman.cli import base, database, decisions, episodes, health, tenants, versions
from steersman.errors import InvalidInputError, SteersmanError

__all__ = ["app", "main", "root"]

app = typer.Typer(
    name="steersman",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learns which action to play, keeps a logbook that proves why.",
)
app.add_typer(tenants.app, name="tenant")
app.command("show")(tenants.show_table)
app.command("decide")(decisions.decide_command)
app.command("reward")(decisions.reward_command)
app.command("close")(decisions.close_command)
app.command("void")(decisions.void_command)
app.command("expire")(decisions.expire_command)
app.command("why")(decisions.why_command)
app.command("decisions")(decisions.list_command)
app.add_typer(episodes.app, name="episodes")
app.add_typer(versions.app, name="versions")
app.add_typer(base.app, name="base")
app.command("verify")(health.verify_command)
app.command("doctor")(health.doctor_command)
app.add_typer(database.app, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"steersman {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line; exit with 2 for input that is wrong and 1 for anything else that failed."""
    try:
        app()
    except SteersmanError as error:
        if "--json" in sys.argv:
            body = {
                "error": type(error).__name__,
                "message": error.message,
                "where": error.where,
                "hint": error.hint,
            }
            typer.echo(json.dumps(body), err=True)
        else:
            typer.secho(f"{type(error).__name__}: {error}", fg=typer.colors.RED, err=True)
        raise SystemExit(2 if isinstance(error, InvalidInputError) else 1) from None
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True)
        raise SystemExit(130) from None
