"""Closing episodes, with values worked out by hand. Step sizes are 1/n."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from steersman.domain.records import ClosedEpisode, CloseRequest, Decision
from steersman.errors import (
    ConflictError,
    IdReusedError,
    InvalidInputError,
    InvalidRewardError,
    NotFoundError,
    SteersmanError,
)
from steersman.library import Steersman
from steersman.store.tenants import get_tenant
from tests.support.company import Company


def prepared(library: Steersman, *, lam: float, gamma: float = 0.5) -> Company:
    """Three states; q(1, hold) = 0.4, q(1, trade) = 0.3 and q(2, hold) = 0.6, each from one reward."""
    company = Company.found(library, states=3, learning={"gamma": gamma, "lambda": lam})
    company.teach("hold", 0.4, state=1)
    company.teach("trade", 0.3, state=1)
    company.teach("hold", 0.6, state=2)
    return company


def decide_as(company: Company, action: str, state: int, episode: str) -> Decision:
    """Decide between both actions under an id whose draw falls on `action`, whatever is greedy."""
    with company.library.database.snapshot() as connection:
        secret = get_tenant(connection, company.name).secret
    ends = (0.0, 0.04) if action == "hold" else (0.96, 1.0)  # hold is first: [0, 0.05) at the least
    for number in range(10_000):
        decision_id = f"{episode} {state} {number}"
        digest = hashlib.sha256(secret + b"\0" + decision_id.encode()).digest()
        if ends[0] <= int.from_bytes(digest, "big") / 2**256 < ends[1]:
            decision = company.decide(state, episode=episode, decision_id=decision_id)
            assert decision.action == action
            return decision
    raise AssertionError("no draw fell there")


def three_steps(company: Company, middle: str) -> list[Decision]:
    """Hold in state 0, `middle` in state 1 where hold has the larger value, hold in state 2."""
    return [
        company.play("hold", 0, episode="e"),
        decide_as(company, middle, 1, "e"),
        decide_as(company, "hold", 2, "e"),
    ]


# q(0, hold), q(1, hold), q(1, trade), q(2, hold) after an episode with rewards 0.1, 0.2 and the outcome 0.7.
# The first cell is new, the others have one update, so they go half of the way to their target:
# q(2, hold) = 0.6 + (0.7 - 0.6) / 2 = 0.65 always.
# lambda 0: the targets are 0.1 + 0.5 * 0.4 = 0.3 and 0.2 + 0.5 * 0.6 = 0.5, learned as the rewards come.
# lambda 1, greedy: 0.2 + 0.5 * 0.7 = 0.55 and 0.1 + 0.5 * 0.55 = 0.375.
# lambda 1/2, greedy: 0.2 + 0.5 * (0.6 + 0.7) / 2 = 0.525 and 0.1 + 0.5 * (0.4 + 0.525) / 2 = 0.33125.
# Where the middle action was not greedy the first return stops at the value of its state: 0.1 + 0.5 * 0.4 = 0.3.
@pytest.mark.parametrize(
    ("lam", "middle", "expected"),
    [
        (0.0, "hold", [0.3, 0.45, 0.3, 0.65]),
        (0.0, "trade", [0.3, 0.4, 0.4, 0.65]),
        (0.5, "hold", [0.33125, 0.4625, 0.3, 0.65]),
        (0.5, "trade", [0.3, 0.4, 0.4125, 0.65]),
        (1.0, "hold", [0.375, 0.475, 0.3, 0.65]),
        (1.0, "trade", [0.3, 0.4, 0.425, 0.65]),
    ],
)
def test_an_episode_of_three_steps(
    lam: float, middle: str, expected: list[float], shared_library: Steersman
) -> None:
    company = prepared(shared_library, lam=lam)
    first, second, _ = three_steps(company, middle)
    company.reward(first, 0.1)
    company.reward(second, 0.2)
    closed = company.close("e", 0.7)
    assert (closed.decisions, closed.learned, closed.outcome, closed.kind) == (
        3,
        1 if lam == 0 else 3,
        0.7,
        "close",
    )
    found = [company.q("hold", 0), company.q("hold", 1), company.q("trade", 1), company.q("hold", 2)]
    assert found == pytest.approx(expected, abs=1e-15)
    assert {row[-3] for row in company.rows("decisions")} == {"learned"}
    assert [step.number for step in company.steps()][-1] == 2


def test_what_has_no_reward_counts_nothing_and_is_learned_last_step_first(shared_library: Steersman) -> None:
    company = prepared(shared_library, lam=0.0)
    three_steps(company, "trade")
    assert company.close("e", 0.7).learned == 3
    # q(2, hold) = 0.65; then q(1, trade) = 0.3 + (0.5 * 0.65 - 0.3) / 2 = 0.3125; then q(0, hold) = 0.5 * 0.4.
    found = [company.q("hold", 2), company.q("trade", 1), company.q("hold", 0)]
    assert found == pytest.approx([0.65, 0.3125, 0.2], abs=1e-15)
    assert [step.reward for step in company.steps() if step.number == 2] == [0.0, 0.7]


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_without_discount_only_the_last_gets_the_outcome(lam: float, shared_library: Steersman) -> None:
    company = prepared(shared_library, lam=lam, gamma=0.0)
    first, _, _ = three_steps(company, "trade")
    company.reward(first, 0.1)
    assert company.close("e", 0.7).learned == 2
    found = [company.q("hold", 0), company.q("trade", 1), company.q("hold", 2)]
    assert found == pytest.approx([0.1, 0.15, 0.65], abs=1e-15)


def test_greedy_is_what_was_maximal_in_the_row_that_was_seen(shared_library: Steersman) -> None:
    company = prepared(shared_library, lam=1.0)
    three_steps(company, "trade")  # not greedy, since 0.3 < 0.4
    company.teach("trade", 0.9, state=1)  # q(1, trade) = 0.6 is the largest by the time of the close
    company.close("e", 0.7)
    # The first return still stops at state 1, at its value as locked at the close: 0.5 * 0.6.
    assert company.q("hold", 0) == pytest.approx(0.3, abs=1e-15)
    # The return of the second is 0.5 * 0.7, for the third update of its cell: 0.6 + (0.35 - 0.6) / 3.
    assert company.q("trade", 1) == pytest.approx(0.6 - 0.25 / 3, abs=1e-15)


def test_ties_count_as_greedy(shared_library: Steersman) -> None:
    company = prepared(shared_library, lam=1.0)
    company.teach("trade", 0.5, state=1)  # (0.3 + 0.5) / 2 = 0.4, as hold
    three_steps(company, "trade")
    company.close("e", 0.7)
    assert company.q("hold", 0) == pytest.approx(0.5 * 0.5 * 0.7, abs=1e-15)


def test_a_cell_that_comes_twice_is_updated_in_step_order(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning={"gamma": 0.5, "lambda": 1.0})
    for _ in range(2):
        company.play("hold", episode="e")
    company.close("e", 0.8)
    # The returns are 0.4 and 0.8, both from the cells as they were: q = 0.4, then the mean of both.
    assert company.q("hold") == pytest.approx(0.6, abs=1e-15)
    assert [step.target for step in company.steps()] == [0.4, 0.8]


def test_with_one_step_the_reward_and_the_outcome_add_up(shared_library: Steersman) -> None:
    for lam in (0.0, 0.5):
        company = Company.found(shared_library, learning={"lambda": lam})
        company.reward(company.play("hold", episode="e"), 0.25)
        company.close("e", 0.5)
        assert company.q("hold") == 0.75


def test_an_episode_may_close_without_an_outcome(shared_library: Steersman) -> None:
    company = prepared(shared_library, lam=0.0)
    first, _, third = three_steps(company, "hold")
    company.reward(third, 0.8)
    closed = company.close("e")
    assert (closed.outcome, closed.learned) == (None, 3)
    # 0.6 + 0.1 = 0.7; 0.4 + (0.35 - 0.4) / 2 = 0.375; the largest of state 1 is 0.375, so 0.1875.
    found = [company.q("hold", 2), company.q("hold", 1), company.q("hold", 0)]
    assert found == pytest.approx([0.7, 0.375, 0.1875], abs=1e-15)
    assert first.status == "open"


def test_voided_steps_are_left_out(shared_library: Steersman) -> None:
    for lam in (0.0, 1.0):
        company = prepared(shared_library, lam=lam)
        company.play("hold", 0, episode="e")
        company.void(company.play("hold", 1, episode="e"))
        company.play("hold", 2, episode="e")
        company.void(company.play("hold", 2, episode="e"))
        closed = company.close("e", 0.8)
        assert (closed.decisions, closed.learned) == (2, 2)
        # q(2, hold) = 0.6 + 0.1 = 0.7 is what the first continues with; with lambda 1 it is the return, 0.8.
        assert company.q("hold", 2) == pytest.approx(0.7, abs=1e-15)
        assert company.q("hold", 0) == pytest.approx(0.35 if lam == 0.0 else 0.4, abs=1e-15)
        assert company.cell("hold", 1).updates == 1


def test_the_outcome_of_a_last_step_that_was_learned_is_a_further_reward(shared_library: Steersman) -> None:
    company = prepared(shared_library, lam=0.0)
    first = company.play("hold", 0, episode="e")
    last = company.play("hold", 1, episode="e")
    assert company.reward(first, 0.1).effect == "learned"  # 0.1 + 0.5 * 0.4
    company.void(last)
    closed = company.close("e", 0.5)
    assert (closed.decisions, closed.learned) == (1, 0)
    assert company.q("hold", 0) == pytest.approx(0.3 + 0.5, abs=1e-15)
    assert company.cell("hold", 0).updates == 1
    assert [step.kind for step in company.steps() if step.key.state == 0] == ["update", "further"]


def test_an_episode_whose_decisions_were_all_voided(company: Company) -> None:
    company.void(company.play("hold", episode="e"))
    closed = company.close("e", 0.5)
    assert (closed.decisions, closed.learned) == (0, 0)
    assert company.steps() == []


def test_the_same_close_again_is_answered_as_before(company: Company) -> None:
    company.play("hold", episode="e")
    first = company.close("e", 0.5)
    before = company.rows("cells"), company.rows("learning_steps"), company.rows("episodes")
    assert company.close("e", 0.5) == first
    for outcome in (0.25, None):
        with pytest.raises(ConflictError, match=rf"'e'.*stored outcome 0\.5, now {outcome}"):
            company.close("e", outcome)
    assert (company.rows("cells"), company.rows("learning_steps"), company.rows("episodes")) == before


@pytest.mark.parametrize("outcome", [-0.1, 1.1, nan, inf, -inf, True, "0.5"])
def test_a_bad_outcome_is_refused_and_the_episode_stays_open(outcome: Any, company: Company) -> None:
    company.play("hold", episode="e")
    with pytest.raises(InvalidRewardError, match="outcome: expected"):
        company.close("e", outcome)
    assert company.rows("episodes")[0][2] == "open"
    assert company.steps() == []
    assert company.decide(episode="e").step == 1


def test_an_unknown_episode_or_tenant(shared_library: Steersman, company: Company) -> None:
    with pytest.raises(NotFoundError, match="has no episode 'e'"):
        company.close("e")
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        shared_library.close_episode("nobody", "e")
    other = Company.found(shared_library)
    other.play("hold", episode="e")
    with pytest.raises(NotFoundError, match="has no episode 'e'"):
        company.close("e")


# Lists


def test_a_list_answers_each_in_order_and_a_bad_item_leaves_the_others(
    shared_library: Steersman, company: Company
) -> None:
    other = Company.found(shared_library)
    for owner in (company, other):
        for episode in ("e", "f"):
            owner.play("hold", episode=episode)
    answers = shared_library.close_many(
        [
            CloseRequest(company.name, "e", 0.5),
            CloseRequest(company.name, "f", 5.0),
            CloseRequest(other.name, "f", 0.25),
            CloseRequest("nobody", "e"),
            CloseRequest(company.name, "g"),
            CloseRequest(company.name, "a\x00"),
            CloseRequest(company.name, "e", 0.5),
            CloseRequest(company.name, "e", 0.75),
            CloseRequest(company.name, "f", 1.0),
        ]
    )
    assert [type(answer) for answer in answers] == [
        ClosedEpisode,
        InvalidRewardError,
        ClosedEpisode,
        NotFoundError,
        NotFoundError,
        InvalidInputError,
        ClosedEpisode,
        IdReusedError,
        ClosedEpisode,
    ]
    assert answers[6] == answers[0]
    assert (company.q("hold"), other.q("hold")) == (0.75, 0.25)  # the mean of 0.5 and 1
    assert [row[2] for row in other.rows("episodes")] == ["open", "closed"]


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_a_list_is_as_if_applied_in_turn(lam: float, shared_library: Steersman) -> None:
    outcomes = []
    for together in (True, False):
        company = Company.found(shared_library, learning={"gamma": 0.9, "lambda": lam})
        for number in range(18):
            company.play(
                ["hold", "trade"][number % 2],
                number % 4 % 2,
                episode=f"e{number % 3}",
                decision_id=f"d{number}",
            )
        for number in range(0, 18, 4):
            company.reward(f"d{number}", number / 20)
        requests = [CloseRequest(company.name, f"e{n}", [0.3, None, 0.9][n]) for n in (2, 0, 1)]
        if together:
            answers = shared_library.close_many(requests)
        else:
            answers = [shared_library.close_many([request])[0] for request in requests]
        assert not [answer for answer in answers if isinstance(answer, SteersmanError)]
        told = [replace(a, tenant="", closed_at=0) for a in answers if isinstance(a, ClosedEpisode)]
        steps = [replace(step, tenant="", created_at=0) for step in company.steps()]
        outcomes.append((told, steps, [row[1:] for row in company.rows("cells")]))
    assert outcomes[0] == outcomes[1]
