"""From examples and settings that are decided to a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidInputError
from steersman.policies.action_value import ActionValuePolicy, Layers
from steersman.policies.fitted import FittedPolicy
from steersman.policies.forest import ForestPolicy
from steersman.policies.inputs import FeatureScaling, input_count
from steersman.training.examples import Examples
from steersman.training.forest import train_forest
from steersman.training.losses import LOSSES
from steersman.training.metrics import squared_errors
from steersman.training.mlp import EpochCallback, MlpNetwork, TrainingArrays, fresh_layers, train_mlp
from steersman.training.normalise import TargetScaling, scale_features, scale_targets
from steersman.training.progress import Progress, ProgressEvent, quiet
from steersman.training.settings import FitSettings

__all__ = ["Fitted", "fit_decided", "predicts_gains", "training_arrays"]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A policy, and how its training went."""

    policy: FittedPolicy
    target: TargetScaling
    training_loss: float | None  # as the last step saw it; of a pairwise forest, which has none, None
    losses: tuple[float, ...]  # [epochs], the mean over an ensemble; empty for forests
    settings: FitSettings  # as decided


def predicts_gains(policy: FittedPolicy, settings: FitSettings) -> bool:
    """Return whether the values of `policy`, fitted with `settings`, estimate the normalised gains."""
    if isinstance(policy, ForestPolicy):
        return policy.mode == "regression"
    return LOSSES[settings.loss].predicts


def training_arrays(examples: Examples, scaling: FeatureScaling, target: TargetScaling) -> TrainingArrays:
    """Return what a network is trained on."""
    targets = np.where(examples.feasible, (examples.gains - target.mean) / target.scale, 0.0)
    return TrainingArrays(scaling.normalise(examples.features), targets.astype(np.float32), examples.feasible)


def fit_decided(
    examples: Examples,
    settings: FitSettings,
    *,
    start: ActionValuePolicy | None = None,
    progress: Progress = quiet,
    stage: str = "fit",
) -> Fitted:
    """Fit with settings in which nothing is left to choose: `learner` is mlp or forest.

    `start` gives the weights to continue from. Raises InvalidInputError, FitError.
    """
    target = scale_targets(examples.gains, examples.feasible)
    if settings.learner == "mlp":
        return _fit_mlp(examples, settings, target, start=start, progress=progress, stage=stage)
    if start is not None:
        raise InvalidInputError(
            "init_policy: expected the learner mlp, as a forest does not continue from weights"
        )
    progress(ProgressEvent(stage, 0, 1))
    policy = train_forest(
        examples,
        target,
        loss=settings.loss,
        trees=settings.trees,
        min_leaf=settings.min_leaf,
        seed=settings.seed,
    )
    progress(ProgressEvent(stage, 1, 1))
    loss = _training_error(policy, examples, target) if predicts_gains(policy, settings) else None
    return Fitted(policy, target, loss, (), settings)


def _fit_mlp(
    examples: Examples,
    settings: FitSettings,
    target: TargetScaling,
    *,
    start: ActionValuePolicy | None,
    progress: Progress,
    stage: str,
) -> Fitted:
    scaling = scale_features(examples.features, examples.schema)
    arrays = training_arrays(examples, scaling, target)
    members: list[Layers] = []
    losses = np.zeros(settings.epochs)
    for member in range(settings.ensemble):
        trained = train_mlp(
            arrays,
            _opening_layers(examples, settings, start, settings.seed + member),
            epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            loss=settings.loss,
            device=settings.device,
            on_epoch=_telling(progress, stage, member, settings),
        )
        members.append(trained.layers)
        losses += np.array(trained.losses) / settings.ensemble
    policy = ActionValuePolicy(examples.catalogue, examples.schema, scaling, _mean_of(members))
    return Fitted(policy, target, float(losses[-1]), tuple(losses.tolist()), settings)


def _opening_layers(
    examples: Examples, settings: FitSettings, start: ActionValuePolicy | None, seed: int
) -> Layers:
    if start is None:
        inputs, actions = input_count(examples.schema), len(examples.catalogue)
        return fresh_layers(inputs, settings.hidden_dim, actions, seed=seed)
    for what, expected, got in (
        ("actions", examples.catalogue.ids, start.catalogue.ids),
        ("feature schema", examples.schema.to_json(), start.schema.to_json()),
        ("hidden_dim", settings.hidden_dim, start.hidden_dim),
    ):
        if expected != got:
            raise InvalidInputError(f"init_policy: expected the {what} {expected}, got {got}")
    return start.layers


def _mean_of(members: list[Layers]) -> Layers:
    """Return one network that computes the mean of several: their hidden units side by side, outputs shared out."""
    if len(members) == 1:
        return members[0]
    share = np.float32(1.0 / len(members))
    bias: NDArray[np.float32] = np.mean([member.output_bias for member in members], axis=0, dtype=np.float64)
    return Layers(
        np.concatenate([member.hidden_weight for member in members]),
        np.concatenate([member.hidden_bias for member in members]),
        np.concatenate([member.output_weight * share for member in members], axis=1),
        bias.astype(np.float32),
    )


def _telling(progress: Progress, stage: str, member: int, settings: FitSettings) -> EpochCallback:
    total = settings.epochs * settings.ensemble

    def tell(epoch: int, loss: float, network: MlpNetwork) -> None:  # noqa: ARG001 - the form of a callback
        progress(ProgressEvent(stage, member * settings.epochs + epoch + 1, total, loss))

    return tell


def _training_error(policy: FittedPolicy, examples: Examples, target: TargetScaling) -> float:
    targets = (examples.gains - target.mean) / target.scale
    return float(np.mean(squared_errors(policy.batch_values(examples.features), targets, examples.feasible)))
