"""The command that runs the service."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Annotated

import typer

from steersman.cli.common import DatabaseOption, tell
from steersman.errors import InvalidInputError, MissingExtraError, SteersmanError, StoreError
from steersman.settings import Settings, unknown_variables
from steersman.store.engine import Database
from steersman.usecases.keys import list_keys

__all__ = ["serve_command"]

_DRAINED_WITHIN = 30  # seconds for requests under way when the server is told to stop
_IDLE = 65  # seconds that an unused connection is kept: longer than proxies commonly keep theirs


def serve_command(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=1024, help="How many processes answer.")] = 1,
    database: DatabaseOption = None,
) -> None:
    """Answer decides, rewards and all else over HTTP, until SIGTERM or SIGINT; what is under way is finished then."""
    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "prometheus_client", "uvicorn")):
        raise MissingExtraError("serve", purpose="the service")
    import uvicorn

    from steersman.service.logs import ADDRESS
    from steersman.service.protocol import HttpProtocol

    if database is not None:
        # Workers are processes of their own, which read the settings themselves.
        os.environ["STEERSMAN_DATABASE_URL"] = database
    with _failing_in_the_log():
        settings = Settings.read()
        strange = unknown_variables(os.environ)
        if strange:
            _remark(f"no settings, and left alone: {', '.join(strange)}")
        _check_free(host, port)
        _look_at(settings)
    if port:
        os.environ[ADDRESS] = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    # One process keeps its counts in its memory.
    shared = tempfile.TemporaryDirectory(prefix="steersman-metrics-") if workers > 1 else nullcontext()
    with shared as folder:
        if folder is not None:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        # uvicorn raises the signal that ended it again; to have been told to stop is no failure.
        signal.signal(signal.SIGTERM, _end)
        uvicorn.run(
            "steersman.service.app:create_app",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            loop="uvloop",
            http=HttpProtocol,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=_LOGGING,
            server_header=False,
            proxy_headers=False,  # nothing here asks where a call came from
            timeout_graceful_shutdown=_DRAINED_WITHIN,
            timeout_keep_alive=_IDLE,
        )


def _look_at(settings: Settings) -> None:
    """Open the databases once before any worker does, so that what is wrong with them is said in one place."""
    if settings.operator_url:
        Database.open(settings.database_url, settings=settings).close()
    store = Database.open(settings.operator_url or settings.database_url, settings=settings)
    try:
        if not list_keys(store, None):
            _remark("No operator has a key yet: steersman keys create --operator --name NAME")
    except StoreError as error:
        if type(error) is StoreError:
            error.hint = (
                "keys are looked up at STEERSMAN_OPERATOR_URL, which has a role of its own on a server"
            )
        raise
    finally:
        store.close()


def _check_free(host: str, port: int) -> None:
    """Raise OSError where nothing can listen, before the server has said that it starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise OSError(
            f"cannot listen at {host} port {port}: {error.strerror}; see --host and --port"
        ) from None


def _remark(text: str) -> None:
    """Tell people on a terminal in plain words, and whatever else reads this in a line of the log."""
    from steersman.service.logs import Log

    if not sys.stderr.isatty():
        Log().line("server", level="info", message=text)
        return
    with suppress(OSError):  # a remark that cannot be written stops no service
        tell(text)


@contextmanager
def _failing_in_the_log() -> Iterator[None]:
    """Let what ends the command within the block be a line of the log where no terminal is."""
    from steersman.service.logs import Log

    try:
        yield
    except (SteersmanError, OSError) as error:
        if sys.stderr.isatty():
            raise
        Log().line("server", level="error", error=type(error).__name__, message=str(error))
        raise typer.Exit(2 if isinstance(error, InvalidInputError) else 1) from None


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(0)


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"json": {"class": "steersman.service.logs.JsonHandler"}},
    "loggers": {"uvicorn": {"handlers": ["json"], "level": "INFO", "propagate": False}},
    "root": {"handlers": ["json"], "level": "WARNING"},  # a driver that warns of something
}
"""How uvicorn and all other libraries log: as the service does."""
