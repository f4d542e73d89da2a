"""Callers of the service: plain HTTP and JSON, nothing of the client that it ships; each insists under the same ids."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from steersman.domain.records import CloseRequest, DecideRequest, RewardRequest
from tests.reliability.books import Answer
from tests.reliability.plans import Call, answer_of

__all__ = ["Callers", "RefusedError", "Wire", "perform"]

_PATIENCE = 120.0  # seconds, for a call to be answered
_SHEDDING = {503, 507}  # what says: later


class RefusedError(Exception):
    """An answer that is a problem."""

    def __init__(self, status: int, problem: Any) -> None:
        """Take the status and the document."""
        super().__init__(f"{status}: {problem}")
        self.status = status
        self.code = problem.get("code")


class Wire:
    """One connection, opened anew when it breaks."""

    def __init__(self, port: int, key: str, *, timeout: float = 60.0) -> None:
        """Take the port of a server, and a key."""
        self._connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the document of an answer; raise RefusedError for a problem, OSError or HTTPException for none."""
        try:
            content = None if body is None else json.dumps(body)
            self._connection.request(method, path, content, self._headers)
            answer = self._connection.getresponse()
            document = json.loads(answer.read())
        except (OSError, HTTPException):
            self._connection.close()
            raise
        if answer.status >= 400:
            raise RefusedError(answer.status, document)
        return document

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def perform(wire: Wire, call: Call) -> list[Answer]:
    """Make the call over HTTP and return what was told; raise the first refusal of a list."""
    told: list[dict[str, Any]]
    if call.verb == "void":
        told = [_void(wire, request) for request in call.requests if isinstance(request, DecideRequest)]
    elif call.verb == "close":
        items = [request for request in call.requests if isinstance(request, CloseRequest)]
        told = [
            wire.ask(
                "POST",
                f"/v1/episodes/{quote(item.episode, safe='')}/close",
                {"tenant": item.tenant, "outcome": item.outcome},
            )
            for item in items
        ]
    else:
        bodies = [_body(request) for request in call.requests]
        if len(bodies) == 1:
            told = [wire.ask("POST", f"/v1/{call.verb}", bodies[0])]
        else:
            told = wire.ask("POST", f"/v1/{call.verb}:batch", {"items": bodies})["items"]
    for item in told:
        if "error" in item:
            raise RefusedError(item["error"]["status"], item["error"])
    return [answer_of(call.verb, SimpleNamespace(**item)) for item in told]


def _body(request: DecideRequest | RewardRequest | CloseRequest) -> dict[str, object]:
    names = (
        ("tenant", "state", "feasible", "episode", "decision_id")
        if isinstance(request, DecideRequest)
        else ("tenant", "decision_id", "value", "reward_id")
    )
    return {name: getattr(request, name) for name in names}


def _void(wire: Wire, request: DecideRequest) -> dict[str, Any]:
    path = f"/v1/decisions/{quote(request.decision_id or '', safe='')}/void?tenant={request.tenant}"
    answer: dict[str, Any] = wire.ask("POST", path)
    return answer | {"status": "void"}  # which goes without saying, and so is not said


class Callers:
    """Some callers, each in a thread with a plan of its own; each makes a call again until it is answered."""

    def __init__(self, plans: Sequence[tuple[int, list[Call]]], key: str) -> None:
        """Take the port and the plan of each caller."""
        self.plans = plans
        self.key = key
        self.acknowledged: list[Answer] = []
        self.again: Counter[str] = Counter()  # calls that had to be made again, by the reason
        self._calls = 0
        self._failed = False
        self._news = threading.Condition()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the callers work meanwhile, and wait for them at the end; raise what any of them did not expect."""
        with ThreadPoolExecutor(len(self.plans)) as pool:
            futures: list[Future[None]] = [pool.submit(self._call, *plan) for plan in self.plans]
            try:
                yield
            except BaseException:
                self._failed = True
                raise
            for future in futures:
                future.result()

    def wait_for(self, more: int) -> None:
        """Return when the callers have had so many calls more answered."""
        with self._news:
            goal = self._calls + more
            assert self._news.wait_for(lambda: self._calls >= goal or self._failed, _PATIENCE)
            assert not self._failed

    def heard(self) -> list[Answer]:
        """Return every answer so far."""
        with self._news:
            return list(self.acknowledged)

    def _call(self, port: int, plan: list[Call]) -> None:
        wire = Wire(port, self.key)
        try:
            for call in plan:
                answers = self._insist(wire, call)
                if answers is None:
                    return
                with self._news:
                    self.acknowledged += answers
                    self._calls += 1
                    self._news.notify_all()
        except BaseException:
            with self._news:
                self._failed = True
                self._news.notify_all()
            raise
        finally:
            wire.close()

    def _insist(self, wire: Wire, call: Call) -> list[Answer] | None:
        """Return the answer to a call; None when the test has failed meanwhile."""
        deadline = time.monotonic() + _PATIENCE
        while not self._failed:
            try:
                return perform(wire, call)
            except (OSError, HTTPException):
                reason = "no answer"
            except RefusedError as error:
                # Anything that is not about the server itself ends the caller, and with it the test.
                if error.status not in _SHEDDING:
                    raise
                reason = f"{error.status} {error.code}"
            with self._news:
                self.again[reason] += 1
            assert time.monotonic() < deadline, f"{call} is still refused: {reason}"
            time.sleep(0.01)
        return None
