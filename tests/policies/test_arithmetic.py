"""The arithmetic, against values worked out by hand."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from math import exp, inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.policies.arithmetic import (
    draw_from_mixture,
    draw_uniform,
    further_step_size,
    greedy_by_ucb,
    greedy_by_value,
    is_maximal,
    lambda_returns,
    maximisers,
    mixture,
    one_step_target,
    q_update,
    step_size,
    ucb_bonuses,
)


def test_all_maximisers_are_found() -> None:
    assert maximisers([0.5]) == [0]
    assert maximisers([0.0, 2.0, -1.0, 2.0]) == [1, 3]
    assert maximisers([-inf, -inf]) == [0, 1]
    assert is_maximal([1.0, 3.0, 3.0], 1)
    assert is_maximal([1.0, 3.0, 3.0], 2)
    assert not is_maximal([1.0, 3.0, 3.0], 0)


def test_the_bonus_is_that_of_ucb1() -> None:
    # 10 and 6 of N = 16 choices: ln 16 = 2.7725887; scale sqrt(2) gives sqrt(2 ln N / n).
    assert ucb_bonuses([10, 6], sqrt(2.0)) == pytest.approx([0.744660, 0.961352], abs=1e-6)
    assert ucb_bonuses([10, 6], sqrt(2.0)) == [sqrt(2.0) * sqrt(log(16) / n) for n in (10, 6)]
    assert ucb_bonuses([1], 5.0) == [0.0]  # ln 1 = 0


def test_less_than_one_piece_of_evidence_gives_no_negative_logarithm() -> None:
    assert ucb_bonuses([0.25, 0.25], 1.0) == [0.0, 0.0]
    assert greedy_by_ucb([0.1, 0.2], [0, 0], [0.25, 0.25], 1.0) == [1]


def test_untried_actions_come_first() -> None:
    assert greedy_by_ucb([9.0, 0.0, 0.0], [5, 0, 0], [0.0, 0.0, 0.0], 1.0) == [1, 2]
    # A prior's weight is evidence.
    assert greedy_by_ucb([9.0, 0.0, 0.0], [0, 0, 0], [2.0, 2.0, 0.0], 1.0) == [2]


def test_borrowed_evidence_counts_like_visits() -> None:
    # n = (3 + 1, 4): the same evidence, so q decides.
    assert greedy_by_ucb([0.5, 0.4], [3, 4], [1.0, 0.0], 1.0) == [0]
    # n = (3, 4), N = 7, scale 1: 0.4 + sqrt(1.9459 / 3) = 1.2054 against 0.5 + sqrt(1.9459 / 4) = 1.1975.
    assert greedy_by_ucb([0.4, 0.5], [3, 4], [0.0, 0.0], 1.0) == [0]
    # n = (3 + 1, 4), N = 8, scale 1: the bonuses are equal and 0.5 is more than 0.4.
    assert greedy_by_ucb([0.4, 0.5], [3, 4], [1.0, 0.0], 1.0) == [1]


def test_the_scale_weighs_the_bonus() -> None:
    # n = (1, 4), N = 5, ln 5 = 1.6094: bonuses are scale * 1.2686 and scale * 0.6343; q differs by 0.5.
    # The lesser known wins when scale * 0.6343 > 0.5, so above 0.7883.
    assert greedy_by_ucb([0.0, 0.5], [1, 4], [0.0, 0.0], 0.78) == [1]
    assert greedy_by_ucb([0.0, 0.5], [1, 4], [0.0, 0.0], 0.80) == [0]
    assert greedy_by_ucb([0.0, 0.5], [1, 4], [0.0, 0.0], 0.0) == [1]


def test_equal_scores_are_all_greedy() -> None:
    assert greedy_by_ucb([0.5, 0.5, 0.0], [2, 2, 9], [0.0, 0.0, 0.0], 1.0) == [0, 1]


def test_without_exploration_only_known_actions_count() -> None:
    assert greedy_by_value([9.0, 0.1, 0.2], [0, 3, 1], [0.0, 0.0, 0.0]) == [2]
    assert greedy_by_value([9.0, 0.1, 0.2], [0, 3, 1], [0.5, 0.0, 0.0]) == [0]
    assert greedy_by_value([0.2, 0.1, 0.2], [1, 3, 1], [0.0, 0.0, 0.0]) == [0, 2]
    assert greedy_by_value([0.2, 0.1], [0, 0], [0.0, 0.0]) == [0, 1]
    assert greedy_by_value([0.0, -0.5], [0, 1], [0.0, 0.0]) == [1]


def test_the_mixture_is_exact() -> None:
    assert mixture([2], 4, 0.1) == pytest.approx([0.025, 0.025, 0.925, 0.025], abs=0)
    assert mixture([0, 3], 4, 0.2) == pytest.approx([0.45, 0.05, 0.05, 0.45], abs=0)
    assert mixture([0, 1], 2, 0.1) == [0.5, 0.5]
    assert mixture([1], 2, 0.0) == [0.0, 1.0]
    assert mixture([1], 2, 1.0) == [0.5, 0.5]


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[list[int], int, float]:
    size = draw(st.integers(1, 12))
    greedy = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    epsilon = draw(st.one_of(st.sampled_from([0.0, 0.1, 1.0]), st.floats(0.0, 1.0)))
    return greedy, size, epsilon


@given(mixtures(), st.floats(0.0, 1.0, exclude_max=True))
def test_the_draw_is_the_inverse_of_the_cumulative_mixture(
    case: tuple[list[int], int, float], u: float
) -> None:
    greedy, size, epsilon = case
    probabilities = mixture(greedy, size, epsilon)
    drawn = draw_from_mixture(greedy, size, epsilon, u)
    # Sums of doubles in either order differ by some units in the last place; there both neighbours are right.
    total, fits = Fraction(0), []
    slack = Fraction(1, 2**50)
    for position, probability in enumerate(probabilities):
        if total - slack <= Fraction(u) < total + Fraction(probability) + slack and probability > 0.0:
            fits.append(position)
        total += Fraction(probability)
    assert drawn in (fits or [max(i for i, p in enumerate(probabilities) if p > 0.0)])


@given(mixtures())
def test_every_action_with_a_share_is_drawn_in_its_middle(case: tuple[list[int], int, float]) -> None:
    greedy, size, epsilon = case
    total = 0.0
    for position, probability in enumerate(mixture(greedy, size, epsilon)):
        if probability > 1e-9:
            assert draw_from_mixture(greedy, size, epsilon, total + probability / 2) == position
        total += probability


@given(mixtures())
def test_the_last_draw_below_one_falls_on_an_action_that_can_come(case: tuple[list[int], int, float]) -> None:
    greedy, size, epsilon = case
    for u in (0.0, 1.0 - 2.0**-53):
        drawn = draw_from_mixture(greedy, size, epsilon, u)
        assert 0 <= drawn < size
        assert epsilon > 0.0 or drawn in greedy


def test_a_draw_is_the_top_53_bits_of_a_digest() -> None:
    digest = hashlib.sha256(b"tenant's secret\x00decision-1").hexdigest()
    bits = f"{int(digest, 16):0256b}"[:53]
    assert draw_uniform(b"tenant's secret", "decision-1") == int(bits, 2) / 2**53
    assert (
        draw_uniform(b"tenant's secret", "entscheidung-ä")
        == (int(hashlib.sha256("tenant's secret\0entscheidung-ä".encode()).hexdigest()[:16], 16) >> 11)
        / 2**53
    )


def test_draws_depend_on_the_secret() -> None:
    assert draw_uniform(b"one", "d") != draw_uniform(b"two", "d")


def test_step_sizes() -> None:
    assert step_size(0.3, 20.0, 7) == 0.3
    assert step_size(None, 0.0, 1) == 1.0
    assert step_size(None, 20.0, 1) == 1 / 21
    assert step_size(None, 0.5, 2) == 0.4
    assert further_step_size(0.3, 0.0, 0) == 0.3
    assert further_step_size(None, 0.0, 0) == 1.0  # a cell that nothing was learned in counts as one
    assert further_step_size(None, 0.5, 0) == 1.0
    assert further_step_size(None, 1.0, 3) == 0.25


def test_an_update_goes_a_part_of_the_way() -> None:
    assert q_update(0.5, 1.0, 0.25) == 0.625
    assert q_update(0.5, 1.0, 1.0) == 1.0
    assert one_step_target(0.25, 0.5, 0.75) == 0.625


def test_with_one_over_n_the_value_is_the_mean() -> None:
    q = 0.0
    for n, target in enumerate([1.0, 0.0, 0.5, 0.5], start=1):
        q = q_update(q, target, step_size(None, 0.0, n))
    assert q == pytest.approx(0.5, abs=1e-15)


# Three steps with rewards 0.1, 0.2, 0.7 and gamma 0.5; the largest q of the second and third state are 0.4 and 0.6.
REWARDS, VALUES = [0.1, 0.2, 0.7], [0.4, 0.6]


def test_lambda_0_bootstraps_from_the_successor() -> None:
    # 0.7; 0.2 + 0.5 * 0.6 = 0.5; 0.1 + 0.5 * 0.4 = 0.3
    found = lambda_returns(REWARDS, VALUES, [True, True, True], 0.0, 0.5)
    assert [value for pair in found for value in pair] == pytest.approx([0.4, 0.3, 0.6, 0.5, 0.0, 0.7])


def test_lambda_1_is_the_discounted_sum() -> None:
    # 0.7; 0.2 + 0.5 * 0.7 = 0.55; 0.1 + 0.5 * 0.55 = 0.375
    found = lambda_returns(REWARDS, VALUES, [True, True, True], 1.0, 0.5)
    assert [value for pair in found for value in pair] == pytest.approx([0.55, 0.375, 0.7, 0.55, 0.0, 0.7])


def test_lambda_between_mixes_both() -> None:
    # b2 = (0.6 + 0.7) / 2 = 0.65, G2 = 0.2 + 0.325 = 0.525; b1 = (0.4 + 0.525) / 2 = 0.4625, G1 = 0.33125
    found = lambda_returns(REWARDS, VALUES, [True, True, True], 0.5, 0.5)
    assert [value for pair in found for value in pair] == pytest.approx(
        [0.4625, 0.33125, 0.65, 0.525, 0.0, 0.7]
    )


def test_a_step_that_was_not_greedy_cuts_the_trace_before_it() -> None:
    # The second action was not greedy, so the first return stops at the value of its state; the second goes on.
    found = lambda_returns(REWARDS, VALUES, [True, False, True], 1.0, 0.5)
    assert [value for pair in found for value in pair] == pytest.approx([0.4, 0.3, 0.7, 0.55, 0.0, 0.7])


def test_whether_the_first_action_was_greedy_does_not_matter() -> None:
    expected = lambda_returns(REWARDS, VALUES, [True, True, True], 0.5, 0.5)
    assert lambda_returns(REWARDS, VALUES, [False, True, True], 0.5, 0.5) == expected


def test_an_episode_of_one_step_is_its_reward() -> None:
    assert lambda_returns([0.3], [], [False], 0.9, 0.9) == [(0.0, 0.3)]


def test_the_bonus_of_e_to_the_n() -> None:
    # N = e^4 in two halves: ln N = 4, n = e^4 / 2.
    half = exp(4.0) / 2.0
    assert ucb_bonuses([half, half], 1.0) == pytest.approx([sqrt(4.0 / half)] * 2, rel=1e-15)
