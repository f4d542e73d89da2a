"""What an inspection finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steersman.teacher.dataset import load_teacher_dataset
from steersman.teacher.inspection import ActionSummary, contradicting_rows, inspect_rows
from steersman.teacher.streaming_scene import encode
from tests.teacher.making import BINDING, complete_control, declared_metadata, make_row, write_rows
from tests.teacher.test_binding import declared_row


def encoded_row(number: int, **changes: Any) -> dict[str, Any]:
    control = complete_control(valid_count=number)
    return make_row(number, control_input=control, features=encode(control).tolist(), **changes)


def test_rows_that_contradict_themselves_are_counted(tmp_path: Path) -> None:
    masked = {
        "feasible_mask": [True, False, True, True],
        "losses": [1.0, None, 3.0, 2.0],
        "costs": [0.0, None, 0.0, 0.0],
    }
    right, wrong = [1.0, None, -1.0, 0.0], [-1.0, None, 1.0, 0.0]
    rows = [
        make_row(0),
        make_row(1, **masked, advantages=right),
        make_row(2, **masked, advantages=wrong),
        make_row(3, **masked, advantages=[1.0 + 1e-4, None, -1.0, 0.0]),
        make_row(4, **masked, advantages=[1.0 + 1e-6, None, -1.0, 0.0]),  # rounding
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    assert contradicting_rows(load_teacher_dataset(path)) == 2
    assert inspect_rows(path).advantages.rows == 2


def test_counts_are_those_of_distinct_rows(tmp_path: Path) -> None:
    masked = {
        "feasible_mask": [True, False, True, False],
        "losses": [1.0, None, 3.0, None],
        "advantages": [1.0, None, -1.0, None],
        "costs": [0, None, 4, None],
    }
    tied = {"losses": [1, 1, 2, 2], "advantages": [0.5, 0.5, -0.5, -0.5], "costs": [0, 1, 2, 3]}
    rows = [encoded_row(0, **masked), encoded_row(6, **tied), encoded_row(0, **masked)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    path.write_text(path.read_text() + "\n")
    found = inspect_rows(tmp_path)
    assert (found.profile, found.rows, found.duplicates, found.blank_lines) == ("streaming-scene", 2, 1, 1)
    assert found.scenes == {"scene-00": 1, "scene-01": 1}
    assert found.episodes == 2
    assert found.actions == (
        ActionSummary("OFF", 2, 2, 0.75, 0.0),
        ActionSummary("FUSE", 1, 1, 0.5, 1.0),
        ActionSummary("COMPLETE", 2, 0, -0.75, 3.0),
        ActionSummary("ALL", 1, 0, -0.5, 3.0),
    )
    assert "valid_count_log1p" not in found.constant_features
    assert len(found.constant_features) == 74
    assert found.missing_features == {}
    assert found.binding == BINDING
    dataset = load_teacher_dataset(tmp_path)
    assert found.dataset_hash == dataset.dataset_hash
    assert found.source_hashes == dataset.source_hashes
    assert found.files == 1
    assert found.advantages.rows == 0
    assert found.skew is not None
    assert found.skew.rows == 0
    assert found.not_encodable is not None
    assert found.not_encodable.rows == 0
    assert json.loads(json.dumps(found.to_json()))["scenes"] == {"scene-00": 1, "scene-01": 1}


def outcomes(*advantages: float | None) -> dict[str, Any]:
    """The outcomes of four actions by advantage, None where one is not feasible; losses agree."""
    feasible = [value is not None for value in advantages]
    return {
        "feasible_mask": feasible,
        "losses": [None if value is None else 10.0 - value for value in advantages],
        "advantages": list(advantages),
        "costs": [0.0 if allowed else None for allowed in feasible],
    }


def test_what_one_action_and_chance_would_cost_is_told(tmp_path: Path) -> None:
    rows = [
        make_row(0, **outcomes(3.0, 0.0, 0.0, -3.0)),
        make_row(1, **outcomes(None, 1.0, -1.0, None)),
        make_row(2, **outcomes(None, None, None, 0.0)),
        make_row(3, **outcomes(3.0, -4.0, 4.0, -3.0)),
    ]
    found = inspect_rows(write_rows(tmp_path / "rows.jsonl", rows))
    # Means are 3, -1, 1 and -2: the second row gets COMPLETE instead, which loses 2, and the last loses 1 with OFF.
    assert (found.best_fixed, found.best_fixed_regret) == ("OFF", (0.0 + 2.0 + 0.0 + 1.0) / 4)
    assert found.uniform_regret == (3.0 + 1.0 + 0.0 + 4.0) / 4
    assert (found.near_ties, found.forced) == (1, 1)
    assert found.advantages.rows == 0


def test_categories_that_are_no_indicators_are_reported(tmp_path: Path) -> None:
    rows = [
        declared_row(0) | {"features": [0.5, 1, 2.0]},
        declared_row(1) | {"features": [0.5, 7.5, None]},
        declared_row(2) | {"features": [0.5, 0, 2.0]},
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    (tmp_path / "metadata.json").write_text(json.dumps(declared_metadata()))
    found = inspect_rows(path).indicators
    assert (found.rows, found.places) == (1, (f"{path}:2: is_night is 7.5",))


def test_advantages_that_do_not_follow_from_losses_are_reported(tmp_path: Path) -> None:
    good = {"losses": [1.0, 2.0, 3.0, 6.0], "advantages": [2.0, 1.0, 0.0, -3.0]}
    bad = good | {"advantages": [2.0, 1.25, 0.5, -3.0]}
    rounded = good | {"advantages": [2.0000001, 1.0, 0.0, -3.0]}
    rows = [make_row(0, **good), make_row(1, **bad), make_row(2, **rounded)]
    found = inspect_rows(write_rows(tmp_path / "rows.jsonl", rows)).advantages
    assert found.rows == 1
    assert found.largest == pytest.approx(0.5)
    assert found.places == (f"{tmp_path / 'rows.jsonl'}:2: FUSE off by 0.5",)


def test_features_that_differ_from_the_encoded_control_input_are_reported(tmp_path: Path) -> None:
    rows = [encoded_row(number) for number in range(9)]
    for row in rows[1:8]:
        row["features"][3] = 2.5  # density_mean, which is 2
    found = inspect_rows(write_rows(tmp_path / "rows.jsonl", rows)).skew
    assert found is not None
    assert (found.rows, found.largest) == (7, 0.5)
    assert found.places[0] == f"{tmp_path / 'rows.jsonl'}:2: density_mean is 2.5, encoded 2"
    assert len(found.places) == 5


def test_control_inputs_that_cannot_be_encoded_are_reported(tmp_path: Path) -> None:
    found = inspect_rows(write_rows(tmp_path / "rows.jsonl", [make_row(0), encoded_row(1)]))
    assert found.not_encodable is not None
    assert found.not_encodable.rows == 1
    assert found.not_encodable.places == (
        f"{tmp_path / 'rows.jsonl'}:1: control_input.opacity_mean: expected a number, got nothing",
    )


def test_missing_features_are_counted_and_other_profiles_are_not_encoded(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [declared_row(0), declared_row(1)])
    (tmp_path / "metadata.json").write_text(json.dumps(declared_metadata()))
    found = inspect_rows(path)
    assert found.profile == "routing"
    assert found.missing_features == {"traffic": 2}
    assert found.constant_features == ("distance", "is_night", "traffic")
    assert found.skew is None
    assert found.not_encodable is None
