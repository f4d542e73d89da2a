"""Other ways of choosing algorithms, run in an environment of their own that knows nothing of Steersman.

`main` reads one task and one name from the command line and writes the chosen algorithms. All peers see the same rows,
folds and features: a missing feature stands at its training mean, with an indicator beside it, and networks and linear
learners get standardised columns. Settings are those that a user of the package would begin with.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["PEERS", "main"]

_TREES = 300  # of a forest
_VOTING_TREES = 100  # of each pair
_PASSES = 20

_Floats: TypeAlias = NDArray[np.float64]
_Choices: TypeAlias = NDArray[np.int64]
_Peer: TypeAlias = Callable[[_Floats, _Floats, _Floats], _Choices]
"""From training features [n, D], training losses [n, A] and features to choose for [m, D] to choices [m]."""


def main() -> None:
    """Run peer NAME on TASK.npz (features, losses, folds), write choices to OUTPUT.npy; SIGXCPU after SECONDS."""
    name, task, output, seconds = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    with np.load(task) as arrays:
        features, losses, folds = (arrays[key] for key in ("features", "losses", "folds"))
    chosen = np.zeros(len(folds), dtype=np.int64)
    for fold in np.unique(folds):
        held_out = folds == fold
        training, rest = _prepared(features[~held_out], features[held_out])
        chosen[held_out] = PEERS[name](training, losses[~held_out], rest)
    np.save(Path(output), chosen)


def _prepared(training: _Floats, rest: _Floats) -> tuple[_Floats, _Floats]:
    """Return both with gaps at the training mean, indicators of gaps beside them, and columns standardised."""
    there = ~np.isnan(training)
    means = np.where(there, training, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    gappy = ~there.all(axis=0)
    full = [np.hstack([np.where(np.isnan(x), means, x), np.isnan(x[:, gappy])]) for x in (training, rest)]
    middle, spread = full[0].mean(axis=0), full[0].std(axis=0)
    spread[spread == 0.0] = 1.0
    return (full[0] - middle) / spread, (full[1] - middle) / spread


def _forest(training: _Floats, losses: _Floats, rest: _Floats) -> _Choices:
    model = import_module("sklearn.ensemble").RandomForestRegressor(
        n_estimators=_TREES, min_samples_leaf=2, max_features=1 / 3, random_state=0, n_jobs=1
    )
    return _best(model.fit(training, losses).predict(rest))


def _network(training: _Floats, losses: _Floats, rest: _Floats) -> _Choices:
    model = import_module("sklearn.neural_network").MLPRegressor(max_iter=500, random_state=0)
    targets = (losses - losses.mean()) / losses.std()
    return _best(model.fit(training, targets).predict(rest))


def _pairwise_forests(training: _Floats, losses: _Floats, rest: _Floats) -> _Choices:
    """Vote by pair, rows weighted by what the wrong vote costs (Xu, Hutter, Hoos, Leyton-Brown 2012)."""
    votes = np.zeros((len(rest), losses.shape[1]))
    for first, second in combinations(range(losses.shape[1]), 2):
        gap = losses[:, second] - losses[:, first]
        rows = gap != 0.0
        ahead = gap[rows] > 0.0
        if not ahead.any() or ahead.all():
            votes[:, first if ahead.size and ahead.all() else second] += float(ahead.size > 0)
            continue
        model = import_module("sklearn.ensemble").RandomForestClassifier(
            n_estimators=_VOTING_TREES, random_state=0, n_jobs=1
        )
        model.fit(training[rows], ahead, sample_weight=np.abs(gap[rows]))
        wins = model.predict(rest)
        votes[:, first] += wins
        votes[:, second] += ~wins
    return _best(-votes)


def _policy_forest(training: _Floats, losses: _Floats, rest: _Floats) -> _Choices:
    model = import_module("econml.policy").PolicyForest(n_estimators=_TREES, random_state=0, n_jobs=1)
    chosen: _Choices = np.asarray(model.fit(training, -losses).predict(rest), dtype=np.int64)
    return chosen


def _boosting(training: _Floats, losses: _Floats, rest: _Floats) -> _Choices:
    regressor = import_module("lightgbm").LGBMRegressor
    predicted = [
        regressor(random_state=0, n_jobs=1, verbose=-1).fit(training, column).predict(rest)
        for column in losses.T
    ]
    return _best(np.stack(predicted, axis=1))


def _csoaa(training: _Floats, losses: _Floats, rest: _Floats) -> _Choices:
    vowpal: Any = import_module("vowpalwabbit")
    workspace = vowpal.Workspace(f"--csoaa {losses.shape[1]} --quiet --random_seed 0")
    scaled = losses / losses.max()
    rows = [
        workspace.parse(f"{_labels(costs)} {_line(row)}") for row, costs in zip(training, scaled, strict=True)
    ]
    draw = np.random.default_rng(0)
    for _ in range(_PASSES):
        for place in draw.permutation(len(rows)):
            workspace.learn(rows[place])
    chosen = [workspace.predict(_line(row)) - 1 for row in rest]
    for row in rows:
        workspace.finish_example(row)
    workspace.finish()
    return np.array(chosen, dtype=np.int64)


def _labels(costs: _Floats) -> str:
    return " ".join(f"{place}:{cost:.6f}" for place, cost in enumerate(costs, 1))


def _line(row: _Floats) -> str:
    return "| " + " ".join(f"{place}:{value:.6g}" for place, value in enumerate(row))


def _best(losses: Any) -> _Choices:
    chosen: _Choices = np.asarray(losses).argmin(axis=1)
    return chosen


PEERS: dict[str, _Peer] = {
    "sklearn forest": _forest,
    "sklearn MLP": _network,
    "pairwise forests": _pairwise_forests,
    "EconML PolicyForest": _policy_forest,
    "LightGBM": _boosting,
    "VW csoaa": _csoaa,
}
