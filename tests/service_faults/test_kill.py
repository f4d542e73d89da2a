"""kill -9 of a server under load: what was acknowledged stays, and nothing is applied twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from http.client import HTTPException
from itertools import chain
from random import Random

import pytest

from steersman.domain.records import DecideRequest
from tests.reliability.books import losses, read_books, reconcile
from tests.reliability.clients import POINTS, Death
from tests.reliability.judge import judge, tell
from tests.reliability.plans import PLAIN, Call, make_plan, strangers
from tests.service_faults.callers import Callers, Wire, perform
from tests.service_faults.servers import Deployment, ServerProcess

Deploy = Callable[..., Deployment]

CALLERS = 4
KILLS = 60
AT_POINTS = 7  # of these at each named point; the others at any moment
SEED = 19_04


def test_sixty_kills_under_four_callers(store_url: str, deployed: Deploy) -> None:
    deployment = deployed(store_url)
    random = Random(SEED)
    deaths = [Death(point, random.randint(1, 12)) for point in POINTS for _ in range(AT_POINTS)]
    anyhow = KILLS - len(deaths)
    deaths += [Death(heard=random.randint(1, 8), moment=random.uniform(0, 0.01)) for _ in range(anyhow)]
    random.shuffle(deaths)
    plans = [make_plan(f"caller{i}", SEED, 350) for i in range(CALLERS)]
    server = deployment.server()
    callers = Callers([(server.port, plan) for plan in plans], deployment.key)
    looked = die(server, callers, deaths, store_url)
    books = judge(store_url)
    made = sum(map(len, plans))
    tell(SEED, f"{KILLS} kills, {made} calls, again {dict(callers.again)}, {looked} looks, {books.counts()}")
    assert set(callers.again) <= {"no answer", "503 overloaded", "503 store-unavailable"}
    assert losses(books, callers.acknowledged) == []
    assert strangers(books, all_of(plans)) == []


@pytest.mark.parametrize("point", POINTS)
def test_a_decide_passes_every_point(store_url: str, deployed: Deploy, point: str) -> None:
    """Wherever the transaction of a decide runs, it is one that the server can be told to die in."""
    deployment = deployed(store_url)
    server = deployment.server()
    server.start()
    wire = Wire(server.port, deployment.key)
    perform(wire, Call("decide", (DecideRequest(PLAIN, 0, decision_id="first"),)))
    server.kill()  # the first decide of a tenant makes its version, in a transaction of another kind
    wire.close()
    server.start(Death(point))
    with pytest.raises((OSError, HTTPException)):
        perform(wire, Call("decide", (DecideRequest(PLAIN, 0, decision_id="second"),)))
    server.await_death()
    wire.close()
    stored = {row["decision_id"] for row in read_books(store_url).decisions}
    assert stored == ({"first", "second"} if point == "after COMMIT" else {"first"})


def die(server: ServerProcess, callers: Callers, deaths: Iterable[Death], url: str) -> int:
    """Let the server die and start again while the callers insist; return how often the books were looked at.

    Every tenth time they must be sound and say all that was told, before a server has started again.
    """
    looked = 0
    with callers.running():
        for number, death in enumerate(deaths):
            server.start(death)
            if death.point is None:
                callers.wait_for(death.heard)
                time.sleep(death.moment)
                server.kill()
            else:
                server.await_death()
            if number % 10 == 9:
                heard = callers.heard()
                books = read_books(url)
                assert losses(books, heard) == []
                assert reconcile(books) == []
                looked += 1
        server.start()
    return looked


def all_of(plans: Iterable[list[Call]]) -> list[Call]:
    """The calls of all plans."""
    return list(chain.from_iterable(plans))


def test_an_answer_before_the_commit_is_found(store_url: str, deployed: Deploy) -> None:
    """A planted defect: the same look at the books finds what was told and is not there."""
    deployment = deployed(store_url)
    plan = make_plan("caller", SEED, 1)
    found = {}
    for defect in ("answer before commit", None):
        server = deployment.server(defect=defect)
        server.start()
        wire = Wire(server.port, deployment.key)
        acknowledged = perform(wire, plan[0])
        server.kill()
        wire.close()
        found[defect] = losses(read_books(store_url), acknowledged)
    tell(SEED, found)
    assert found[None] == []
    assert any("is not there" in line for line in found["answer before commit"])
