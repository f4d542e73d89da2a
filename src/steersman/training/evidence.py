"""Whether a policy is worth using: held-out regret beside that of simple ways of choosing, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.training.baselines import (
    Outcomes,
    Ranking,
    outcomes_of_choices,
    outcomes_of_uniform,
)
from steersman.training.examples import Examples
from steersman.training.intervals import BOOTSTRAP_DRAWS, Interval, ratio_intervals
from steersman.training.metrics import choices

__all__ = [
    "BEST_FIXED",
    "MIN_SCENES",
    "ORACLE",
    "POLICY",
    "UNIFORM",
    "Evidence",
    "Judged",
    "join_outcomes",
    "judge",
    "outcomes_by_name",
]

MIN_SCENES = 8  # below it, a bootstrap over scenes promises more than it can hold
POLICY, UNIFORM, ORACLE, BEST_FIXED = "policy", "uniform random", "oracle", "best fixed"
_DIFFERENCE, _GAP = "difference", "gap closed"


@dataclass(frozen=True, slots=True)
class Judged:
    """One way of choosing on the held-out rows."""

    name: str
    regret: float  # mean
    interval: Interval | None  # of the mean; None with too few scenes
    mean_cost: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """The policy beside what it must beat, on rows of scenes that it was not fitted to.

    The best fixed action is the one that the training rows rank first, as that is what could be played instead;
    `hindsight` names the fixed action that the held-out rows themselves would have chosen.
    """

    row_count: int
    scene_count: int
    policy: Judged
    fixed: tuple[Judged, ...]  # [A], by action id in catalogue order
    uniform: Judged
    oracle: Judged
    best_fixed: Judged
    hindsight: Judged
    gap_closed: float | None  # 1 - regret / regret of the best fixed; None when that is 0
    gap_closed_interval: Interval | None
    difference: float  # regret of the policy less that of the best fixed
    difference_interval: Interval | None
    verdict: str  # better, worse, not shown, too few scenes, known scenes
    known_scenes: int | None = 0  # how many of the scenes the policy had learned from; None: nobody knows

    @property
    def sentence(self) -> str:
        """The verdict in plain words."""
        fixed = f"always playing {self.best_fixed.name}"
        if self.verdict == "known scenes":
            if self.known_scenes is None:
                return (
                    "The policy that the fit continued from does not say which scenes it was trained on, so the "
                    "held-out ones say nothing for it: continue from one that says so, or fit anew."
                )
            return (
                f"{self.known_scenes} of the held-out scenes trained the policy that the fit continued from, or one "
                f"before it, so they say nothing for it: hold out scenes that it does not know."
            )
        if self.verdict == "too few scenes":
            return (
                f"Too few scenes: {self.scene_count} held out, and at least {MIN_SCENES} are needed to say with "
                f"confidence whether the policy is better than {fixed}."
            )
        return {
            "better": f"The policy is better than {fixed}, with confidence.",
            "worse": f"The policy is worse than {fixed}, with confidence: do not use it.",
            "not shown": f"The policy is not better than {fixed} with confidence.",
        }[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON."""
        return asdict(self) | {"sentence": self.sentence}


def outcomes_by_name(
    examples: Examples, values: NDArray[np.float64], ranking: Ranking
) -> dict[str, Outcomes]:
    """Return what each way of choosing comes to on `examples`, by name.

    `values`: [N, A], those of the policy. Fixed actions are named `fixed:ID`.
    """
    feasible = examples.feasible
    named = {
        POLICY: outcomes_of_choices(examples, choices(values, feasible)),
        UNIFORM: outcomes_of_uniform(examples),
        ORACLE: outcomes_of_choices(examples, choices(examples.gains, feasible)),
        BEST_FIXED: outcomes_of_choices(examples, ranking.choose(feasible, ranking.best)),
    }
    for position, action in enumerate(examples.catalogue.ids):
        named[f"fixed:{action}"] = outcomes_of_choices(examples, ranking.choose(feasible, position))
    return named


