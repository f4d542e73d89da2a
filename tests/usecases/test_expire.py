from __future__ import annotations

import pytest

from steersman.domain.answers import Expired
from steersman.domain.records import DecideRequest, Decision
from steersman.errors import NotFoundError
from steersman.library import Steersman
from steersman.store.clock import now
from steersman.usecases.expire import expire
from tests.support.company import Company

WAIT = {"reward_wait": 60, "default_reward": 0.25}
MINUTE = 60_000_000  # microseconds


def expired(company: Company, *, at: int | None = None) -> tuple[int, int]:
    """The counts of decisions and episodes that were settled."""
    answer = expire(company.library.database, company.name, at=at)
    assert answer.tenant == company.name
    return answer.decisions, answer.episodes


def test_without_the_settings_nothing_expires(company: Company) -> None:
    company.play("hold")
    company.play("hold", episode="e")
    assert expired(company, at=now() + 10**15) == (0, 0)


def test_a_decision_gets_the_default_reward_when_it_has_waited_long_enough(shared_library: Steersman) -> None:
    company = Company.found(shared_library, **WAIT)
    decision = company.play("hold")
    assert expired(company) == (0, 0)
    assert expired(company, at=decision.created_at + MINUTE) == (0, 0)  # not longer than the wait
    assert expired(company, at=decision.created_at + MINUTE + 1) == (1, 0)
    assert company.q("hold") == 0.25
    ((_, reward_id, decision_id, value, kind, effect, *_),) = company.rows("rewards")
    assert (reward_id, decision_id) == (f"default:{decision.decision_id}", decision.decision_id)
    assert (value, kind, effect) == (0.25, "default", "learned")
    assert expired(company, at=now() + 10 * MINUTE) == (0, 0)


def test_what_has_its_reward_or_is_void_does_not_expire(shared_library: Steersman) -> None:
    company = Company.found(shared_library, **WAIT)
    company.teach("hold", 1.0)
    company.void(company.play("hold"))
    assert expired(company, at=now() + 10 * MINUTE) == (0, 0)
    assert company.q("hold") == 1.0


def test_an_episode_closes_with_the_default_reward_as_its_outcome(shared_library: Steersman) -> None:
    company = Company.found(shared_library, **WAIT)
    first = company.play("hold", 0, episode="e")
    company.play("trade", 1, episode="e")
    company.reward(first, 0.5)
    assert expired(company, at=now() + 2 * MINUTE) == (0, 1)
    # Steps in an episode are settled by its close: trade has the outcome alone; gamma is 1, hold was 0.5 + 0.
    assert (company.q("hold"), company.q("trade", 1)) == (0.5, 0.25)
    ((_, _, status, _, _, _, outcome, kind, decisions, learned, _),) = company.rows("episodes")
    assert (status, outcome, kind, decisions, learned) == ("closed", 0.25, "default", 2, 1)
    assert len(company.rows("rewards")) == 1


def test_an_episode_waits_from_its_latest_decide_or_reward(shared_library: Steersman) -> None:
    company = Company.found(shared_library, **WAIT)
    first = company.play("hold", 0, episode="e")
    latest = company.play("trade", 1, episode="e")
    assert expired(company, at=first.created_at + MINUTE + 1) == (0, 0)
    rewarded = company.reward(first, 0.5)
    assert rewarded.created_at > latest.created_at
    assert expired(company, at=latest.created_at + MINUTE + 1) == (0, 0)
    assert expired(company, at=rewarded.created_at + MINUTE + 1) == (0, 1)


def test_only_the_tenant_that_is_named_expires(shared_library: Steersman) -> None:
    company, other = (Company.found(shared_library, **WAIT) for _ in range(2))
    other.play("hold")
    assert expired(company, at=now() + 2 * MINUTE) == (0, 0)
    assert expired(other, at=now() + 2 * MINUTE) == (1, 0)


def test_more_than_fit_in_one_transaction(shared_library: Steersman) -> None:
    company = Company.found(shared_library, **WAIT)
    answers = shared_library.decide_many([DecideRequest(company.name, 0, ["hold"]) for _ in range(450)])
    assert all(isinstance(answer, Decision) for answer in answers)
    assert expired(company, at=now() + 2 * MINUTE) == (450, 0)
    cell = company.cell("hold")
    assert (cell.updates, cell.visits) == (450, 450)
    assert cell.q == pytest.approx(0.25, abs=1e-15)


def test_by_the_clock(shared_library: Steersman) -> None:
    company = Company.found(shared_library, reward_wait=0, default_reward=0.5)
    company.play("hold")
    company.play("hold", episode="e")
    assert shared_library.expire(company.name) == Expired(company.name, 1, 1)


def test_an_unknown_tenant(shared_library: Steersman) -> None:
    with pytest.raises(NotFoundError):
        shared_library.expire("nobody")
