from __future__ import annotations

from math import log, sqrt

import pytest

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.settings import PolicySettings, Prior
from steersman.policies.tabular import (
    QTable,
    StateRow,
    UCBQTablePolicy,
    choose_in_row,
    greedy_in_row,
    opening_row,
)

CARDS = ActionCatalogue.of(["hold", "trade", "concede"])
ROW = StateRow([0.5, 0.9, 0.5], [4, 2, 4], [4, 2, 4], [0.0, 1.0, 0.0])


def test_the_width_of_the_reward_range_scales_the_bonus() -> None:
    # n = (1, 4): the first wins when c * w * 0.6343 > the difference of q, 5.0 here: for w = 10, c above 0.788.
    row = StateRow([0.0, 5.0], [1, 4], [1, 4], [0.0, 0.0])
    low, high = -5.0, 5.0
    assert greedy_in_row(row, PolicySettings(c=0.78, reward_low=low, reward_high=high), explore=True) == [1]
    assert greedy_in_row(row, PolicySettings(c=0.80, reward_low=low, reward_high=high), explore=True) == [0]
    assert greedy_in_row(row, PolicySettings(c=0.80), explore=True) == [1]


def test_the_default_score_is_that_of_ucb1() -> None:
    # n = (4, 3, 4), N = 11: the score of each is q + sqrt(2 ln 11 / n).
    score = [q + sqrt(2.0 * log(11.0) / n) for q, n in zip(ROW.q, [4, 3, 4], strict=True)]
    assert score == pytest.approx([1.5950, 2.1644, 1.5950], abs=1e-4)
    assert greedy_in_row(ROW, PolicySettings(), explore=True) == [1]


def test_the_choice_has_the_probability_of_the_mixture() -> None:
    # One of three is greedy and epsilon is 0.3: 0.1, 0.8, 0.1, so the draws 0.05, 0.5, 0.95 fall on each in turn.
    settings = PolicySettings(epsilon=0.3)
    choices = [choose_in_row(ROW, settings, u, explore=True) for u in (0.05, 0.5, 0.95)]
    assert [choice.position for choice in choices] == [0, 1, 2]
    assert [choice.propensity for choice in choices] == pytest.approx([0.1, 0.8, 0.1], rel=1e-15)
    assert [choice.explored for choice in choices] == [True, False, True]


def test_ties_share_the_greedy_probability() -> None:
    row = StateRow([0.5, 0.5, 0.0], [3, 3, 3], [3, 3, 3], [0.0, 0.0, 0.0])
    settings = PolicySettings(epsilon=0.3)
    # (1 - 0.3) / 2 + 0.3 / 3 = 0.45 for each of the tied, 0.1 for the third.
    chosen = [choose_in_row(row, settings, u, explore=True) for u in (0.2, 0.7, 0.95)]
    assert [choice.propensity for choice in chosen] == pytest.approx([0.45, 0.45, 0.1], rel=1e-15)
    assert [choice.explored for choice in chosen] == [False, False, True]


def test_without_exploration_epsilon_is_not_played() -> None:
    assert [
        choose_in_row(ROW, PolicySettings(epsilon=1.0), u, explore=False).position for u in (0.0, 0.99)
    ] == [1, 1]
    tied = StateRow([0.5, 0.5, 0.7], [1, 1, 1], [1, 1, 0], [0.0, 0.0, 0.0])
    choices = [choose_in_row(tied, PolicySettings(), u, explore=False) for u in (0.49, 0.51)]
    assert [(choice.position, choice.propensity) for choice in choices] == [(0, 0.5), (1, 0.5)]


def test_a_row_opens_at_its_priors() -> None:
    settings = PolicySettings(priors=(("concede", Prior(0.75, 3.0)),))
    row = opening_row(CARDS, settings)
    assert (row.q, row.visits, row.updates, row.borrowed) == (
        [0.0, 0.0, 0.75],
        [0, 0, 0],
        [0, 0, 0],
        [0.0, 0.0, 3.0],
    )


def test_a_prior_weighs_as_evidence_in_learning() -> None:
    policy = UCBQTablePolicy(CARDS, PolicySettings(priors=(("concede", Prior(0.75, 3.0)),)))
    policy.learn(0, 2, 0.35)
    assert policy.row(0).q[2] == pytest.approx(0.75 + (0.35 - 0.75) / 4.0, abs=1e-15)  # 0.65


def test_one_reward_after_a_warm_start() -> None:
    policy = UCBQTablePolicy(CARDS, table=QTable({5: StateRow([0.8] * 3, [0] * 3, [0] * 3, [20.0] * 3)}))
    policy.learn(5, 1, 0.38)
    assert policy.row(5).q == [0.8, pytest.approx(0.8 + (0.38 - 0.8) / 21.0, abs=1e-15), 0.8]  # 0.78
    assert policy.row(5).updates == [0, 1, 0]


def test_a_constant_step_size_forgets() -> None:
    policy = UCBQTablePolicy(CARDS, PolicySettings(alpha=0.5))
    for target in (1.0, 0.0, 1.0):
        policy.learn(0, 0, target)
    assert policy.row(0).q[0] == 0.625  # 0.5, 0.25, 0.625


def test_a_decision_counts_one_visit_and_learns_nothing() -> None:
    policy = UCBQTablePolicy(CARDS)
    choice = policy.decide(b"secret", "d1", 4, [1, 2])
    row = policy.row(4)
    assert choice.position in {1, 2}
    assert row.visits == [int(position == choice.position) for position in range(3)]
    assert (row.q, row.updates) == ([0.0] * 3, [0] * 3)
    assert policy.row(5).visits == [0, 0, 0]


def test_values_are_those_of_the_mask() -> None:
    policy = UCBQTablePolicy(
        CARDS, table=QTable({0: StateRow([0.1, 0.2, 0.3], [1, 1, 1], [1, 1, 1], [0.0] * 3)})
    )
    assert policy.action_values(0, [0, 2]) == [0.1, 0.3]
    assert policy.probabilities(0, [0, 2], explore=False) == [0.0, 1.0]