def join_outcomes(parts: list[dict[str, Outcomes]]) -> dict[str, Outcomes]:
    """Return the outcomes of several disjoint sets of rows as those of one."""
    return {
        name: Outcomes(
            np.concatenate([part[name].regrets for part in parts]),
            np.concatenate([part[name].costs for part in parts]),
        )
        for name in parts[0]
    }


def judge(
    outcomes: Mapping[str, Outcomes],
    scenes: NDArray[np.int64],
    *,
    best_fixed: str,
    seed: int,
    known_scenes: int | None = 0,
) -> Evidence:
    """Return the evidence of `outcomes` by name over rows of `scenes` ([N]).

    `best_fixed` is how to call the best fixed action. The intervals are those of `ratio_intervals` with a
    generator of `seed`, within the bounds of what they are of. Where the policy had learned from some of the
    scenes (`known_scenes`, None where that is not known), there is no verdict for it or against it.
    """
    names = list(outcomes)
    columns = np.stack([outcomes[name].regrets for name in names], axis=1)
    means = dict(zip(names, columns.mean(axis=0).tolist(), strict=True))
    scene_count = len(np.unique(scenes))
    intervals: dict[str, Interval] = {}
    if scene_count >= MIN_SCENES:
        intervals = _intervals(dict(zip(names, columns.T, strict=True)), scenes, seed=seed)

    def judged(name: str, shown: str) -> Judged:
        return Judged(shown, means[name], intervals.get(name), float(outcomes[name].costs.mean()))

    fixed = tuple(judged(name, name.removeprefix("fixed:")) for name in names if name.startswith("fixed:"))
    difference, gap = _compare(means[POLICY], means[BEST_FIXED])
    difference_interval = intervals.get(_DIFFERENCE)
    verdict = "too few scenes" if difference_interval is None else _verdict(difference_interval)
    return Evidence(
        row_count=len(scenes),
        scene_count=scene_count,
        policy=judged(POLICY, POLICY),
        fixed=fixed,
        uniform=judged(UNIFORM, UNIFORM),
        oracle=judged(ORACLE, ORACLE),
        best_fixed=judged(BEST_FIXED, best_fixed),
        hindsight=min(fixed, key=lambda item: item.regret),
        gap_closed=gap,
        gap_closed_interval=intervals.get(_GAP),
        difference=difference,
        difference_interval=difference_interval,
        verdict=verdict if known_scenes == 0 else "known scenes",
        known_scenes=known_scenes,
    )


def _compare(policy: float, fixed: float) -> tuple[float, float | None]:
    return policy - fixed, 1.0 - policy / fixed if fixed > 0.0 else None


def _intervals(
    regrets: Mapping[str, NDArray[np.float64]], scenes: NDArray[np.int64], *, seed: int
) -> dict[str, Interval]:
    """Return the interval of each mean of `regrets` ([N] each), of the difference, and of the gap closed if any."""
    _, index = np.unique(scenes, return_inverse=True)
    rows: NDArray[np.float64] = np.bincount(index).astype(np.float64)  # [S], as are the next
    sums: dict[str, NDArray[np.float64]] = {
        name: np.bincount(index, weights=column).astype(np.float64) for name, column in regrets.items()
    }
    tops, bottoms = dict(sums), dict.fromkeys([*sums, _DIFFERENCE], rows)
    tops[_DIFFERENCE] = sums[POLICY] - sums[BEST_FIXED]
    if sums[BEST_FIXED].sum() > 0.0:
        tops[_GAP], bottoms[_GAP] = -tops[_DIFFERENCE], sums[BEST_FIXED]
    intervals = ratio_intervals(
        np.stack(list(tops.values()), axis=1),
        np.stack(list(bottoms.values()), axis=1),
        draws=BOOTSTRAP_DRAWS,
        generator=np.random.default_rng(seed),
    )
    found = dict(zip(tops, intervals, strict=True))
    for name in sums:  # regrets are at least 0
        found[name] = Interval(max(found[name].low, 0.0), found[name].high)
    if _GAP in found:
        found[_GAP] = Interval(found[_GAP].low, min(found[_GAP].high, 1.0))
    return found


def _verdict(difference: Interval) -> str:
    if difference.high < 0.0:
        return "better"
    return "worse" if difference.low > 0.0 else "not shown"
