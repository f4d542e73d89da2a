"""Every expected value here was worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.domain.features import FeatureSchema
from steersman.training.metrics import (
    choice_metrics,
    choices,
    near_tie_coverage,
    regrets,
    spreads,
    squared_errors,
)
from steersman.training.normalise import scale_features, scale_targets
from tests.support.teaching import draw_examples

GAINS = np.array([[3.0, 1.0, -4.0], [0.5, 0.0, 0.5], [9.0, 2.0, 2.00005]])
FEASIBLE = np.array([[True, True, True], [True, True, True], [False, True, True]])


def test_choices_are_the_best_feasible_and_ties_go_to_catalogue_order() -> None:
    values = np.array([[0.0, 2.0, 1.0], [1.0, 1.0, 1.0], [5.0, -1.0, -1.0]])
    assert choices(values, FEASIBLE).tolist() == [1, 0, 1]
    assert choices(np.array([3.0, 2.0, 1.0]), FEASIBLE).tolist() == [0, 0, 1]


def test_regrets_and_spreads_look_at_feasible_actions_alone() -> None:
    np.testing.assert_allclose(regrets(GAINS, FEASIBLE, np.array([1, 1, 1])), [2.0, 0.5, 0.00005], rtol=1e-9)
    np.testing.assert_allclose(spreads(GAINS, FEASIBLE), [7.0, 0.5, 0.00005], rtol=1e-9)


def test_squared_errors_are_means_over_the_feasible_actions() -> None:
    values = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [100.0, 1.0, 3.0]])
    targets = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(squared_errors(values, targets, FEASIBLE), [5 / 3, 3.0, 5.0])


def test_metrics_of_three_rows() -> None:
    examples = draw_examples(scenes=3, rows=1)
    examples = replace(
        examples,
        gains=GAINS,
        feasible=FEASIBLE,
        costs=np.array([[1.0, 2.0, 4.0]] * 3),
        scenes=np.array([0, 0, 2]),
    )
    values = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [9.0, 1.0, 0.0]])
    found = choice_metrics(
        values, examples, target_mean=0.5, target_scale=2.0, tie_tolerance=1e-4, predicts=True
    )
    # Normalised targets: (1.25, 0.25, -2.25), (0, -0.25, 0), (-, 0.75, 0.750025). Chosen: 1, 0, 1.
    first = (1.25**2 + 0.75**2 + 2.25**2) / 3
    second = (1.0 + 0.0625) / 3
    third = (0.25**2 + 0.750025**2) / 2
    assert found.row_count == 3
    assert found.scene_count == 2
    assert found.loss == pytest.approx((first + second + third) / 3, rel=1e-12)
    assert found.regret == pytest.approx((2.0 + 0.0 + 0.00005) / 3, rel=1e-9)
    assert found.top_accuracy == pytest.approx(2 / 3)
    assert found.near_tie_coverage == pytest.approx(1 / 3)
    assert found.mean_cost == pytest.approx((2.0 + 1.0 + 2.0) / 3)


def test_without_rows_there_is_no_figure() -> None:
    nothing = draw_examples().take(np.zeros(0, dtype=np.int64))
    found = choice_metrics(
        np.zeros((0, 3)), nothing, target_mean=0.0, target_scale=1.0, tie_tolerance=0.0, predicts=True
    )
    assert found.to_json() == {
        "row_count": 0,
        "scene_count": 0,
        "loss": None,
        "regret": None,
        "top_accuracy": None,
        "near_tie_coverage": None,
        "mean_cost": None,
    }
    assert near_tie_coverage(nothing, 1.0) is None


def test_a_ranking_has_no_loss() -> None:
    examples = draw_examples()
    found = choice_metrics(
        examples.gains, examples, target_mean=0.0, target_scale=1.0, tie_tolerance=0.0, predicts=False
    )
    assert found.loss is None
    assert found.regret == 0.0


def test_feature_scaling_by_hand() -> None:
    schema = FeatureSchema(
        "v1", ("wide", "still", "flag", "gappy"), categorical=("flag",), nullable=("gappy",)
    )
    features = np.array(
        [[1.0, 7.0, 0.0, np.nan], [3.0, 7.0, 1.0, 4.0], [8.0, 7.0 + 1e-6, 1.0, 8.0]], dtype=np.float32
    )
    found = scale_features(features, schema)
    np.testing.assert_allclose(found.mean, [4.0, 7.0, 0.0, 6.0], rtol=1e-6)
    np.testing.assert_allclose(found.scale, [np.sqrt(26 / 3), 1.0, 1.0, 2.0], rtol=1e-6)
    assert found.mean.dtype == found.scale.dtype == np.float32
    normalised = found.normalise(features)
    np.testing.assert_allclose(normalised[0], [-3 / np.sqrt(26 / 3), 0.0, 0.0, 0.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(normalised[1, 3:], [-1.0, 0.0], rtol=1e-6)


def test_means_are_computed_in_float64() -> None:
    schema = FeatureSchema("v1", ("x",))
    features = np.full((100_000, 1), 16_777_217.0, dtype=np.float32)  # 2**24 in float32
    features[0] = 0.0
    mean = 16_777_216.0 * (1 - 1e-5)
    assert scale_features(features, schema).mean[0] == np.float32(mean)


def test_target_scaling_by_hand() -> None:
    found = scale_targets(GAINS, FEASIBLE)
    values = np.array([3.0, 1.0, -4.0, 0.5, 0.0, 0.5, 2.0, 2.00005])
    assert found.mean == np.float32(sum(values) / 8)
    assert found.scale == np.float32(np.sqrt(sum((values - sum(values) / 8) ** 2) / 8))
    assert scale_targets(np.ones((2, 2)), np.ones((2, 2), dtype=bool)).scale == np.float32(1e-6)
