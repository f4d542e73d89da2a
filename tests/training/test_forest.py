"""Forests of ours against scikit-learn's own answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from steersman.checkpoints.format import load_checkpoint, save_checkpoint
from steersman.domain.features import FeatureSchema
from steersman.policies.forest import ForestPolicy
from steersman.training.examples import Examples
from steersman.training.forest import train_forest
from steersman.training.normalise import scale_targets
from steersman.training.targets import shaped_gains
from tests.support.fitted import BINDING, PROVENANCE
from tests.support.teaching import draw_examples

ensemble = pytest.importorskip("sklearn.ensemble")


def fitted(examples: Examples, loss: str, *, trees: int = 30, min_leaf: int = 2) -> ForestPolicy:
    return train_forest(examples, loss=loss, trees=trees, min_leaf=min_leaf, seed=3)


def fresh_features(rows: int = 500) -> NDArray[np.float32]:
    return np.random.default_rng(9).normal(size=(rows, 5)).astype(np.float32)


@pytest.mark.parametrize("actions", [1, 2, 4])
def test_regression_equals_scikit_learn(actions: int) -> None:
    examples = draw_examples(actions=actions, masked=0.0)
    policy = fitted(examples, "squared")
    target = scale_targets(examples.gains, examples.feasible)
    model = ensemble.RandomForestRegressor(
        n_estimators=30, min_samples_leaf=2, max_features=1 / 3, random_state=3
    )
    targets = (examples.gains - target.mean) / target.scale
    model.fit(examples.features, targets if actions > 1 else targets[:, 0])
    expected = model.predict(fresh_features()).reshape(500, actions)
    np.testing.assert_allclose(policy.batch_values(fresh_features()), expected, rtol=0, atol=1e-12)


def test_pairwise_votes_equal_scikit_learn() -> None:
    examples = draw_examples(actions=4, masked=0.2)
    policy = fitted(examples, "pairwise", trees=60)
    expected = np.zeros((500, 4))
    for index, (first, second) in enumerate(combinations(range(4), 2)):
        rows = examples.feasible[:, first] & examples.feasible[:, second]
        gap = (examples.gains[:, first] - examples.gains[:, second])[rows]
        model = ensemble.RandomForestClassifier(
            n_estimators=10, min_samples_leaf=2, max_features="sqrt", random_state=3 + index
        )
        model.fit(examples.features[rows], gap > 0, sample_weight=np.abs(gap) / np.abs(gap).mean())
        share = model.predict_proba(fresh_features())[:, 1]
        expected[:, first] += share
        expected[:, second] += 1.0 - share
    np.testing.assert_allclose(policy.batch_values(fresh_features()), expected, rtol=0, atol=1e-12)


def test_a_mixed_forest_is_the_mean_of_scikit_learns_forests_for_each_shape() -> None:
    examples = draw_examples(masked=0.0)
    policy = fitted(examples, "mixed", trees=60)
    expected = np.zeros((500, 3))
    for shape in ("gain", "log", "rank"):
        shaped = shaped_gains(examples, shape)
        model = ensemble.RandomForestRegressor(
            n_estimators=20, min_samples_leaf=2, max_features=1 / 3, random_state=3
        )
        scaling = scale_targets(shaped, examples.feasible)
        model.fit(examples.features, (shaped - scaling.mean) / scaling.scale)
        expected += model.predict(fresh_features()) / 3
    np.testing.assert_allclose(policy.batch_values(fresh_features()), expected, rtol=0, atol=1e-12)


def test_a_batch_equals_single_rows_to_the_last_bit() -> None:
    for loss in ("squared", "pairwise"):
        policy = fitted(draw_examples(actions=3), loss)
        features = fresh_features(200)
        single = [policy.all_values(row) for row in features]
        assert policy.batch_values(features).tolist() == single


def test_numbers_beside_a_threshold_go_where_scikit_learn_sends_them() -> None:
    """Trees are grown on float32 numbers; a feature at a threshold, or a hair off, must take the same side."""
    examples = draw_examples(masked=0.0, actions=2)
    policy = fitted(examples, "squared", trees=5)
    target = scale_targets(examples.gains, examples.feasible)
    model = ensemble.RandomForestRegressor(
        n_estimators=5, min_samples_leaf=2, max_features=1 / 3, random_state=3
    )
    model.fit(examples.features, (examples.gains - target.mean) / target.scale)
    rows = []
    for feature, threshold in zip(policy.trees.feature, policy.trees.threshold, strict=True):
        for number in (threshold, np.nextafter(threshold, 9.0), np.nextafter(threshold, -9.0)):
            row = np.zeros(5)
            row[feature] = number
            rows.append(row)
    features = np.array(rows)
    np.testing.assert_allclose(
        policy.batch_values(features), model.predict(features.astype(np.float32)), rtol=0, atol=1e-12
    )


def test_a_pair_without_evidence_votes_half_and_a_settled_one_fully() -> None:
    examples = draw_examples(actions=3, masked=0.0)
    gains = examples.gains.copy()
    gains[:, 1] = gains[:, 0]  # 0 and 1 are always equal
    gains[:, 2] = gains[:, 0] - 5.0  # 2 is always worse
    values = fitted(replace(examples, gains=gains), "pairwise").batch_values(fresh_features(50))
    np.testing.assert_allclose(values, np.tile([1.5, 1.5, 0.0], (50, 1)))


def test_infeasible_entries_do_not_move_the_mean_of_their_action() -> None:
    """With every leaf holding all rows, the value of an action is its mean over the rows where it is feasible."""
    examples = draw_examples(masked=0.4)
    target = scale_targets(examples.gains, examples.feasible)
    policy = train_forest(examples, loss="squared", trees=200, min_leaf=len(examples), seed=0)
    normalised = (examples.gains - target.mean) / target.scale
    means = [normalised[examples.feasible[:, action], action].mean() for action in range(3)]
    np.testing.assert_allclose(policy.all_values(np.zeros(5)), means, atol=0.03)


def test_missing_features_are_imputed_and_indicated() -> None:
    """Whether x0 is missing decides which action is best: the indicator must carry it."""
    examples = draw_examples(scenes=10, rows=20, actions=2, masked=0.0)
    features = examples.features.copy()
    features[::2, 0] = np.nan
    gains = np.where(np.isnan(features[:, :1]), [1.0, -1.0], [-1.0, 1.0])
    schema = FeatureSchema("v1", examples.schema.names, nullable=("x0", "x3"))
    policy = fitted(replace(examples, features=features, gains=gains, schema=schema), "squared")
    assert policy.choose([None, 0.0, 0.0, 0.0, 0.0]).action == "action-0"
    assert policy.choose([0.0, 0.0, 0.0, 0.0, 0.0]).action == "action-1"


@pytest.mark.parametrize("loss", ["squared", "pairwise"])
def test_a_forest_survives_its_checkpoint_bit_by_bit(tmp_path: Path, loss: str) -> None:
    examples = draw_examples(actions=3)
    policy = fitted(examples, loss)
    path = tmp_path / "policy.safetensors"
    save_checkpoint(
        path, policy, binding=BINDING, provenance=PROVENANCE, probe_features=examples.features[:4]
    )
    loaded = load_checkpoint(path).policy
    assert loaded.batch_values(fresh_features()).tolist() == policy.batch_values(fresh_features()).tolist()


def test_the_same_seed_grows_the_same_forest() -> None:
    examples = draw_examples()
    first, second = fitted(examples, "squared"), fitted(examples, "squared")
    for name, array in first.tensors().items():
        np.testing.assert_array_equal(array, second.tensors()[name])
