"""The client for asyncio: the same verbs, awaited; a cancelled call leaves it usable."""

from __future__ import annotations

import asyncio

import pytest

from steersman.client import AsyncClient
from steersman.domain.records import CloseRequest, DecideRequest
from steersman.errors import InvalidStateError, NotFoundError, StoreUnavailableError
from tests.client.proxy import Proxy
from tests.support.served import Server


def test_verbs_are_awaited(server: Server, key: str, tenant: str) -> None:
    async def main() -> None:
        async with AsyncClient(server.url, key) as client:
            decision = await client.decide(tenant, 1, feasible=["hold"])
            assert (await client.reward(tenant, decision.decision_id, 0.5)).effect == "learned"
            assert (await client.explain(tenant, decision.decision_id)).decision.action == "hold"
            assert await client.list_versions(tenant) == server.library.list_versions(tenant)
            answers = await client.decide_many([DecideRequest(tenant, 0), DecideRequest(tenant, 7)])
            assert isinstance(answers[1], InvalidStateError)
            assert (await client.verify(tenant)).clean
            with pytest.raises(NotFoundError):
                await client.close_episode(tenant, "none")
            (missing,) = await client.close_many([CloseRequest(tenant, "none")])
            assert isinstance(missing, NotFoundError)

    asyncio.run(main())


def test_an_episode_is_closed_at_the_end_of_its_block(server: Server, key: str, tenant: str) -> None:
    async def main() -> None:
        async with AsyncClient(server.url, key) as client:
            async with client.episode(tenant, "deal") as episode:
                first = await episode.decide(0)
                await episode.reward(first.decision_id, 0.5)
                await episode.decide(1)
                episode.outcome = 0.75
            assert episode.closed is not None
            assert (episode.closed.outcome, episode.closed.decisions) == (0.75, 2)
            left = client.episode(tenant, "left")
            with pytest.raises(InvalidStateError):
                async with left:
                    await left.decide((await left.decide(0)).state + 9)
            assert left.closed is None
            assert (await client.close_episode(tenant, "left")).decisions == 1

    asyncio.run(main())


def test_many_tasks_share_few_connections(proxy: Proxy, key: str, tenant: str) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.url, key, connections=3) as client:
            made = await asyncio.gather(*(client.decide(tenant, 0) for _ in range(60)))
        assert len({decision.decision_id for decision in made}) == 60

    asyncio.run(main())
    assert proxy.connections <= 3


def test_a_lost_answer_has_one_effect(server: Server, proxy: Proxy, key: str, tenant: str) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.url, key) as client:
            proxy.losing = 2
            decision = await client.decide(tenant, 0)
            proxy.upstream = None
            async with AsyncClient(proxy.url, key, retries=1) as hasty:
                with pytest.raises(StoreUnavailableError):
                    await hasty.decide(tenant, 0)
            proxy.upstream = server.url
            assert await client.decide(tenant, 0, decision_id=decision.decision_id) == decision

    asyncio.run(main())
    assert sum(cell.visits for cell in server.library.show(tenant).states[0].cells) == 1


def test_a_cancelled_call_leaves_the_pool_usable(server: Server, proxy: Proxy, key: str, tenant: str) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.url, key, connections=2) as client:
            for _ in range(5):  # more than there are connections
                proxy.held.clear()
                proxy.holding = True
                call = asyncio.create_task(client.decide(tenant, 0))
                await asyncio.to_thread(proxy.held.wait, 30)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                proxy.holding = False
                assert (await client.decide(tenant, 1)).state == 1

    asyncio.run(main())
    # What was cancelled had arrived, and was decided as a whole.
    states = {
        state.state: sum(cell.visits for cell in state.cells) for state in server.library.show(tenant).states
    }
    assert states == {0: 5, 1: 5}
    assert server.library.verify(tenant).clean
