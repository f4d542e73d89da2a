"""One call over HTTP without any input or output: which tries are made, what is waited for, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeAlias, TypeVar

from steersman.client.problems import error_of
from steersman.errors import ClientBusyError, InvalidInputError, SteersmanError, StoreUnavailableError

__all__ = [
    "BUSY",
    "SHORTEST_TRY",
    "Call",
    "Effect",
    "Lost",
    "Outcome",
    "Patience",
    "Reply",
    "Request",
    "Send",
    "Wait",
    "late",
    "pause",
    "tries",
]

_T = TypeVar("_T")

SHORTEST_TRY = 0.001
"""Seconds that a try has at least."""

_FIRST_PAUSE = 0.05  # seconds, the longest before the second try; it doubles with each
_LONGEST_PAUSE = 5.0  # seconds
_LONG_WAIT = 0.1  # seconds of waiting for a connection, from which on an error tells of it
_PASSING = {429, 502, 503, 504}  # statuses of what may go well a moment later


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request goes on. Raises InvalidInputError for what is out of bounds."""

    timeout: float  # seconds for each step of one try: connect, send, wait for the answer
    deadline: float  # seconds for each request of a call, every try and pause
    retries: int  # further tries at most

    def __post_init__(self) -> None:
        """Check the bounds."""
        for name in ("timeout", "deadline"):
            if not 0.0 < getattr(self, name) <= 86_400.0:
                raise InvalidInputError(
                    f"{name}: expected above 0 to 86400 seconds, got {getattr(self, name)!r}"
                )
        if not 0 <= self.retries <= 1000:
            raise InvalidInputError(f"retries: expected 0 to 1000, got {self.retries!r}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request; whatever ids it needs are in it, so that each try is the same and does no more than the first."""

    method: str
    path: str  # percent-encoded, from the root of the service
    query: Mapping[str, str | int] | None = None
    body: bytes | None = None  # JSON
    operation_id: str | None = None  # of a change whose path and body hold no id of the call
    lengthy: bool = False  # whether its answer may take as long as the deadline allows


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the caller to send the request, when a connection is free for it, and tell what became of it."""

    request: Request
    timeout: float  # seconds for each step
    left: float  # seconds for all of it, from the wait for a connection to the last byte of the answer


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask the caller to wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whatever it says."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer; the request may have arrived or not."""

    reason: str


Effect: TypeAlias = Send | Wait
"""What a caller is asked to do."""

Outcome: TypeAlias = Reply | Lost | None
"""What a caller answers: a reply or its absence to Send, None to Wait."""

BUSY = Lost("every connection of the client was in use until the deadline")
"""There is no answer, since the request was not sent: no connection was free for it."""

Call: TypeAlias = Generator[Request, bytes, _T]
"""A verb: yields each request that it needs, is sent the body of the answer, and returns a record."""


def late(waited: float) -> Lost:
    """Return what an answer is that did not end in time; its request had waited so many seconds to be sent."""
    reason = "the answer was not complete at the deadline"
    if waited >= _LONG_WAIT:
        reason += f", {waited:.1f} s of which went by until a connection of the client was free"
    return Lost(reason)


def tries(
    call: Call[_T], patience: Patience, *, url: str, clock: Callable[[], float], draw: Callable[[], float]
) -> Generator[Effect, Outcome, _T]:
    """Yield what is to be done for `call`, and return its record.

    `clock` tells monotonic seconds, `draw` a number in [0, 1) for each pause; `url` is named by errors. Raises what
    the service refuses with, StoreUnavailableError when there was no answer until the end of patience, or
    ClientBusyError when nothing was sent until then.
    """
    try:
        request = next(call)
        while True:
            try:
                body = yield from _answered(request, patience, url=url, clock=clock, draw=draw)
            except SteersmanError as error:
                request = call.throw(error)  # a verb of several requests may know what to make of it
            else:
                request = call.send(body)
    except StopIteration as stop:
        record: _T = stop.value
        return record


def _answered(
    request: Request,
    patience: Patience,
    *,
    url: str,
    clock: Callable[[], float],
    draw: Callable[[], float],
) -> Generator[Effect, Outcome, bytes]:
    """Yield what is to be done until `request` is answered, and return the body."""
    end = clock() + patience.deadline
    number = 0
    before: Reply | Lost | None = None
    while True:
        left = max(end - clock(), SHORTEST_TRY)
        outcome = yield Send(request, left if request.lengthy else min(patience.timeout, left), left)
        if isinstance(outcome, Reply) and 200 <= outcome.status < 300:
            return outcome.body
        assert outcome is not None  # noqa: S101  (Send is answered)
        if outcome == BUSY:
            raise _busy(before, number, url)
        passing = isinstance(outcome, Lost) or outcome.status in _PASSING
        seconds = pause(number, outcome, draw())
        if not passing or number >= patience.retries or clock() + seconds >= end:
            raise _error(outcome, number + 1, url)
        yield Wait(seconds)
        number += 1
        before = outcome


def pause(number: int, outcome: Reply | Lost, draw: float) -> float:
    """Return the seconds to wait after try `number`, counted from 0; `draw` is a number in [0, 1).

    Full jitter: uniform up to a bound that doubles with each try (M. Brooker, "Exponential Backoff And Jitter",
    2015), on top of what a Retry-After asks for, so that those who were told the same do not return at once.
    """
    bound = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(number, 16))
    return draw * bound + (_asked_pause(outcome.headers) if isinstance(outcome, Reply) else 0.0)


def _asked_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds that Retry-After asks for (RFC 9110, 10.2.3); a date counts from the answer's own."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        then, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def _busy(before: Reply | Lost | None, made: int, url: str) -> SteersmanError:
    """Return the error of a request that did not come to its turn, which may have come to it before."""
    if before is not None:
        error = _error(before, made, url)
        error.add_note(f"from then on {BUSY.reason}")
        return error
    return ClientBusyError(
        f"{BUSY.reason}; nothing was sent",
        where=url,
        hint="make fewer calls at once, use lists such as decide_many, or give the client a longer deadline",
    )


def _error(outcome: Reply | Lost, made: int, url: str) -> SteersmanError:
    if isinstance(outcome, Reply):
        return error_of(outcome, url)
    tried = "1 try" if made == 1 else f"{made} tries"
    return StoreUnavailableError(f"no answer after {tried}: {outcome.reason}", where=url)
