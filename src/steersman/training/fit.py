"""The fit: teacher rows in, a policy and its held-out metrics out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.checkpoints.format import LoadedCheckpoint, load_checkpoint
from steersman.domain.identifiers import check_finite
from steersman.errors import FitError, InvalidCheckpointError, InvalidInputError
from steersman.policies.action_value import ActionValuePolicy
from steersman.policies.fitted import FittedPolicy
from steersman.policies.forest import ForestPolicy
from steersman.policies.inputs import FeatureScaling
from steersman.policies.ranking import FixedRankingPolicy
from steersman.teacher.dataset import TeacherDataset, as_dataset
from steersman.teacher.rows import TeacherRow
from steersman.teacher.split import split_scene_ids
from steersman.training.examples import Examples
from steersman.training.learners import Fitted, fit_decided, predicts_gains
from steersman.training.metrics import ChoiceMetrics, choice_metrics, near_tie_coverage
from steersman.training.normalise import TargetScaling
from steersman.training.progress import Progress, quiet
from steersman.training.selection import Decision, decide_settings
from steersman.training.settings import FitSettings

__all__ = [
    "PolicyFitResult",
    "examples_of",
    "fit_action_policy",
    "fit_dataset",
    "fit_examples",
    "load_init_policy",
    "metrics_of_ranking",
]

_MOST = 1e38  # differences of two such numbers are within float32


@dataclass(frozen=True, slots=True, eq=False)
class PolicyFitResult:
    """A fitted policy, how well it chooses on scenes held out, and what it was fitted to."""

    policy: FittedPolicy
    metrics: Mapping[str, float | int | None]  # training_* and heldout_*; None where there is no such row
    training_scene_ids: tuple[str, ...]
    validation_scene_ids: tuple[str, ...]
    feature_mean: NDArray[np.float32]  # [D]
    feature_scale: NDArray[np.float32]  # [D]
    target_mean: float
    target_scale: float
    binding: Mapping[str, Any]  # of the rows
    row_count: int  # of both splits
    losses: tuple[float, ...]  # [epochs], the training loss before each step; empty for forests
    requested: FitSettings
    settings: FitSettings  # as decided
    cost_weight: float
    decision: Decision  # the trials that decided, if any
    training: Examples = field(repr=False)
    heldout: Examples = field(repr=False)


def load_init_policy(path: Path) -> LoadedCheckpoint:
    """Return the checkpoint in `path`, to continue from its weights.

    Raises InvalidCheckpointError, also when it holds anything but a network.
    """
    loaded = load_checkpoint(path)
    if not isinstance(loaded.policy, ActionValuePolicy):
        raise InvalidCheckpointError(
            f"init_policy: expected a network, got a policy of kind {loaded.policy.kind}", where=str(path)
        )
    return loaded


def examples_of(dataset: TeacherDataset, *, cost_weight: float = 0.0) -> Examples:
    """Return the rows of `dataset` as the fit reads them; gains are advantage - cost_weight * cost.

    Raises InvalidInputError unless the weight is a finite number of at least 0 with gains that float32 holds, and
    for a feature whose differences it might not hold.
    """
    if check_finite(cost_weight, what="cost_weight") < 0.0:
        raise InvalidInputError(f"cost_weight: expected a number of at least 0, got {cost_weight}")
    plain = Examples(
        dataset.profile.catalogue,
        dataset.profile.features,
        dataset.features,
        dataset.feasible,
        np.where(dataset.feasible, dataset.advantages, 0.0),
        np.where(dataset.feasible, dataset.costs, 0.0),
        dataset.scene_index.astype(np.int64),
        dataset.scene_ids,
    )
    _check_spans(plain)
    with np.errstate(over="ignore"):
        weighted = plain.less_costs(cost_weight)
    if not (np.abs(weighted.gains) <= _MOST).all():
        raise InvalidInputError(
            f"cost_weight: expected gains within ±{_MOST:g}, and with {cost_weight:g} there are larger ones"
        )
    return weighted


def _check_spans(examples: Examples) -> None:
    """Raise InvalidInputError for a feature beyond the range in which the network's arithmetic is finite."""
    least, most = (
        np.fmin.reduce(examples.features),
        np.fmax.reduce(examples.features),
    )  # [D], no copy of the rows
    for name, low, high in zip(examples.schema.names, least.tolist(), most.tolist(), strict=True):
        if low < -_MOST or high > _MOST:
            raise InvalidInputError(
                f"features.{name}: expected values within ±{_MOST:g}, got {low:g} to {high:g}",
                hint="a logarithm of such a feature says more",
            )


def fit_action_policy(
    rows: TeacherDataset | Iterable[TeacherRow | Mapping[str, Any]],
    *,
    hidden_dim: int = 32,
    epochs: int = 100,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    seed: int = 0,
    device: str = "cpu",
    holdout_fraction: float = 0.2,
    validation_scene_ids: Sequence[str] | None = None,
    tie_tolerance: float = 1e-4,
    init_policy: LoadedCheckpoint | None = None,
    learner: str = "mlp",
    loss: str = "squared",
    inputs: str = "plain",
    ensemble: int = 1,
    early_stopping: bool = False,
    search: bool = False,
    cost_weight: float = 0.0,
    progress: Progress = quiet,
) -> PolicyFitResult:
    """Fit a policy to teacher rows: a data set, rows, or plain mappings of the sixteen fields.

    Scenes are split first, by `validation_scene_ids` or else `holdout_fraction` and `seed`, and everything that
    is learned, chosen or averaged comes from the training scenes. The same seed gives the same numbers. Raises
    InvalidInputError for an argument outside its bounds, InvalidRowError, FitError, DeviceUnavailableError.
    """
    settings = FitSettings(
        learner=learner,
        loss=loss,
        inputs=inputs,
        hidden_dim=hidden_dim,
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        seed=seed,
        device=device,
        ensemble=ensemble,
        early_stopping=early_stopping,
        search=search,
        tie_tolerance=tie_tolerance,
    )
    return fit_dataset(
        as_dataset(rows),
        settings,
        holdout_fraction=holdout_fraction,
        validation_scene_ids=validation_scene_ids,
        init_policy=init_policy,
        cost_weight=cost_weight,
        progress=progress,
    )


