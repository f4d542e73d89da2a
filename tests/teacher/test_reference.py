"""Values that an independent reference of the row format computed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from steersman.domain.canonical import canonical_json, fingerprint
from steersman.teacher.dataset import load_teacher_dataset, load_teacher_rows
from steersman.teacher.quick import RowChecker
from steersman.teacher.rows import parse_teacher_row
from steersman.teacher.split import split_scene_ids
from tests.teacher.making import SCENE, shared_reference

GOLDEN = Path(__file__).parent / "golden"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "canonical_json.json").read_text(encoding="utf-8"))
STREAMING_SCENE: dict[str, Any] = json.loads((GOLDEN / "streaming_scene.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["canonical"])[:30])
def test_canonical_json_is_byte_for_byte_the_references(case: dict[str, Any]) -> None:
    assert canonical_json(case["value"]) == case["canonical"]
    assert fingerprint(case["value"]) == case["sha256"]


def test_feature_names_are_those_of_the_reference_in_order() -> None:
    assert list(SCENE.features.names) == STREAMING_SCENE["feature_names"]
    assert len(SCENE.features) == 75


@pytest.mark.parametrize(
    "case", STREAMING_SCENE["splits"], ids=lambda c: f"{c['holdout_fraction']}-{c['seed']}"
)
def test_splits_are_those_of_the_reference(case: dict[str, Any]) -> None:
    training, validation = split_scene_ids(
        case["scenes"], holdout_fraction=case["holdout_fraction"], seed=case["seed"]
    )
    assert list(training) == case["train"]
    assert list(validation) == case["validation"]


def test_all_fingerprints_of_the_reference_rows_match_on_the_fast_and_the_careful_way() -> None:
    reference = shared_reference()
    expected = json.loads((reference / "expected.json").read_text(encoding="utf-8"))["fingerprints"]
    lines = (reference / "teacher_rows.jsonl").read_bytes().splitlines()
    fast = RowChecker(SCENE)._try_lines(lines)
    assert fast is not None, "the fast way must understand every one of them"
    assert {row.fields.row_id: row.digest.hex() for row in fast} == expected
    assert {row.row_id: row.fingerprint for row in map(parse_teacher_row, lines)} == expected
    rows = load_teacher_rows(reference / "teacher_rows.jsonl")
    assert {row.row_id: row.fingerprint for row in rows} == expected


def test_the_reference_rows_load_as_columns() -> None:
    path = shared_reference() / "teacher_rows.jsonl"
    dataset = load_teacher_dataset(path)
    bodies = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert dataset.row_ids == tuple(body["row_id"] for body in bodies)
    assert dataset.scene_ids == tuple(f"scene-{index:02d}" for index in range(12))
    assert dataset.source_hashes == {"teacher_rows.jsonl": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert dataset.features.shape == (300, 75)
    assert dataset.feasible.tolist() == [body["feasible_mask"] for body in bodies]
