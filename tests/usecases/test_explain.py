"""Why a decision: the row it saw, the bonus, the greedy set, the mask, the draw, and what came of it."""

from __future__ import annotations

import hashlib
import math

import pytest

from steersman.domain.answers import ExplainedAction, Explanation
from steersman.errors import NotFoundError
from steersman.library import Steersman
from steersman.usecases.explain import explain, list_decisions
from tests.support.company import Company


def why(company: Company, decision_id: str) -> Explanation:
    return explain(company.library.database, company.name, decision_id)


def test_the_row_the_bonus_and_the_probabilities_by_hand(shared_library: Steersman) -> None:
    """Each action was tried once, so N = 2 and both bonuses are sqrt(2) * sqrt(ln 2 / 1); hold has the larger q."""
    labelled = {"hold": "Hold firm", "trade": "Trade off"}
    company = Company.found(shared_library, actions=labelled)
    company.teach("hold", 0.5)
    company.teach("trade", 0.25)
    made = company.decide(0, decision_id="third")
    explanation = why(company, "third")
    bonus = math.sqrt(2) * math.sqrt(math.log(2))
    hold = ExplainedAction(
        "hold", "Hold firm", True, None, 0.5, 1, 1, 0.0, bonus, True, 0.95, made.action == "hold"
    )
    trade = ExplainedAction(
        "trade", "Trade off", True, None, 0.25, 1, 1, 0.0, bonus, False, 0.05, made.action == "trade"
    )
    assert [item.action for item in explanation.actions] == ["hold", "trade"]
    for shown, expected in zip(explanation.actions, (hold, trade), strict=True):
        assert shown.probability == pytest.approx(expected.probability, abs=1e-15)
        assert shown.bonus == pytest.approx(bonus, abs=1e-15)
        assert (shown.label, shown.q, shown.visits, shown.updates) == (expected.label, expected.q, 1, 1)
        assert (shown.borrowed, shown.greedy, shown.chosen) == (0.0, expected.greedy, expected.chosen)
    assert explanation.decision == made


def test_the_draw_is_the_hash_of_secret_and_id(company: Company) -> None:
    """It is the top 53 bits of SHA-256 over secret, NUL and id; below 0.95 lies the greedy action, the first."""
    company.teach("hold", 0.5)
    company.teach("trade", 0.25)
    secret = company.library.show_tenant(company.name).secret
    for number in range(20):
        made = company.decide(0, decision_id=f"d{number}", explore=True)
        digest = hashlib.sha256(secret + b"\0" + f"d{number}".encode()).hexdigest()
        draw = int(digest[:16], 16) // 2**11 / 2**53
        explanation = why(company, f"d{number}")
        assert explanation.draw == draw
        first = explanation.actions[0].probability
        assert first is not None
        assert made.action == ("hold" if draw < first else "trade")


def test_a_masked_action_says_why(company: Company) -> None:
    company.library.decide(
        company.name, 1, feasible=["trade"], decision_id="masked", reasons={"hold": "out of stock"}
    )
    hold, trade = why(company, "masked").actions
    assert hold == ExplainedAction("hold", "hold", feasible=False, reason="out of stock")
    assert (trade.feasible, trade.probability, trade.chosen) == (True, 1.0, True)


def test_there_is_no_bonus_while_an_untried_action_comes_first(company: Company) -> None:
    company.teach("hold", 1.0)
    company.decide(0, decision_id="second")
    hold, trade = why(company, "second").actions
    assert (hold.bonus, trade.bonus) == (None, None)
    assert (hold.greedy, trade.greedy) == (False, True)


def test_without_exploration_the_best_known_value_is_played(company: Company) -> None:
    company.teach("hold", 0.5)
    company.decide(0, decision_id="sure", explore=False)
    hold, trade = why(company, "sure").actions
    assert (hold.bonus, hold.greedy, hold.probability) == (None, True, 1.0)
    assert (trade.greedy, trade.probability) == (False, 0.0)


