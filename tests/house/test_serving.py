"""A process that decides and learns loads nothing that only fitting needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.house.rules import ROOT
from tests.support.commands import BIN, run

SERVE = """
import sys
from steersman import Steersman

with Steersman.open("{url}") as steersman:
    steersman.create_tenant("acme", {{"actions": ["a", "b"], "states": 2}})
    decision = steersman.decide("acme", 1, episode="deal")
    steersman.reward("acme", decision.decision_id, 0.5)
    steersman.close_episode("acme", "deal", 0.5)
assert decision.action in {{"a", "b"}}
print(sorted({{name.split(".")[0] for name in sys.modules}} & set({heavy!r})))
"""
SERVE_OVER_HTTP = """
import asyncio
import json
import sys

from steersman import Steersman
from steersman.service.app import App
from steersman.settings import Settings
from steersman.usecases.keys import create_key

with Steersman.open("{url}") as steersman:
    steersman.create_tenant("acme", {{"actions": ["a", "b"], "states": 2}})
    key = create_key(steersman.database, tenant="acme", name="test").text


async def main() -> None:
    app, sent, events = App(Settings(database_url="{url}")), [], asyncio.Queue()

    async def send(message):
        sent.append(message)

    async def receive():
        return {{"type": "http.request", "body": b'{{"state": 1}}'}}

    await events.put({{"type": "lifespan.startup"}})
    living = asyncio.ensure_future(app({{"type": "lifespan"}}, events.get, send))
    while not sent:
        await asyncio.sleep(0.01)
    headers = [(b"authorization", b"Bearer " + key.encode())]
    scope = {{"type": "http", "method": "POST", "raw_path": b"/v1/decide", "query_string": b"", "headers": headers}}
    await app(scope, receive, send)
    assert json.loads(sent[-1]["body"])["action"] in {{"a", "b"}}, sent
    await events.put({{"type": "lifespan.shutdown"}})
    await living


asyncio.run(main())
print(sorted({{name.split(".")[0] for name in sys.modules}} & set({heavy!r})))
"""
HEAVY = ["matplotlib", "negmas", "pandas", "pyarrow", "scipy", "sklearn", "torch"]


@pytest.mark.parametrize("serve", [SERVE, SERVE_OVER_HTTP], ids=["library", "service"])
@pytest.mark.parametrize("planted", ["", "import torch.nn\n"], ids=["as it is", "with torch"])
def test_a_served_decision_needs_no_torch(planted: str, serve: str, sqlite_url: str, tmp_path: Path) -> None:
    program = tmp_path / "serve.py"
    program.write_text(planted + serve.format(url=sqlite_url, heavy=HEAVY))
    done = run(BIN / "python", program, cwd=ROOT)
    assert all(json.loads(line)["event"] == "ready" for line in done.stderr.splitlines()), done.stderr
    assert ("torch" in done.stdout) == bool(planted)
    assert planted or done.stdout == "[]\n"
