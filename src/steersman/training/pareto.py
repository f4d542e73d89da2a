"""What regret buys in costs: a sweep of cost weights."""

from __future__ import annotations

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

__all__ = ["ParetoPoint", "check_sweep", "default_weights", "mark_front", "sweep_costs"]

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


def default_weights(training: Examples) -> tuple[float, ...]:
    """Return 0 and weights around the one at which costs vary as much as advantages do.

    Raises InvalidInputError when the costs are all the same: there is nothing to trade.
    """
    gains, costs = training.gains[training.feasible], training.costs[training.feasible]
    if not costs.std() > 0.0:
        raise InvalidInputError("pareto: expected costs that differ, and all of them are equal")
    even = float(gains.std() / costs.std())
    return tuple(factor * even for factor in _FACTORS)


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
        points.append(_point(f"weight {weight:.4g}", weight, named[POLICY]))
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


def _point(name: str, weight: float | None, outcomes: Outcomes) -> ParetoPoint:
    return ParetoPoint(name, weight, float(outcomes.regrets.mean()), float(outcomes.costs.mean()))
