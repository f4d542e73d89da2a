"""Choosing what the settings leave open, on inner folds of the training scenes; held-out scenes are never seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from steersman.errors import DeviceUnavailableError, FitError, InvalidInputError
from steersman.training.examples import Examples
from steersman.training.folds import inner_folds
from steersman.training.learners import fit_decided, opening_layers, train_member
from steersman.training.losses import LOSSES
from steersman.training.metrics import choices, regrets
from steersman.training.mlp import MlpNetwork, find_device
from steersman.training.normalise import scale_features, scale_targets
from steersman.training.progress import Progress, ProgressEvent, quiet
from steersman.training.settings import INPUTS, LOSS_NAMES, FitSettings
from steersman.training.targets import normalise_targets, shaped_gains, shapes_of

__all__ = [
    "FOREST_LEAVES",
    "SEARCH_SPACE",
    "SEARCH_STEPS",
    "SEARCH_TRIALS",
    "Decision",
    "Trial",
    "decide_settings",
]

SEARCH_SPACE: dict[str, tuple[Any, ...]] = {
    "hidden_dim": (16, 32, 64),
    "learning_rate": (1e-3, 3e-3, 1e-2),
    "weight_decay": (0.0, 1e-3, 1e-2),
    "loss": LOSS_NAMES,
    "inputs": INPUTS,
}
SEARCH_STEPS = (25, 50, 100, 200, 400)
"""Numbers of epochs that a search compares; one run passes through all of them."""
SEARCH_TRIALS = 16
"""How many corners of the space are tried, beside the settings as given."""
FOREST_LEAVES = (1, 2, 5)
"""Least numbers of rows in a leaf that a search compares."""

_Visit = Callable[[int, NDArray[np.bool_], NDArray[np.float32]], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings in which nothing is left open, and what they came to on the inner folds."""

    settings: FitSettings
    regret: float  # mean, over all rows, each held out once

    def to_json(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        return {"settings": self.settings.to_json(), "regret": self.regret}


@dataclass(frozen=True, slots=True)
class Decision:
    """Settings in which nothing is left open, and the trials that decided."""

    settings: FitSettings
    trials: tuple[Trial, ...] = ()


def decide_settings(examples: Examples, settings: FitSettings, *, progress: Progress = quiet) -> Decision:
    """Return `settings` with learner, epochs and whatever else is to be chosen filled in.

    Trials are compared by their mean regret over inner folds by scene; of equals the first is taken, and the
    settings as given come first. Raises InvalidInputError with fewer than two training scenes, FitError.
    """
    if settings.learner == "forest" and settings.early_stopping:
        raise InvalidInputError("early_stopping: expected the learner mlp or auto, as a forest has no epochs")
    if not (settings.search or settings.early_stopping or settings.learner == "auto"):
        return Decision(settings)
    folds = inner_folds(examples, seed=settings.seed)
    plain = replace(settings, search=False, early_stopping=False)
    if settings.early_stopping and settings.learner != "auto":
        return Decision(replace(plain, epochs=_best_epochs(examples, plain, folds, progress)))
    trials: list[Trial] = []
    if settings.learner in ("mlp", "auto"):
        given = replace(plain, learner="mlp")
        if settings.early_stopping:
            given = replace(given, epochs=_best_epochs(examples, given, folds, progress))
        candidates = [given, *_other_networks(given, settings)]
        for index, candidate in enumerate(candidates):
            progress(ProgressEvent("networks on inner folds", index, len(candidates)))
            steps = {candidate.epochs, *(SEARCH_STEPS if settings.search else ())}
            try:
                trials += _mlp_trials(examples, candidate, steps, folds)
            except DeviceUnavailableError:
                raise
            except FitError:
                if candidate == given:  # corners that diverge are out of the race; what was asked for is not
                    raise
    if settings.learner in ("forest", "auto"):
        candidates = _forest_candidates(replace(plain, learner="forest"), search=settings.search)
        for index, candidate in enumerate(candidates):
            progress(ProgressEvent("forests on inner folds", index, len(candidates)))
            trials.append(Trial(candidate, _forest_regret(examples, candidate, folds)))
    best = min(trials, key=lambda trial: trial.regret)
    return Decision(best.settings, tuple(trials))


def _other_networks(given: FitSettings, settings: FitSettings) -> list[FitSettings]:
    """Return what to compare with the network as given: corners in a search, else the one that differs the most."""
    if settings.search:
        return _corners(given)
    tailed = replace(given, loss="mixed", inputs="ranked")
    return [tailed] if settings.learner == "auto" and tailed != given else []


def _corners(given: FitSettings) -> list[FitSettings]:
    """Return corners of the search space other than `given`, drawn without repetition."""
    corners = list(product(*SEARCH_SPACE.values()))
    order = np.random.default_rng(given.seed).permutation(len(corners))
    found = [replace(given, **dict(zip(SEARCH_SPACE, corners[index], strict=True))) for index in order]
    return [candidate for candidate in found if candidate != given][:SEARCH_TRIALS]


def _forest_candidates(given: FitSettings, *, search: bool) -> list[FitSettings]:
    """Return the loss as given and others; without a search, those that differ the most."""
    others = LOSS_NAMES if search else ("mixed", "pairwise")
    losses = dict.fromkeys((given.loss, *others))
    leaves = FOREST_LEAVES if search else (given.min_leaf,)
    return [replace(given, loss=loss, min_leaf=leaf) for loss, leaf in product(losses, leaves)]


def _mlp_trials(
    examples: Examples, candidate: FitSettings, steps: set[int], folds: NDArray[np.int64]
) -> list[Trial]:
    """Return one trial for each number of epochs in `steps`, all from one run; that of the candidate first."""
    values = {step: np.zeros(examples.gains.shape) for step in steps}

    def add(step: int, held_out: NDArray[np.bool_], outputs: NDArray[np.float32]) -> None:
        if step in values:
            values[step][held_out] += outputs

    run = replace(candidate, epochs=max(steps))
    for shape, member in product(shapes_of(run.loss), range(run.ensemble)):
        _walk(examples, replace(run, seed=run.seed + member), shape, folds, add)
    ordered = sorted(steps, key=lambda step: (step != candidate.epochs, step))
    return [Trial(replace(candidate, epochs=step), _mean_regret(examples, values[step])) for step in ordered]


def _forest_regret(examples: Examples, settings: FitSettings, folds: NDArray[np.int64]) -> float:
    values = np.zeros(examples.gains.shape)
    for fold in range(folds.max() + 1):
        held_out = folds == fold
        fitted = fit_decided(examples.take(~held_out), settings)
        values[held_out] = fitted.policy.batch_values(examples.features[held_out])
    return _mean_regret(examples, values)


def _best_epochs(
    examples: Examples, settings: FitSettings, folds: NDArray[np.int64], progress: Progress
) -> int:
    """Return after how many epochs, at most `settings.epochs`, the loss on rows held out is least."""
    shapes = shapes_of(settings.loss)
    losses = np.zeros(settings.epochs + 1)
    for number, shape in enumerate(shapes):

        def tell(share: float, loss: float, before: int = number) -> None:
            done = round((before + share) * 100)
            progress(ProgressEvent("early stopping", done, 100 * len(shapes), loss))

        losses += _held_out_losses(examples, settings, shape, folds, tell)
    losses[0] = np.inf  # a network that took no step is no candidate
    return int(np.argmin(losses))


def _held_out_losses(
    examples: Examples,
    settings: FitSettings,
    shape: str,
    folds: NDArray[np.int64],
    tell: Callable[[float, float], None],
) -> NDArray[np.float64]:
    """Return the summed loss on rows held out after 0 .. epochs steps: [epochs + 1]."""
    kind = LOSSES["pairwise" if settings.loss == "pairwise" else "squared"]
    count = int(folds.max()) + 1
    aims = [_held_out_targets(examples, shape, folds == fold) for fold in range(count)]
    losses = np.zeros(settings.epochs + 1)

    def add(step: int, held_out: NDArray[np.bool_], outputs: NDArray[np.float32]) -> None:
        fold = int(folds[np.argmax(held_out)])
        targets, weights = aims[fold]
        loss = float(kind.over_rows(torch.from_numpy(outputs), targets, weights))
        losses[step] += loss
        tell((fold + step / settings.epochs) / count, loss / len(outputs))

    _walk(examples, settings, shape, folds, add)
    return losses


def _held_out_targets(
    examples: Examples, shape: str, held_out: NDArray[np.bool_]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return targets and weights of held-out rows, normalised as the rows trained on are."""
    training, rest = examples.take(~held_out), examples.take(held_out)
    scaling = scale_targets(shaped_gains(training, shape), training.feasible)
    targets = normalise_targets(shaped_gains(rest, shape), rest.feasible, scaling).astype(np.float32)
    return torch.from_numpy(targets), torch.from_numpy(rest.feasible.astype(np.float32))


def _walk(
    examples: Examples, settings: FitSettings, shape: str, folds: NDArray[np.int64], visit: _Visit
) -> None:
    """Train beside each fold in turn, and call `visit` with the outputs on the fold after 0 .. epochs steps."""
    for fold in range(folds.max() + 1):
        _train_beside(examples, settings, shape, folds == fold, visit)


def _train_beside(
    examples: Examples, settings: FitSettings, shape: str, held_out: NDArray[np.bool_], visit: _Visit
) -> None:
    training = examples.take(~held_out)
    scaling = scale_features(training.features, training.schema, ranked=settings.inputs == "ranked")
    inputs = torch.from_numpy(scaling.normalise(examples.features[held_out])).to(find_device(settings.device))

    def look(step: int, loss: float, network: MlpNetwork) -> None:  # noqa: ARG001 - the form of a callback
        with torch.no_grad():
            visit(step, held_out, network(inputs).cpu().numpy())

    train_member(
        training,
        scaling,
        replace(settings, epochs=settings.epochs + 1),  # the network is looked at before each step
        shape=shape,
        start=opening_layers(examples, settings, seed=settings.seed),
        on_epoch=look,
    )


def _mean_regret(examples: Examples, values: NDArray[np.float64]) -> float:
    chosen = choices(values, examples.feasible)
    return float(np.mean(regrets(examples.gains, examples.feasible, chosen)))
