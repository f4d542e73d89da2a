"""Cross-validation by scene, and beside it the split at random that flatters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.training.baselines import Outcomes, rank_actions
from steersman.training.evidence import Evidence, join_outcomes, judge, outcomes_by_name
from steersman.training.examples import Examples
from steersman.training.fit import fit_examples
from steersman.training.folds import random_folds, scene_folds
from steersman.training.progress import Progress, quiet
from steersman.training.settings import FitSettings

__all__ = ["CrossValidation", "cross_validate"]


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Evidence in which every row is held out once: with its whole scene, and without regard to scenes."""

    folds: int
    by_scene: Evidence
    at_random: Evidence

    @property
    def parted(self) -> bool:
        """Whether the share of the gap closed at random lies outside the interval of the one by scene.

        With too few scenes for an interval: whether the two differ by more than 0.1.
        """
        honest, flattering = self.by_scene.gap_closed, self.at_random.gap_closed
        if honest is None or flattering is None:
            return False
        interval = self.by_scene.gap_closed_interval
        if interval is None:
            return abs(honest - flattering) > 0.1
        return not interval.low <= flattering <= interval.high

    def to_json(self) -> dict[str, Any]:
        """Return both figures as JSON."""
        return {
            "folds": self.folds,
            "by_scene": self.by_scene.to_json(),
            "at_random": self.at_random.to_json(),
            "parted": self.parted,
        }


def cross_validate(
    examples: Examples, settings: FitSettings, *, folds: int, progress: Progress = quiet
) -> CrossValidation:
    """Fit `folds` times by scene and `folds` times at random, each fit choosing for itself what settings leave open.

    The intervals of both are over scenes. Raises InvalidInputError when there are fewer scenes than folds,
    FitError.
    """
    by_scene = scene_folds(examples, folds, seed=settings.seed)
    at_random = random_folds(len(examples), folds, seed=settings.seed)
    return CrossValidation(
        folds,
        _evidence(examples, settings, by_scene, "fold {} of {}", progress),
        _evidence(examples, settings, at_random, "random fold {} of {}", progress),
    )


def _evidence(
    examples: Examples, settings: FitSettings, folds: NDArray[np.int64], stage: str, progress: Progress
) -> Evidence:
    parts: list[dict[str, Outcomes]] = []
    scenes: list[NDArray[np.int64]] = []
    best: set[str] = set()
    count = int(folds.max()) + 1
    for fold in range(count):
        training, rest = examples.take(folds != fold), examples.take(folds == fold)
        name = stage.format(fold + 1, count)
        fitted, _ = fit_examples(training, settings, progress=progress, stage=name)
        ranking = rank_actions(training)
        best.add(examples.catalogue.ids[ranking.best])
        parts.append(outcomes_by_name(rest, fitted.policy.batch_values(rest.features), ranking))
        scenes.append(rest.scenes)
    best_fixed = best.pop() if len(best) == 1 else "the best fixed action of each fold"
    return judge(join_outcomes(parts), np.concatenate(scenes), best_fixed=best_fixed, seed=settings.seed)
