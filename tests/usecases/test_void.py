from __future__ import annotations

from dataclasses import replace

import pytest

from steersman.errors import (
    ConflictError,
    DecisionLearnedError,
    DecisionVoidError,
    InvalidInputError,
    NotFoundError,
)
from steersman.library import Steersman
from tests.support.company import Company


def test_the_visit_is_taken_back_and_rewards_are_refused(company: Company) -> None:
    kept, taken = company.play("hold"), company.play("hold")
    answer = company.void(taken)
    assert answer == replace(taken, status="void")
    cell = company.cell("hold")
    assert (cell.q, cell.visits, cell.updates) == (0.0, 1, 0)
    with pytest.raises(DecisionVoidError):
        company.reward(taken, 0.5)
    assert company.reward(kept, 0.5).effect == "learned"
    assert company.steps()[0].decision_id == kept.decision_id


def test_the_same_call_again_changes_nothing(company: Company) -> None:
    decision = company.play("hold")
    first = company.void(decision)
    before = company.rows("cells"), company.rows("decisions")
    assert company.void(decision) == first
    assert (company.rows("cells"), company.rows("decisions")) == before
    assert company.cell("hold").visits == 0


def test_the_action_counts_as_untried_again(company: Company) -> None:
    company.teach("trade", 1.0)
    decision = company.play("hold")
    company.void(decision)
    # hold has no evidence, so it is greedy alone: 0.9 + 0.05.
    following = company.decide()
    assert following.propensity == pytest.approx(0.95 if following.action == "hold" else 0.05, rel=1e-15)


def test_a_decide_that_is_sent_again_tells_that_it_is_void(company: Company) -> None:
    decision = company.play("hold", decision_id="d")
    company.void(decision)
    assert company.play("hold", decision_id="d") == replace(decision, status="void")
    assert company.cell("hold").visits == 0


def test_what_was_learned_from_cannot_be_taken_back(company: Company) -> None:
    decision = company.play("hold")
    company.reward(decision, 0.5)
    with pytest.raises(DecisionLearnedError, match="was learned from"):
        company.void(decision)
    assert (company.cell("hold").visits, company.q("hold")) == (1, 0.5)


def test_what_a_close_learned_from_cannot_be_taken_back(company: Company) -> None:
    decision = company.play("hold", episode="e")
    company.close("e")
    with pytest.raises(DecisionLearnedError):
        company.void(decision)


def test_what_has_a_reward_was_acted_upon(shared_library: Steersman) -> None:
    company = Company.found(shared_library, learning={"lambda": 0.5})
    decision = company.play("hold", episode="e")
    assert company.reward(decision, 0.5).effect == "waits"
    with pytest.raises(ConflictError, match="has a reward"):
        company.void(decision)
    assert company.cell("hold").visits == 1
    assert company.close("e").learned == 1


def test_an_unknown_decision_or_tenant(shared_library: Steersman, company: Company) -> None:
    decision = company.play("hold")
    with pytest.raises(NotFoundError, match="has no decision 'x'"):
        shared_library.void(company.name, "x")
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        shared_library.void("nobody", decision.decision_id)
    with pytest.raises(NotFoundError):
        shared_library.void(Company.found(shared_library).name, decision.decision_id)
    with pytest.raises(InvalidInputError):
        shared_library.void(company.name, "\x00")


def test_steps_of_an_episode_keep_their_numbers(company: Company) -> None:
    company.void(company.play("hold", episode="e"))
    assert company.play("hold", episode="e").step == 1
    assert company.close("e", 0.5).decisions == 1
