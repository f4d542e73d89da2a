"""The clock of a server is set back by an hour: nothing is refused, lost, told otherwise or listed twice for it."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.reliability.books import losses
from tests.reliability.judge import judge, tell
from tests.reliability.plans import PLAIN, make_plan, strangers
from tests.service_faults.callers import Callers, Wire, perform
from tests.service_faults.servers import Deployment

CALLERS = 4
SEED = 60


def test_the_clock_is_set_back_under_load(store_url: str, deployed: Callable[..., Deployment]) -> None:
    deployment = deployed(store_url)
    server = deployment.server(defect="clock that goes back")
    server.start()
    plans = [make_plan(f"caller{i}", SEED, 60) for i in range(CALLERS)]
    callers = Callers([(server.port, plan) for plan in plans], deployment.key)
    with callers.running():
        callers.wait_for(60)
        server.signal(signal.SIGUSR1)
    books = judge(store_url)
    times = [row["created_at"] for row in books.decisions]
    tell(
        SEED, f"{(max(times) - min(times)) / 1e6:.0f} s apart, again {dict(callers.again)}, {books.counts()}"
    )
    assert max(times) - min(times) > 3500 * 10**6
    assert not callers.again
    assert losses(books, callers.acknowledged) == []
    assert strangers(books, [call for plan in plans for call in plan]) == []
    wire = Wire(server.port, deployment.key)
    # What was told before is told again.
    assert [answer for call in plans[0] for answer in perform(wire, call)] == [
        answer for answer in callers.acknowledged if belongs(answer, "caller0.")
    ]
    assert sorted(listed(wire)) == sorted(
        row["decision_id"] for row in books.decisions if row["tenant"] == PLAIN
    )
    wire.close()


def belongs(answer: dict[str, object], prefix: str) -> bool:
    """Whether an answer is one of the caller whose ids begin so."""
    name = answer.get("decision_id") or answer.get("episode")
    return str(name).startswith(prefix)


def listed(wire: Wire) -> list[str]:
    """The decisions of a tenant, page by page."""
    found: list[str] = []
    following = ""
    while True:
        page = wire.ask("GET", f"/v1/decisions?tenant={PLAIN}&limit=7{following}")
        found += [item["decision_id"] for item in page["items"]]
        if page["next"] is None:
            return found
        following = f"&after={page['next']}"
