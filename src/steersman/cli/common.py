"""What every command shares: its options, an open database, and how it answers."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from steersman.console.plain import plain
from steersman.console.terminal import UntrustingConsole
from steersman.domain.settings import TenantSpec
from steersman.domain.states import State
from steersman.domain.strict_json import JsonRules, parse_json, shown
from steersman.errors import InvalidInputError, SteersmanError
from steersman.store.engine import Database

__all__ = [
    "MOST",
    "DatabaseOption",
    "JsonFlag",
    "TenantArgument",
    "actor",
    "answer",
    "counting",
    "opened",
    "parse_json_object",
    "parse_state",
    "tell",
]

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", help="A file, sqlite:///file or postgresql://... [default: the setting]"
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]
TenantArgument = Annotated[str, typer.Argument(help="The tenant's id.")]

MOST = 1_000_000_000
"""The largest number of things that an option asks for."""

_JSON = JsonRules(InvalidInputError, 64)

# A pipe or a file has no width of its own.
_OUT = UntrustingConsole(width=None if Console().is_terminal else 140)
_ERR = UntrustingConsole(stderr=True)


def actor() -> str:
    """Return who the audit trail names for a change made here."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as containers have them
        name = str(os.getuid())
    # The environment can name a user by bytes that are no text.
    return f"cli:{name.encode('utf-8', 'backslashreplace').decode('utf-8')}"


@contextmanager
def opened(url: str | None, *, create: bool = False) -> Iterator[Database]:
    """Yield the database at `url`, or at the one the settings name, and close it; make the file only to `create`.

    A mistyped name would else be a new database, in which everything is in order.
    """
    database = Database.open(url, create=create)
    try:
        yield database
    finally:
        database.close()


def answer(
    value: Any, *, as_json: bool, render: Callable[[], RenderableType | Sequence[RenderableType]]
) -> None:
    """Print `value` as a line of JSON, or what `render` makes of it for people.

    Raises SteersmanError when the output takes no more, or not these characters.
    """
    if as_json:
        _print(lambda: typer.echo(json.dumps(plain(value), ensure_ascii=False, allow_nan=False)))
        return
    shown = render()
    for part in [shown] if isinstance(shown, str) or not isinstance(shown, Sequence) else shown:
        _print(partial(_OUT.print, part))


def _print(work: Callable[[], None]) -> None:
    try:
        work()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, UnicodeEncodeError) as error:
        text = str(error).partition("\n")[0]
        raise SteersmanError(
            f"the answer could not be printed: {text}",
            hint="what was asked for is done, and only that is missing",
        ) from None


def tell(text: str) -> None:
    """Print a remark that is no part of the answer."""
    _ERR.print(text)


@contextmanager
def counting(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that moves a progress bar with rate and time left."""
    columns = (
        TextColumn(what, markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_ERR, disable=quiet, transient=True) as progress:
        task = progress.add_task(what, total=None, rate="")

        def move(done: int, total: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield move


def parse_state(texts: Sequence[str], spec: TenantSpec) -> State:
    """Return the state of `--state` options: one index, or `factor=value` for each factor of `spec`.

    Raises InvalidInputError; whether the state exists is for the use case to say.
    """
    if len(texts) == 1 and "=" not in texts[0]:
        try:
            return int(texts[0])
        except ValueError:
            raise InvalidInputError(f"--state: expected an index or factor=value, got {texts[0]!r}") from None
    binned = {factor.name for factor in spec.states.factors if factor.edges is not None}
    state: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in state:
            raise InvalidInputError(f"--state: expected factor=value once for each factor, got {text!r}")
        state[name] = _number_or_text(value) if name in binned else value
    return state


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def parse_json_object(text: str | None, *, option: str) -> dict[str, Any] | None:
    """Return the JSON object of an option, None for none; raise InvalidInputError for what is not strictly one."""
    if text is None:
        return None
    # What the shell handed over that is no UTF-8 becomes the bytes that it was.
    value = parse_json(text.encode("utf-8", "surrogateescape"), _JSON, where=option)
    if not isinstance(value, dict):
        raise InvalidInputError(f"expected a JSON object, got {shown(value)}", where=option)
    return value
