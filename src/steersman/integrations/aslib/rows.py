"""From a scenario to teacher rows: one row an instance, one action an algorithm."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import canonical_json
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidInputError
from steersman.files import check_absent, new_files
from steersman.integrations.aslib.scenario import FILES, Scenario, read_scenario
from steersman.teacher.profiles import DECLARED_COLLECTION_SCHEMA, DECLARED_ROW_SCHEMA, RowProfile
from steersman.teacher.rows import SPLIT, check_row
from steersman.teacher.sources import hash_file

__all__ = [
    "METADATA_NAME",
    "ROWS_NAME",
    "ScenarioRows",
    "convert_scenario",
    "scenario_profile",
    "scenario_rows",
]

ROWS_NAME = "rows.jsonl"
METADATA_NAME = "metadata.json"

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ScenarioRows:
    """What was written of a scenario."""

    scenario_id: str
    output: Path  # the folder with rows.jsonl and metadata.json
    rows: int
    scenes: int
    actions: int
    features: int
    presolved: int  # instances left out because computing their features solved them
    unsolved: int  # rows in which no algorithm was ok

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {**asdict(self), "output": str(self.output)}


def convert_scenario(
    folder: Path, output: Path, *, families: Path | None = None, log_scale: bool = False
) -> ScenarioRows:
    """Write the ASlib scenario in `folder` as teacher rows to the folder `output`: rows.jsonl and metadata.json.

    A row's losses are PAR10 in seconds (a run that was not ok counts ten times the cutoff), or the quality, negated
    where more is better; with `log_scale`, ln(1 + PAR10). Its scene is the instance's official fold, or its family
    by the CSV file `families` (columns instance_id, family and perhaps scenario). Presolved instances are left out.
    Nothing is written before everything was read. Raises InvalidInputError for a scenario that is malformed or
    incomplete, naming what is missing, and for `log_scale` where quality counts; OutputExistsError for an output
    that is there.
    """
    rows_path, metadata_path = output / ROWS_NAME, output / METADATA_NAME
    check_absent(rows_path, metadata_path)
    scenario = read_scenario(folder)
    if families is None:
        scenes = tuple(f"fold-{fold}" for fold in scenario.folds.tolist())
    else:
        scenes = _read_families(families, scenario)
    profile = scenario_profile(scenario)
    lines = [
        check_row(row, profile, where=f"{folder}: {row['row_id']}").text()
        for row in scenario_rows(scenario, scenes, log_scale=log_scale)
    ]
    metadata = _metadata(folder, scenario, profile, families=families, log_scale=log_scale)
    with new_files(rows_path, metadata_path) as (rows, beside):
        rows.write_bytes(b"".join(line + b"\n" for line in lines))
        beside.write_bytes(canonical_json(metadata).encode("ascii") + b"\n")
    return ScenarioRows(
        scenario_id=scenario.description.scenario_id,
        output=output,
        rows=len(lines),
        scenes=len(set(scenes)),
        actions=len(scenario.algorithms),
        features=len(scenario.feature_names),
        presolved=len(scenario.presolved),
        unsolved=int((~scenario.solved).sum()),
    )


def scenario_profile(scenario: Scenario) -> RowProfile:
    """Return the profile of the rows; features that are missing somewhere may be missing everywhere."""
    gaps = np.flatnonzero(np.isnan(scenario.features).any(axis=0))
    name = f"aslib.{scenario.description.scenario_id}"
    return RowProfile(
        name=name,
        row_schema=DECLARED_ROW_SCHEMA,
        collection_schema=DECLARED_COLLECTION_SCHEMA,
        catalogue=ActionCatalogue(scenario.algorithms),
        features=FeatureSchema(
            version=f"{name}.v1",
            names=scenario.feature_names,
            nullable=tuple(scenario.feature_names[place] for place in gaps),
        ),
        control_keys=("feature_cost",),
        required_binding=("scenario_id", "loss"),
    )


def scenario_rows(
    scenario: Scenario, scenes: tuple[str, ...], *, log_scale: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield a row for each instance, whose scene is that of `scenes` [N] at the same place.

    What the features cost stands in the control input, as it is the same whatever is chosen; actions have no cost
    of their own, as time is their loss. Raises InvalidInputError for `log_scale` where quality counts.
    """
    losses = _log_scaled(scenario) if log_scale else scenario.losses
    advantages = losses.mean(axis=1, keepdims=True) - losses
    actions = list(scenario.algorithms)
    for place, instance in enumerate(scenario.instances):
        features: list[float] = scenario.features[place].tolist()
        yield {
            "schema_version": DECLARED_ROW_SCHEMA,
            "row_id": instance,
            "episode_id": instance,
            "scene_id": scenes[place],
            "split_id": SPLIT,
            "prefix_step": 0,
            "prefix_frame_id": 0,
            "control_input": {"feature_cost": float(scenario.feature_costs[place])},
            "features": [None if value != value else value for value in features],  # noqa: PLR0124 - NaN
            "actions": actions,
            "feasible_mask": [True] * len(actions),
            "losses": losses[place].tolist(),
            "advantages": advantages[place].tolist(),
            "costs": [0.0] * len(actions),
            "horizon_used": 1,
            "provenance": {},
        }


def _log_scaled(scenario: Scenario) -> NDArray[np.float64]:
    if not scenario.description.is_runtime:
        raise InvalidInputError("log_scale: expected a scenario of runtimes, as qualities may be negative")
    return np.log1p(scenario.losses)


def _read_families(path: Path, scenario: Scenario) -> tuple[str, ...]:
    """Return the family of each instance: [N] str."""
    scenario_id = scenario.description.scenario_id
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            columns = list(reader.fieldnames or ())
            rows = [row for row in reader if row.get("scenario", scenario_id) == scenario_id]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"expected a CSV file in UTF-8, got: {error}", where=str(path)) from error
    if not {"instance_id", "family"} <= set(columns):
        raise InvalidInputError(
            f"expected the columns instance_id and family, got {columns}", where=str(path)
        )
    family = {row["instance_id"]: row["family"] for row in rows}
    missing = [name for name in scenario.instances if not family.get(name)]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        raise InvalidInputError(
            f"expected a family for each instance, missing {len(missing)}: {shown}", where=str(path)
        )
    return tuple(family[name] for name in scenario.instances)


def _metadata(
    folder: Path, scenario: Scenario, profile: RowProfile, *, families: Path | None, log_scale: bool
) -> Mapping[str, Any]:
    paths = [folder / name for name in FILES] + [folder / "feature_costs.arff", families]
    description = scenario.description
    loss = "PAR10" if description.is_runtime else description.measure
    loss = f"ln(1 + {loss})" if log_scale else f"-{loss}" if description.maximize else loss
    return {
        "schema_version": profile.collection_schema,
        "row_schema_version": profile.row_schema,
        "profile": profile.to_json(),
        "binding": {
            "scenario_id": description.scenario_id,
            "loss": loss,
            "source_hashes": {
                path.name: hash_file(path) for path in paths if path is not None and path.is_file()
            },
        },
    }
