"""A real server of the service in a thread of this process, and keys to call it with."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import uvicorn

from steersman.library import Steersman
from steersman.service.app import App
from steersman.service.protocol import HttpProtocol
from steersman.settings import Settings
from steersman.usecases.keys import SCOPES, create_key
from tests.support.postgres import OPERATOR, SERVING, url_as

__all__ = ["Caller", "Server", "serving"]

_PATIENCE = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant's key or an operator's, and a client that shows it."""

    http: httpx.Client
    tenant: str | None
    key: str

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Post a JSON body."""
        return self.http.post(path, json={} if body is None else body, **options)

    def get(self, path: str, **query: Any) -> httpx.Response:
        """Get a path."""
        return self.http.get(path, params=query)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, the library over the same database, and what the server has logged."""

    url: str
    library: Steersman
    log: io.StringIO
    http: httpx.Client  # that shows no key
    app: App
    opened: list[httpx.Client] = field(default_factory=list)

    def caller(
        self, tenant: str | None, *, scopes: tuple[str, ...] = SCOPES, key: str | None = None
    ) -> Caller:
        """Return a caller with a new key of `tenant`, or of an operator for None; or with `key`."""
        if key is None:
            key = create_key(self.library.database, tenant=tenant, scopes=scopes, name="test").text
        headers = {"authorization": f"Bearer {key}"} if key else {}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=_PATIENCE)
        self.opened.append(client)
        return Caller(client, tenant, key)

    def company(self, **declaration: Any) -> Caller:
        """Return a caller for a new tenant of actions hold and trade and two states, unless declared otherwise."""
        tenant = f"company-{uuid4().hex}"
        self.library.create_tenant(tenant, {"actions": ["hold", "trade"], "states": 2} | declaration)
        return self.caller(tenant)


@contextmanager
def serving(database: str, *, roles: bool = False, **settings: Any) -> Iterator[Server]:
    """Run a server over the `database` at a URL until the end of the block, which drains it.

    With `roles` it logs in as the roles of a service, on a server whose tables belong to somebody else.
    """
    urls: dict[str, Any] = {"database_url": database}
    if roles:
        urls = {"database_url": url_as(SERVING, database), "operator_url": url_as(OPERATOR, database)}
    log = io.StringIO()
    app = App(Settings(**urls, **settings), log_to=log)
    config = uvicorn.Config(app, loop="uvloop", http=HttpProtocol, lifespan="on", log_config=None)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    # The signals of this process are pytest's, so the thread takes none.
    thread = threading.Thread(target=server.run, args=([listener],))
    running: Server | None = None
    with Steersman.open(database) as library:
        thread.start()
        try:
            deadline = time.monotonic() + _PATIENCE
            while not server.started and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert server.started, log.getvalue()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            running = Server(url, library, log, httpx.Client(base_url=url, timeout=_PATIENCE), app)
            yield running
        finally:
            for client in (running.http, *running.opened) if running is not None else ():
                client.close()
            server.should_exit = True
            thread.join(_PATIENCE)
            listener.close()
    assert not thread.is_alive()
