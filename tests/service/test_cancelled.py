"""Requests that a server which ends has waited for long enough."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from steersman.library import Steersman
from steersman.service.app import App
from steersman.service.asgi import Message
from steersman.settings import Settings
from steersman.usecases.keys import create_key


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/decide"), ("PATCH", "/v1/tenant")])
def test_a_request_that_is_cut_off_is_told_to_come_again(tmp_path: Path, method: str, path: str) -> None:
    url = str(tmp_path / "steersman.db")
    with Steersman.open(url) as library:
        library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        key = create_key(library.database, tenant="acme", name="test").text
    sent: list[Message] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def send(message: Message) -> None:
            sent.append(message)
            begun.set()

        app, ends = App(Settings(database_url=url)), asyncio.Queue[Message]()
        ends.put_nowait({"type": "lifespan.startup"})
        life = asyncio.create_task(app({"type": "lifespan"}, ends.get, send))
        await begun.wait()
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {key}".encode())],
        }
        asked = asyncio.Event()

        async def never() -> Message:
            asked.set()
            return await asyncio.Future()

        request = asyncio.create_task(app(scope, never, send))
        await asked.wait()
        request.cancel()
        await request
        ends.put_nowait({"type": "lifespan.shutdown"})
        await life

    asyncio.run(main())
    start, body = sent[1:3]
    assert (start["status"], json.loads(body["body"])["code"]) == (503, "overloaded")
    assert dict(start["headers"])[b"retry-after"] == b"1"
