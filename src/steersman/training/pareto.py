"""What regret buys in costs: a sweep of cost weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steersman.errors import InvalidInputError
from steersman.training.baselines import Outcomes, rank_actions
from steersman.training.evidence import ORACLE, POLICY, outcomes_by_name
from steersman.training.examples import Examples
from steersman.training.fit import fit_examples
from steersman.training.progress import Progress, quiet
from steersman.training.settings import FitSettings

__all__ = [
    "ParetoLine",
    "ParetoPoint",
    "advise",
    "check_sweep",
    "default_weights",
    "join_equal",
    "mark_front",
    "sweep_costs",
]

_FACTORS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One way of choosing in the plane of held-out regret and mean cost."""

    name: str
    weight: float | None  # of the costs; None for what is not fitted
    regret: float  # mean, in advantages alone, however much costs weighed in the fit
    mean_cost: float
    on_front: bool = False  # nothing here has less of one and no more of the other

    def to_json(self) -> dict[str, Any]:
        """Return the point as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ParetoLine:
    """All points with the same regret and mean cost: one line of a table, one mark in a picture."""

    weights: str  # such as `0.5`, or `2 to 10` for weights that follow each other in the sweep; empty: no fit
    others: tuple[str, ...]  # names of what is not fitted: `always ID`, `oracle`
    regret: float
    mean_cost: float
    on_front: bool

    @property
    def label(self) -> str:
        """All that came to this."""
        return ", ".join([*([f"weight {self.weights}"] if self.weights else []), *self.others])


def default_weights(training: Examples) -> tuple[float, ...]:
    """Return 0 and weights around the one at which costs vary as much as advantages do.

    That one is the standard deviation of the advantages over that of the costs, of all feasible entries. Weights
    have three significant digits, so that what is shown of one is all of it. Raises InvalidInputError when the
    costs are all the same: there is nothing to trade.
    """
    gains, costs = training.gains[training.feasible], training.costs[training.feasible]
    if not costs.std() > 0.0:
        raise InvalidInputError("pareto: expected costs that differ, and all of them are equal")
    even = float(gains.std() / costs.std())
    return tuple(float(f"{factor * even:.3g}") for factor in _FACTORS)


def check_sweep(training: Examples, heldout: Examples) -> None:
    """Raise InvalidInputError where a sweep has nothing to trade, or nothing to compare on."""
    if not len(heldout):
        raise InvalidInputError("pareto: expected held-out scenes to compare on, and there are none")
    default_weights(training)


def sweep_costs(
    training: Examples, heldout: Examples, settings: FitSettings, *, progress: Progress = quiet
) -> tuple[ParetoPoint, ...]:
    """Return a fit for each weight, each fixed action and the oracle, by regret and mean cost on `heldout`.

    Both examples hold plain advantages as gains. Raises InvalidInputError without held-out rows or when costs
    are all the same, FitError.
    """
    check_sweep(training, heldout)
    weights = default_weights(training)
    points: list[ParetoPoint] = []
    ranking = rank_actions(training)
    named: dict[str, Outcomes] = {}
    for index, weight in enumerate(weights):
        stage = f"cost weight {index + 1} of {len(weights)}"
        fitted, _ = fit_examples(training.less_costs(weight), settings, progress=progress, stage=stage)
        named = outcomes_by_name(heldout, fitted.policy.batch_values(heldout.features), ranking)
        points.append(_point(f"weight {weight:g}", weight, named[POLICY]))
    points += [_point(name, None, found) for name, found in named.items() if name.startswith("fixed:")]
    points.append(_point(ORACLE, None, named[ORACLE]))
    return mark_front(points)


def mark_front(points: list[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Return `points` with `on_front` told; the oracle knows the outcome, so it keeps nobody off the front."""
    rivals = np.array([[point.regret, point.mean_cost] for point in points if point.name != ORACLE])
    marked: list[ParetoPoint] = []
    for point in points:
        here = np.array([point.regret, point.mean_cost])
        beaten = bool(((rivals <= here).all(axis=1) & (rivals < here).any(axis=1)).any())
        fair = point.name != ORACLE
        marked.append(
            ParetoPoint(point.name, point.weight, point.regret, point.mean_cost, fair and not beaten)
        )
    return tuple(marked)


def join_equal(points: Sequence[ParetoPoint]) -> tuple[ParetoLine, ...]:
    """Return `points` with equal ones as one line, in the order in which the first of each comes."""
    order = [point.weight for point in points if point.weight is not None]
    groups: dict[tuple[float, float], list[ParetoPoint]] = {}
    for point in points:
        groups.setdefault((point.regret, point.mean_cost), []).append(point)
    return tuple(
        ParetoLine(
            weights=_in_words(
                [order.index(point.weight) for point in group if point.weight is not None], order
            ),
            others=tuple(
                point.name.replace("fixed:", "always ", 1) for point in group if point.weight is None
            ),
            regret=regret,
            mean_cost=cost,
            on_front=any(point.on_front for point in group),
        )
        for (regret, cost), group in groups.items()
    )


def advise(points: Sequence[ParetoPoint]) -> str:
    """Return what a person can do with a sweep, in plain words."""
    fits = [point for point in points if point.weight is not None]
    plain = next(point for point in fits if point.weight == 0.0)
    better = [point for point in fits if point.regret < plain.regret and point.mean_cost < plain.mean_cost]
    if not better:
        return (
            "No weight has both less regret and less mean cost than 0. Fit with one of them by --cost-weight."
        )
    best = min(better, key=lambda point: point.regret)
    return (
        f"Weight {best.weight:g} has less regret and less mean cost than weight 0 ({best.regret:.5g} against "
        f"{plain.regret:.5g}, {best.mean_cost:.5g} against {plain.mean_cost:.5g}). Fit again with --cost-weight "
        f"{best.weight:g}, and judge that by --folds: the scenes that chose a weight flatter it."
    )


def _in_words(places: list[int], order: Sequence[float]) -> str:
    """Return the weights at ascending `places` of `order`, those that follow each other as `first to last`."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(
        f"{order[run[0]]:g}" if len(run) == 1 else f"{order[run[0]]:g} to {order[run[-1]]:g}" for run in runs
    )


def _point(name: str, weight: float | None, outcomes: Outcomes) -> ParetoPoint:
    return ParetoPoint(name, weight, float(outcomes.regrets.mean()), float(outcomes.costs.mean()))
