"""What is lost on the way is asked for again, and done once; connections are kept."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steersman.client import AsyncClient, Client
from steersman.domain.records import DecideRequest, Decision, Reward, RewardRequest
from steersman.errors import ConflictError, StoreUnavailableError
from tests.client.proxy import Proxy, proxying
from tests.support.served import Server, serving


def test_a_lost_answer_has_one_effect(server: Server, proxy: Proxy, key: str, tenant: str) -> None:
    with Client(proxy.url, key) as client:
        proxy.losing = 3
        decision = client.decide(tenant, 0, episode="deal")
        proxy.losing = 2
        reward = client.reward(tenant, decision.decision_id, 0.5, reward_id="r")
        proxy.losing = 1
        closed = client.close_episode(tenant, "deal", 0.25)
        unused = client.decide(tenant, 1)
        proxy.losing = 1
        voided = client.void(tenant, unused.decision_id)
        proxy.losing = 1
        repeated = client.decide(tenant, 0, episode="deal", decision_id=decision.decision_id)
    assert proxy.losing == 0
    assert proxy.statuses == [200] * 14  # 4, 3, 2, 1, 2 and 2: each try reached the server, which answered it
    assert repeated == decision
    explanation = server.library.explain(tenant, decision.decision_id)
    assert explanation.rewards == (reward,)
    assert [(step.reward, step.number) for step in explanation.steps] == [(0.75, 1)]
    assert (closed.decisions, closed.learned) == (1, 1)
    assert voided.status == "void"
    (cell,) = (cell for cell in server.library.show(tenant).states[0].cells if cell.action == decision.action)
    assert (cell.visits, cell.updates) == (1, 1)
    assert server.library.verify(tenant).clean


def test_a_lost_answer_of_a_list_has_one_effect(server: Server, proxy: Proxy, key: str, tenant: str) -> None:
    with Client(proxy.url, key) as client:
        ids = [client.decide(tenant, 0).decision_id for _ in range(5)]
        proxy.losing = 2
        rewards = client.reward_many([RewardRequest(tenant, decision_id, 0.5) for decision_id in ids])
    assert [reward.effect for reward in rewards if isinstance(reward, Reward)] == ["learned"] * 5
    assert sum(cell.updates for cell in server.library.show(tenant).states[0].cells) == 5


def test_a_change_whose_answer_is_lost_is_made_once(
    server: Server, proxy: Proxy, key: str, tenant: str
) -> None:
    server.library.decide(tenant, 0)
    with Client(proxy.url, key) as client:
        proxy.losing = 2
        plan = client.change_tenant(tenant, {"actions": ["hold", "trade", "wait"]})
        proxy.losing = 1
        restored = client.roll_back(tenant)
        proxy.losing = 1
        foreseen = client.change_tenant(tenant, {"actions": ["hold"]}, dry_run=True)
    assert proxy.statuses == [200] * 7
    assert (plan.version, plan.actions.new.shown, restored.number, restored.parent) == (2, ("wait",), 3, 1)
    assert (foreseen.version, foreseen.actions.parked.shown) == (None, ("trade",))
    assert [version.number for version in server.library.list_versions(tenant)] == [1, 2, 3]


def test_a_change_that_is_given_up_names_its_id_and_can_be_asked_again(
    server: Server, proxy: Proxy, key: str, tenant: str
) -> None:
    server.library.decide(tenant, 0)
    with Client(proxy.url, key, retries=0) as client:
        proxy.losing = 1
        with pytest.raises(StoreUnavailableError, match="no answer after 1 try") as lost:
            client.change_tenant(tenant, {"states": 3})
        (note,) = lost.value.__notes__
        named = note.removeprefix("operation id: ")
        plan = client.change_tenant(tenant, {"states": 3}, operation_id=named)
        assert (plan.version, plan.changed) == (2, ("states",))
        assert server.library.change_tenant(tenant, {"states": 3}, operation_id=named) == plan
        proxy.losing = 1
        with pytest.raises(StoreUnavailableError) as lost:
            client.roll_back(tenant, operation_id="mine")
        assert getattr(lost.value, "__notes__", []) == []
        assert client.roll_back(tenant, operation_id="mine").number == 3
    assert [version.number for version in server.library.list_versions(tenant)] == [1, 2, 3]


def test_a_key_whose_text_is_lost_is_named(server: Server, proxy: Proxy, tenant: str) -> None:
    operator = server.library.create_key(None, name="ops").text
    with Client(proxy.url, operator) as client:
        proxy.losing = 1
        with pytest.raises(ConflictError, match="its text is not kept") as lost:
            client.create_key(tenant, name="shop")
        (made,) = server.library.list_keys(tenant)
        assert (made.name, f"the key '{made.key_id}'" in str(lost.value)) == ("shop", True)
        proxy.losing = 1
        with pytest.raises(ConflictError, match="its text is not kept"):
            client.rotate_key(made.key_id)
    assert len(server.library.list_keys(tenant)) == 2


def test_calls_wait_for_a_server_that_restarts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'steersman.db'}"
    with proxying(None) as proxy, ThreadPoolExecutor(1) as pool:
        with serving(url) as first:
            first.library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
            client = Client(proxy.url, first.library.create_key("acme", name="test").text, retries=1000)
            proxy.upstream = first.url
            before = client.decide("acme", 0)
        proxy.upstream = None
        refused = proxy.connections
        waiting = pool.submit(client.decide, "acme", 1)
        while proxy.connections < refused + 3:  # tries that came to nothing
            threading.Event().wait(0.01)
        with serving(url) as second, client:
            proxy.upstream = second.url
            after = waiting.result(timeout=30)
            assert client.decide("acme", 0, decision_id=before.decision_id) == before
            assert client.explain("acme", after.decision_id).decision == after


def test_a_key_that_asks_too_often_waits_as_it_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'steersman.db'}"
    with serving(url, key_rate=0.5) as server, proxying(server.url) as proxy:
        server.library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        with Client(proxy.url, server.library.create_key("acme", name="test").text) as client:
            assert client.decide("acme", 0) != client.decide("acme", 0)
        assert proxy.statuses.count(200) == 2
        assert 1 <= proxy.statuses.count(429) <= 2  # without the wait there would be many


def test_one_connection_serves_one_thread(proxy: Proxy, key: str, tenant: str) -> None:
    with Client(proxy.url, key) as client:
        for _ in range(20):
            client.decide(tenant, 0)
        client.show_tenant(tenant)
    assert len(proxy.statuses) == 21
    assert proxy.connections == 1


def test_threads_share_a_pool_of_bounded_size(proxy: Proxy, key: str, tenant: str) -> None:
    with Client(proxy.url, key, connections=3) as client, ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: client.decide(tenant, 0), range(80)))
    assert len({decision.decision_id for decision in made}) == 80
    assert proxy.connections <= 3


def test_an_answer_that_hangs_is_given_up_and_asked_for_again(proxy: Proxy, key: str, tenant: str) -> None:
    with Client(proxy.url, key, timeout=1.0) as client, ThreadPoolExecutor(1) as pool:
        proxy.holding = True
        waiting = pool.submit(client.decide, tenant, 0)
        assert proxy.held.wait(30)
        proxy.holding = False
        decision = waiting.result(timeout=30)
    assert isinstance(decision, Decision)
    assert len(proxy.statuses) >= 2


@pytest.fixture
def trickle() -> Iterator[str]:
    """The URL of a server whose answer never ends: a byte arrives long before any timeout, again and again."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            try:
                while not ended.wait(0.05):
                    connection.sendall(b" ")
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=answer, args=[connection]))
            threads[-1].start()

    threads = [threading.Thread(target=accept)]
    threads[0].start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    ended.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join(30)


