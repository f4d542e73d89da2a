"""The connections of a client, and whose turn it is to use one of them.

The HTTP library's own pool looks at every call and every connection whenever a call begins or ends, which makes many
calls at once slow each other down. So a lane is a client of that library which never has more than one call, and calls
wait for their turn before it sees them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Lanes", "Turns"]

_H = TypeVar("_H")


class Lanes(Generic[_H]):
    """The HTTP library's clients, each with one connection, which are made when they are needed.

    The one that was used last is used first, so that few callers have few connections.
    """

    def __init__(self, open_one: Callable[[], _H]) -> None:
        """Take what makes a lane; the first is made at once, since settings that it cannot use are then told early."""
        self._open_one = open_one
        self._opened: list[_H] = [open_one()]
        self._free = list(self._opened)
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> _H:
        """Return a lane for one call; raise RuntimeError when the client was closed."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if not self._free:
                self._opened.append(self._open_one())
                return self._opened[-1]
            return self._free.pop()

    def give_back(self, lane: _H) -> None:
        """End the use of a lane."""
        with self._lock:
            self._free.append(lane)

    def end(self) -> list[_H]:
        """Let nobody take a lane any more, and return every lane, to be closed."""
        with self._lock:
            self._closed = True
            return self._opened


class Turns:
    """So many turns, handed from thread to thread.

    A turn that is given back goes to whoever has waited longest, so that a thread which calls again and again cannot
    keep the others out, as it could with a semaphore of the standard library.
    """

    def __init__(self, number: int) -> None:
        """Take how many may have a turn at a time."""
        self._free = number
        self._waiting: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def take(self, seconds: float) -> bool:
        """Return whether there was a turn within so many seconds; one that was taken must be given back."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            mine = threading.Lock()
            mine.acquire()  # until it is let go by whoever hands a turn over
            self._waiting.append(mine)
        try:
            if mine.acquire(timeout=seconds):
                return True
        except BaseException:
            if not self._withdraw(mine):
                self.give_back()
            raise
        return not self._withdraw(mine)

    def give_back(self) -> None:
        """End a turn."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def _withdraw(self, mine: threading.Lock) -> bool:
        """Return whether one still waited, who does not any more; otherwise a turn was handed over meanwhile."""
        with self._lock:
            if mine not in self._waiting:
                return False
            self._waiting.remove(mine)
            return True
