"""Decisions of older versions: where their rewards, closes and voids go."""

from __future__ import annotations

from typing import Any

import pytest

from steersman.domain.records import RewardRequest
from steersman.errors import EpisodeClosedError, InvalidRewardError
from steersman.library import Steersman
from steersman.usecases.migrate import migrate
from steersman.usecases.versions import activate, freeze, roll_back
from tests.support.company import Company

STAGES = {"factors": [{"name": "stage", "values": ["open", "close"]}]}
TURNED = {"factors": [{"name": "stage", "values": ["close", "open"]}]}
ENDLESS = {"factors": [{"name": "stage", "values": ["open"]}]}


@pytest.fixture
def staged(shared_library: Steersman) -> Company:
    """Actions hold and trade, states open (0) and close (1), gamma 0.5."""
    return Company.found(shared_library, states=STAGES, learning={"gamma": 0.5})


def change(company: Company, **parts: Any) -> int:
    """Change the declaration, and return the number of the version that came of it."""
    declared = {"actions": ["hold", "trade"], "states": STAGES, "learning": {"gamma": 0.5}}
    plan = migrate(company.library.database, company.name, declared | parts)
    assert plan.version is not None
    return plan.version


def test_a_reward_goes_to_the_active_version_when_that_descends_from_the_decision(staged: Company) -> None:
    decision = staged.play("trade", 1)
    assert change(staged, actions=["new", "trade"], states=TURNED) == 2
    assert staged.reward(decision, 0.6).effect == "learned"
    cell = staged.cell("trade", 0, version=2)  # close is state 0 by now
    assert (cell.q, cell.visits, cell.updates) == (0.6, 1, 1)
    old = staged.cell("trade", 1, version=1)
    assert (old.q, old.visits, old.updates) == (0.0, 1, 0)


def test_over_several_versions_too(staged: Company) -> None:
    decision = staged.play("trade", 1)
    change(staged, states=TURNED)
    change(staged, actions=["trade", "hold"])
    change(staged, actions=["x", "hold", "trade"])
    assert staged.reward(decision, 0.6).effect == "learned"
    assert staged.q("trade", 1, version=4) == 0.6


def test_learning_of_a_retired_action_is_parked_in_the_nearest_version_that_has_it(staged: Company) -> None:
    decision = staged.play("hold")
    change(staged, learning={"gamma": 0.25})
    change(staged, actions=["trade"])
    assert staged.reward(decision, 0.6).effect == "parked"
    assert [staged.cell("hold", version=version).updates for version in (1, 2, 3)] == [0, 1, 0]
    assert staged.q("hold", version=2) == 0.6
    assert staged.reward(decision, 0.2, reward_id="bonus").effect == "parked"
    assert staged.q("hold", version=2) == pytest.approx(0.8, abs=1e-15)


def test_what_was_parked_returns_with_its_action(staged: Company) -> None:
    decision = staged.play("hold")
    change(staged, actions=["trade"])
    staged.reward(decision, 0.6)
    assert change(staged, actions=["trade", "hold"]) == 3
    cell = staged.cell("hold", version=3)
    assert (cell.q, cell.visits, cell.updates) == (0.6, 1, 1)
    late = staged.reward(decision, 0.2, reward_id="bonus")
    assert late.effect == "further"
    assert staged.q("hold", version=3) == pytest.approx(0.8, abs=1e-15)


def test_an_action_that_is_back_learns_in_the_active_version(staged: Company) -> None:
    decision = staged.play("hold")
    change(staged, actions=["trade"])
    change(staged, actions=["trade", "hold"])
    assert staged.reward(decision, 0.6).effect == "learned"
    assert [staged.cell("hold", version=version).updates for version in (1, 3)] == [0, 1]


def test_learning_of_a_state_that_is_gone_is_parked(staged: Company) -> None:
    opened, closing = staged.play("hold", 0), staged.play("hold", 1)
    change(staged, states=ENDLESS)
    assert staged.reward(opened, 0.6).effect == "learned"
    assert staged.reward(closing, 0.4).effect == "parked"
    assert (staged.q("hold", 0, version=2), staged.q("hold", 1, version=1)) == (0.6, 0.4)
    assert staged.cell("hold", 0, version=1).updates == 0


def test_a_decision_of_a_version_that_was_rolled_back_learns_in_its_own(staged: Company) -> None:
    before = staged.play("hold")
    change(staged, actions=["hold", "trade", "new"])
    between = staged.play("hold")
    restored = roll_back(staged.library.database, staged.name)
    assert (restored.number, restored.parent) == (3, 1)
    assert staged.reward(between, 0.6).effect == "parked"
    assert staged.reward(before, 0.4).effect == "learned"
    assert [staged.cell("hold", version=version).updates for version in (1, 2, 3)] == [0, 1, 1]
    assert [staged.q("hold", version=version) for version in (2, 3)] == [0.6, 0.4]
    # The visit between is the second one of version 2, and version 3 has only the one of version 1.
    assert [staged.cell("hold", version=version).visits for version in (1, 2, 3)] == [1, 2, 1]


def test_a_version_that_is_active_again_learns_from_both_lines(staged: Company) -> None:
    staged.play("hold")
    change(staged, actions=["hold", "trade", "new"])
    decision = staged.play("new")
    roll_back(staged.library.database, staged.name)
    again = activate(staged.library.database, staged.name, 2)
    assert (again.number, again.parent) == (4, 2)
    assert staged.reward(decision, 0.6).effect == "learned"
    assert staged.q("new", version=4) == 0.6