def test_an_answer_that_never_ends_is_given_up_at_the_deadline(trickle: str) -> None:
    with Client(trickle, "key", timeout=20.0, deadline=0.5) as client:
        with pytest.raises(StoreUnavailableError, match=r"no answer after 1 try: .* at the deadline") as late:
            client.decide("acme", 0)
        assert [note.partition(":")[0] for note in late.value.__notes__] == ["decision id"]

    async def main() -> None:
        async with AsyncClient(trickle, "key", timeout=20.0, deadline=0.5) as client:
            with pytest.raises(StoreUnavailableError, match="at the deadline"):
                await client.decide("acme", 0)

    asyncio.run(main())


def test_what_was_done_of_a_long_list_is_told_when_a_later_part_is_lost(
    server: Server, proxy: Proxy, key: str, tenant: str
) -> None:
    wanted = [DecideRequest(tenant, 0) for _ in range(600)]
    wanted[-1] = DecideRequest(tenant, 0, decision_id="mine")
    with Client(proxy.url, key, retries=0) as client:
        proxy.losing_from = 2
        answers = client.decide_many(wanted)
        proxy.losing_from = None
        done, failed = answers[:256], answers[256:]
        assert all(isinstance(answer, Decision) for answer in done)
        assert {type(answer) for answer in failed} == {StoreUnavailableError}
        assert len(proxy.statuses) == 2  # the third part was not sent
        assert getattr(failed[-1], "__notes__", []) == []
        # The id that was made is named, so that the same can be asked again.
        (note,) = getattr(failed[0], "__notes__", [])
        again = client.decide(tenant, 0, decision_id=note.removeprefix("decision id: "))
        assert isinstance(again, Decision)
    assert sum(cell.visits for cell in server.library.show(tenant).states[0].cells) == 512


def test_a_list_that_is_lost_as_a_whole_names_what_it_asked_for(
    server: Server, proxy: Proxy, key: str, tenant: str
) -> None:
    with Client(proxy.url, key, retries=0) as client:
        proxy.losing = 1
        with pytest.raises(StoreUnavailableError) as lost:
            client.decide_many([DecideRequest(tenant, 0), DecideRequest(tenant, 0, decision_id="mine")])
    (note,) = lost.value.__notes__
    made = note.removeprefix("decision ids: ")
    assert server.library.explain(tenant, made).decision.decision_id == made


_FORKED = """
import os, sys
from steersman.client import Client

url, key, tenant = sys.argv[1:]
with Client(url, key) as client:
    client.decide(tenant, 0, decision_id="first")
    children = []
    for child in range(4):
        pid = os.fork()
        if not pid:
            answers = [client.decide(tenant, 0, decision_id=f"{child}-{n}") for n in range(30)]
            os._exit([answer.decision_id for answer in answers] != [f"{child}-{n}" for n in range(30)])
        children.append(pid)
    for n in range(30):
        assert client.decide(tenant, 0, decision_id=f"parent-{n}").decision_id == f"parent-{n}"
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
"""


def test_both_sides_of_a_fork_have_connections_of_their_own(server: Server, tenant: str, key: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKED, server.url, key, tenant], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert server.library.show(tenant).states[0].evidence == 1 + 5 * 30
