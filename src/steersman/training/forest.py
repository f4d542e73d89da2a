"""Training of forests: scikit-learn grows the trees, and plain arrays are what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.errors import MissingExtraError
from steersman.policies.forest import ForestPolicy, Trees, action_pairs
from steersman.policies.inputs import FeatureScaling
from steersman.training.examples import Examples
from steersman.training.normalise import scale_features, scale_targets
from steersman.training.targets import normalise_targets, shaped_gains, shapes_of

__all__ = ["FIT_EXTRA", "grow_pairwise", "grow_regression", "plain_trees", "train_forest"]

FIT_EXTRA = "fit"


def train_forest(examples: Examples, *, loss: str, trees: int, min_leaf: int, seed: int) -> ForestPolicy:
    """Return a forest fitted to `examples`.

    `pairwise`: a classification for each pair of actions, rows weighted by the difference of their gains. Any
    other loss: multi-output regressions of the gains in the shapes of that loss, with as many trees for each
    shape. Raises MissingExtraError.
    """
    scaling = scale_features(examples.features, examples.schema)
    inputs = scaling.inputs_of_rows(examples.features)
    if loss == "pairwise" and examples.gains.shape[1] > 1:
        grown = plain_trees(
            grow_pairwise(examples, inputs, trees=trees, min_leaf=min_leaf, seed=seed),
            lambda value: value[:, 0, 1:],
        )
        mode = "pairwise"
    else:
        shapes = shapes_of(loss)
        each = -(-trees // len(shapes))
        regressions = [
            grow_regression(examples, inputs, shape=shape, trees=each, min_leaf=min_leaf, seed=seed)
            for shape in shapes
        ]
        grown = plain_trees([tree for trees in regressions for tree in trees], lambda value: value[:, :, 0])
        mode = "regression"
    kept = FeatureScaling.of(examples.schema, scaling.mean, np.ones_like(scaling.scale))
    return ForestPolicy(examples.catalogue, examples.schema, kept, grown, mode)


def grow_regression(
    examples: Examples, inputs: NDArray[np.float32], *, shape: str, trees: int, min_leaf: int, seed: int
) -> list[Any]:
    """Return the trees of a random forest (Breiman 2001) over all actions at once, for the gains in one shape.

    An infeasible entry counts as its action's mean over the rows where it is feasible, so that it says nothing.
    """
    regressor, _ = _scikit_learn()
    shaped, feasible = shaped_gains(examples, shape), examples.feasible
    normalised = normalise_targets(shaped, feasible, scale_targets(shaped, feasible))
    means = normalised.sum(axis=0) / np.maximum(feasible.sum(axis=0), 1)
    targets = np.where(feasible, normalised, means)
    model = regressor(
        n_estimators=trees,
        min_samples_leaf=min_leaf,
        max_features=1 / 3,
        random_state=_state(seed),
        n_jobs=1,
    )
    model.fit(inputs, targets if targets.shape[1] > 1 else targets[:, 0])
    return [estimator.tree_ for estimator in model.estimators_]


def grow_pairwise(
    examples: Examples, inputs: NDArray[np.float32], *, trees: int, min_leaf: int, seed: int
) -> list[Any]:
    """Return the trees of one random forest per pair of actions, each with the same number of trees.

    A row counts for the difference of its gains, as what a wrong vote would cost (Xu, Hutter, Hoos, Leyton-Brown
    2012). A pair that is never feasible together, or always equal, gets trees that are split down the middle.
    """
    _, classifier = _scikit_learn()
    pairs = action_pairs(examples.gains.shape[1])
    each = max(10, -(-trees // len(pairs)))
    grown: list[Any] = []
    for index, (first, second) in enumerate(pairs):
        gap = examples.gains[:, first] - examples.gains[:, second]
        rows = examples.feasible[:, first] & examples.feasible[:, second] & (gap != 0.0)
        ahead = gap[rows] > 0
        if not ahead.any() or ahead.all():
            grown += [float(ahead.all()) if ahead.size else 0.5] * each
            continue
        model = classifier(
            n_estimators=each,
            min_samples_leaf=min_leaf,
            max_features="sqrt",
            random_state=_state(seed + index),
            n_jobs=1,
        )
        model.fit(inputs[rows], ahead, sample_weight=np.abs(gap[rows]) / np.abs(gap[rows]).mean())
        grown += [estimator.tree_ for estimator in model.estimators_]
    return grown


def plain_trees(
    grown: Sequence[Any], leaf_values: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Trees:
    """Return scikit-learn's trees as plain arrays; a number in `grown` is a tree of one leaf that holds it.

    `leaf_values` picks from the values of nodes ([M, outputs, classes] float64) what a leaf holds: [M, V].
    """
    roots: list[int] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in ("feature", "threshold", "left", "right")}
    leaves: list[NDArray[np.float64]] = []
    nodes = ends = 0
    for tree in grown:
        if isinstance(tree, float):
            roots.append(~ends)
            leaves.append(np.array([[tree]]))
            ends += 1
            continue
        inner = tree.children_left >= 0
        place = np.where(inner, nodes + np.cumsum(inner) - 1, ~(ends + np.cumsum(~inner) - 1))
        roots.append(int(place[0]))
        columns["feature"].append(tree.feature[inner])
        columns["threshold"].append(tree.threshold[inner])
        columns["left"].append(place[tree.children_left[inner]])
        columns["right"].append(place[tree.children_right[inner]])
        leaves.append(leaf_values(tree.value)[~inner])
        nodes, ends = nodes + int(inner.sum()), ends + int((~inner).sum())
    joined = {name: np.concatenate([np.empty(0), *parts]) for name, parts in columns.items()}
    return Trees(
        np.array(roots, dtype=np.int32),
        joined["feature"].astype(np.int32),
        joined["threshold"].astype(np.float64),
        joined["left"].astype(np.int32),
        joined["right"].astype(np.int32),
        np.concatenate(leaves),
    )


def _scikit_learn() -> tuple[Any, Any]:
    try:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    except ImportError as error:
        raise MissingExtraError(FIT_EXTRA, purpose="fitting a forest") from error
    return RandomForestRegressor, RandomForestClassifier


def _state(seed: int) -> int:
    return seed % 2**32
