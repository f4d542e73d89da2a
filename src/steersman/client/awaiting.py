"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from steersman.client import verbs
from steersman.client.exchange import BUSY, Call, Outcome, Send, late
from steersman.client.lanes import Lanes
from steersman.client.transport import Connected, headers_of, lost, reply_of
from steersman.domain.episode import EpisodeVerbs
from steersman.domain.records import ClosedEpisode, Decision, Reward

__all__ = ["AsyncClient", "AsyncOpenEpisode"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _verb(call: Callable[_P, Call[_T]]) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]]:
    @functools.wraps(call)
    async def method(self: AsyncClient, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return await self._carry_out(call(*args, **options))

    return method


class AsyncOpenEpisode(EpisodeVerbs[Awaitable[Decision], Awaitable[Reward]]):
    """An episode that the end of an `async with` block closes with its `outcome`; an exception leaves it open."""

    def __init__(
        self,
        tenant: str,
        episode: str,
        *,
        decide: Callable[..., Awaitable[Decision]],
        reward: Callable[..., Awaitable[Reward]],
        close: Callable[[str, str, float | None], Awaitable[ClosedEpisode]],
    ) -> None:
        """Take the verbs that name a tenant and an episode."""
        super().__init__(tenant, episode, decide=decide, reward=reward)
        self._close = close

    async def __aenter__(self) -> Self:
        """Return the episode; its first decide opens it, or it is gone on with."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the episode unless an exception ends the block; raises what `close_episode` does."""
        if kind is None:
            self.closed = await self._close(self.tenant, self.episode, self.outcome)


class AsyncClient(Connected):
    """The verbs of `Steersman` over HTTP; safe to share among the tasks of one event loop.

    Every verb retries what passes by itself, and raises what the library would, AccessError when the key does not
    let it in, StoreUnavailableError when the service does not answer, or ClientBusyError when so many calls are made at
    once that this one did not come to be sent.
    """

    async def close(self) -> None:
        """Close every connection."""
        for lane in self._lanes.end():
            await lane.aclose()

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        await self.close()

    def episode(self, tenant: str, episode: str) -> AsyncOpenEpisode:
        """Return an episode for an `async with` block, whose end closes it with the `outcome` that it was given."""
        return AsyncOpenEpisode(
            tenant, episode, decide=self.decide, reward=self.reward, close=self.close_episode
        )

    def _connect(self) -> None:
        self._lanes = Lanes(lambda: httpx.AsyncClient(**self._options))
        self._turns = asyncio.Semaphore(self._connections)

    async def _carry_out(self, call: Call[_T]) -> _T:
        steps = self._steps(call)
        outcome: Outcome = None
        try:
            while True:
                effect = steps.send(outcome)
                if isinstance(effect, Send):
                    outcome = await self._send(effect)
                else:
                    await asyncio.sleep(effect.seconds)
                    outcome = None
        except StopIteration as stop:
            record: _T = stop.value
            return record

    async def _send(self, effect: Send) -> Outcome:
        begun = time.monotonic()
        waited: float | None = None
        try:
            async with asyncio.timeout(effect.left), self._turns:
                waited = time.monotonic() - begun
                lane = self._lanes.take()
                try:
                    return await self._send_by(lane, effect)
                finally:
                    self._lanes.give_back(lane)
        except TimeoutError:
            return BUSY if waited is None else late(waited)
        except httpx.RequestError as error:
            return lost(error)

    @staticmethod
    async def _send_by(lane: httpx.AsyncClient, effect: Send) -> Outcome:
        request = effect.request
        response = await lane.request(
            request.method,
            request.path,
            params=request.query,
            content=request.body,
            headers=headers_of(request),
            timeout=effect.timeout,
        )
        return reply_of(response, response.content)

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
