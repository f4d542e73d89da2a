"""What a person wants to know of rows before a policy is fitted to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidInputError
from steersman.teacher.binding import BindingCheck
from steersman.teacher.dataset import Progress, TeacherDataset, merged_rows
from steersman.teacher.index import RowIndex
from steersman.teacher.profiles import Encoder, RowProfile
from steersman.teacher.reading import RowReader, find_collections
from steersman.teacher.rows import CheckedRow
from steersman.teacher.sources import Paths, find_sources

__all__ = ["ActionSummary", "Disagreement", "RowsInspection", "contradicting_rows", "inspect_rows"]

_MOST_PLACES = 5
_NEAR = 1e-4  # the tolerance that a fit has by default
# Collectors may have computed in float32, whose steps are 6e-8 apart, over some thousand additions.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-6


@dataclass(frozen=True, slots=True)
class ActionSummary:
    """One action over all rows."""

    action: str
    feasible: int  # rows
    best: int  # rows in which its advantage is the highest; in a tie, of each that ties
    mean_advantage: float | None  # over the rows in which it is feasible; None where it never is
    mean_cost: float | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Rows whose parts contradict each other."""

    rows: int = 0
    largest: float = 0.0  # the largest absolute difference
    places: tuple[str, ...] = ()  # of the first few: path, line, and what differs


@dataclass(frozen=True, slots=True)
class RowsInspection:
    """What was found in distinct, valid rows."""

    profile: str
    files: int
    rows: int
    duplicates: int
    blank_lines: int
    scenes: Mapping[str, int]  # scene to rows, sorted
    episodes: int
    actions: tuple[ActionSummary, ...]  # [A], catalogue order
    constant_features: tuple[str, ...]  # the same in every row
    missing_features: Mapping[str, int]  # nullable feature to rows without it, where there are any
    near_ties: int  # rows whose feasible advantages differ by at most 1e-4: there the choice hardly matters
    forced: int  # rows with one feasible action, each of them a near tie
    best_fixed: str  # the action with the highest mean advantage
    best_fixed_regret: float  # mean over the rows; where it is not feasible, the next that is gets played
    uniform_regret: float  # of each feasible action with the same probability
    advantages: Disagreement  # with the mean feasible loss minus the action's loss
    indicators: Disagreement  # categorical features that are neither 0 nor 1
    skew: Disagreement | None  # features with the encoded control input; None where the profile cannot encode
    not_encodable: Disagreement | None  # control inputs that cannot be encoded
    binding: Mapping[str, Any]
    dataset_hash: str
    source_hashes: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the findings as JSON."""
        return asdict(self)


def inspect_rows(paths: Paths, *, progress: Progress | None = None) -> RowsInspection:
    """Read the rows of `paths` and tell what is in them; `progress` is told bytes read and bytes in all.

    Raises InvalidRowError under the rules of `load_teacher_dataset`.
    """
    readers = [RowReader(collection) for collection in find_collections(find_sources(paths))]
    profile = readers[0].collection.profile
    index, bindings = RowIndex(), BindingCheck(profile)
    tally = _Tally(profile)
    for collection, number, row in merged_rows(readers, index, bindings, progress=progress):
        tally.add(row, f"{collection.source.path}:{number}")
    return RowsInspection(
        profile=profile.name,
        files=len(readers),
        rows=len(index),
        duplicates=index.duplicates,
        blank_lines=sum(reader.blank_lines for reader in readers),
        scenes=dict(sorted(tally.scenes.items())),
        episodes=len(tally.episodes),
        actions=tally.actions(),
        constant_features=tally.constant_features(),
        missing_features=tally.missing_features(),
        near_ties=tally.near_ties,
        forced=tally.forced,
        best_fixed=profile.catalogue.ids[tally.best_fixed()],
        best_fixed_regret=tally.best_fixed_regret(),
        uniform_regret=tally.uniform_regret / len(index),
        advantages=tally.advantages.result(),
        indicators=tally.indicators.result(),
        skew=tally.skew.result() if profile.encode else None,
        not_encodable=tally.not_encodable.result() if profile.encode else None,
        binding=bindings.binding,
        dataset_hash=index.dataset_hash(bindings.binding),
        source_hashes={reader.collection.source.key: reader.sha256 for reader in readers},
    )


def contradicting_rows(dataset: TeacherDataset) -> int:
    """Return how many rows have advantages that are not the mean feasible loss minus the action's loss."""
    expected = np.nanmean(dataset.losses, axis=1, keepdims=True) - dataset.losses
    return int(_differ(dataset.advantages, expected).any(axis=1).sum())


class _Findings:
    """Collects contradictions."""

    def __init__(self) -> None:
        self._rows, self._largest = 0, 0.0
        self._places: list[str] = []

    def add(self, place: str, largest: float) -> None:
        self._rows += 1
        self._largest = max(self._largest, largest)
        if len(self._places) < _MOST_PLACES:
            self._places.append(place)

    def result(self) -> Disagreement:
        return Disagreement(self._rows, self._largest, tuple(self._places))


