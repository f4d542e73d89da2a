"""Which tries are made and what is waited for; every expected number is worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from steersman.client.exchange import (
    BUSY,
    Call,
    Lost,
    Outcome,
    Patience,
    Reply,
    Request,
    Send,
    Wait,
    late,
    pause,
    tries,
)
from steersman.errors import (
    ClientBusyError,
    InvalidInputError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    SteersmanError,
    StoreUnavailableError,
)

PATIENCE = Patience(timeout=10.0, deadline=30.0, retries=10)
DONE = Reply(200, {}, b"done")
REFUSED = Lost("ConnectError")
BROKEN = Lost("ReadError")


def problem(status: int, code: str, headers: dict[str, str] | None = None, **facts: Any) -> Reply:
    body = {"status": status, "code": code, "detail": "no"} | facts
    return Reply(status, headers or {}, msgspec.json.encode(body))


OVERLOADED = problem(503, "overloaded", retry_after=1.0)
UNAVAILABLE = problem(503, "store-unavailable")
LIMITED = problem(429, "rate-limited", {"retry-after": "2"}, retry_after=1.5)


def ask(request: Request) -> Call[bytes]:
    return (yield request)


def play(
    outcomes: Sequence[Outcome],
    request: Request,
    *,
    patience: Patience = PATIENCE,
    draw: float = 0.5,
    takes: float = 0.0,
) -> tuple[list[Send | Wait], object]:
    """Return what was asked for, and the record or error at the end; each try takes `takes` seconds."""
    at = [100.0]
    steps = tries(ask(request), patience, url="http://s", clock=lambda: at[0], draw=lambda: draw)
    asked: list[Send | Wait] = []
    left = list(outcomes)
    outcome: Outcome = None
    try:
        while True:
            asked.append(steps.send(outcome))
            if isinstance(asked[-1], Send):
                outcome = left.pop(0)
                at[0] += takes
            else:
                outcome = None
                at[0] += asked[-1].seconds
    except StopIteration as stop:
        assert not left
        return asked, stop.value
    except SteersmanError as error:
        assert not left
        return asked, error


def waits(asked: list[Send | Wait]) -> list[float]:
    return [effect.seconds for effect in asked if isinstance(effect, Wait)]


READ = Request("GET", "/v1/tenant")
CHANGE = Request("POST", "/v1/roll-back", operation_id="op-1")


def test_an_answer_ends_it() -> None:
    assert play([DONE], READ) == ([Send(READ, 10.0, 30.0)], b"done")


@pytest.mark.parametrize("asking", [READ, CHANGE], ids=["read", "change"])
@pytest.mark.parametrize(
    "passing", [REFUSED, BROKEN, OVERLOADED, UNAVAILABLE, Reply(502, {}, b""), Reply(504, {}, b"")]
)
def test_what_passes_is_tried_again_and_the_request_stays_the_same(passing: Outcome, asking: Request) -> None:
    asked, record = play([passing, passing, DONE], asking)
    assert record == b"done"
    sent = [effect for effect in asked if isinstance(effect, Send)]
    assert [(effect.request, effect.timeout) for effect in sent] == [(asking, 10.0)] * 3
    assert [effect.left for effect in sent] == pytest.approx([30.0, 29.975, 29.925])
    assert waits(asked) == [0.025, 0.05]  # half of 50 ms, then half of 100 ms


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (problem(400, "invalid-input"), InvalidInputError),
        (problem(404, "not-found"), NotFoundError),
        (problem(500, "steersman"), SteersmanError),
        (Reply(301, {"location": "http://elsewhere"}, b""), SteersmanError),
    ],
)
def test_what_does_not_pass_is_raised_at_once(refusal: Reply, error: type[SteersmanError]) -> None:
    asked, raised = play([refusal], READ)
    assert type(raised) is error
    assert len(asked) == 1


def test_what_asked_too_often_is_asked_again_when_it_was_told_to() -> None:
    asked, record = play([LIMITED, DONE], CHANGE)
    assert (record, waits(asked)) == (b"done", [2.025])  # Retry-After, and half of 50 ms


def test_tries_are_counted() -> None:
    few = Patience(timeout=10.0, deadline=30.0, retries=2)
    asked, raised = play([REFUSED, REFUSED, REFUSED], READ, patience=few)
    assert isinstance(raised, StoreUnavailableError)
    assert str(raised) == "http://s: no answer after 3 tries: ConnectError"
    assert len(waits(asked)) == 2
    assert str(play([REFUSED], READ, patience=Patience(10.0, 30.0, 0))[1]) == (
        "http://s: no answer after 1 try: ConnectError"
    )


def test_the_deadline_bounds_each_try_and_the_whole() -> None:
    # Tries of 10 s: the third has what is left of 25 s after two of them and pauses of 25 and 50 ms.
    short = Patience(timeout=10.0, deadline=25.0, retries=10)
    asked, raised = play([BROKEN, BROKEN, BROKEN], READ, patience=short, takes=10.0)
    assert isinstance(raised, StoreUnavailableError)
    assert [effect.timeout for effect in asked if isinstance(effect, Send)] == pytest.approx(
        [10.0, 10.0, 4.925]
    )


def test_each_request_of_a_call_has_the_whole_deadline() -> None:
    def both() -> Call[bytes]:
        return (yield READ) + (yield CHANGE)

    at = [0.0]
    short = Patience(timeout=10.0, deadline=12.0, retries=0)
    steps = tries(both(), short, url="http://s", clock=lambda: at[0], draw=lambda: 0.5)
    assert steps.send(None) == Send(READ, 10.0, 12.0)
    at[0] = 9.0
    assert steps.send(DONE) == Send(CHANGE, 10.0, 12.0)
    with pytest.raises(StopIteration) as stop:
        steps.send(Reply(201, {}, b" twice"))
    assert stop.value.value == b"done twice"


def test_a_lengthy_request_may_take_all_the_time_there_is() -> None:
    lengthy = Request("POST", "/v1/verify", lengthy=True)
    asked, _ = play([DONE], lengthy)
    assert asked == [Send(lengthy, 30.0, 30.0)]


def test_no_pause_goes_beyond_the_deadline() -> None:
    late = problem(429, "rate-limited", {"retry-after": "31"}, retry_after=31.0)
    asked, raised = play([late], READ)
    assert isinstance(raised, RateLimitedError)
    assert raised.retry_after == 31.0
    assert len(asked) == 1


def test_an_overload_that_stays_is_told_as_such() -> None:
    asked, raised = play([OVERLOADED] * 3, READ, patience=Patience(10.0, 30.0, 2))
    assert isinstance(raised, OverloadedError)
    assert len(waits(asked)) == 2


def test_what_was_never_sent_is_told_as_such() -> None:
    asked, raised = play([BUSY], CHANGE)
    assert type(raised) is ClientBusyError
    assert (raised.where, raised.message) == (
        "http://s",
        "every connection of the client was in use until the deadline; nothing was sent",
    )
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("before", "kind", "text"),
    [
        (BROKEN, StoreUnavailableError, "http://s: no answer after 1 try: ReadError"),
        (OVERLOADED, OverloadedError, "no"),
    ],
)
def test_what_was_sent_before_its_turn_did_not_come_again_may_have_been_done(
    before: Outcome, kind: type[SteersmanError], text: str
) -> None:
    asked, raised = play([before, BUSY], CHANGE)
    assert isinstance(raised, kind)
    assert str(raised) == text
    assert raised.__notes__ == ["from then on every connection of the client was in use until the deadline"]
    assert len(waits(asked)) == 1


def test_a_late_answer_tells_how_long_its_request_waited() -> None:
    assert late(0.0).reason == "the answer was not complete at the deadline"
    assert late(2.5).reason == (
        "the answer was not complete at the deadline, "
        "2.5 s of which went by until a connection of the client was free"
    )


def test_pauses_are_uniform_up_to_a_bound_that_doubles_to_five_seconds() -> None:
    assert [pause(number, REFUSED, 1.0) for number in range(9)] == pytest.approx(
        [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    )
    assert [pause(number, REFUSED, 0.0) for number in (0, 5, 10**6)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 0 "}, 0.0),
        (
            {"retry-after": "Mon, 02 Mar 2026 10:00:07 GMT", "date": "Mon, 02 Mar 2026 10:00:00 GMT"},
            7.0,
        ),
        (
            {"retry-after": "Mon, 02 Mar 2026 09:59:00 GMT", "date": "Mon, 02 Mar 2026 10:00:00 GMT"},
            0.0,
        ),
        ({"retry-after": "Mon, 02 Mar 2026 10:00:07 GMT"}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-4"}, 0.0),
        ({}, 0.0),
    ],
)
def test_retry_after_is_waited_for_before_the_jitter(headers: dict[str, str], seconds: float) -> None:
    assert pause(0, Reply(429, headers, b""), 0.0) == seconds
    assert pause(0, Reply(429, headers, b""), 0.5) == pytest.approx(seconds + 0.025)


@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0.0}, {"timeout": float("nan")}, {"deadline": -1.0}, {"deadline": 1e9}, {"retries": -1}],
)
def test_patience_has_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{next(iter(wrong))}: expected"):
        Patience(**{"timeout": 1.0, "deadline": 1.0, "retries": 1} | wrong)
