from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.training.baselines import Outcomes, outcomes_of_uniform, rank_actions
from steersman.training.evidence import (
    Evidence,
    join_outcomes,
    judge,
    outcomes_by_name,
)
from steersman.training.examples import Examples
from steersman.training.intervals import BOOTSTRAP_DRAWS, Interval, ratio_intervals
from tests.support.teaching import draw_examples


def three_rows() -> Examples:
    gains = np.array([[2.0, 0.0, -2.0], [0.0, 1.0, -1.0], [0.0, 3.0, 6.0]])
    feasible = np.array([[True, True, True], [False, True, True], [True, True, False]])
    return replace(
        draw_examples(scenes=3, rows=1),
        gains=np.where(feasible, gains, 0.0),
        feasible=feasible,
        costs=np.where(feasible, [1.0, 2.0, 4.0], 0.0),
    )


def test_the_ranking_is_by_mean_gain_over_feasible_rows() -> None:
    ranking = rank_actions(three_rows())
    # Means: (2 + 0)/2, (0 + 1 + 3)/3, (-2 - 1)/2.
    np.testing.assert_allclose(ranking.values, [1.0, 4 / 3, -1.5])
    assert ranking.best == 1


def test_an_action_that_was_never_feasible_is_ranked_last() -> None:
    examples = three_rows()
    masked = replace(examples, feasible=examples.feasible & np.array([True, False, True]))
    assert rank_actions(masked).values.argmin() == 1


def test_a_fixed_action_gives_way_to_the_highest_feasible_one() -> None:
    examples = three_rows()
    ranking = rank_actions(examples)
    assert ranking.choose(examples.feasible, 0).tolist() == [0, 1, 0]
    assert ranking.choose(examples.feasible, 2).tolist() == [2, 2, 1]


def test_uniform_random_is_its_exact_expectation() -> None:
    found = outcomes_of_uniform(three_rows())
    # Best less mean: 2 - 0, 1 - 0, 3 - 1.5; mean costs 7/3, 3, 1.5.
    np.testing.assert_allclose(found.regrets, [2.0, 1.0, 1.5])
    np.testing.assert_allclose(found.costs, [7 / 3, 3.0, 1.5])


def test_every_way_of_choosing_stands_beside_the_policy() -> None:
    examples = three_rows()
    values = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 5.0]])
    named = outcomes_by_name(examples, values, rank_actions(examples))
    regrets = {name: found.regrets.tolist() for name, found in named.items()}
    assert regrets == {
        "policy": [0.0, 2.0, 0.0],
        "uniform random": [2.0, 1.0, 1.5],
        "oracle": [0.0, 0.0, 0.0],
        "best fixed": [2.0, 0.0, 0.0],
        "fixed:action-0": [0.0, 0.0, 3.0],
        "fixed:action-1": [2.0, 0.0, 0.0],
        "fixed:action-2": [4.0, 2.0, 0.0],
    }


def judged(policy: list[float], fixed: list[float], scenes: list[int]) -> Evidence:
    def made(regrets: list[float]) -> Outcomes:
        return Outcomes(np.array(regrets), np.zeros(len(regrets)))

    named = {
        "policy": made(policy),
        "uniform random": made(fixed),
        "oracle": made([0.0] * len(policy)),
        "best fixed": made(fixed),
        "fixed:hold": made(fixed),
        "fixed:push": made([value + 1.0 for value in fixed]),
    }
    return judge(named, np.array(scenes), best_fixed="hold", seed=0)


def test_gap_closed_is_the_share_of_the_best_fixed_regret() -> None:
    found = judged([1.0, 0.0, 2.0, 1.0], [4.0, 4.0, 4.0, 4.0], [0, 0, 1, 2])
    assert found.gap_closed == pytest.approx(0.75)
    assert found.difference == pytest.approx(-3.0)
    assert (found.row_count, found.scene_count) == (4, 3)
    assert (found.best_fixed.name, found.hindsight.name) == ("hold", "hold")


def test_no_gap_has_no_share() -> None:
    assert judged([1.0] * 9, [0.0] * 9, list(range(9))).gap_closed is None


def test_under_eight_scenes_it_says_so() -> None:
    found = judged([0.0] * 70, [9.0] * 70, [row % 7 for row in range(70)])
    assert found.verdict == "too few scenes"
    assert found.sentence.startswith("Too few scenes: 7 held out, and at least 8")
    assert found.gap_closed_interval is found.difference_interval is found.policy.interval is None


@pytest.mark.parametrize(
    ("shift", "verdict", "words"),
    [
        (-1.0, "better", "better than always playing hold, with confidence"),
        (1.0, "worse", "worse than always playing hold, with confidence"),
        (0.0, "not shown", "not better than always playing hold with confidence"),
    ],
)
def test_the_verdict_is_in_plain_words(shift: float, verdict: str, words: str) -> None:
    draw = np.random.default_rng(3)
    fixed = 2.0 + draw.random(40)
    policy = fixed + shift + draw.normal(size=40) * 0.5
    found = judged(policy.tolist(), fixed.tolist(), [row // 4 for row in range(40)])
    assert found.verdict == verdict
    assert words in found.sentence


def test_intervals_are_of_scenes_and_the_verdict_is_that_of_the_difference() -> None:
    """With scenes of one size, all intervals are ratios of sums over scenes, with one seed for all."""
    draw = np.random.default_rng(0)
    policy, fixed = draw.exponential(size=(2, 40))
    scenes = [row // 4 for row in range(40)]
    found = judged(policy.tolist(), fixed.tolist(), scenes)
    ours, theirs = policy.reshape(10, 4).sum(axis=1), fixed.reshape(10, 4).sum(axis=1)
    four = np.full(10, 4.0)
    tops = np.stack([ours, theirs, ours - theirs, theirs - ours], axis=1)
    bottoms = np.stack([four, four, four, theirs], axis=1)
    expected = ratio_intervals(tops, bottoms, draws=BOOTSTRAP_DRAWS, generator=np.random.default_rng(0))
    assert (found.policy.interval, found.best_fixed.interval, found.difference_interval) == expected[:3]
    assert found.gap_closed_interval == Interval(expected[3].low, min(expected[3].high, 1.0))
    assert found.oracle.interval == Interval(0.0, 0.0)


def test_intervals_stay_within_what_can_be() -> None:
    found = judged([0.0] * 9 + [1.0], [5.0] + [0.0] * 9, list(range(10)))
    assert found.policy.interval is not None
    assert found.gap_closed_interval is not None
    assert found.policy.interval.low == 0.0
    assert found.gap_closed_interval.high == 1.0


def test_the_same_seed_gives_the_same_interval() -> None:
    policy, fixed = [float(row % 5) for row in range(40)], [2.5] * 40
    scenes = [row // 4 for row in range(40)]
    first, second = judged(policy, fixed, scenes), judged(policy, fixed, scenes)
    assert first == second
    assert isinstance(first.difference_interval, Interval)


def test_outcomes_of_folds_are_joined_in_order() -> None:
    examples = three_rows()
    ranking = rank_actions(examples)
    whole = outcomes_by_name(examples, examples.gains, ranking)
    parts = [
        outcomes_by_name(examples.take(rows), examples.gains[rows], ranking)
        for rows in (np.array([0, 1]), np.array([2]))
    ]
    for name, found in join_outcomes(parts).items():
        np.testing.assert_array_equal(found.regrets, whole[name].regrets)
        np.testing.assert_array_equal(found.costs, whole[name].costs)