class _Tally:
    """Counts while rows go by."""

    def __init__(self, profile: RowProfile) -> None:
        self._profile = profile
        size, actions = len(profile.features), len(profile.catalogue)
        self.scenes: Counter[str] = Counter()
        self.episodes: set[str] = set()
        self.near_ties, self.forced = 0, 0
        self.uniform_regret = 0.0  # the sum
        self._regrets: dict[bytes, NDArray[np.float64]] = {}  # feasible mask to the sum of each action, [A]
        self._indicators = profile.features.categorical_mask()  # [D]
        self._missing = np.zeros(size, dtype=np.int64)  # [D] rows
        self.advantages, self.indicators = _Findings(), _Findings()
        self.skew, self.not_encodable = _Findings(), _Findings()
        self._least, self._most = np.full(size, np.inf), np.full(size, -np.inf)  # [D]
        self._feasible, self._best = (
            np.zeros(actions, dtype=np.int64),
            np.zeros(actions, dtype=np.int64),
        )  # [A] rows
        self._sums = np.zeros((2, actions))  # of advantages and costs

    def add(self, row: CheckedRow, place: str) -> None:
        """Count one row, found at `place`."""
        fields = row.fields
        numbers = np.frombuffer(row.numbers)
        features = numbers[: len(self._profile.features)]
        losses, advantages, costs = numbers[len(features) :].reshape(3, -1)
        feasible = np.array(fields.feasible_mask)
        self.scenes[fields.scene_id] += 1
        self.episodes.add(fields.episode_id)
        self._missing += np.isnan(features)
        self._least, self._most = np.fmin(self._least, features), np.fmax(self._most, features)
        self._feasible += feasible
        self._best += advantages == advantages[feasible].max()
        self.near_ties += bool(np.ptp(advantages[feasible]) <= _NEAR)
        self._sums += np.where(feasible, [advantages, costs], 0.0)
        self._count_regrets(advantages, feasible)
        self._look_at_indicators(features, place)
        expected = losses[feasible].mean() - losses[feasible]
        off = np.flatnonzero(_differ(advantages[feasible], expected))
        if off.size:
            action = self._profile.catalogue.ids[np.flatnonzero(feasible)[off[0]]]
            worst = float(np.abs(advantages[feasible] - expected).max())
            self.advantages.add(f"{place}: {action} off by {worst:.3g}", worst)
        if self._profile.encode is not None:
            self._compare(features, self._profile.encode, row.control_text(), place)

    def actions(self) -> tuple[ActionSummary, ...]:
        """Return what was counted of each action."""
        with np.errstate(invalid="ignore"):
            means = (self._sums / self._feasible).tolist()
        counts = zip(self._feasible.tolist(), self._best.tolist(), *means, strict=True)
        return tuple(
            ActionSummary(action, feasible, best, *((advantage, cost) if feasible else (None, None)))
            for action, (feasible, best, advantage, cost) in zip(
                self._profile.catalogue.ids, counts, strict=True
            )
        )

    def best_fixed(self) -> int:
        """Return the position of the action with the highest mean advantage; ties go to catalogue order."""
        return int(np.argmax(self._means()))

    def best_fixed_regret(self) -> float:
        """Return the mean regret of the action that ranks first by mean advantage, of those that are feasible."""
        means, total = self._means(), 0.0
        for mask, sums in self._regrets.items():
            feasible = np.frombuffer(mask, dtype=bool)
            total += float(sums[np.argmax(np.where(feasible, means, -np.inf))])
        return total / sum(self.scenes.values())

    def missing_features(self) -> dict[str, int]:
        """Return in how many rows each feature is missing, of those that ever are."""
        counts = zip(self._profile.features.names, self._missing.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def constant_features(self) -> tuple[str, ...]:
        """Return the names of the features that have one value in all rows, or none in any."""
        constant = ~(self._least < self._most)
        return tuple(
            name for name, same in zip(self._profile.features.names, constant.tolist(), strict=True) if same
        )

    def _means(self) -> NDArray[np.float64]:
        """Return the mean advantage of each action, -inf where it is never feasible: [A]."""
        means = self._sums[0] / np.maximum(self._feasible, 1)
        return np.where(self._feasible > 0, means, -np.inf)

    def _count_regrets(self, advantages: NDArray[np.float64], feasible: NDArray[np.bool_]) -> None:
        # Which action ranks first is known when all rows were seen. Till then it is enough to know, of rows that
        # leave the same choice, what each action would have come to.
        best = advantages[feasible].max()
        regrets = np.where(feasible, best - advantages, 0.0)
        known = self._regrets.setdefault(feasible.tobytes(), np.zeros(len(feasible)))
        known += regrets
        self.forced += int(feasible.sum()) == 1
        self.uniform_regret += float(regrets.sum() / feasible.sum())

    def _look_at_indicators(self, features: NDArray[np.float64], place: str) -> None:
        other = self._indicators & ~np.isnan(features) & (features != 0.0) & (features != 1.0)
        if other.any():
            first = int(np.argmax(other))
            self.indicators.add(f"{place}: {self._profile.features.names[first]} is {features[first]:g}", 0.0)

    def _compare(self, features: NDArray[np.float64], encode: Encoder, control: bytes, place: str) -> None:
        try:
            encoded = encode(msgspec.json.decode(control))
        except InvalidInputError as error:
            self.not_encodable.add(f"{place}: {error.message}", 0.0)
            return
        off = np.flatnonzero(_differ(encoded, features))
        if off.size:
            name = self._profile.features.names[off[0]]
            got, expected = features[off[0]], encoded[off[0]]
            worst = float(np.abs(features - encoded)[off].max())
            self.skew.add(f"{place}: {name} is {got:g}, encoded {expected:g}", worst)


def _differ(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where numbers differ by more than rounding in float32 explains; NaN never does."""
    return np.abs(left - right) > _ABSOLUTE + _RELATIVE * np.abs(right)
