from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.training.baselines import Outcomes, outcomes_of_uniform, rank_actions
from steersman.training.evidence import (
    Evidence,
    Interval,
    join_outcomes,
    judge,
    outcomes_by_name,
    scene_bootstrap,
)
from steersman.training.examples import Examples
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


def test_the_interval_is_that_of_the_scene_means() -> None:
    """With scenes of one size the bootstrap's spread is the standard deviation of scene means over sqrt(S)."""
    draw = np.random.default_rng(0)
    means = draw.normal(size=50)
    columns = np.repeat(means, 4)[:, np.newaxis]
    scenes = np.repeat(np.arange(50), 4)
    replicates = scene_bootstrap(columns, scenes, draws=20_000, generator=np.random.default_rng(1))
    assert replicates.mean() == pytest.approx(means.mean(), abs=0.005)
    assert replicates.std() == pytest.approx(means.std() / np.sqrt(50), rel=0.03)


def test_scenes_of_unequal_size_count_by_their_rows() -> None:
    columns = np.array([[1.0], [1.0], [1.0], [5.0]])
    replicates = scene_bootstrap(
        columns, np.array([0, 0, 0, 1]), draws=1000, generator=np.random.default_rng(0)
    )
    # Two scenes: both the first, both the second, or one of each: 1, 5 or (3 + 5)/4.
    assert set(np.unique(replicates)) == {1.0, 2.0, 5.0}


def test_differences_are_paired() -> None:
    """Two columns that differ by a constant differ by it in every replicate, however wild the scenes are."""
    draw = np.random.default_rng(0)
    one = draw.normal(size=(60, 1)) * 100.0
    replicates = scene_bootstrap(
        np.hstack([one, one + 0.01]), np.arange(60) // 3, draws=500, generator=np.random.default_rng(0)
    )
    np.testing.assert_allclose(replicates[:, 1] - replicates[:, 0], 0.01, rtol=1e-9)


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
