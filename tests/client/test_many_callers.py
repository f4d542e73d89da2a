"""Many calls at once: all of them are answered, in turn, and what does not come to its turn says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from steersman.client import AsyncClient, Client
from steersman.client.lanes import Turns
from steersman.errors import ClientBusyError, StoreUnavailableError
from tests.client.proxy import Proxy
from tests.support.served import Server

BUSY = "every connection of the client was in use until the deadline; nothing was sent"


def visits(server: Server, tenant: str) -> int:
    return sum(cell.visits for state in server.library.show(tenant).states for cell in state.cells)


def test_a_thousand_decides_at_once(server: Server, key: str, tenant: str) -> None:
    async def main() -> int:
        async with AsyncClient(server.url, key) as client:
            made = await asyncio.gather(*(client.decide(tenant, number % 2) for number in range(1000)))
            return len({decision.decision_id for decision in made})

    assert asyncio.run(main()) == 1000
    assert visits(server, tenant) == 1000


def test_two_hundred_threads_at_once(server: Server, key: str, tenant: str) -> None:
    ready = threading.Barrier(200)

    def decide(client: Client) -> set[str]:
        ready.wait(60)
        return {client.decide(tenant, 0).decision_id for _ in range(3)}

    with Client(server.url, key) as client, ThreadPoolExecutor(200) as pool:
        made = set().union(*pool.map(decide, [client] * 200))
    assert len(made) == visits(server, tenant) == 600


def test_a_call_that_does_not_come_to_its_turn_says_so(
    server: Server, proxy: Proxy, key: str, tenant: str
) -> None:
    with Client(proxy.url, key, connections=1, deadline=2.0) as client, ThreadPoolExecutor(1) as pool:
        proxy.holding = True
        first = pool.submit(client.decide, tenant, 0)
        assert proxy.held.wait(30)
        with pytest.raises(ClientBusyError, match=BUSY) as busy:
            _with_less_time(client, 0.2).decide(tenant, 1)
        assert getattr(busy.value, "__notes__", []) == []  # no id to ask again with: nothing was sent
        with pytest.raises(StoreUnavailableError, match="no answer after 1 try"):
            first.result(30)
        proxy.holding = False
        assert client.decide(tenant, 0).state == 0  # the turn was given back
    assert visits(server, tenant) == 2


def _with_less_time(client: Client, deadline: float) -> Client:
    """Return a client that shares the turns and lanes of another, and has a shorter deadline."""
    other = Client(client._url, "other", connections=1, deadline=deadline)
    other._turns, other._lanes = client._turns, client._lanes
    return other


def test_a_task_that_does_not_come_to_its_turn_says_so(
    server: Server, proxy: Proxy, key: str, tenant: str
) -> None:
    async def main() -> None:
        async with (
            AsyncClient(proxy.url, key, connections=1, deadline=2.0) as client,
            AsyncClient(proxy.url, "other", connections=1, deadline=0.2) as hasty,
        ):
            hasty._turns, hasty._lanes = client._turns, client._lanes
            proxy.holding = True
            first = asyncio.create_task(client.decide(tenant, 0))
            await asyncio.to_thread(proxy.held.wait, 30)
            for outcome in await asyncio.gather(
                *(hasty.decide(tenant, 1) for _ in range(2)), return_exceptions=True
            ):
                assert isinstance(outcome, ClientBusyError)
                assert BUSY in str(outcome)
            with pytest.raises(StoreUnavailableError, match="no answer after 1 try"):
                await first
            proxy.holding = False
            assert (await client.decide(tenant, 0)).state == 0  # the turn was given back

    asyncio.run(main())
    assert visits(server, tenant) == 2


def test_tasks_that_are_cancelled_while_they_wait_leave_the_turn_to_others(
    proxy: Proxy, key: str, tenant: str
) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.url, key, connections=1) as client:
            proxy.holding = True
            calls = [asyncio.create_task(client.decide(tenant, 0)) for _ in range(5)]
            await asyncio.to_thread(proxy.held.wait, 30)
            for call in calls:
                call.cancel()
            assert {type(outcome) for outcome in await asyncio.gather(*calls, return_exceptions=True)} == {
                asyncio.CancelledError
            }
            proxy.holding = False
            assert (await client.decide(tenant, 1)).state == 1

    asyncio.run(main())


def test_a_client_that_was_closed_opens_nothing(key: str, server: Server, tenant: str) -> None:
    client = Client(server.url, key)
    client.decide(tenant, 0)
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.decide(tenant, 0)

    async def main() -> None:
        closed = AsyncClient(server.url, key)
        await closed.close()
        with pytest.raises(RuntimeError, match="the client is closed"):
            await closed.decide(tenant, 0)

    asyncio.run(main())


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.001)


def test_turns_go_to_who_waited_longest() -> None:
    turns = Turns(1)
    assert turns.take(0.0)
    order: list[int] = []

    def wait(number: int) -> None:
        assert turns.take(30.0)
        order.append(number)
        turns.give_back()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=[number]))
        threads[-1].start()
        until(lambda expected=number + 1: len(turns._waiting) == expected)  # type: ignore[misc]
    turns.give_back()
    assert not turns.take(0.0) or len(order) == 5  # who comes now does not come first
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4]


def test_who_stops_waiting_is_passed_over() -> None:
    turns = Turns(2)
    assert [turns.take(0.0) for _ in range(3)] == [True, True, False]
    turns.give_back()
    turns.give_back()
    assert [turns.take(0.0) for _ in range(3)] == [True, True, False]


def test_a_turn_that_comes_with_an_interruption_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may arrive just when the turn was handed over, or before: either way it is not lost."""
    for handed in (False, True):
        turns = Turns(1)
        assert turns.take(0.0)

        class Interrupted:
            def __init__(self, turns: Turns = turns, handed: bool = handed) -> None:
                self.turns, self.handed, self.calls = turns, handed, 0

            def acquire(self, **_: float) -> bool:
                self.calls += 1
                if self.calls == 1:
                    return True
                if self.handed:
                    self.turns.give_back()
                raise KeyboardInterrupt

            def release(self) -> None:
                pass

        with monkeypatch.context() as patched:
            patched.setattr("steersman.client.lanes.threading.Lock", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                turns.take(30.0)
        if not handed:
            turns.give_back()
        assert [turns.take(0.0), turns.take(0.0)] == [True, False]


def test_a_proxy_that_cannot_be_used_is_told_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "gopher://proxy")
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="gopher"):
            kind("http://host", "key")
