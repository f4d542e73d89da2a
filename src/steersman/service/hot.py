"""The hot routes: decide, reward and close, one by one and in lists, as plain ASGI.

A framework costs as much per request as the decision itself. Everything else is in `steersman.service.routes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_to_bytes

from steersman.domain.identifiers import check_id
from steersman.domain.records import CloseRequest, DecideRequest, RewardRequest
from steersman.errors import InvalidInputError, SteersmanError
from steersman.service.access import Access
from steersman.service.asgi import Receive, Scope
from steersman.service.core import Service
from steersman.service.exchange import Exchange
from steersman.service.gather import Gatherer
from steersman.service.problems import HttpRefusalError
from steersman.service.strict import read_as
from steersman.service.wire import (
    MOST_ITEMS,
    BatchBody,
    CloseBody,
    CloseItem,
    DecideBody,
    RewardBody,
    encode_closed,
    encode_decision,
    encode_items,
    encode_reward,
)

__all__ = ["HotRoute", "HotRoutes", "id_of_path"]

_EPISODES, _CLOSE = b"/v1/episodes/", b"/close"
_NAMED_CLOSE = re.compile(
    re.escape(_EPISODES) + rb"[^/]*" + re.escape(_CLOSE) + rb"\Z"
)  # the two never overlap


@dataclass(frozen=True, slots=True)
class HotRoute:
    """One verb, or its list form."""

    path: str  # as the documentation has it
    scope: str
    gatherer: Gatherer[Any, Any]
    read: Callable[[Any, Access, str, str], Any]  # (document, key, where, episode of the path) to a request
    encode: Callable[[Any], bytes]
    batch: bool = False
    named: bool = False  # whether the path names an episode

    async def answer(self, exchange: Exchange, scope: Scope, receive: Receive) -> bytes:
        """Return the body of the answer; raise SteersmanError or HttpRefusalError."""
        if scope["method"] != "POST":
            raise HttpRefusalError(405, "method-not-allowed", "expected POST", {"allow": "POST"})
        access = await exchange.admit(self.scope)
        if scope["query_string"]:
            raise InvalidInputError("expected no query")
        if exchange.has_operation:
            # Whoever sends one believes that it makes the call safe to repeat.
            raise InvalidInputError(
                "expected no Idempotency-Key: what makes this call safe to repeat is in its body",
                hint="give a decision_id, a reward_id or an episode of your own",
            )
        document = await exchange.service.bodies.read_json(receive)
        if self.batch:
            return await self._answer_list(exchange, access, document)
        episode = id_of_path(scope["raw_path"][len(_EPISODES) : -len(_CLOSE)]) if self.named else ""
        return await self._answer_one(exchange, access.tenant, self.read(document, access, "body", episode))

    async def _answer_one(self, exchange: Exchange, asker: str | None, request: Any) -> bytes:
        exchange.tenant = request.tenant
        (answer,) = await self.gatherer.submit([request], asker)
        if isinstance(answer, SteersmanError):
            raise answer
        return self.encode(answer)

    async def _answer_list(self, exchange: Exchange, access: Access, document: Any) -> bytes:
        items = read_as(BatchBody, document).items
        if len(items) > MOST_ITEMS:
            raise InvalidInputError(f"items: expected at most {MOST_ITEMS}, got {len(items)}")
        access.limits.charge(len(items) - 1)
        answers: list[Any] = []
        for index, item in enumerate(items):
            try:
                answers.append(self.read(item, access, f"items[{index}]", ""))
            except SteersmanError as error:
                answers.append(error)
        asked = [item for item in answers if not isinstance(item, SteersmanError)]
        found = iter(await self.gatherer.submit(asked, access.tenant) if asked else ())
        answers = [item if isinstance(item, SteersmanError) else next(found) for item in answers]
        return encode_items(
            [exchange.item_problem(item) if isinstance(item, SteersmanError) else item for item in answers],
            self.encode,
        )


class HotRoutes:
    """Finds the hot route of a request by the exact bytes of its path."""

    def __init__(self, service: Service) -> None:
        """Make the routes."""
        decide = HotRoute("/v1/decide", "decide", service.decides, _read_decide, encode_decision)
        reward = HotRoute("/v1/reward", "reward", service.rewards, _read_reward, encode_reward)
        closes = HotRoute(
            "/v1/episodes/close:batch", "reward", service.closes, _read_close, encode_closed, batch=True
        )
        self._routes = {
            route.path.encode(): route
            for route in (
                decide,
                reward,
                closes,
                replace(decide, path="/v1/decide:batch", batch=True),
                replace(reward, path="/v1/reward:batch", batch=True),
            )
        }
        self._close = replace(
            closes, path="/v1/episodes/{episode}/close", read=_read_named_close, batch=False, named=True
        )

    def find(self, scope: Scope) -> HotRoute | None:
        """Return the hot route of a path, or None."""
        path = scope["raw_path"]
        route = self._routes.get(path)
        if route is not None:
            # An episode may be called `close:batch`, and is read at that path.
            readable = path.startswith(_EPISODES) and scope["method"] == "GET"
            return None if readable else route
        named = _NAMED_CLOSE.match(path) is not None
        return self._close if named else None


def id_of_path(encoded: bytes) -> str:
    """Return the id that a segment of a path stands for; raise InvalidInputError."""
    try:
        return check_id(unquote_to_bytes(encoded).decode(), what="path")
    except UnicodeDecodeError:
        raise InvalidInputError("path: expected percent-encoded UTF-8") from None


def _read_decide(document: Any, access: Access, where: str, _: str) -> DecideRequest:
    body = read_as(DecideBody, document, where=where)
    return DecideRequest(
        access.tenant_of(body.tenant),
        body.state,
        body.feasible,
        body.episode,
        body.decision_id,
        body.explore,
        body.metadata,
        body.reasons,
    )


def _read_reward(document: Any, access: Access, where: str, _: str) -> RewardRequest:
    body = read_as(RewardBody, document, where=where)
    return RewardRequest(access.tenant_of(body.tenant), body.decision_id, body.value, body.reward_id)


def _read_close(document: Any, access: Access, where: str, _: str) -> CloseRequest:
    body = read_as(CloseItem, document, where=where)
    return CloseRequest(access.tenant_of(body.tenant), body.episode, body.outcome)


def _read_named_close(document: Any, access: Access, where: str, episode: str) -> CloseRequest:
    body = read_as(CloseBody, document, where=where)
    return CloseRequest(access.tenant_of(body.tenant), episode, body.outcome)
