"""What is to be chosen in the benchmark of algorithm selection, and how a choice is scored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from steersman.integrations.aslib.rows import convert_scenario
from steersman.integrations.aslib.scenario import FAILURE_FACTOR, Scenario, read_scenario
from steersman.teacher.dataset import TeacherDataset, load_teacher_dataset
from steersman.training.examples import Examples
from steersman.training.fit import examples_of
from steersman.training.folds import scene_folds

__all__ = ["KINDS", "Score", "Task", "find_scenarios", "load_task", "score", "single_best"]

KINDS = ("official", "family")
_FOLDS = 10
_SEED = 0
_DRAWS = 2000
_LEVEL = (2.5, 97.5)  # percent: an interval of 95 %


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """N instances and A algorithms of one scenario, and the fold that each instance is held out in."""

    scenario: str
    kind: str  # official folds, or whole families
    examples: Examples  # scenes are official folds or families
    losses: NDArray[np.float64]  # [N, A] PAR10, seconds
    feature_costs: NDArray[np.float64]  # [N] seconds
    solved: NDArray[np.bool_]  # [N], some algorithm was ok
    cutoff: float  # seconds
    folds: NDArray[np.int64]  # [N]
    dataset_hash: str

    @property
    def name(self) -> str:
        """The scenario and the kind of folds."""
        return f"{self.scenario} {self.kind}"

    @property
    def fold_numbers(self) -> tuple[int, ...]:
        """The folds, ascending."""
        return tuple(np.unique(self.folds).tolist())


@dataclass(frozen=True, slots=True)
class Score:
    """0 is the oracle, 1 the single best algorithm."""

    npar10: float
    low: float  # of the 95 % interval
    high: float

    @property
    def is_worse_than_single_best(self) -> bool:
        """Whether the interval lies above 1."""
        return self.low > 1.0


def find_scenarios(data: Path) -> tuple[str, ...]:
    """Return the names of the scenario folders in `data`, sorted."""
    return tuple(sorted(path.parent.name for path in data.glob("*/description.txt")))


def load_task(data: Path, scenario: str, kind: str) -> Task:
    """Convert a scenario to teacher rows and read those, as anyone would who fits to them."""
    folder = data / scenario
    with TemporaryDirectory(prefix="steersman-aslib-") as made:
        families = data / "families.csv" if kind == "family" else None
        dataset = load_teacher_dataset(
            [convert_scenario(folder, Path(made) / "rows", families=families).output]
        )
    return _task(read_scenario(folder), dataset, kind)


def _task(scenario: Scenario, dataset: TeacherDataset, kind: str) -> Task:
    cutoff = scenario.description.cutoff
    if dataset.row_ids != scenario.instances or cutoff is None:
        raise RuntimeError(f"{scenario.description.scenario_id}: expected runtimes, a row for each instance")
    examples = examples_of(dataset)
    folds = scenario.folds
    if kind == "family":
        folds = scene_folds(examples, min(_FOLDS, len(examples.present_scenes)), seed=_SEED)
    return Task(
        scenario=scenario.description.scenario_id,
        kind=kind,
        examples=examples,
        losses=scenario.losses,
        feature_costs=scenario.feature_costs,
        solved=scenario.solved,
        cutoff=cutoff,
        folds=folds,
        dataset_hash=dataset.dataset_hash,
    )


def single_best(task: Task) -> NDArray[np.int64]:
    """Return the single best algorithm for each instance: [N] int64.

    On official folds it is the best in hindsight, over the instances that are scored, as usual in the literature;
    on family folds, where that would know the families held out, the best of the rows trained on.
    """
    if task.kind == "official":
        best = int(task.losses[task.solved].mean(axis=0).argmin())
        return np.full(len(task.losses), best, dtype=np.int64)
    found = np.zeros(len(task.losses), dtype=np.int64)
    for fold in task.fold_numbers:
        held_out = task.folds == fold
        found[held_out] = task.losses[~held_out].mean(axis=0).argmin()
    return found


def score(task: Task, chosen: NDArray[np.int64]) -> Score:
    """Return nPAR10 = (policy - oracle) / (single best - oracle) of the algorithms `chosen` [N], with an interval.

    The three are means of PAR10 over all instances that someone solves, each held out once. The policy pays for the
    features, and fails where these and the run together pass the cutoff; the other two look at none. The interval is
    the percentiles of a bootstrap of whole scenes, over 2000 draws.
    """
    every = np.arange(len(task.losses))
    policy = task.losses[every, chosen] + task.feature_costs
    policy = np.where(policy > task.cutoff, FAILURE_FACTOR * task.cutoff, policy)
    parts = np.stack([policy, task.losses[every, single_best(task)], task.losses.min(axis=1)])
    scored = task.solved
    _, scenes = np.unique(task.examples.scenes[scored], return_inverse=True)
    sums = np.stack([np.bincount(scenes, weights=part) for part in parts[:, scored]])  # [3, S]
    count = sums.shape[1]
    draws = np.random.default_rng(_SEED).multinomial(count, np.full(count, 1.0 / count), size=_DRAWS)
    drawn = _ratio(draws.astype(np.float64) @ sums.T)
    low, high = np.percentile(drawn[np.isfinite(drawn)], _LEVEL)
    return Score(float(_ratio(sums.sum(axis=1))), float(low), float(high))


def _ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nPAR10 of sums [..., 3]: policy, single best, oracle; NaN where the last two are the same."""
    policy, best, oracle = np.moveaxis(sums, -1, 0)
    gap = best - oracle
    ratio: NDArray[np.float64] = np.divide(
        policy - oracle, gap, out=np.full(gap.shape, np.nan), where=gap > 0
    )
    return ratio
