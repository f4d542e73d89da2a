"""Folds: every row held out exactly once, by whole scenes or, to show the difference, at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidInputError
from steersman.teacher.split import scenes_by_hash
from steersman.training.examples import Examples

__all__ = ["INNER_FOLDS", "inner_folds", "random_folds", "scene_folds"]

INNER_FOLDS = 5


def scene_folds(examples: Examples, folds: int, *, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, in 0 .. folds - 1, rows of one scene in one fold: [N] int64.

    Scenes are ordered by the SHA-256 of "seed:scene" and dealt out in turn. Raises InvalidInputError unless there
    are at least two folds and at least as many scenes as folds.
    """
    present = examples.present_scenes
    _check_folds(folds, len(present), "scenes")
    fold_of = {scene: index % folds for index, scene in enumerate(scenes_by_hash(present, seed=seed))}
    by_index = np.array([fold_of.get(scene, -1) for scene in examples.scene_ids], dtype=np.int64)
    return by_index[examples.scenes]


def random_folds(rows: int, folds: int, *, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, dealt out at random without a look at scenes: [N] int64."""
    _check_folds(folds, rows, "rows")
    return np.random.default_rng(seed).permutation(np.arange(rows) % folds)


def inner_folds(examples: Examples, *, seed: int) -> NDArray[np.int64]:
    """Return up to five folds by scene of rows that are trained on, to choose settings by: [N] int64.

    Raises InvalidInputError when there are fewer than two scenes.
    """
    scenes = len(examples.present_scenes)
    if scenes < 2:
        raise InvalidInputError(
            f"early stopping, search and auto need at least 2 training scenes to choose by, got {scenes}"
        )
    return scene_folds(examples, min(INNER_FOLDS, scenes), seed=seed)


def _check_folds(folds: object, most: int, what: str) -> None:
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise InvalidInputError(f"folds: expected an integer of at least 2, got {folds!r}")
    if folds > most:
        raise InvalidInputError(f"folds: expected at most one for each of the {most} {what}, got {folds}")
