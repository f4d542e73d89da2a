"""kill -9, at any moment and at named points: what was acknowledged stays, and nothing is applied twice."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.reliability.books import Books, losses, read_books, reconcile
from tests.reliability.clients import POINTS, Client, Death, Plan
from tests.reliability.judge import judge, tell
from tests.reliability.plans import prepare, strangers

KILLS = 40
SEED = 20_25


def work_in(books: Books) -> set[tuple[str, str, str]]:
    """The decisions and rewards that are there."""
    found = {("decide", row["tenant"], row["decision_id"]) for row in books.decisions}
    return found | {("reward", row["tenant"], row["reward_id"]) for row in books.rewards}


def work_told(client: Client) -> set[tuple[str, str, str]]:
    """The decisions and rewards that the client knows are there."""
    return {
        (a["verb"], a["tenant"], a["reward_id" if a["verb"] == "reward" else "decision_id"])
        for a in client.acknowledged
        if a["verb"] in {"decide", "reward"}
    }


def lead(client: Client, deaths: Sequence[Death]) -> int:
    """Live through all these deaths, look at the books after each, finish the plan; return how many came."""
    kills = 0
    for death in deaths:
        kills += client.live(death)
        books = read_books(client.url)
        assert losses(books, client.acknowledged) == []
        assert reconcile(books) == []
    assert client.live() is False
    return kills


def test_killed_at_any_moment(store_url: str) -> None:
    """Two clients, each killed twenty times while the other is at work or dead."""
    prepare(store_url)
    random = Random(SEED)
    clients = [Client(store_url, Plan(name, SEED, 250)) for name in ("first", "second")]
    deaths = [
        [Death(heard=random.randint(1, 8), moment=random.uniform(0, 0.006)) for _ in range(KILLS // 2)]
        for _ in clients
    ]
    with ThreadPoolExecutor() as pool:
        kills = list(pool.map(lead, clients, deaths))
    books = judge(store_url)
    tell(SEED, f"{kills} kills, {[len(client.told) for client in clients]} calls, {books.counts()}")
    assert sum(kills) == KILLS
    assert losses(books, [answer for client in clients for answer in client.acknowledged]) == []
    assert strangers(books, [call for client in clients for call in client.plan.make()]) == []


def test_killed_at_named_points(store_url: str) -> None:
    """Ten times at each point, in any order; the point is where it says: only after COMMIT is work there unheard."""
    prepare(store_url)
    random = Random(SEED)
    client = Client(store_url, Plan("mortal", SEED, 250))
    deaths = [Death(point, random.randint(1, 8)) for point in POINTS for _ in range(KILLS // len(POINTS))]
    random.shuffle(deaths)
    found = dict.fromkeys(POINTS, 0)
    before: set[tuple[str, str, str]] = set()
    for death in deaths:
        assert client.live(death)
        books = read_books(store_url)
        assert losses(books, client.acknowledged) == []
        assert reconcile(books) == []
        after = work_in(books)
        found[str(death.point)] += bool(after - before - work_told(client))
        before = after
    assert client.live() is False
    books = judge(store_url)
    tell(SEED, f"{len(deaths)} kills, {len(client.told)} calls, work unheard after {found}, {books.counts()}")
    assert losses(books, client.acknowledged) == []
    assert strangers(books, client.plan.make()) == []
    assert found.pop("after COMMIT") > 0
    assert set(found.values()) == {0}


# Planted defects: the harness must see them.


def test_an_acknowledgement_before_the_commit_is_found(store_url: str) -> None:
    prepare(store_url)
    client = Client(store_url, Plan("hasty", SEED, 20), defect="hasty")
    assert client.live(Death("before COMMIT", 8))
    found = losses(read_books(store_url), client.acknowledged)
    tell(SEED, f"{found}")
    assert found
    assert all("acknowledged" in line for line in found)


def test_a_retry_under_another_id_is_found(store_url: str) -> None:
    prepare(store_url)
    client = Client(store_url, Plan("careless", SEED, 20), defect="careless")
    assert client.live(Death("after COMMIT", 6))
    assert client.live() is False
    found = strangers(read_books(store_url), client.plan.make())
    tell(SEED, f"{found}")
    assert found
    assert all(line.startswith("nobody asked") and ".again" in line for line in found)
