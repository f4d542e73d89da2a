"""From examples and settings that are decided to a policy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidInputError
from steersman.policies.action_value import ActionValuePolicy, Layers
from steersman.policies.fitted import FittedPolicy
from steersman.policies.inputs import FeatureScaling, input_count
from steersman.training.examples import Examples
from steersman.training.forest import train_forest
from steersman.training.metrics import squared_errors
from steersman.training.mlp import (
    EpochCallback,
    MlpNetwork,
    TrainedLayers,
    TrainingArrays,
    fresh_layers,
    train_mlp,
)
from steersman.training.normalise import TargetScaling, scale_features, scale_targets
from steersman.training.progress import Progress, ProgressEvent, quiet
from steersman.training.settings import FitSettings
from steersman.training.targets import normalise_targets, shaped_gains, shapes_of

__all__ = ["Fitted", "fit_decided", "opening_layers", "predicts_gains", "train_member"]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A policy, and how its training went."""

    policy: FittedPolicy
    target: TargetScaling
    training_loss: float | None  # as the last step saw it; None of a forest that estimates no gains
    losses: tuple[float, ...]  # [epochs], the mean over all networks; empty for forests
    settings: FitSettings  # as decided


def predicts_gains(settings: FitSettings) -> bool:
    """Return whether values fitted with `settings` estimate the normalised gains."""
    return settings.loss == "squared"


def opening_layers(examples: Examples, settings: FitSettings, *, seed: int) -> Layers:
    """Return the weights that a network begins with."""
    inputs = input_count(examples.schema, ranked=settings.inputs == "ranked")
    return fresh_layers(inputs, settings.hidden_dim, len(examples.catalogue), seed=seed)


def train_member(
    examples: Examples,
    scaling: FeatureScaling,
    settings: FitSettings,
    *,
    shape: str,
    start: Layers,
    on_epoch: EpochCallback | None = None,
) -> TrainedLayers:
    """Return `start` trained on the gains of `examples` in one `shape`. Raises FitError."""
    shaped = shaped_gains(examples, shape)
    targets = normalise_targets(shaped, examples.feasible, scale_targets(shaped, examples.feasible))
    return train_mlp(
        TrainingArrays(scaling.normalise(examples.features), targets.astype(np.float32), examples.feasible),
        start,
        epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        loss="pairwise" if settings.loss == "pairwise" else "squared",
        device=settings.device,
        on_epoch=on_epoch,
    )


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
        loss=settings.loss,
        trees=settings.trees,
        min_leaf=settings.min_leaf,
        seed=settings.seed,
    )
    progress(ProgressEvent(stage, 1, 1))
    loss = _training_error(policy, examples, target) if predicts_gains(settings) else None
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
    scaling = scale_features(examples.features, examples.schema, ranked=settings.inputs == "ranked")
    shapes = shapes_of(settings.loss)
    count = settings.ensemble * len(shapes)
    members: list[Layers] = []
    losses = np.zeros(settings.epochs)
    for shape, member in product(shapes, range(settings.ensemble)):
        trained = train_member(
            examples,
            scaling,
            settings,
            shape=shape,
            start=_starting_layers(examples, settings, start, settings.seed + member),
            on_epoch=_telling(progress, stage, len(members) * settings.epochs, count * settings.epochs),
        )
        members.append(trained.layers)
        losses += np.array(trained.losses) / count
    policy = ActionValuePolicy(examples.catalogue, examples.schema, scaling, _mean_of(members))
    return Fitted(policy, target, float(losses[-1]), tuple(losses.tolist()), settings)


def _starting_layers(
    examples: Examples, settings: FitSettings, start: ActionValuePolicy | None, seed: int
) -> Layers:
    if start is None:
        return opening_layers(examples, settings, seed=seed)
    for what, expected, got in (
        ("actions", examples.catalogue.ids, start.catalogue.ids),
        ("feature schema", examples.schema.to_json(), start.schema.to_json()),
        ("hidden_dim", settings.hidden_dim, start.hidden_dim),
        ("inputs", settings.inputs, start.config()["inputs"]),
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


def _telling(progress: Progress, stage: str, before: int, total: int) -> EpochCallback:
    def tell(epoch: int, loss: float, network: MlpNetwork) -> None:  # noqa: ARG001 - the form of a callback
        progress(ProgressEvent(stage, before + epoch + 1, total, loss))

    return tell


def _training_error(policy: FittedPolicy, examples: Examples, target: TargetScaling) -> float:
    targets = (examples.gains - target.mean) / target.scale
    return float(np.mean(squared_errors(policy.batch_values(examples.features), targets, examples.feasible)))
