"""One scenario as arrays: features, losses, feature costs and folds of every instance that is to be chosen for.

A folder holds `description.txt`, `algorithm_runs.arff`, `feature_values.arff`, `feature_runstatus.arff`, `cv.arff`
and perhaps `feature_costs.arff` (Bischl et al., "ASlib: A Benchmark Library for Algorithm Selection", 2016).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidInputError
from steersman.integrations.aslib.arff import ArffTable, read_arff
from steersman.integrations.aslib.description import Description, read_description

__all__ = ["FAILURE_FACTOR", "FILES", "Scenario", "read_scenario"]

FAILURE_FACTOR = 10.0
"""PAR10: a run that fails counts as so many times the cutoff."""
FILES = ("description.txt", "algorithm_runs.arff", "feature_values.arff", "feature_runstatus.arff", "cv.arff")
"""What every scenario has; feature_costs.arff may be missing."""

_COSTS = "feature_costs.arff"
_KEYS = ("instance_id", "repetition")  # the columns that are no features, costs or statuses
_OK, _PRESOLVED = "ok", "presolved"
_SHOWN = 5  # of what is missing

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """N instances, A algorithms, D features; instances that were solved while features were computed are left out."""

    description: Description
    instances: tuple[str, ...]  # [N] str, sorted
    algorithms: tuple[str, ...]  # [A] str, sorted
    feature_names: tuple[str, ...]  # [D] str
    features: _Floats  # [N, D], NaN where missing; the mean over repetitions
    losses: _Floats  # [N, A], PAR10 in seconds, or the quality, negated where more is better; the mean over repetitions
    solved: NDArray[np.bool_]  # [N], some run was ok
    feature_costs: _Floats  # [N] seconds for all features together; 0 where the scenario does not say
    folds: NDArray[np.int64]  # [N], the official fold
    presolved: tuple[str, ...]  # the instances left out, sorted


def read_scenario(folder: Path) -> Scenario:
    """Read the scenario in `folder`.

    Raises InvalidInputError, naming file and line, for files that are missing or malformed, and naming what is
    missing when a scenario is incomplete: an instance without features, fold or a run of every algorithm, or one
    where quality counts and a run was not ok.
    """
    absent = [name for name in FILES if not (folder / name).is_file()]
    if absent:
        raise InvalidInputError(f"expected a folder with {list(FILES)}, missing {absent}", where=str(folder))
    description = read_description(folder / "description.txt")
    tables = {name: read_arff(folder / name) for name in FILES[1:]}
    presolved = _presolved(tables["feature_runstatus.arff"])
    runs = tables["algorithm_runs.arff"]
    algorithms = tuple(sorted({cell.required() for cell in runs.column("algorithm")}))
    everything = {cell.required() for cell in runs.column("instance_id")}
    instances = tuple(sorted(everything - presolved))
    if not instances:
        raise InvalidInputError("expected an instance that is not presolved, got none", where=str(folder))
    losses, solved = _losses(runs, description, instances, algorithms)
    names, features = _values(tables["feature_values.arff"], instances)
    costs = np.zeros(len(instances))
    if (folder / _COSTS).is_file():
        _, by_step = _values(read_arff(folder / _COSTS), instances)
        costs = np.nansum(by_step, axis=1)  # a step that was not computed has no cost
    return Scenario(
        description=description,
        instances=instances,
        algorithms=algorithms,
        feature_names=names,
        features=features,
        losses=losses,
        solved=solved,
        feature_costs=costs,
        folds=_folds(tables["cv.arff"], instances),
        presolved=tuple(sorted(everything & presolved)),
    )


def _presolved(table: ArffTable) -> set[str]:
    instances = [cell.required() for cell in table.column("instance_id")]
    return {
        instance
        for step in _steps(table)
        for instance, cell in zip(instances, table.column(step), strict=True)
        if cell.text == _PRESOLVED
    }


def _losses(
    table: ArffTable, description: Description, instances: tuple[str, ...], algorithms: tuple[str, ...]
) -> tuple[_Floats, NDArray[np.bool_]]:
    """Return losses [N, A] and which instances some run was ok for [N]."""
    row = {name: index for index, name in enumerate(instances)}
    column = {name: index for index, name in enumerate(algorithms)}
    total = np.zeros((len(instances), len(algorithms)))
    count = np.zeros(total.shape, dtype=np.int64)
    solved = np.zeros(len(instances), dtype=np.bool_)
    failed: list[str] = []
    seen: set[tuple[str, str, str]] = set()
    parts = (*_KEYS, "algorithm", description.measure, "runstatus")
    for instance, repetition, algorithm, value, status in zip(*map(table.column, parts), strict=True):
        key = (instance.required(), algorithm.required(), repetition.required())
        if key in seen:
            raise InvalidInputError(f"expected each run once, got {key} again", where=instance.where)
        seen.add(key)
        if key[0] not in row:
            continue
        ok = status.text == _OK
        place = row[key[0]], column[key[1]]
        if ok and value.text is None:
            raise InvalidInputError(
                f"{description.measure}: expected a number for a run that is ok, got ?", where=value.where
            )
        if not ok and not description.is_runtime:
            failed.append(f"{key[1]} on {key[0]} ({status.text})")
            continue
        total[place] += _loss(value.number() if ok else None, description)
        count[place] += 1
        solved[place[0]] |= ok
    if failed:
        raise _incomplete(f"{description.measure} of runs that are not ok", failed, table)
    missing = [f"{algorithms[a]} on {instances[n]}" for n, a in zip(*np.nonzero(count == 0), strict=True)]
    if missing:
        raise _incomplete("runs", missing, table)
    return total / count, solved


def _loss(value: float | None, description: Description) -> float:
    """Return the loss of one run; `value` None for one that failed, which only a runtime may."""
    if value is None:
        return FAILURE_FACTOR * (description.cutoff or 0.0)
    return -value if description.maximize else value


def _values(table: ArffTable, instances: tuple[str, ...]) -> tuple[tuple[str, ...], _Floats]:
    """Return the names [D] of all columns but the keys, and their means over repetitions: [N, D], NaN where missing."""
    row = {name: index for index, name in enumerate(instances)}
    names = _steps(table)
    found = [row.get(cell.required(), -1) for cell in table.column("instance_id")]
    there = set(found)
    missing = [name for name in instances if row[name] not in there]
    if missing:
        raise _incomplete("instances", missing, table)
    rows = np.array(found, dtype=np.int64)
    total = np.zeros((len(instances), len(names)))
    count = np.zeros(total.shape)
    for place, name in enumerate(names):
        numbers = np.array([cell.number() for cell in table.column(name)])
        kept = (rows >= 0) & ~np.isnan(numbers)
        np.add.at(total[:, place], rows[kept], numbers[kept])
        np.add.at(count[:, place], rows[kept], 1.0)
    return names, np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _folds(table: ArffTable, instances: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the fold of each instance in the first repetition of the official cross-validation: [N]."""
    fold: dict[str, int] = {}
    for instance, repetition, cell in zip(*map(table.column, (*_KEYS, "fold")), strict=True):
        number = cell.number()
        if number != round(number):
            raise InvalidInputError(f"fold: expected an integer, got {cell.text!r}", where=cell.where)
        if repetition.number() == 1.0:
            fold[instance.required()] = int(number)
    missing = [name for name in instances if name not in fold]
    if missing:
        raise _incomplete("folds", missing, table)
    return np.array([fold[name] for name in instances], dtype=np.int64)


def _steps(table: ArffTable) -> tuple[str, ...]:
    names = tuple(column for column in table.columns if column.lower() not in _KEYS)
    if not names:
        raise InvalidInputError("expected columns beside instance_id and repetition", where=str(table.path))
    return names


def _incomplete(what: str, missing: Iterable[str], table: ArffTable) -> InvalidInputError:
    named: Mapping[str, None] = dict.fromkeys(missing)
    shown = ", ".join(list(named)[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
    return InvalidInputError(
        f"expected a complete scenario, missing {len(named)} {what}: {shown}", where=str(table.path)
    )
