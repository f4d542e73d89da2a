"""A service that is told to end answers what it has taken in, and lets nobody in any more."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from steersman.library import Steersman
from steersman.usecases.explain import list_decisions
from tests.service.test_group_commit import nobody_decides
from tests.service.test_serve_command import bearer, started

CALLS = 6


# With `inline` a server is waited for in the event loop itself, which takes nothing in meanwhile.
@pytest.mark.parametrize("commit", ["auto", "thread"])
def test_what_waits_when_the_end_is_asked_for_is_committed_and_answered(
    store_url: str, tmp_path: Path, commit: str
) -> None:
    headers = bearer(store_url)
    options = ("--database", store_url)
    with (
        started(tmp_path, *options, STEERSMAN_COMMIT=commit) as (process, http),
        ThreadPoolExecutor(CALLS) as pool,
        Steersman.open(store_url) as library,
    ):

        def ask(name: str) -> httpx.Response:
            body = {"state": 0, "decision_id": name}
            return httpx.post(f"{http.base_url}/v1/decide", json=body, headers=headers, timeout=60.0)

        assert ask("first").status_code == 200
        with nobody_decides(library):
            waiting = [pool.submit(ask, f"waits {number}") for number in range(CALLS)]
            time.sleep(1.0)  # enough for all of them to arrive
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            assert process.poll() is None
            assert not any(call.done() for call in waiting)
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{http.base_url}/healthz", timeout=2.0)
        answers = [call.result() for call in waiting]
        assert process.wait(60) == 0
        assert [answer.status_code for answer in answers] == [200] * CALLS
        stored = {item.decision_id for item in list_decisions(library.database, "acme", limit=100)}
        assert stored == {"first", *(f"waits {number}" for number in range(CALLS))}
        assert library.verify().clean
