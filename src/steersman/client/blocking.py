"""The blocking client."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx

from steersman.client import verbs
from steersman.client.exchange import BUSY, SHORTEST_TRY, Call, Outcome, Send, late
from steersman.client.lanes import Lanes, Turns
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


class Client(Connected):
    """The verbs of `Steersman` over HTTP; safe to share among threads, and to use on both sides of a fork.

    Every verb retries what passes by itself, and raises what the library would, AccessError when the key does not
    let it in, StoreUnavailableError when the service does not answer, or ClientBusyError when so many calls are made at
    once that this one did not come to be sent.
    """

    def close(self) -> None:
        """Close every connection."""
        for lane in self._lanes.end():
            lane.close()

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

    def _connect(self) -> None:
        self._lanes = Lanes(lambda: httpx.Client(**self._options))
        self._turns = Turns(self._connections)

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
        begun = time.monotonic()
        turns, lanes = self._turns, self._lanes
        if not turns.take(effect.left):
            return BUSY
        try:
            lane = lanes.take()
            try:
                return self._send_by(lane, effect, waited=time.monotonic() - begun)
            finally:
                lanes.give_back(lane)
        except httpx.RequestError as error:
            return lost(error)
        finally:
            turns.give_back()

    @staticmethod
    def _send_by(lane: httpx.Client, effect: Send, *, waited: float) -> Outcome:
        request = effect.request
        left = max(effect.left - waited, SHORTEST_TRY)
        end = time.monotonic() + left
        with lane.stream(
            request.method,
            request.path,
            params=request.query,
            content=request.body,
            headers=headers_of(request),
            timeout=min(effect.timeout, left),
        ) as response:
            # The timeout holds for each part of an answer, however many there are.
            parts: list[bytes] = []
            for part in response.iter_bytes():
                if time.monotonic() > end:
                    return late(waited)
                parts.append(part)
            return reply_of(response, b"".join(parts))

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
    list_decisions = _verb(verbs.list_decisions)
    list_episodes = _verb(verbs.list_episodes)
    show_episode = _verb(verbs.show_episode)
    list_audit = _verb(verbs.list_audit)
    show = _verb(verbs.show)
