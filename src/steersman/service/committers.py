"""Where transactions run: in the event loop, or in a thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

__all__ = ["Committer", "InlineCommitter", "NotAtOnceError", "ThreadCommitter", "Work"]

Work = Callable[[bool], Any]
"""A transaction: it is told whether it may take its time, and raises NotAtOnceError where it may not and has to."""

_Done = Callable[[Any], None]


class NotAtOnceError(Exception):
    """What was to be done at once has to wait, or takes long."""


class Committer(Protocol):
    """Runs transactions; `run` calls `done` in the event loop with what `work` returned."""

    beside: bool
    """Whether transactions run while the event loop goes on, or in it."""

    def run(self, work: Work, done: _Done, *, brief: bool) -> None:
        """Run `work`, then call `done`; what is not `brief` is kept out of the event loop."""
        ...

    def close(self) -> None:
        """Wait for what was handed in."""
        ...


class InlineCommitter:
    """Runs transactions in the event loop itself: no hand-over, and nothing else happens meanwhile.

    What would have to wait, since somebody else holds the database, or is known to take long runs in a thread.
    """

    beside = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the loop, and start the thread."""
        self._thread = ThreadCommitter(loop)

    def run(self, work: Work, done: _Done, *, brief: bool) -> None:
        """See `Committer`."""
        if brief:
            try:
                answers = work(False)  # noqa: FBT003
            except NotAtOnceError:
                pass
            else:
                done(answers)
                return
        self._thread.run(work, done, brief=False)

    def close(self) -> None:
        """See `Committer`."""
        self._thread.close()


class ThreadCommitter:
    """Runs transactions in a thread of its own, one after the other."""

    beside = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread, which answers to `loop`."""
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Work, _Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="steersman-commit", daemon=True)
        self._thread.start()

    def run(self, work: Work, done: _Done, *, brief: bool) -> None:  # noqa: ARG002  (all of it is beside the loop)
        """See `Committer`; each runs after what was handed in before."""
        self._jobs.put((work, done))

    def close(self) -> None:
        """See `Committer`."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            self._loop.call_soon_threadsafe(done, work(True))  # noqa: FBT003