def test_step_sizes_and_discount_are_those_of_now(shared_library: Steersman) -> None:
    company = Company.found(shared_library, states=STAGES)
    company.teach("hold", 0.6, state=1)
    first = company.play("hold", 0, episode="e")
    company.play("hold", 1, episode="e")
    change(company, learning={"gamma": 0.25, "alpha": 0.5})
    assert company.reward(first, 0.2).effect == "learned"
    # The target is 0.2 + 0.25 * 0.6 = 0.35, and alpha goes half of the way.
    assert company.q("hold", 0, version=2) == pytest.approx(0.175, abs=1e-15)


def test_a_range_that_has_changed_holds_for_old_decisions(staged: Company) -> None:
    decision = staged.play("hold")
    change(staged, reward_range=[-1, 0.5])
    with pytest.raises(InvalidRewardError, match=r"expected -1 to 0\.5"):
        staged.reward(decision, 0.6)
    assert staged.reward(decision, -0.6).effect == "learned"


def test_an_episode_goes_on_over_a_migration(staged: Company) -> None:
    staged.teach("trade", 0.4, state=1)
    first = staged.play("hold", 0, episode="e")
    staged.reward(first, 0.2)
    change(staged, actions=["new", "trade", "hold"], states=TURNED)
    second = staged.play("trade", {"stage": "close"}, episode="e")
    assert (second.version, second.state, second.step) == (2, 0, 1)
    assert staged.reward(second, 0.0).effect == "waits"
    # The first is learned now: 0.2 + 0.5 * 0.4, in version 2, where open is state 1.
    assert staged.q("hold", 1, version=2) == pytest.approx(0.4, abs=1e-15)
    assert staged.close("e", 0.8).learned == 1
    assert staged.q("trade", 0, version=2) == pytest.approx(0.6, abs=1e-15)  # the mean of 0.4 and 0.8
    with pytest.raises(EpisodeClosedError):
        staged.decide(episode="e")


def test_the_value_of_a_state_counts_parked_actions_too(staged: Company) -> None:
    staged.teach("hold", 0.8, state=1)
    staged.teach("trade", 0.4, state=1)
    first = staged.play("hold", 0, episode="e")
    staged.decide(1, episode="e")
    change(staged, actions=["trade"])
    # The second decision could have played hold, which was worth 0.8: 0.2 + 0.5 * 0.8, parked as hold itself is.
    assert staged.reward(first, 0.2).effect == "parked"
    assert staged.q("hold", 0, version=1) == pytest.approx(0.6, abs=1e-15)


def test_a_void_takes_the_visit_from_where_it_is_counted_now(staged: Company) -> None:
    decision = staged.play("hold")
    change(staged, states=TURNED)
    staged.void(decision)
    assert staged.cell("hold", 1, version=2).visits == 0
    assert staged.cell("hold", 0, version=1).visits == 1  # a version that is not active stays as it was
    ((*_, status, version, state),) = staged.rows("decisions")
    assert (status, version, state) == ("void", 2, 1)


def test_a_void_of_a_retired_action_takes_the_visit_from_its_last_version(staged: Company) -> None:
    decision = staged.play("hold")
    change(staged, actions=["trade"])
    staged.void(decision)
    assert staged.cell("hold", version=1).visits == 0


def test_a_copy_made_before_a_decision_does_not_have_its_visit(staged: Company) -> None:
    staged.teach("hold", 0.5)
    freeze(staged.library.database, staged.name, "before")
    decision = staged.play("hold")
    active = activate(staged.library.database, staged.name, "before")
    assert (active.number, active.parent) == (3, 2)
    staged.void(decision)
    assert [staged.cell("hold", version=version).visits for version in (1, 2, 3)] == [1, 1, 1]


def test_a_frozen_copy_never_changes(staged: Company) -> None:
    decision = staged.play("hold")
    copy = freeze(staged.library.database, staged.name, "first")
    staged.reward(decision, 0.5)
    staged.void(staged.play("hold"))
    assert (copy.number, copy.status) == (2, "frozen")
    cell = staged.cell("hold", version=2)
    assert (cell.q, cell.visits, cell.updates) == (0.0, 1, 0)
    assert staged.q("hold", version=1) == 0.5


def test_one_list_may_hold_rewards_of_several_versions(staged: Company) -> None:
    decisions = [staged.play("hold")]
    change(staged, actions=["hold"])
    decisions.append(staged.play("hold"))
    change(staged, actions=["hold", "new"])
    decisions.append(staged.play("hold"))
    requests = [
        RewardRequest(staged.name, d.decision_id, v) for d, v in zip(decisions, (0.2, 0.4, 0.9), strict=True)
    ]
    staged.library.reward_many(requests)
    cell = staged.cell("hold", version=3)
    assert (cell.visits, cell.updates) == (3, 3)
    assert cell.q == pytest.approx(0.5, abs=1e-15)


def test_the_row_that_was_seen_tells_greedy_whatever_version_is_active(shared_library: Steersman) -> None:
    learning = {"gamma": 0.5, "lambda": 1.0}
    company = Company.found(shared_library, states=STAGES, learning=learning)
    company.play("hold", 0, episode="e")
    company.play("hold", 1, episode="e")
    change(company, actions=["trade", "hold"], states=TURNED, learning=learning)
    assert company.close("e", 0.8).learned == 2
    assert (company.q("hold", 1, version=2), company.q("hold", 0, version=2)) == (0.4, 0.8)
