"""Group commit: what is gathered, what fails alone, what is shed, and what is drained."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from steersman.errors import NotFoundError, OverloadedError, SteersmanError, StoreUnavailableError
from steersman.service.committers import InlineCommitter, ThreadCommitter
from steersman.service.gather import Gatherer

Work = Callable[[list[int], float], list[int | SteersmanError]]


class Gate:
    """Work that doubles numbers, once it is let through; it remembers what each transaction held."""

    def __init__(self, *, opened: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.started = threading.Event()
        self.opened = threading.Event()
        if opened:
            self.opened.set()

    def __call__(self, items: list[int], _patience: float) -> list[int | SteersmanError]:
        self.batches.append(items)
        self.started.set()
        assert self.opened.wait(30)
        if 13 in items:
            raise ZeroDivisionError
        if 99 in items:
            raise StoreUnavailableError
        return [NotFoundError() if item < 0 else 2 * item for item in items]

    async def until_started(self) -> None:
        assert await asyncio.to_thread(self.started.wait, 30)
        self.started.clear()


def run(
    test: Callable[[Gatherer[int, int]], Coroutine[Any, Any, None]],
    work: Work,
    *,
    inline: bool = False,
    limit: int = 1000,
    patience: float = 30.0,
    brief: bool = True,
) -> None:
    """Run a test with a gatherer in an event loop of its own, and drain it."""

    async def main() -> None:
        committer = (InlineCommitter if inline else ThreadCommitter)(asyncio.get_running_loop())
        gatherer: Gatherer[int, int] = Gatherer(
            work, committer, limit=limit, patience=patience, brief=brief, observe=lambda *_: None
        )
        await test(gatherer)
        await gatherer.drain()
        committer.close()

    asyncio.run(main())


@pytest.mark.parametrize("inline", [False, True], ids=["thread", "inline"])
def test_calls_of_one_moment_are_one_transaction(inline: bool) -> None:
    gate = Gate(opened=True)

    async def test(gatherer: Gatherer[int, int]) -> None:
        answers = await asyncio.gather(*(gatherer.submit([number, -number]) for number in (1, 2, 3)))
        assert [answer[0] for answer in answers] == [2, 4, 6]
        assert all(isinstance(answer[1], NotFoundError) for answer in answers)
        assert gatherer.depth == 0

    run(test, gate, inline=inline)
    assert gate.batches == [[1, -1, 2, -2, 3, -3]]


def test_the_next_transaction_takes_what_arrived_during_the_last() -> None:
    gate = Gate()

    async def test(gatherer: Gatherer[int, int]) -> None:
        first = gatherer.submit([1])
        await gate.until_started()
        rest = [gatherer.submit([number]) for number in range(1002, 1600)]
        assert gatherer.depth == 598
        gate.opened.set()
        assert await first == [2]
        assert [(await answer)[0] for answer in rest] == [2 * number for number in range(1002, 1600)]

    run(test, gate)
    # No more than 512 go together.
    assert [len(batch) for batch in gate.batches] == [1, 512, 86]


def test_nobody_waits_for_all_that_another_has_asked() -> None:
    gate = Gate()

    async def test(gatherer: Gatherer[int, int]) -> None:
        first = gatherer.submit([1], "busy")
        await gate.until_started()
        long = [gatherer.submit([number] * 600, "busy") for number in (1002, 1003, 1004)]
        calm, also = gatherer.submit([2], "calm"), gatherer.submit([3], "other")
        gate.opened.set()
        await asyncio.gather(first, *long, calm, also)

    run(test, gate, limit=10_000)
    # One list of the busy one was there first; the next waits until the others had their turn.
    assert [(batch[0], len(batch)) for batch in gate.batches] == [
        (1, 1),
        (1002, 600),
        (2, 2),
        (1003, 600),
        (1004, 600),
    ]


def test_a_list_beyond_the_limit_is_let_in_when_nothing_waits() -> None:
    gate = Gate()

    async def test(gatherer: Gatherer[int, int]) -> None:
        first = gatherer.submit([1])
        await gate.until_started()
        long = gatherer.submit(list(range(1000, 1100)))
        with pytest.raises(OverloadedError):
            gatherer.submit([2])
        gate.opened.set()
        assert (await first, len(await long)) == ([2], 100)

    run(test, gate, limit=50)


def test_a_list_stays_together() -> None:
    gate = Gate(opened=True)

    async def test(gatherer: Gatherer[int, int]) -> None:
        long, short = gatherer.submit(list(range(1000, 1700))), gatherer.submit([1])
        assert len(await long) == 700
        assert await short == [2]

    run(test, gate)
    assert [len(batch) for batch in gate.batches] == [700, 1]


@pytest.mark.parametrize("inline", [False, True], ids=["thread", "inline"])
def test_a_defect_fails_alone(inline: bool) -> None:
    gate = Gate(opened=True)

    async def test(gatherer: Gatherer[int, int]) -> None:
        answers = await asyncio.gather(
            *(gatherer.submit([number]) for number in (1, 13, 2)), return_exceptions=True
        )
        assert answers[0] == [2]
        assert isinstance(answers[1], ZeroDivisionError)
        assert answers[2] == [4]
        assert await gatherer.submit([5]) == [10]

    run(test, gate, inline=inline)
    # In the event loop it is not tried one by one, since that may take long.
    together = [[1, 13, 2]] * (2 if inline else 1)
    assert gate.batches == [*together, [1], [13], [2], [5]]


def test_a_database_that_fails_is_not_asked_again_for_each() -> None:
    gate = Gate(opened=True)

    async def test(gatherer: Gatherer[int, int]) -> None:
        answers = await asyncio.gather(
            *(gatherer.submit([number]) for number in (1, 99, 2)), return_exceptions=True
        )
        assert all(isinstance(answer, StoreUnavailableError) for answer in answers)

    run(test, gate)
    assert gate.batches == [[1, 99, 2]]


def test_a_full_queue_sheds_at_once_and_takes_more_when_it_is_worked_off() -> None:
    gate = Gate()

    async def test(gatherer: Gatherer[int, int]) -> None:
        first = gatherer.submit([0])
        await gate.until_started()
        waiting = [gatherer.submit([number]) for number in (1, 2)]
        with pytest.raises(OverloadedError, match="2 items wait") as caught:
            gatherer.submit([3, 4])
        assert caught.value.retry_after > 0
        waiting.append(gatherer.submit([3]))
        with pytest.raises(OverloadedError):
            gatherer.submit([4])
        gate.opened.set()
        await asyncio.gather(first, *waiting)
        assert await gatherer.submit([4]) == [8]

    run(test, gate, limit=3)
    assert gate.batches == [[0], [1, 2, 3], [4]]


def test_who_goes_away_before_the_transaction_takes_the_items_along() -> None:
    gate = Gate()

    async def test(gatherer: Gatherer[int, int]) -> None:
        first = gatherer.submit([0])
        await gate.until_started()
        gone, stays = gatherer.submit([1]), gatherer.submit([2])
        gone.cancel()
        first.cancel()  # too late: it is under way, and done as a whole
        gate.opened.set()
        assert await stays == [4]
        assert gatherer.depth == 0

    run(test, gate)
    assert gate.batches == [[0], [2]]


def test_draining_waits_for_all_that_was_taken_in() -> None:
    gate = Gate()
    answers: list[asyncio.Future[list[int | SteersmanError]]] = []

    async def test(gatherer: Gatherer[int, int]) -> None:
        answers.append(gatherer.submit([0]))
        await gate.until_started()
        answers.extend(gatherer.submit([number]) for number in (1, 2))
        drained = asyncio.ensure_future(gatherer.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        gate.opened.set()
        await drained
        assert [answer.result() for answer in answers] == [[0], [2], [4]]

    run(test, gate)


@pytest.mark.parametrize("inline", [False, True], ids=["thread", "inline"])
def test_who_counts_answers_cannot_stop_them(inline: bool) -> None:
    def observe(*_: object) -> None:
        raise FileNotFoundError

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda *_: None
        )  # who watches the loop is told of it
        committer = (InlineCommitter if inline else ThreadCommitter)(asyncio.get_running_loop())
        gatherer: Gatherer[int, int] = Gatherer(
            Gate(opened=True), committer, limit=9, patience=30.0, observe=observe
        )
        async with asyncio.timeout(30):
            assert await gatherer.submit([1]) == [2]
            assert await gatherer.submit([2]) == [4]
            await gatherer.drain()
        committer.close()

    asyncio.run(main())


class Busy:
    """Work that has to wait, and notes the patience that it was given and whether the event loop waits with it."""

    def __init__(self, *, takes: float = 0.0) -> None:
        self.asked: list[tuple[int, bool, bool]] = []
        self.patience: list[float] = []
        self.takes = takes

    def __call__(self, items: list[int], patience: float) -> list[int | SteersmanError]:
        self.asked.append((items[0], patience > 0, threading.current_thread() is threading.main_thread()))
        self.patience.append(patience)
        time.sleep(self.takes)
        if 13 in items:
            raise ZeroDivisionError
        if 0 in items or (not patience and items[0] < 100):
            raise StoreUnavailableError
        return [2 * item for item in items]


def test_what_would_wait_for_the_database_does_so_in_a_thread() -> None:
    """Nothing else is answered while the event loop waits; a database that is away at last is answered as such."""
    work = Busy()

    async def test(gatherer: Gatherer[int, int]) -> None:
        assert await gatherer.submit([1]) == [2]
        with pytest.raises(StoreUnavailableError):
            await gatherer.submit([0])
        assert await gatherer.submit([100]) == [200]

    run(test, work, inline=True)
    assert work.asked == [
        (1, False, True),
        (1, True, False),
        (0, False, True),
        (0, True, False),
        (100, False, True),
    ]


def test_calls_are_tried_one_by_one_in_a_thread_alone() -> None:
    work = Busy()

    async def test(gatherer: Gatherer[int, int]) -> None:
        good, bad = gatherer.submit([100]), gatherer.submit([13])
        assert await good == [200]
        with pytest.raises(ZeroDivisionError):
            await bad

    run(test, work, inline=True)
    assert work.asked == [(100, False, True), (100, True, False), (100, True, False), (13, True, False)]


@pytest.mark.parametrize("inline", [False, True], ids=["thread", "inline"])
def test_nobody_waits_longer_than_patience_from_their_arrival(inline: bool) -> None:
    work = Busy(takes=0.3)

    async def test(gatherer: Gatherer[int, int]) -> None:
        first = gatherer.submit([0])
        await asyncio.sleep(0.05)
        behind = [gatherer.submit([1]), gatherer.submit([2])]
        for one in (first, *behind):
            with pytest.raises(StoreUnavailableError):
                await one

    run(test, work, inline=inline, patience=0.15)
    # Who came second had been waiting for its whole patience when its turn came, and is tried once more.
    assert work.patience[-1] == 0.0
    assert all(patience <= 0.15 for patience in work.patience)


def test_what_took_long_keeps_the_next_one_out_of_the_event_loop() -> None:
    work = Busy(takes=0.1)

    async def test(gatherer: Gatherer[int, int]) -> None:
        for number in (100, 101, 102):
            await gatherer.submit([number])
            work.takes = 0.0

    run(test, work, inline=True)
    assert [in_loop for _, _, in_loop in work.asked] == [True, False, True]


def test_long_lists_and_what_is_never_brief_are_kept_out_of_the_event_loop() -> None:
    work = Busy()

    async def test(gatherer: Gatherer[int, int]) -> None:
        await gatherer.submit([100] * 256)
        await gatherer.submit([101] * 257)

    run(test, work, inline=True)
    run(test, work, inline=True, brief=False)
    assert [in_loop for _, _, in_loop in work.asked] == [True, False, False, False]


def test_what_can_be_done_at_once_is_not_done_again() -> None:
    gate = Gate(opened=True)

    async def test(gatherer: Gatherer[int, int]) -> None:
        assert await gatherer.submit([1]) == [2]
        with pytest.raises(ZeroDivisionError):
            await gatherer.submit([13])

    run(test, gate, inline=True)
    assert gate.batches == [[1], [13]]
