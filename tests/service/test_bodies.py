"""Reading bodies: those that are late are ended, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from steersman.service.asgi import Message
from steersman.service.bodies import Bodies
from steersman.service.problems import HttpRefusalError


class Sender:
    """A client that sends what it is told to."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    def sends(self, part: bytes, *, more: bool) -> None:
        self.messages.put_nowait({"type": "http.request", "body": part, "more_body": more})

    async def receive(self) -> Message:
        return await self.messages.get()


@contextmanager
def hasty(within: float) -> Iterator[Bodies]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steersman.service.bodies._WITHIN", within)
        patch.setattr("steersman.service.bodies._LOOKED_EVERY", 0.01)
        bodies = Bodies(1000)
        yield bodies
        bodies.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(in_time())


def test_a_late_body_is_ended_and_what_its_task_does_then_is_not() -> None:
    async def test() -> None:
        with hasty(0.05) as bodies:
            sender = Sender()
            sender.sends(b'{"a', more=True)
            with pytest.raises(HttpRefusalError, match="within") as caught:
                await bodies.read_json(sender.receive)
            assert caught.value.status == 408
            await asyncio.sleep(0.2)  # as long as an answer may take to write
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()

    run(test)


def test_a_body_in_parts_is_whole() -> None:
    async def test() -> None:
        with hasty(30) as bodies:
            sender = Sender()
            for part in (b'{"a"', b": [1", b", 2]"):
                sender.sends(part, more=True)
            sender.sends(b"}", more=False)
            assert await bodies.read_json(sender.receive) == {"a": [1, 2]}

    run(test)


def test_one_that_came_later_may_still_arrive() -> None:
    async def test() -> None:
        with hasty(0.5) as bodies:
            slow, later = Sender(), Sender()
            ended = asyncio.create_task(bodies.read_json(slow.receive))
            await asyncio.sleep(0.4)
            read = asyncio.create_task(bodies.read_json(later.receive))
            with pytest.raises(HttpRefusalError):
                await ended
            later.sends(b"[]", more=False)
            assert await read == []

    run(test)


def test_who_is_cancelled_otherwise_is_cancelled() -> None:
    async def test() -> None:
        with hasty(30) as bodies:
            read = asyncio.create_task(bodies.read_json(Sender().receive))
            await asyncio.sleep(0)
            read.cancel()
            with pytest.raises(asyncio.CancelledError):
                await read

    run(test)
