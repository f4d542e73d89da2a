"""The log is read with the same verbs in the library and in both clients: decisions, episodes, the audit trail."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from steersman.client import AsyncClient, Client, verbs
from steersman.client.exchange import Call, Request
from steersman.domain.records import DecideRequest, Decision
from steersman.errors import AccessError
from tests.support.served import Server


@pytest.fixture
def played(server: Server, tenant: str) -> str:
    """A tenant with three decisions in one episode, which is closed, one in another, and two outside of any."""
    library = server.library
    for number in range(3):
        library.decide(
            tenant, 0, episode="deal/1", decision_id=f"a{number}", metadata={"n": number, "x": None}
        )
    library.close_episode(tenant, "deal/1", 0.5)
    library.decide(tenant, 1, episode="deal/2", decision_id="b")
    library.decide(tenant, 1, decision_id="c", metadata={"n": 1})
    library.decide(tenant, 1, decision_id="d")
    library.void(tenant, "d")
    return tenant


def ids(found: list[Decision]) -> list[str]:
    return [decision.decision_id for decision in found]


def test_decisions_are_found_by_episode_status_and_metadata(
    server: Server, client: Client, played: str
) -> None:
    for source in (server.library, client):
        assert ids(source.list_decisions(played)) == ["d", "c", "b", "a2", "a1", "a0"]
        assert ids(source.list_decisions(played, episode="deal/1")) == ["a2", "a1", "a0"]
        assert ids(source.list_decisions(played, status="learned")) == ["a2", "a1", "a0"]
        assert ids(source.list_decisions(played, status="void")) == ["d"]
        assert ids(source.list_decisions(played, metadata={"n": 1})) == ["c", "a1"]
        assert ids(source.list_decisions(played, metadata={"n": 1, "x": None})) == ["a1"]
        assert ids(source.list_decisions(played, status="open", episode="deal/2")) == ["b"]
    assert client.list_decisions(played) == server.library.list_decisions(played)


def test_pages_go_on_behind_the_last(server: Server, client: Client, played: str) -> None:
    for source in (server.library, client):
        first = source.list_decisions(played, limit=2)
        second = source.list_decisions(played, limit=2, after=first[-1].decision_id)
        assert (ids(first), ids(second)) == (["d", "c"], ["b", "a2"])
        (latest,) = source.list_episodes(played, limit=1)
        (before,) = source.list_episodes(played, limit=1, after=(latest.touched_at, latest.episode))
        assert (latest.episode, before.episode) == ("deal/2", "deal/1")
        assert source.list_episodes(played, after=(before.touched_at, before.episode)) == []
        newest, *older = source.list_audit(played)
        assert source.list_audit(played, after=newest.audit_id) == older


def test_episodes_are_shown_with_their_decisions(server: Server, client: Client, played: str) -> None:
    for source in (server.library, client):
        assert [found.episode for found in source.list_episodes(played, status="open")] == ["deal/2"]
        detail = source.show_episode(played, "deal/1")
        assert ids(list(detail.decisions)) == ["a0", "a1", "a2"]
        assert detail.episode.closed is not None
        assert (detail.episode.steps, detail.episode.closed.outcome) == (3, 0.5)
    assert client.show_episode(played, "deal/1") == server.library.show_episode(played, "deal/1")


def test_the_trail_of_a_base_and_of_operators_is_for_operators(
    server: Server, client: Client, played: str
) -> None:
    base = f"base-{played[-8:]}"
    server.library.create_base(base, {"actions": ["hold", "trade"], "states": 2})
    with Client(server.url, server.library.create_key(None, name="ops").text) as operator:
        for owner in (f"@{base}", "@", played, "nobody"):
            assert operator.list_audit(owner) == server.library.list_audit(owner)
        assert [line.verb for line in operator.list_audit(f"@{base}")] == ["create"]
    for owner in (f"@{base}", "@"):
        with pytest.raises(AccessError):
            client.list_audit(owner)


def test_tasks_read_the_log_too(server: Server, key: str, played: str) -> None:
    async def main() -> None:
        async with AsyncClient(server.url, key) as client:
            assert await client.list_decisions(played) == server.library.list_decisions(played)
            assert await client.list_episodes(played) == server.library.list_episodes(played)
            assert await client.show_episode(played, "deal/2") == server.library.show_episode(
                played, "deal/2"
            )
            assert await client.list_audit(played) == server.library.list_audit(played)

    asyncio.run(main())


def test_more_than_a_page_is_read_to_the_limit(server: Server, client: Client, tenant: str) -> None:
    server.library.decide_many([DecideRequest(tenant, 0) for _ in range(1100)])
    expected = server.library.list_decisions(tenant, limit=5000)
    assert len(expected) == 1100
    for limit in (1000, 1001, 1100, 5000):
        assert client.list_decisions(tenant, limit=limit) == expected[:limit]


def asked(call: Call[Any], answers: list[tuple[int, str | None]]) -> list[Request]:
    """Return the requests of a call whose pages have so many items and such a cursor."""
    sent = [next(call)]
    items = 0
    line = {"tenant": "t", "audit_id": "i", "created_at": 1, "actor": "a", "verb": "v", "detail": {}}
    try:
        for count, following in answers:
            body = {"items": [line] * count, "next": following}
            sent.append(call.send(msgspec.json.encode(body)))
    except StopIteration as stop:
        items = len(stop.value)
    assert items == sum(count for count, _ in answers)
    return sent


def test_a_limit_is_asked_for_in_pages_of_a_thousand() -> None:
    sent = asked(verbs.list_audit("t", after="x", limit=2500), [(1000, "k"), (1000, "l"), (500, "m")])
    assert [request.query for request in sent] == [
        {"tenant": "t", "after": "x", "limit": 1000},
        {"tenant": "t", "after": "k", "limit": 1000},
        {"tenant": "t", "after": "l", "limit": 500},
    ]
    assert len(asked(verbs.list_audit("t", limit=2500), [(1000, "k"), (7, None)])) == 2
