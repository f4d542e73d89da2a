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
from tests.service.test_group_commit import eventually, nobody_decides
from tests.service.test_serve_command import answers, bearer, started

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
            waiting = [pool.submit(ask, "waits 0")]
            time.sleep(1.0)  # enough for it to begin, so that the others wait behind it
            waiting += [pool.submit(ask, f"waits {number}") for number in range(1, CALLS)]
            depth = f'steersman_queue_items{{verb="decide"}} {CALLS - 1}.0'
            eventually(lambda: depth in http.get("/metrics").text.splitlines())
            process.send_signal(signal.SIGTERM)
            eventually(lambda: not answers(http))
            assert process.poll() is None
            assert not any(call.done() for call in waiting)
        answered = [call.result().status_code for call in waiting]
        assert process.wait(60) == 0
        assert answered == [200] * CALLS
        stored = {item.decision_id for item in list_decisions(library.database, "acme", limit=100)}
        assert stored == {"first", *(f"waits {number}" for number in range(CALLS))}
        assert library.verify().clean
