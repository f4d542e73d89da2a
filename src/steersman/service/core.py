"""What every request of one process shares: databases, keys, queues, metrics and the log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import to_thread

from steersman import __version__
from steersman.errors import StoreError
from steersman.service.access import Keyring
from steersman.service.bodies import Bodies
from steersman.service.committers import Committer, InlineCommitter, ThreadCommitter
from steersman.service.gather import Gatherer
from steersman.service.logs import ADDRESS, Log
from steersman.service.metrics import Metrics
from steersman.service.slots import Slots
from steersman.settings import Settings
from steersman.store.engine import Database
from steersman.usecases.close_episode import close_many
from steersman.usecases.decide import decide_many
from steersman.usecases.isolation import pairing_problems, serving_problems
from steersman.usecases.keys import lookup_problems
from steersman.usecases.reward import reward_many

__all__ = ["Service"]

_ACTOR = "service"  # who starts a tenant, since calls of several keys may be decided together
_AT_ONCE = 1e-6  # seconds
_ABOUT = 1.0  # seconds by which a wait may be longer than it should; a view for each is not worth it
_CLOSED_TOGETHER = 32  # episodes: each is loaded as a whole
_NOTED_EVERY = 10.0  # seconds between two writes of when keys were used


class Service:
    """One process of the service, within a running event loop."""

    def __init__(self, settings: Settings, *, log: Log, metrics: Metrics) -> None:
        """Open the databases and start the writers; raise as `Database.open` does."""
        self.settings = settings
        self.log = log
        self.metrics = metrics
        self.serving = Database.open(settings=settings)
        self._hasty = self.serving.with_patience(_AT_ONCE)
        file = self.serving.dialect == "sqlite"
        # A file is committed to by a call of this process; a server is waited for, which the event loop should not.
        self.commits_inline = settings.commit == "inline" or (settings.commit == "auto" and file)
        own = settings.operator_url and settings.operator_url != settings.database_url
        self.operators = Database.open(settings.operator_url, settings=settings) if own else self.serving
        self.keyring = Keyring(self.operators, settings)
        self.slots = Slots()
        self.bodies = Bodies(settings.body_limit)
        self._looking: asyncio.Future[list[str]] | None = None
        self._committers: list[Committer] = []
        loop = asyncio.get_running_loop()
        # SQLite has one writer at a time, so all verbs wait in one line; a server has a line for each.
        shared = self._committer(loop) if file else None
        self.decides = self._gatherer(
            "decide", partial(decide_many, actor=_ACTOR), shared or self._committer(loop)
        )
        self.rewards = self._gatherer("reward", reward_many, shared or self._committer(loop))
        self.closes = self._gatherer("close", _close_in_parts, shared or self._committer(loop), brief=False)
        # Use cases that are not hot run in these threads, and leave connections to those that are.
        to_thread.current_default_thread_limiter().total_tokens = max(1, settings.pool_size // 2)
        self._noting = loop.create_task(self._note_uses())
        self._telling = loop.create_task(self._tell_start())

    async def problems(self) -> list[str]:
        """Return in words why this process should be sent no requests; raise StoreError.

        All who ask while the database is being asked wait for the same answer.
        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(self._problems))
        return await asyncio.shield(self._looking)

    def count(self, note: Callable[..., None], *facts: object) -> None:
        """Tell the metrics `facts` by one of their methods; what fails there is logged, and fails no answer."""
        try:
            note(*facts)
        except Exception as error:  # noqa: BLE001  (files of theirs may be gone, or have no room)
            self.log.defect(error, request_id="")

    async def close(self) -> None:
        """Commit what waits, then close everything."""
        for gatherer in (self.decides, self.rewards, self.closes):
            await gatherer.drain()
        self.bodies.close()
        self._noting.cancel()
        self._telling.cancel()
        await self._note_once()
        for committer in self._committers:
            committer.close()
        self.keyring.close()
        self.operators.close()
        self.serving.close()

    def _problems(self) -> list[str]:
        self.serving.refuse_misplaced()
        found = serving_problems(self.serving)
        if self.operators is self.serving:
            return found
        return found + (lookup_problems(self.operators) or pairing_problems(self.serving, self.operators))

    def _committer(self, loop: asyncio.AbstractEventLoop) -> Committer:
        made: Committer = InlineCommitter(loop) if self.commits_inline else ThreadCommitter(loop)
        self._committers.append(made)
        return made

    def _gatherer(
        self,
        verb: str,
        work: Callable[[Database, list[Any]], list[Any]],
        committer: Committer,
        *,
        brief: bool = True,
    ) -> Gatherer[Any, Any]:
        made: Gatherer[Any, Any] = Gatherer(
            lambda items, patience: work(self._view(patience), items),
            committer,
            limit=self.settings.queue_limit,
            patience=self.settings.patience,
            brief=brief,
            observe=partial(self.count, self.metrics.committed, verb),
        )
        self.metrics.watch_queue(verb, lambda: made.depth)
        return made

    def _view(self, patience: float) -> Database:
        """Return the database as it is waited for with so many seconds of patience."""
        if patience <= 0.0:
            return self._hasty
        if patience > self.settings.patience - _ABOUT:
            return self.serving
        return self.serving.with_patience(patience)

    async def _tell_start(self) -> None:
        """Log once that it is ready, or what is wrong: it serves all the same, and perhaps nobody asks."""
        try:
            problems = await self.problems()
        except StoreError as error:
            self.log.failure(error, request_id="")
            return
        for problem in problems:
            self.log.line("server", level="warning", message=f"must not serve: {problem}")
        if not problems:
            self.log.line(
                "ready",
                version=__version__,
                database=self.serving.dialect,
                commit="inline" if self.commits_inline else "thread",
                address=os.environ.get(ADDRESS),
            )

    async def _note_uses(self) -> None:
        while True:
            await asyncio.sleep(_NOTED_EVERY)
            await self._note_once()

    async def _note_once(self) -> None:
        try:
            await self.keyring.note_uses()
        except StoreError as error:  # when a key was used last is worth no failure
            self.log.failure(error, request_id="")


def _close_in_parts(database: Database, requests: list[Any]) -> list[Any]:
    """Close episodes some at a time, so that a long list of long ones needs no more memory than a short one."""
    answers: list[Any] = []
    for begin in range(0, len(requests), _CLOSED_TOGETHER):
        answers += close_many(database, requests[begin : begin + _CLOSED_TOGETHER])
    return answers
