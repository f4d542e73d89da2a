"""Choosing what the settings leave open, on inner folds of the training scenes; held-out scenes are never seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
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
from steersman.training.settings import LOSS_NAMES, FitSettings
from steersman.training.targets import normalise_targets, shaped_gains, shapes_of

__all__ = [
    "FOREST_LEAVES",
    "SEARCH_CORNERS",
    "SEARCH_ENSEMBLE",
    "SEARCH_STEPS",
    "TRIAL_TREES",
    "Decision",
    "Trial",
    "decide_settings",
    "standard_error",
]

_REGULARISED = {"inputs": "ranked", "learning_rate": 3e-3, "weight_decay": 1e-2}
SEARCH_CORNERS: tuple[Mapping[str, Any], ...] = (
    {"loss": "log", "hidden_dim": 32, **_REGULARISED},
    {"loss": "mixed", "hidden_dim": 32, **_REGULARISED},
    {"loss": "pairwise", "hidden_dim": 64, **_REGULARISED},
)
"""What a search compares with the network as given. They are few and far apart: among many the luckiest wins."""
SEARCH_STEPS = (50, 150)
"""Numbers of epochs that a search compares; one run passes through all of them."""
SEARCH_ENSEMBLE = 5
"""A network that was searched for is the mean of at least so many seeds, as what one seed gained may be luck."""
FOREST_LEAVES = (1, 2, 5)
"""Least numbers of rows in a leaf that a search compares."""
TRIAL_TREES = 100
"""A forest has at most so many trees on inner folds: enough to compare, a fraction of the time."""

_Visit = Callable[[int, NDArray[np.bool_], NDArray[np.float32]], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings in which nothing is left open, and what they came to on the inner folds."""

    settings: FitSettings
    regret: float  # mean, over all rows, each held out once; of a forest with at most TRIAL_TREES trees

    def to_json(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        return {"settings": self.settings.to_json(), "regret": self.regret}


@dataclass(frozen=True, slots=True)
class Decision:
    """Settings in which nothing is left open, and the trials that decided."""

    settings: FitSettings
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """A trial, and what it came to row by row."""

    trial: Trial
    regrets: NDArray[np.float64]  # [N]


def decide_settings(examples: Examples, settings: FitSettings, *, progress: Progress = quiet) -> Decision:
    """Return `settings` with learner, epochs and whatever else is to be chosen filled in.

    Trials are compared by their mean regret over inner folds by scene. A search takes the least; of equals the first,
    and the settings as given come first. `auto` takes the best forest unless the best network beats it by more than
    a standard error of their difference over scenes: the rule of one standard error (Breiman, Friedman, Olshen, Stone
    1984, section 3.4.3), in favour of the learner that varies less from sample to sample. Raises InvalidInputError
    with fewer than two training scenes, FitError.
    """
    if settings.learner == "forest" and settings.early_stopping:
        raise InvalidInputError("early_stopping: expected the learner mlp or auto, as a forest has no epochs")
    if not (settings.search or settings.early_stopping or settings.learner == "auto"):
        return Decision(settings)
    folds = inner_folds(examples, seed=settings.seed)
    plain = replace(settings, search=False, early_stopping=False)
    if settings.early_stopping and settings.learner != "auto":
        return Decision(replace(plain, epochs=_best_epochs(examples, plain, folds, progress)))
    networks: list[_Measured] = []
    forests: list[_Measured] = []
    if settings.learner in ("mlp", "auto"):
        networks = _try_networks(examples, settings, replace(plain, learner="mlp"), folds, progress)
    if settings.learner in ("forest", "auto"):
        candidates = _forest_candidates(replace(plain, learner="forest"), search=settings.search)
        for index, candidate in enumerate(candidates):
            progress(ProgressEvent("forests on inner folds", index, len(candidates)))
            forests.append(_measure(examples, candidate, _forest_values(examples, candidate, folds)))
    best = _steadier(examples, forests, networks)
    if settings.search and best.learner == "mlp":
        best = replace(best, ensemble=max(best.ensemble, SEARCH_ENSEMBLE))
    return Decision(best, tuple(measured.trial for measured in (*networks, *forests)))


def _try_networks(
    examples: Examples,
    settings: FitSettings,
    given: FitSettings,
    folds: NDArray[np.int64],
    progress: Progress,
) -> list[_Measured]:
    """Return the trials of the network as given, first, and of others."""
    if settings.early_stopping:
        given = replace(given, epochs=_best_epochs(examples, given, folds, progress))
    candidates = [given, *_other_networks(given, settings)]
    found: list[_Measured] = []
    for index, candidate in enumerate(candidates):
        progress(ProgressEvent("networks on inner folds", index, len(candidates)))
        steps = {candidate.epochs, *SEARCH_STEPS} if settings.search else {candidate.epochs}
        try:
            found += _mlp_trials(examples, candidate, steps, folds)
        except DeviceUnavailableError:
            raise
        except FitError:
            if candidate == given:  # others that diverge are out of the race; what was asked for is not
                raise
    return found


def _steadier(examples: Examples, forests: list[_Measured], networks: list[_Measured]) -> FitSettings:
    """Return the settings of the best forest, or of the best network where that is better beyond doubt."""
    best = [min(found, key=lambda measured: measured.trial.regret) for found in (forests, networks) if found]
    if len(best) == 1:
        return best[0].trial.settings
    forest, network = best
    gained = forest.regrets - network.regrets
    certain = float(gained.mean()) > standard_error(gained, examples.scenes)
    return (network if certain else forest).trial.settings


def standard_error(differences: NDArray[np.float64], scenes: NDArray[np.int64]) -> float:
    """Return the standard error of the mean of `differences` [N], rows of one of `scenes` [N] taken together.

    The cluster-robust estimate for a mean: with e the sums of deviations by scene, sqrt(sum(e²) · S / (S - 1)) / N
    over S scenes (Liang, Zeger 1986). Infinite for one scene.
    """
    _, index = np.unique(scenes, return_inverse=True)
    sums = np.bincount(index, weights=differences - differences.mean())
    if len(sums) < 2:
        return math.inf
    return float(np.sqrt(np.square(sums).sum() * len(sums) / (len(sums) - 1)) / len(differences))


def _other_networks(given: FitSettings, settings: FitSettings) -> list[FitSettings]:
    """Return what to compare with the network as given: corners in a search, else the one that differs the most."""
    if settings.search:
        return [
            corner for corner in (replace(given, **changes) for changes in SEARCH_CORNERS) if corner != given
        ]
    tailed = replace(given, loss="mixed", inputs="ranked")
    return [tailed] if settings.learner == "auto" and tailed != given else []


def _forest_candidates(given: FitSettings, *, search: bool) -> list[FitSettings]:
    """Return forests with every loss and leaf in a search, else the loss that serves gains of any scale."""
    losses = dict.fromkeys((given.loss, *LOSS_NAMES)) if search else ("mixed",)
    leaves = FOREST_LEAVES if search else (given.min_leaf,)
    return [replace(given, loss=loss, min_leaf=leaf) for loss, leaf in product(losses, leaves)]


def _mlp_trials(
    examples: Examples, candidate: FitSettings, steps: set[int], folds: NDArray[np.int64]
) -> list[_Measured]:
    """Return one trial for each number of epochs in `steps`, all from one run; that of the candidate first."""
    values = {step: np.zeros(examples.gains.shape) for step in steps}

    def add(step: int, held_out: NDArray[np.bool_], outputs: NDArray[np.float32]) -> None:
        values[step][held_out] += outputs

    run = replace(candidate, epochs=max(steps))
    for shape, member in product(shapes_of(run.loss), range(run.ensemble)):
        _walk(examples, replace(run, seed=run.seed + member), shape, folds, steps=steps, visit=add)
    ordered = sorted(steps, key=lambda step: (step != candidate.epochs, step))
    return [_measure(examples, replace(candidate, epochs=step), values[step]) for step in ordered]


def _forest_values(
    examples: Examples, settings: FitSettings, folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of each row by a forest grown without its fold, of few trees: [N, A]."""
    quick = replace(settings, trees=min(settings.trees, TRIAL_TREES))
    values = np.zeros(examples.gains.shape)
    for fold in range(folds.max() + 1):
        held_out = folds == fold
        fitted = fit_decided(examples.take(~held_out), quick)
        values[held_out] = fitted.policy.batch_values(examples.features[held_out])
    return values


def _measure(examples: Examples, settings: FitSettings, values: NDArray[np.float64]) -> _Measured:
    lost = regrets(examples.gains, examples.feasible, choices(values, examples.feasible))
    return _Measured(Trial(settings, float(np.mean(lost))), lost)


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

    _walk(examples, settings, shape, folds, steps=range(settings.epochs + 1), visit=add)
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
    examples: Examples,
    settings: FitSettings,
    shape: str,
    folds: NDArray[np.int64],
    *,
    steps: Container[int],
    visit: _Visit,
) -> None:
    """Train beside each fold in turn, and call `visit` with the outputs on the fold after each of `steps`."""
    for fold in range(folds.max() + 1):
        _train_beside(examples, settings, shape, folds == fold, steps=steps, visit=visit)


def _train_beside(
    examples: Examples,
    settings: FitSettings,
    shape: str,
    held_out: NDArray[np.bool_],
    *,
    steps: Container[int],
    visit: _Visit,
) -> None:
    training = examples.take(~held_out)
    scaling = scale_features(training.features, training.schema, ranked=settings.inputs == "ranked")
    inputs = torch.from_numpy(scaling.normalise(examples.features[held_out])).to(find_device(settings.device))

    def look(step: int, loss: float, network: MlpNetwork) -> None:  # noqa: ARG001 - the form of a callback
        if step in steps:
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
