"""Servers in processes of their own, over a database prepared as for production; they start fast, and die well."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import uvicorn

from steersman.service.app import App
from steersman.service.protocol import HttpProtocol
from steersman.settings import Settings
from steersman.store.engine import Database
from steersman.usecases.isolation import grant_roles
from steersman.usecases.keys import create_key
from tests.reliability.children import PROCESSES, hear, tell_parent
from tests.reliability.clients import Death, arm
from tests.reliability.plans import prepare
from tests.service_faults.defects import plant
from tests.support.postgres import OPERATOR, SERVING, url_as

__all__ = ["Deployment", "ServerProcess", "deploy"]

# One fork server for all tests of a process, so that it has to know what either kind of child needs.
PROCESSES.set_forkserver_preload(
    ["psycopg", "tests.reliability.clients", "tests.reliability.crowd", "tests.service_faults.servers"]
)

_PATIENCE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class _Life:
    """How a server runs."""

    settings: Settings
    port: int
    log: Path
    defect: str | None
    death: Death | None


class _Server(uvicorn.Server):
    """A server that tells when it answers, and that dies as it is told to."""

    def __init__(self, life: _Life, app: App, pipe: Pipe) -> None:
        super().__init__(
            uvicorn.Config(app, loop="uvloop", http=HttpProtocol, lifespan="on", log_config=None)
        )
        self._life = life
        self._app = app
        self._pipe = pipe

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        death = self._life.death
        if death is not None and death.point is not None:
            service = self._app.service
            assert service is not None
            arm(service.serving, death.point, death.passes, views=[service._hasty])
        tell_parent(self._pipe, "ready" if self.started else "the server did not start")


def _serve(life: _Life, pipe: Pipe) -> None:
    if life.defect is not None:
        plant(life.defect)
    with life.log.open("a") as log, socket.create_server(("127.0.0.1", life.port)) as listener:
        server = _Server(life, App(life.settings, log_to=log), pipe)
        asyncio.Runner(loop_factory=server.config.get_loop_factory()).run(server.serve([listener]))


class ServerProcess:
    """One server, which keeps its port over all of its lives."""

    def __init__(self, settings: Settings, log: Path, *, defect: str | None = None) -> None:
        """Take what it runs with, and the defect planted in it (see `defects`)."""
        self.settings = settings
        self.log = log
        self.defect = defect
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._process: Any = None

    def start(self, death: Death | None = None) -> None:
        """Start it, and wait until it answers; with `death` it kills itself at that point."""
        ours, theirs = PROCESSES.Pipe()
        life = _Life(self.settings, self.port, self.log, self.defect, death)
        self._process = PROCESSES.Process(target=_serve, args=(life, theirs), daemon=True)
        self._process.start()
        theirs.close()
        with ours:
            try:
                assert hear([ours]) == ["ready"]
            except EOFError:
                raise AssertionError(self.log.read_text()[-4000:]) from None

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._process.kill()
        self.await_death()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, number)

    def await_death(self) -> None:
        """Wait until it was killed."""
        self._process.join(_PATIENCE)
        assert self._process.exitcode == -signal.SIGKILL, self.log.read_text()[-4000:]

    def stop(self) -> None:
        """End it in order, and wait; nothing where it has ended."""
        if self._process is not None and self._process.is_alive():
            self.signal(signal.SIGTERM)
            self._process.join(_PATIENCE)
            if self._process.is_alive():
                self._process.kill()
                raise AssertionError(f"the server did not end:\n{self.log.read_text()[-4000:]}")


class Deployment:
    """A database with two tenants and an operator's key, and servers over it."""

    def __init__(self, url: str, folder: Path, settings: dict[str, Any]) -> None:
        """Prepare the database; on a server, with the roles that a service is meant to have."""
        prepare(url)
        self.url = url
        self._folder = folder
        self._servers: list[ServerProcess] = []
        postgres = url.startswith("postgresql")
        database = Database.open(url)
        try:
            if postgres:
                grant_roles(database, serving=SERVING, operator=OPERATOR)
            self.key = create_key(database, tenant=None, name="test").text
        finally:
            database.close()
        self.settings = Settings(
            database_url=url_as(SERVING, url) if postgres else url,
            operator_url=url_as(OPERATOR, url) if postgres else "",
            **settings,
        )

    def server(self, *, defect: str | None = None, settings: Settings | None = None) -> ServerProcess:
        """Return one more server, not started yet."""
        made = ServerProcess(
            settings or self.settings, self._folder / f"{len(self._servers)}.log", defect=defect
        )
        self._servers.append(made)
        return made

    def stop(self) -> None:
        """Stop all servers."""
        for server in self._servers:
            server.stop()


@contextmanager
def deploy(url: str, folder: Path, **settings: Any) -> Iterator[Deployment]:
    """Prepare the database at `url`, and stop at the end what was started over it; logs go to `folder`."""
    deployment = Deployment(url, folder, settings)
    try:
        yield deployment
    finally:
        deployment.stop()