def test_what_was_seen_stays_as_it_was(company: Company) -> None:
    company.decide(0, decision_id="early")
    company.reward("early", 1.0)
    assert [item.visits for item in why(company, "early").actions] == [0, 0]


def test_what_came_of_it_is_shown(company: Company) -> None:
    """The first reward is learned with step size 1, a further one of 0.5 adds 1/1 of it."""
    company.play("hold", decision_id="rewarded")
    company.reward("rewarded", 0.25)
    company.reward("rewarded", 0.5, reward_id="more")
    explanation = why(company, "rewarded")
    assert [(item.reward_id, item.value, item.effect) for item in explanation.rewards] == [
        ("rewarded", 0.25, "learned"),
        ("more", 0.5, "further"),
    ]
    assert [(step.kind, step.reward, step.target, step.step_size) for step in explanation.steps] == [
        ("update", 0.25, 0.25, 1.0),
        ("further", 0.5, 0.5, 1.0),
    ]


def test_steps_are_found_in_whatever_version_they_went_to(shared_library: Steersman) -> None:
    """A factor is added in front, so that stage=late moves from index 1 to index 3."""
    stage = {"name": "stage", "values": ["open", "late"]}
    company = Company.found(shared_library, states={"factors": [stage]})
    company.play("hold", {"stage": "late"}, decision_id="old")
    gap = {"name": "gap", "values": ["wide", "narrow"], "before": "narrow"}
    declared = {"actions": ["hold", "trade"], "states": {"factors": [gap, stage]}}
    shared_library.change_tenant(company.name, declared)
    company.reward("old", 0.5)
    (step,) = why(company, "old").steps
    assert (step.key.version, step.key.state, step.key.action) == (2, 3, "hold")
    assert why(company, "old").meaning == {"stage": "late"}


def test_steps_of_a_decision_whose_version_was_left_aside_are_found(company: Company) -> None:
    """Rolled back to version 1, version 2 is no ancestor of version 3: its decisions are learned where they were."""
    company.play("hold")
    declared = {"actions": ["hold", "trade", "walk"], "states": 2}
    company.library.change_tenant(company.name, declared)
    company.play("walk", decision_id="aside")
    company.library.roll_back(company.name)
    assert company.reward("aside", 1.0).effect == "parked"
    (step,) = why(company, "aside").steps
    assert (step.key.version, step.key.action) == (2, "walk")


def test_a_decision_that_does_not_exist_is_refused(company: Company) -> None:
    with pytest.raises(NotFoundError, match="no decision 'none'"):
        why(company, "none")


def test_decisions_are_listed_by_metadata_status_and_episode(company: Company) -> None:
    company.decide(decision_id="a", metadata={"deal": 1, "buyer": "x"})
    company.decide(decision_id="b", metadata={"deal": True})
    company.decide(decision_id="c", metadata={"deal": 1, "buyer": "y"}, episode="e")
    company.reward("a", 0.5)
    database, name = company.library.database, company.name

    def listed(**filters: object) -> list[str]:
        return [item.decision_id for item in list_decisions(database, name, **filters)]  # type: ignore[arg-type]

    assert listed() == ["c", "b", "a"]
    assert listed(metadata={"deal": 1}) == ["c", "a"]
    assert listed(metadata={"deal": 1, "buyer": "y"}) == ["c"]
    assert listed(status="learned") == ["a"]
    assert listed(episode="e") == ["c"]
    assert listed(metadata={"deal": 1}, limit=1) == ["c"]
    with pytest.raises(NotFoundError):
        list_decisions(database, "nobody")


def test_pages_of_decisions_follow_each_other(company: Company) -> None:
    made = [company.decide(0).decision_id for _ in range(5)]
    database = company.library.database
    seen: list[str] = []
    while page := list_decisions(database, company.name, limit=2, after=seen[-1] if seen else None):
        seen += [item.decision_id for item in page]
    assert seen == made[::-1]
    with pytest.raises(NotFoundError, match="has no decision 'none'"):
        list_decisions(database, company.name, after="none")
