"""The blocking client."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from steersman.client import verbs
from steersman.client.exchange import LATE, Call, Outcome, Send
from steersman.client.transport import Connected, headers_of, lost, reply_of
from steersman.domain.episode import OpenEpisode

__all__ = ["Client"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _verb(call: Callable[_P, Call[_T]]) -> Callable[Concatenate[Client, _P], _T]:
    @functools.wraps(call)
    def method(self: Client, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return self._carry_out(call(*args, **options))

    return method


class Client(Connected[httpx.Client]):
    """The verbs of `Steersman` over HTTP; safe to share among threads, and to use on both sides of a fork.

    Every verb retries what passes by itself, and raises what the library would, AccessError when the key does not
    let it in, or StoreUnavailableError when the service does not answer.
    """

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        self.close()

    def episode(self, tenant: str, episode: str) -> OpenEpisode:
        """Return an episode for a `with` block, whose end closes it with the `outcome` that it was given."""
        return OpenEpisode(tenant, episode, decide=self.decide, reward=self.reward, close=self.close_episode)

    def _connect(self, options: dict[str, Any]) -> httpx.Client:
        return httpx.Client(**options)

    def _carry_out(self, call: Call[_T]) -> _T:
        steps = self._steps(call)
        outcome: Outcome = None
        try:
            while True:
                effect = steps.send(outcome)
                if isinstance(effect, Send):
                    outcome = self._send(effect)
                else:
                    time.sleep(effect.seconds)
                    outcome = None
        except StopIteration as stop:
            record: _T = stop.value
            return record

    def _send(self, effect: Send) -> Outcome:
        request = effect.request
        end = time.monotonic() + effect.left
        try:
            with self._http.stream(
                request.method,
                request.path,
                params=request.query,
                content=request.body,
                headers=headers_of(request),
                timeout=effect.timeout,
            ) as response:
                # The timeout holds for each part of an answer, however many there are.
                parts: list[bytes] = []
                for part in response.iter_bytes():
                    if time.monotonic() > end:
                        return LATE
                    parts.append(part)
                return reply_of(response, b"".join(parts))
        except httpx.RequestError as error:
            return lost(error)

    create_tenant = _verb(verbs.create_tenant)
    change_tenant = _verb(verbs.change_tenant)
    show_tenant = _verb(verbs.show_tenant)
    list_tenants = _verb(verbs.list_tenants)
    retire_tenant = _verb(verbs.retire_tenant)
    erase_tenant = _verb(verbs.erase_tenant)
    decide = _verb(verbs.decide)
    decide_many = _verb(verbs.decide_many)
    reward = _verb(verbs.reward)
    reward_many = _verb(verbs.reward_many)
    close_episode = _verb(verbs.close_episode)
    close_many = _verb(verbs.close_many)
    void = _verb(verbs.void)
    expire = _verb(verbs.expire)
    list_versions = _verb(verbs.list_versions)
    freeze = _verb(verbs.freeze)
    activate = _verb(verbs.activate)
    roll_back = _verb(verbs.roll_back)
    create_base = _verb(verbs.create_base)
    build_base = _verb(verbs.build_base)
    refresh = _verb(verbs.refresh)
    create_key = _verb(verbs.create_key)
    list_keys = _verb(verbs.list_keys)
    revoke_key = _verb(verbs.revoke_key)
    rotate_key = _verb(verbs.rotate_key)
    verify = _verb(verbs.verify)
    doctor = _verb(verbs.doctor)
    explain = _verb(verbs.explain)
    show = _verb(verbs.show)
