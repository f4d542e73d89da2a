"""Intervals over scenes, beside a plain loop that draws the scenes themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from steersman.training.intervals import Interval, ratio_intervals


def interval_of(tops: NDArray[np.float64], bottoms: NDArray[np.float64], *, draws: int = 4000) -> Interval:
    (found,) = ratio_intervals(
        tops[:, np.newaxis], bottoms[:, np.newaxis], draws=draws, generator=np.random.default_rng(7)
    )
    return found


def error_of(tops: NDArray[np.float64], bottoms: NDArray[np.float64]) -> float:
    """The standard error of the ratio of the sums, by linearisation."""
    rest = tops - tops.sum() / bottoms.sum() * bottoms
    return float(np.sqrt(len(tops) * np.var(rest, ddof=1)) / bottoms.sum())


def plain_interval(tops: NDArray[np.float64], bottoms: NDArray[np.float64], draws: int) -> Interval:
    generator = np.random.default_rng(7)
    scenes, ratio, error = len(tops), tops.sum() / bottoms.sum(), error_of(tops, bottoms)
    found = []
    for _ in range(draws):
        drawn = np.repeat(np.arange(scenes), generator.multinomial(scenes, np.full(scenes, 1 / scenes)))
        top, bottom = tops[drawn], bottoms[drawn]
        within = max(error_of(top, bottom), 0.1 * error)
        found.append((top.sum() / bottom.sum() - ratio) / within)
    lower, upper = np.quantile(found, [0.025, 0.975])
    student = stats.t(scenes - 1).ppf(0.975)
    return Interval(ratio - max(upper, student) * error, ratio - min(lower, -student) * error)


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_is_that_of_a_plain_loop(seed: int) -> None:
    draw = np.random.default_rng(seed)
    bottoms = draw.integers(1, 9, size=12).astype(float)
    tops = bottoms * draw.lognormal(size=12) * draw.choice([-1.0, 1.0], size=12, p=[0.2, 0.8])
    found, expected = interval_of(tops, bottoms, draws=500), plain_interval(tops, bottoms, 500)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_on_many_scenes_it_is_the_normal_interval() -> None:
    tops = np.random.default_rng(0).normal(3.0, 2.0, size=2000)
    found = interval_of(tops, np.ones(2000))
    assert found.low == pytest.approx(tops.mean() - 1.96 * tops.std() / np.sqrt(2000), abs=0.01)
    assert found.high == pytest.approx(tops.mean() + 1.96 * tops.std() / np.sqrt(2000), abs=0.01)


def test_it_is_the_same_in_any_unit_and_mirrored() -> None:
    tops, bottoms = np.random.default_rng(1).exponential(size=(2, 15))
    found = interval_of(tops, bottoms)
    scaled, turned = interval_of(1e6 * tops, bottoms), interval_of(-tops, bottoms)
    assert (scaled.low, scaled.high) == pytest.approx((1e6 * found.low, 1e6 * found.high))
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_differences_are_paired() -> None:
    """A constant difference has no spread, however wild the scenes are."""
    wild = np.random.default_rng(0).normal(size=20) * 100.0
    found = interval_of((wild + 0.5) - wild, np.ones(20))
    assert (found.low, found.high) == pytest.approx((0.5, 0.5), abs=1e-9)


def test_all_scenes_alike_leave_no_doubt_and_draws_without_a_ratio_are_left_out() -> None:
    assert interval_of(np.full(9, -2.0), np.full(9, 4.0)) == Interval(-0.5, -0.5)
    lone = np.array([3.0, *[0.0] * 8])
    found = interval_of(lone - 1.0, lone)  # one draw in three holds the first scene not even once
    assert np.isfinite([found.low, found.high]).all()


def test_long_tails_are_not_taken_for_an_effect() -> None:
    """Exponential less 1 has mean 0 and a long tail upwards: nearly all scenes look better, a few are much worse.

    Nominally 2.5 % of such samples look better with confidence; quantiles of the draws alone make it 9.5 %.
    """
    draw = np.random.default_rng(5)
    ones, found = np.ones(20), []
    for _ in range(400):
        interval = interval_of(draw.exponential(size=20) - 1.0, ones, draws=500)
        found.append((interval.high < 0.0, interval.low > 0.0))
    better, worse = np.mean(found, axis=0)
    assert better < 0.065
    assert worse < 0.03
