"""Two servers on one PostgreSQL, everybody at one cell of one tenant: each visit and each reward counts once."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum, isclose
from random import Random

from steersman.domain.records import DecideRequest, RewardRequest
from tests.reliability.books import losses, read_books, reconcile
from tests.reliability.judge import judge, tell
from tests.reliability.plans import PLAIN, Call, strangers
from tests.service_faults.callers import Callers
from tests.service_faults.servers import Deployment

Deploy = Callable[..., Deployment]

CALLERS = 8
PAIRS = 40
SHARED = 10
SEED = 27


def hot_plan(name: str) -> list[Call]:
    """Decisions in one cell with a reward each; some under ids that every caller uses."""
    random = Random(f"{SEED} {name}")
    plan = []
    for i in range(PAIRS + SHARED):
        shared = i % (PAIRS // SHARED + 1) == 0
        decision_id = f"shared.{i}" if shared else f"{name}.{i}"
        value = i / (PAIRS + SHARED) if shared else random.random()
        plan.append(Call("decide", (DecideRequest(PLAIN, 0, ["hold"], decision_id=decision_id),)))
        plan.append(Call("reward", (RewardRequest(PLAIN, decision_id, value),)))
    return plan


def run(deployment: Deployment, plans: list[list[Call]], *, defect: str | None = None) -> Callers:
    """Let half of the callers ask one server and half the other one."""
    servers = [deployment.server(defect=defect) for _ in range(2)]
    for server in servers:
        server.start()
    callers = Callers([(servers[i % 2].port, plan) for i, plan in enumerate(plans)], deployment.key)
    with callers.running():
        pass
    return callers


def test_one_tenant_hot_on_two_servers(postgres_url: str, deployed: Deploy) -> None:
    plans = [hot_plan(f"caller{i}") for i in range(CALLERS)]
    callers = run(deployed(postgres_url), plans)
    books = judge(postgres_url)
    calls = [call for plan in plans for call in plan]
    tell(SEED, f"{len(calls)} calls, again {dict(callers.again)}, {books.counts()}")
    assert not callers.again
    assert losses(books, callers.acknowledged) == []
    assert strangers(books, calls) == []
    # With 1/n steps, q is the mean of what the callers say that they sent.
    requests = [request for call in calls for request in call.requests]
    sent = {item.decision_id: item.value for item in requests if isinstance(item, RewardRequest)}
    assert len(sent) == CALLERS * PAIRS + SHARED
    (cell,) = [row for row in books.cells if row["visits"]]
    assert (cell["action"], cell["visits"], cell["updates"]) == ("hold", len(sent), len(sent))
    assert isclose(cell["q"], fsum(sent.values()) / len(sent), rel_tol=1e-12)


def test_a_cell_written_back_without_a_lock_is_found(postgres_url: str, deployed: Deploy) -> None:
    """A planted defect: two servers that forget to lock lose visits, and the books say so."""
    plans = [[call for call in hot_plan(f"caller{i}") if call.verb == "decide"] for i in range(CALLERS)]
    run(deployed(postgres_url), plans, defect="forget locks")
    found = reconcile(read_books(postgres_url))
    tell(SEED, found)
    assert any("visits is" in line for line in found)
