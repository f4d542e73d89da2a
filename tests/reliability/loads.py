"""Threads that make the calls of their plans over shared databases, through whatever happens to the server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from steersman.errors import StoreError
from steersman.library import Steersman
from tests.reliability.books import Answer
from tests.reliability.plans import Call, perform

__all__ = ["Load"]

_PATIENCE = 120.0  # seconds, for the load to move on


class Load:
    """Some callers, each in a thread with a plan of its own; each makes a call again until it is answered."""

    def __init__(self, plans: Sequence[tuple[Steersman, list[Call]]]) -> None:
        """Take the library and the plan of each caller."""
        self.plans = plans
        self.acknowledged: list[Answer] = []
        self.refused: Counter[str] = Counter()  # calls that had to be made again, by the class of the error
        self._news = threading.Condition()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the callers work meanwhile, and wait for them at the end; raise what any of them did not expect."""
        with ThreadPoolExecutor(len(self.plans)) as pool:
            futures: list[Future[None]] = [pool.submit(self._call, *plan) for plan in self.plans]
            yield
            for future in futures:
                future.result()

    def wait_for(self, more: int) -> None:
        """Return when the callers have heard so many answers more."""
        with self._news:
            goal = len(self.acknowledged) + more
            assert self._news.wait_for(lambda: len(self.acknowledged) >= goal, _PATIENCE)

    def _call(self, library: Steersman, plan: list[Call]) -> None:
        for call in plan:
            answers = self._insist(library, call)
            with self._news:
                self.acknowledged += answers
                self._news.notify_all()

    def _insist(self, library: Steersman, call: Call) -> list[Answer]:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return perform(library, call)
            except StoreError as error:
                # Anything that is not of our own tree ends the caller, and with it the test.
                self.refused[type(error).__name__] += 1
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
