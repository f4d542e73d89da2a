"""Rewards, with values worked out by hand. Step sizes are 1/n unless a test says otherwise."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from steersman.domain.records import Cell, CellKey, Reward, RewardRequest
from steersman.domain.settings import TenantSpec
from steersman.errors import (
    ConflictError,
    DecisionVoidError,
    IdReusedError,
    InvalidInputError,
    InvalidRewardError,
    NotFoundError,
    SteersmanError,
)
from steersman.library import Steersman
from steersman.store.tenants import get_base, insert_base
from steersman.usecases.expire import expire
from steersman.usecases.make_version import make_version
from tests.support.company import Company

HALF = {"gamma": 0.5}


def test_a_hundred_decisions_then_a_hundred_rewards_of_one(company: Company) -> None:
    decisions = [company.decide(explore=number % 2 == 0) for number in range(100)]
    for decision in decisions:
        assert company.reward(decision, 1.0).effect == "learned"
    cells = [company.cell(action) for action in ("hold", "trade")]
    assert [cell.q for cell in cells] == [1.0, 1.0]
    assert sum(cell.visits for cell in cells) == sum(cell.updates for cell in cells) == 100
    assert all(cell.visits == cell.updates for cell in cells)


def test_visits_that_wait_for_their_reward_do_not_slow_learning(company: Company) -> None:
    decisions = [company.play("hold") for _ in range(10)]
    company.reward(decisions[3], 0.8)
    assert company.q("hold") == 0.8  # 1/n counts updates, not visits
    company.reward(decisions[0], 0.4)
    assert company.q("hold") == pytest.approx(0.6, abs=1e-15)


def lend(library: Steersman, base: str, q: float, *, updates: int) -> None:
    """Make a base that holds one cell: hold in state 0."""
    spec = TenantSpec.from_json({"actions": ["hold", "trade"], "states": 2})
    with library.database.transaction() as connection:
        insert_base(connection, base, spec)
        make_version(
            connection,
            get_base(connection, base),
            operation_id=base,
            origin="empty",
            states=spec.states,
            actions=spec.actions,
            settings=spec.settings,
            opening=lambda: [Cell(CellKey(0, 0, "hold"), q, updates + 7, updates, 0.0)],
            parent=None,
            provenance={},
        )


@pytest.mark.parametrize(
    ("updates", "cap", "borrowed"), [(35, {}, 20.0), (5, {}, 5.0), (35, {"borrow_cap": 2.5}, 2.5)]
)
def test_one_reward_after_a_warm_start(
    updates: int, cap: dict[str, float], borrowed: float, shared_library: Steersman, company: Company
) -> None:
    base = f"base-of-{company.name[-12:]}"
    lend(shared_library, base, 0.8, updates=updates)
    warm = Company.found(shared_library, base=base, **cap)
    decision = warm.play("hold")
    assert (list(decision.seen.q), list(decision.seen.borrowed)) == ([0.8], [borrowed])
    warm.reward(decision, 0.38)
    cell = warm.cell("hold")
    assert cell.q == pytest.approx(0.8 + (0.38 - 0.8) / (borrowed + 1), abs=1e-15)  # 0.78 with 20 borrowed
    assert (cell.visits, cell.updates, cell.borrowed) == (1, 1, borrowed)
    warm.teach("hold", 0.0)
    second = 0.8 + (0.38 - 0.8) / (borrowed + 1)
    assert warm.q("hold") == pytest.approx(second - second / (borrowed + 2), abs=1e-15)


def test_a_constant_step_size(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning={"alpha": 0.25})
    company.teach("hold", 1.0, 0.0)
    assert company.q("hold") == 0.1875  # 0.25, then 0.75 of it
    sizes = [step.step_size for step in company.steps()]
    assert sizes == [0.25, 0.25]


def test_every_step_is_logged_with_all_that_it_took(company: Company) -> None:
    first, second = company.play("trade", 1), company.play("trade", 1)
    company.reward(second, 1.0)
    company.reward(first, 0.5)
    steps = company.steps()
    assert [
        (s.key, s.number, s.decision_id, s.kind, s.reward, s.discount, s.bootstrap, s.target, s.step_size)
        for s in steps
    ] == [
        (CellKey(1, 1, "trade"), 1, second.decision_id, "update", 1.0, 1.0, 0.0, 1.0, 1.0),
        (CellKey(1, 1, "trade"), 2, first.decision_id, "update", 0.5, 1.0, 0.0, 0.5, 0.5),
    ]
    assert company.q("trade", 1) == 0.75


def test_the_reward_of_a_decision_outside_of_episodes_ends_it(company: Company) -> None:
    company.teach("hold", 1.0, state=1)
    company.teach("trade", 0.25)
    assert company.q("trade") == 0.25  # gamma is 1, and yet nothing is added
    assert company.steps()[1].bootstrap == 0.0


# Episodes: gamma 0.5; q(1, hold) = 0.6 and q(1, trade) = 0.4 before they begin.


@pytest.fixture
def informed(shared_library: Steersman) -> Company:
    company = Company.found(shared_library, learning=HALF)
    company.teach("hold", 0.6, state=1)
    company.teach("trade", 0.4, state=1)
    return company


@pytest.mark.parametrize(("feasible", "best"), [(None, 0.6), (["trade"], 0.4)])
def test_a_step_is_learned_when_its_reward_and_its_successor_are_known(
    feasible: list[str] | None, best: float, informed: Company
) -> None:
    first = informed.play("hold", episode="e")
    assert informed.reward(first, 0.2).effect == "waits"
    assert informed.cell("hold").updates == 0
    second = informed.decide(1, feasible=feasible, episode="e")
    assert informed.cell("hold").updates == 0  # a decide learns nothing
    assert (
        informed.reward(second, 0.9).effect == "waits"
    )  # for its own successor, but the first is learned now
    assert informed.q("hold") == pytest.approx(0.2 + 0.5 * best, abs=1e-15)
    assert informed.cell("hold").updates == 1
    assert {informed.cell(action, 1).updates for action in ("hold", "trade")} == {1}
    step = next(step for step in informed.steps() if step.decision_id == first.decision_id)
    assert (step.reward, step.discount, step.bootstrap) == (0.2, 0.5, best)


def test_a_late_reward_is_learned_at_once(informed: Company) -> None:
    first = informed.play("hold", episode="e")
    informed.play("trade", 1, episode="e")
    informed.teach("trade", 1.0, state=1)  # q(1, trade) is 0.7 by now
    assert informed.reward(first, 0.2).effect == "learned"
    assert informed.q("hold") == pytest.approx(0.2 + 0.5 * 0.7, abs=1e-15)


def test_what_is_ready_together_is_learned_last_step_first(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning=HALF)
    first = company.play("hold", episode="e")
    assert company.reward(first, 0.2).effect == "waits"
    second = company.play("hold", 1, episode="e")
    company.play("trade", episode="e")
    # Both are ready now: q(1, hold) = 0.8 + 0.5 * q(0, trade) = 0.8, then q(0, hold) = 0.2 + 0.5 * 0.8.
    assert company.reward(second, 0.8).effect == "learned"
    assert company.q("hold", 1) == 0.8
    assert company.q("hold") == pytest.approx(0.6, abs=1e-15)


def test_a_missing_reward_does_not_keep_others_waiting(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning=HALF)
    company.play("hold", episode="e")
    second = company.play("hold", 1, episode="e")
    company.play("trade", episode="e")
    assert company.reward(second, 0.8).effect == "learned"
    assert company.cell("hold").updates == 0


def test_rewards_that_wait_add_up(informed: Company) -> None:
    first = informed.play("hold", episode="e")
    assert informed.reward(first, 0.2).effect == "waits"
    assert informed.reward(first, 0.1, reward_id="tip").effect == "waits"
    informed.play("trade", 1, episode="e")
    assert informed.reward(first, 0.25, reward_id="bonus").effect == "learned"
    assert informed.q("hold") == pytest.approx(0.55 + 0.5 * 0.4, abs=1e-15)
    (step,) = [step for step in informed.steps() if step.key.state == 0]
    assert step.reward == pytest.approx(0.55, abs=1e-15)


def test_a_voided_step_is_no_successor(informed: Company) -> None:
    first = informed.play("hold", episode="e")
    informed.void(informed.play("trade", 1, episode="e"))
    assert informed.reward(first, 0.2).effect == "waits"
    third = informed.play("hold", 1, episode="e")
    informed.reward(third, 0.0)
    assert informed.q("hold") == pytest.approx(0.2 + 0.5 * 0.6, abs=1e-15)


def test_without_discount_a_step_ends_at_its_reward(shared_library: Steersman) -> None:
    for lam in (0.0, 0.5):
        company = Company.found(shared_library, learning={"gamma": 0.0, "lambda": lam})
        company.teach("hold", 1.0, state=1)
        first = company.play("trade", episode="e")
        company.play("hold", 1, episode="e")
        assert company.reward(first, 0.25).effect == "learned"
        assert company.q("trade") == 0.25
        assert company.reward(company.play("trade", episode="e"), 0.75).effect == "learned"
        assert company.q("trade") == 0.5
        assert company.close("e").learned == 1  # the one without a reward: it counts 0


def test_with_traces_everything_waits_for_the_close(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning={"gamma": 0.5, "lambda": 0.5})
    decisions = [company.play("hold", episode="e") for _ in range(3)]
    assert [company.reward(decision, 0.5).effect for decision in decisions] == ["waits"] * 3
    assert company.steps() == []
    outside = company.play("trade")
    assert company.reward(outside, 0.5).effect == "learned"


# Further rewards


def test_a_further_reward_moves_the_value_and_counts_no_update(company: Company) -> None:
    decision = company.play("hold")
    company.reward(decision, 0.5)
    company.teach("hold", 0.7)
    answer = company.reward(decision, 0.3, reward_id="bonus")
    assert answer.effect == "further"
    cell = company.cell("hold")
    assert cell.q == pytest.approx(0.6 + 0.3 / 2, abs=1e-15)
    assert (cell.visits, cell.updates) == (2, 2)
    step = company.steps()[-1]
    assert (step.kind, step.number, step.reward, step.step_size) == ("further", 3, 0.3, 0.5)


def test_a_further_reward_by_a_constant_step_size(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning={"alpha": 0.25})
    decision = company.play("hold")
    company.reward(decision, 1.0)
    company.reward(decision, 1.0, reward_id="again")
    assert company.q("hold") == 0.5


def test_a_further_reward_of_an_episode_that_is_closed(informed: Company) -> None:
    decision = informed.play("hold", episode="e")
    informed.close("e", 0.5)
    assert informed.reward(decision, 0.25).effect == "further"
    assert informed.q("hold") == 0.75


def test_a_late_reward_after_the_default_one_is_a_further_one(shared_library: Steersman) -> None:
    company = Company.found(shared_library, reward_wait=1, default_reward=0.25)
    decision = company.play("hold")
    assert expire(shared_library.database, company.name, at=decision.created_at + 2_000_000).decisions == 1
    assert company.q("hold") == 0.25
    answer = company.reward(decision, 0.5)
    assert (answer.effect, answer.reward_id) == ("further", decision.decision_id)
    assert company.q("hold") == 0.75


# The same again, and conflicts


def test_the_same_reward_again_is_answered_as_before(company: Company) -> None:
    decision = company.play("hold")
    first = company.reward(decision, 0.5)
    assert (first.reward_id, first.kind) == (decision.decision_id, "reward")
    before = company.rows("cells"), company.rows("rewards"), company.rows("learning_steps")
    assert company.reward(decision, 0.5) == first
    assert company.reward(decision, 0.5, reward_id=decision.decision_id) == first
    assert (company.rows("cells"), company.rows("rewards"), company.rows("learning_steps")) == before


def test_a_taken_id_with_other_content_is_a_conflict_that_shows_both(company: Company) -> None:
    one, two = company.play("hold", decision_id="one"), company.play("hold", decision_id="two")
    company.reward(one, 0.5)
    before = company.rows("cells"), company.rows("rewards"), company.rows("learning_steps")
    with pytest.raises(ConflictError, match=r"'one'.*stored 0\.5.*now 0\.75") as caught:
        company.reward(one, 0.75)
    assert "reward id of its own" in (caught.value.hint or "")
    with pytest.raises(ConflictError, match=r"for decision 'one', now 0\.5 for decision 'two'"):
        company.reward(two, 0.5, reward_id="one")
    assert (company.rows("cells"), company.rows("rewards"), company.rows("learning_steps")) == before


def test_ids_of_rewards_belong_to_their_tenant(shared_library: Steersman, company: Company) -> None:
    other = Company.found(shared_library)
    for owner, value in ((company, 0.5), (other, 0.75)):
        owner.reward(owner.play("hold", decision_id="d"), value, reward_id="r")
    assert (company.q("hold"), other.q("hold")) == (0.5, 0.75)


def test_an_id_that_default_rewards_use_is_refused(company: Company) -> None:
    decision = company.play("hold")
    with pytest.raises(InvalidInputError, match="does not begin with 'default:'"):
        company.reward(decision, 0.5, reward_id="default:1")


# What is refused


@pytest.mark.parametrize("value", [-0.001, 1.001, nan, inf, -inf, True, None, "0.5", 10**400])
def test_a_bad_value_is_refused_and_nothing_is_kept(value: Any, company: Company) -> None:
    decision = company.play("hold")
    before = company.rows("cells"), company.rows("decisions")
    with pytest.raises(InvalidRewardError):
        company.reward(decision, value)
    assert company.rows("rewards") == company.rows("learning_steps") == []
    assert (company.rows("cells"), company.rows("decisions")) == before
    assert company.reward(decision, 0.0).effect == "learned"  # the id is still free


def test_the_range_is_the_tenants_and_its_ends_belong_to_it(shared_library: Steersman) -> None:
    company = Company.found(shared_library, reward_range=[-5, 5])
    company.teach("hold", -5, 5)
    assert company.q("hold") == 0.0
    with pytest.raises(
        InvalidRewardError, match=r"reward: expected -5 to 5, the tenant's reward range; got 5\.5"
    ):
        company.teach("hold", 5.5)


def test_an_unknown_decision_or_tenant(company: Company) -> None:
    company.play("hold", decision_id="d")
    with pytest.raises(NotFoundError, match="has no decision 'x'"):
        company.reward("x", 0.5)
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        company.library.reward("nobody", "d", 0.5)
    fresh = Company.found(company.library)
    with pytest.raises(NotFoundError, match="has no decision 'd'"):
        fresh.reward("d", 0.5)


def test_a_void_decision_refuses_rewards(company: Company) -> None:
    decision = company.play("hold")
    company.void(decision)
    with pytest.raises(DecisionVoidError, match="was taken back"):
        company.reward(decision, 0.5)
    assert company.rows("rewards") == []


# Lists


def test_a_list_answers_each_in_order_and_a_bad_item_leaves_the_others(
    shared_library: Steersman, company: Company
) -> None:
    other = Company.found(shared_library)
    mine = [company.play("hold").decision_id for _ in range(2)]
    theirs = other.play("trade").decision_id
    answers = shared_library.reward_many(
        [
            RewardRequest(company.name, mine[0], 0.5),
            RewardRequest(company.name, mine[1], 7.0),
            RewardRequest(other.name, theirs, 0.25),
            RewardRequest("nobody", "d", 0.5),
            RewardRequest(company.name, "unknown", 0.5),
            RewardRequest(company.name, "a\x00", 0.5),
            RewardRequest(company.name, mine[0], 0.5),
            RewardRequest(company.name, mine[0], 0.75),
            RewardRequest(company.name, mine[0], 0.25, "bonus"),
            RewardRequest(company.name, mine[0], 0.25, "bonus"),
        ]
    )
    assert [type(answer) for answer in answers] == [
        Reward,
        InvalidRewardError,
        Reward,
        NotFoundError,
        NotFoundError,
        InvalidInputError,
        Reward,
        IdReusedError,
        Reward,
        Reward,
    ]
    assert answers[6] == answers[0]
    assert answers[9] == answers[8]
    effects = [answer.effect for answer in answers if isinstance(answer, Reward)]
    assert effects == ["learned", "learned", "learned", "further", "further"]
    assert (company.q("hold"), other.q("trade")) == (0.75, 0.25)
    assert len(company.rows("rewards")) == 2
    assert len(company.rows("learning_steps")) == 2


def play_out(company: Company) -> list[RewardRequest]:
    """Thirty decisions, in two episodes and outside, and rewards for most of them in a mixed order."""
    for number in range(30):
        company.play(
            ["hold", "trade"][number % 3 % 2],
            number % 2,
            episode=[None, "e", "f"][number % 3],
            decision_id=f"d{number}",
        )
    order = [number * 7 % 30 for number in range(30)]
    requests = [RewardRequest(company.name, f"d{n}", n % 11 / 10) for n in order if n % 5]
    extra = [RewardRequest(company.name, f"d{n}", 0.5, f"extra {n}") for n in (1, 2, 3, 9)]
    return [*requests, requests[3], *extra, replace(requests[4], value=0.123)]


@pytest.mark.parametrize(
    "learning", [{}, {"gamma": 0.9}, {"gamma": 0.9, "lambda": 0.5}, {"alpha": 0.3, "gamma": 0}]
)
def test_a_list_is_as_if_applied_in_turn(learning: dict[str, Any], shared_library: Steersman) -> None:
    outcomes = []
    for together in (True, False):
        company = Company.found(shared_library, learning=learning)
        requests = play_out(company)
        if together:
            answers = shared_library.reward_many(requests)
        else:
            answers = [shared_library.reward_many([request])[0] for request in requests]
        told = [str(a) if isinstance(a, SteersmanError) else (a.reward_id, a.effect) for a in answers]
        steps = [replace(step, tenant="", created_at=0) for step in company.steps()]
        marks = [row[-3] for row in company.rows("decisions")]
        outcomes.append(
            ([str(x).replace(company.name, "") for x in told], steps, marks, company.rows("cells"))
        )
    cells = [[row[1:] for row in outcome[3]] for outcome in outcomes]
    assert outcomes[0][:3] == outcomes[1][:3]
    assert cells[0] == cells[1]
