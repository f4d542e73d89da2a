"""The command `steersman`: its subcommands, and how errors end it."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from steersman import __version__
from steersman.cli import (
    archive,
    base,
    checkpoint,
    database,
    decisions,
    demo,
    episodes,
    fit,
    health,
    keys,
    rows,
    serve,
    tenants,
    versions,
)
from steersman.console.terminal import write_error
from steersman.errors import InvalidInputError, SteersmanError

__all__ = ["app", "main", "root"]

_JSON = "--json"
_USAGE_ERROR: Any = typer.BadParameter.__base__  # which Typer gives no name of its own

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
# A reward may be negative: what begins with a dash and names no option is its value.
app.command("reward", context_settings={"ignore_unknown_options": True})(decisions.reward_command)
app.command("close")(decisions.close_command)
app.command("void")(decisions.void_command)
app.command("expire")(decisions.expire_command)
app.command("why")(decisions.why_command)
app.command("decisions")(decisions.list_command)
app.add_typer(episodes.app, name="episodes")
app.add_typer(versions.app, name="versions")
app.add_typer(base.app, name="base")
app.command("fit", cls=fit.FitCommand)(fit.fit_command)
app.add_typer(rows.app, name="rows")
app.add_typer(checkpoint.app, name="checkpoint")
app.command("verify")(health.verify_command)
app.command("doctor")(health.doctor_command)
app.add_typer(database.app, name="db")
app.add_typer(keys.app, name="keys")
app.add_typer(archive.app, name="archive")
app.command("serve")(serve.serve_command)
app.command("demo")(demo.demo_command)


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
    """Run the command line: exit with 2 for input that is wrong, 70 for a defect, 1 for anything else that failed."""
    try:
        _refuse_what_is_no_text(sys.argv[1:])
        code = app(prog_name="steersman", standalone_mode=False) or 0
    except KeyboardInterrupt:
        code = 130
    except Exception as error:  # noqa: BLE001  (the last net: a person never meets a traceback)
        code = _end(error)
    _let_go_of_output()
    raise SystemExit(code)


def _refuse_what_is_no_text(words: list[str]) -> None:
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInputError(f"expected arguments in UTF-8, got {word!a}") from None


def _end(error: Exception) -> int:
    """Tell of `error` on the standard error and return the exit code."""
    if isinstance(error, SteersmanError):
        code = 2 if isinstance(error, InvalidInputError) else 1
        _tell(type(error).__name__, error.message, where=error.where, hint=error.hint, text=str(error))
    elif isinstance(error, _USAGE_ERROR):
        code = error.exit_code
        if _JSON in sys.argv:
            _tell(InvalidInputError.__name__, error.format_message(), hint="see --help of the command")
        else:
            error.show()
    elif isinstance(error, typer.Abort):
        code = 1
        _tell("Aborted", "nothing was done")
    else:
        # What the system refuses, such as to write, is no defect of the program.
        code = 1 if isinstance(error, OSError) else 70
        hint = None if isinstance(error, OSError) else "this is a defect of Steersman: please report it"
        _tell(type(error).__name__, " ".join(str(error).split()), hint=hint)
    return code


def _tell(
    kind: str, message: str, *, where: str | None = None, hint: str | None = None, text: str | None = None
) -> None:
    if _JSON in sys.argv:
        body = {"error": kind, "message": message, "where": where, "hint": hint}
        typer.echo(json.dumps(body), err=True)
    else:
        shown = text or (f"{message} ({hint})" if hint else message)
        write_error(f"{kind}: {shown}")


def _let_go_of_output() -> None:
    """Flush the output; where that fails, the interpreter shall not try again and complain at its end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
