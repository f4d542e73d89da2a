"""Normal scores of ranks: the map by hand, and one row against many."""

from __future__ import annotations

import math

import numpy as np
import pytest

from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidCheckpointError
from steersman.policies.ranks import KNOTS, RankScores
from steersman.training.normalise import scale_features, score_ranks

SCHEMA = FeatureSchema("v1", ("wide", "flag", "gappy"), categorical=("flag",), nullable=("gappy",))


def made(knots: list[float], scores: list[float]) -> RankScores:
    return RankScores.of(
        np.array([0]),
        np.array(knots, dtype=np.float32)[:, np.newaxis],
        np.array(scores, dtype=np.float32)[:, np.newaxis],
    )


@pytest.mark.parametrize(
    ("value", "score"),
    [(-9.0, -1.0), (0.0, -1.0), (1.0, 0.0), (2.0, 1.0), (3.0, 1.5), (4.0, 2.0), (1e30, 2.0), (math.nan, 0.0)],
)
def test_the_map_is_linear_between_knots_and_flat_beyond_them(value: float, score: float) -> None:
    ranks = made([0.0, 2.0, 4.0, 4.0, 4.0], [-1.0, 1.0, 2.0, 2.0, 2.0])
    assert ranks.of_vector(np.array([value])) == pytest.approx(score)
    assert ranks.of_rows(np.array([[value]], dtype=np.float32))[0] == pytest.approx(score)


def test_scores_of_four_rows_by_hand() -> None:
    """Mid-ranks 1/8, 1/2, 1/2, 7/8 have scores -z, 0, 0, z, whose deviation is z / sqrt(2)."""
    features = np.array(
        [[1.0, 0.0, 5.0], [2.0, 1.0, np.nan], [2.0, 0.0, 5.0], [30.0, 1.0, np.nan]], dtype=np.float32
    )
    ranks = score_ranks(features, SCHEMA)
    assert ranks.columns.tolist() == [0, 2]
    assert ranks.knots.shape == ranks.scores.shape == (KNOTS, 2)
    root = math.sqrt(2.0)
    np.testing.assert_allclose(ranks.of_rows(features)[:, 0], [-root, 0.0, 0.0, root], atol=1e-6)
    np.testing.assert_array_equal(ranks.of_rows(features)[:, 1], np.zeros(4))  # all the same, or missing
    assert ranks.of_vector(np.array([16.0, 0.0, 5.0]))[0] == pytest.approx(root / 2)


def test_scores_do_not_depend_on_the_scale_of_a_feature() -> None:
    draw = np.random.default_rng(0)
    plain = draw.normal(size=(500, 1)).astype(np.float32)
    schema = FeatureSchema("v1", ("x",))
    tailed = np.exp(3.0 * plain)
    one, other = (score_ranks(values, schema).of_rows(values) for values in (plain, tailed))
    # Equal at the 64 knots; between them the map is linear in each feature's own scale.
    np.testing.assert_allclose(one, other, atol=0.5)
    assert np.corrcoef(one[:, 0], other[:, 0])[0, 1] > 0.99
    assert abs(one.mean()) < 1e-6
    assert one.std() == pytest.approx(1.0, abs=1e-6)
    # The normal scores of normal numbers are these numbers.
    assert np.corrcoef(one[:, 0], plain[:, 0])[0, 1] > 0.99


def test_one_row_and_many_give_the_same_scores() -> None:
    draw = np.random.default_rng(1)
    features = draw.normal(size=(300, 3)).astype(np.float32)
    features[:, 1] = features[:, 1] > 0
    features[::5, 2] = np.nan
    features[:, 0] = np.round(features[:, 0])  # many equal values
    scaling = scale_features(features, SCHEMA, ranked=True)
    assert scaling.ranks is not None
    many = scaling.ranks.of_rows(features)
    for row, expected in zip(features, many, strict=True):
        np.testing.assert_array_equal(scaling.ranks.of_vector(row.astype(np.float64)), expected)
    inputs = scaling.normalise(features)
    assert inputs.shape == (300, 3 + 2 + 1)
    np.testing.assert_allclose(inputs[:, 3:5], many, rtol=1e-6)
    np.testing.assert_array_equal(inputs[:, 5], np.isnan(features[:, 2]))


def test_a_feature_without_any_value_scores_nothing() -> None:
    features = np.full((4, 3), np.nan, dtype=np.float32)
    features[:, :2] = 1.0
    np.testing.assert_array_equal(score_ranks(features, SCHEMA).of_rows(features), np.zeros((4, 2)))


def test_knots_must_ascend() -> None:
    with pytest.raises(InvalidCheckpointError, match="ascending"):
        made([0.0, 2.0, 1.0], [0.0, 1.0, 2.0])
