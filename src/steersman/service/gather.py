"""Group commit: concurrent calls are gathered into one transaction, and answered when it is committed."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from steersman.errors import ConflictError, OverloadedError, SteersmanError, StoreUnavailableError
from steersman.service.committers import Committer, NotAtOnceError

__all__ = ["Gatherer"]

_Q = TypeVar("_Q")
_A = TypeVar("_A")

_MOST_GATHERED = 512  # items of one transaction; a list that is longer goes alone
_RETRY_FULL = 1.0  # seconds
_BRIEF_ITEMS = 256  # that the event loop may be busy with
_BRIEF = 0.05  # seconds; when a transaction has taken longer, the next one is kept out of the event loop


class _Entry(Generic[_Q, _A]):
    """The items of one request, and where their answers go."""

    __slots__ = ("arrived", "future", "items")

    def __init__(self, items: list[_Q], future: asyncio.Future[list[_A | SteersmanError]]) -> None:
        self.items = items
        self.future = future
        self.arrived = time.monotonic()


class Gatherer(Generic[_Q, _A]):
    """Gathers the calls of one verb. When no transaction of it runs, one starts at once.

    Otherwise the next takes whatever arrived meanwhile, of each asker in turn, so that nobody waits for all that
    another has asked. All of it belongs to one event loop; `work` alone may run elsewhere.
    """

    def __init__(
        self,
        work: Callable[[list[_Q], float], list[_A | SteersmanError]],
        committer: Committer,
        *,
        limit: int,
        patience: float,
        brief: bool = True,
        observe: Callable[[list[_A | SteersmanError], float], None],
    ) -> None:
        """Take the use case for a list, where it runs, and how many items may wait at most.

        `work` is told how many seconds it may wait for a busy database, 0 for not at all; nobody waits longer than
        `patience` seconds from their arrival. What is not `brief` is kept out of the event loop.
        `observe` is called in the event loop with the answers of each transaction and the seconds it took.
        """
        self._work = work
        self._committer = committer
        self._limit = limit
        self._patience = patience
        self._may_be_brief = brief
        self._brief = brief
        self._observe = observe
        self._waiting: OrderedDict[str | None, deque[_Entry[_Q, _A]]] = OrderedDict()
        self._depth = 0
        self._busy = False
        self._idle: asyncio.Future[None] | None = None

    @property
    def depth(self) -> int:
        """How many items wait."""
        return self._depth

    def submit(self, items: list[_Q], asker: str | None = None) -> asyncio.Future[list[_A | SteersmanError]]:
        """Return what will hold an answer for each of `items`, in order; those of one `asker` are done in order.

        A future that is cancelled before its transaction starts takes its items with it; after that they are done
        as a whole. Raises OverloadedError at once when too many wait. The future raises what `work` does.
        """
        # A list that is longer than the limit would never be let in otherwise.
        if self._depth and self._depth + len(items) > self._limit:
            raise OverloadedError(
                f"{self._depth} items wait to be committed, and {self._limit} may",
                retry_after=_RETRY_FULL,
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[_A | SteersmanError]] = loop.create_future()
        queue = self._waiting.get(asker)
        if queue is None:
            queue = self._waiting[asker] = deque()
        queue.append(_Entry(items, future))
        self._depth += len(items)
        if not self._busy:
            self._busy = True
            # What else has arrived in this turn of the loop goes along.
            loop.call_soon(self._start)
        return future

    async def drain(self) -> None:
        """Wait until nothing waits or runs."""
        while self._busy:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _gather(self) -> list[_Entry[_Q, _A]]:
        """Take what the next transaction holds: an entry of each asker in turn while there is room."""
        entries: list[_Entry[_Q, _A]] = []
        count = 0
        while self._waiting:
            asker, queue = next(iter(self._waiting.items()))
            if entries and count + len(queue[0].items) > _MOST_GATHERED:
                break
            entry = queue.popleft()
            if queue:
                self._waiting.move_to_end(asker)
            else:
                del self._waiting[asker]
            self._depth -= len(entry.items)
            if not entry.future.cancelled():
                entries.append(entry)
                count += len(entry.items)
        return entries

    def _start(self) -> None:
        entries = self._gather()
        if not entries:
            self._busy = False
            if self._idle is not None:
                self._idle.set_result(None)
                self._idle = None
            return
        started = time.monotonic()
        brief = self._brief and sum(len(entry.items) for entry in entries) <= _BRIEF_ITEMS
        self._committer.run(
            partial(self._answer, entries),
            lambda done: self._deliver(entries, done, started),
            brief=brief,
        )

    def _answer(
        self,
        entries: list[_Entry[_Q, _A]],
        may_wait: bool,  # noqa: FBT001
    ) -> list[list[_A | SteersmanError] | Exception]:
        """Return for each entry its answers, or what was raised; the entries are one transaction."""
        waited = time.monotonic() - min(entry.arrived for entry in entries)
        patience = max(0.0, self._patience - waited) if may_wait else 0.0
        try:
            answers = self._work([item for entry in entries for item in entry.items], patience)
        except (StoreUnavailableError, ConflictError) as error:
            if not may_wait:
                raise NotAtOnceError from error
            return [error for _ in entries]
        except SteersmanError as error:
            return [error for _ in entries]
        except Exception as error:  # a defect that one item meets shall not reach the others
            if len(entries) == 1:
                return [error]
            if not may_wait:
                raise NotAtOnceError from error
            return [self._answer([entry], may_wait)[0] for entry in entries]
        found: list[list[_A | SteersmanError] | Exception] = []
        position = 0
        for entry in entries:
            found.append(answers[position : position + len(entry.items)])
            position += len(entry.items)
        return found

    def _deliver(
        self,
        entries: list[_Entry[_Q, _A]],
        found: list[list[_A | SteersmanError] | Exception],
        started: float,
    ) -> None:
        seconds = time.monotonic() - started
        self._brief = self._may_be_brief and seconds <= _BRIEF
        if self._committer.beside:
            self._start()  # what waits is committed while these answers are sent
        try:
            for entry, answers in zip(entries, found, strict=True):
                if entry.future.cancelled():
                    continue
                if isinstance(answers, Exception):
                    entry.future.set_exception(answers)
                else:
                    entry.future.set_result(answers)
            self._observe(
                [item for answers in found if isinstance(answers, list) for item in answers], seconds
            )
        finally:
            # Only now, so that these answers are sent before the loop is busy; and whatever went wrong, since
            # otherwise nobody would ever be answered again.
            if not self._committer.beside:
                asyncio.get_running_loop().call_soon(self._start)