def fit_dataset(
    dataset: TeacherDataset,
    settings: FitSettings,
    *,
    holdout_fraction: float,
    validation_scene_ids: Sequence[str] | None,
    init_policy: LoadedCheckpoint | None,
    cost_weight: float,
    progress: Progress = quiet,
) -> PolicyFitResult:
    """Fit a policy to `dataset`, as `fit_action_policy` describes."""
    training_ids, validation_ids = split_scene_ids(
        dataset.scene_ids,
        holdout_fraction=holdout_fraction,
        seed=settings.seed,
        validation_scene_ids=validation_scene_ids,
    )
    examples = examples_of(dataset, cost_weight=cost_weight)
    held_out = examples.of_scenes(validation_ids)
    training, heldout = examples.take(~held_out), examples.take(held_out)
    fitted, decision = fit_examples(training, settings, init_policy=init_policy, progress=progress)
    scaling = _scaling_of(fitted.policy)
    return PolicyFitResult(
        policy=fitted.policy,
        metrics=_metrics(fitted, training, heldout),
        training_scene_ids=training_ids,
        validation_scene_ids=validation_ids,
        feature_mean=scaling.mean,
        feature_scale=scaling.scale,
        target_mean=fitted.target.mean,
        target_scale=fitted.target.scale,
        binding=dataset.binding,
        row_count=len(dataset),
        losses=fitted.losses,
        requested=settings,
        settings=fitted.settings,
        cost_weight=float(cost_weight) + 0.0,  # never -0.0
        decision=decision,
        training=training,
        heldout=heldout,
    )


def fit_examples(
    training: Examples,
    settings: FitSettings,
    *,
    init_policy: LoadedCheckpoint | None = None,
    progress: Progress = quiet,
    stage: str = "fit",
) -> tuple[Fitted, Decision]:
    """Decide what `settings` leave open by looking at `training` alone, and fit to all of it.

    Raises InvalidInputError, FitError.
    """
    start: ActionValuePolicy | None = None
    if init_policy is not None:
        _check_continues_one_network(settings)
        if not isinstance(init_policy, LoadedCheckpoint):
            raise InvalidInputError(
                f"init_policy: expected a checkpoint as load_init_policy returns it, got {init_policy!r}"
            )
        if not isinstance(init_policy.policy, ActionValuePolicy):
            raise InvalidInputError(f"init_policy: expected a network, got a {init_policy.policy.kind}")
        start = init_policy.policy
    decision = decide_settings(training, settings, progress=progress)
    return fit_decided(training, decision.settings, start=start, progress=progress, stage=stage), decision


def metrics_of_ranking(policy: FixedRankingPolicy, result: PolicyFitResult) -> dict[str, float | int | None]:
    """Return the metrics of `policy` on the rows of `result` and under the same names.

    Its values estimate the gains, whatever the fit aimed at, so that there always is a loss.
    """
    target, settings = TargetScaling(result.target_mean, result.target_scale), result.settings
    on_training = _choice_metrics(policy, result.training, target, settings, predicts=True)
    on_heldout = _choice_metrics(policy, result.heldout, target, settings, predicts=True)
    renamed = {f"heldout_{name}": value for name, value in on_heldout.to_json().items()}
    return {**result.metrics, "training_loss": on_training.loss, **renamed}


def _check_continues_one_network(settings: FitSettings) -> None:
    others = settings.search or settings.early_stopping or settings.ensemble > 1 or settings.loss == "mixed"
    if others or settings.learner != "mlp":
        raise InvalidInputError(
            "init_policy: expected the learner mlp without search, early_stopping, ensemble and mixed loss, as one "
            "network is continued"
        )


def _scaling_of(policy: FittedPolicy) -> FeatureScaling:
    if isinstance(policy, ActionValuePolicy | ForestPolicy):
        return policy.scaling
    raise FitError(f"a fit came to a policy of kind {policy.kind}")


def _choice_metrics(
    policy: FittedPolicy, rows: Examples, target: TargetScaling, settings: FitSettings, *, predicts: bool
) -> ChoiceMetrics:
    return choice_metrics(
        policy.batch_values(rows.features),
        rows,
        target_mean=target.mean,
        target_scale=target.scale,
        tie_tolerance=settings.tie_tolerance,
        predicts=predicts,
    )


def _metrics(fitted: Fitted, training: Examples, heldout: Examples) -> dict[str, float | int | None]:
    settings, target = fitted.settings, fitted.target
    held = _choice_metrics(fitted.policy, heldout, target, settings, predicts=predicts_gains(settings))
    return {
        "training_loss": fitted.training_loss,
        "training_row_count": len(training),
        "training_scene_count": len(training.present_scenes),
        "training_near_tie_coverage": near_tie_coverage(training, settings.tie_tolerance),
        "target_mean": target.mean,
        "target_scale": target.scale,
        **{f"heldout_{name}": value for name, value in held.to_json().items()},
    }
