"""One row: as a line, as a mapping, and what is said of one that is not valid."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from steersman.errors import InvalidRowError
from steersman.teacher.profiles import RowProfile
from steersman.teacher.rows import parse_teacher_row
from tests.teacher.making import BINDING, SCENE, declared_metadata, make_row, plain_fingerprint

DECLARED = RowProfile.from_json(declared_metadata()["profile"])


def test_a_row_is_read_from_bytes_text_and_mapping_alike() -> None:
    body = make_row(
        3, feasible_mask=[True, False, True, True], losses=[1, None, 2.0, 3], costs=[0, None, 1, 2]
    )
    body["advantages"] = [1.0, None, 0.0, -1.0]
    text = json.dumps(body)
    rows = [parse_teacher_row(form) for form in (text, text.encode(), body)]
    assert rows[0] == rows[1] == rows[2]
    row = rows[0]
    assert row.fingerprint == plain_fingerprint(body)
    assert row.to_json() == {
        **body,
        "features": tuple(body["features"]),
        "actions": ("OFF", "FUSE", "COMPLETE", "ALL"),
        "feasible_mask": (True, False, True, True),
        "losses": (1, None, 2.0, 3),
        "advantages": (1.0, None, 0.0, -1.0),
        "costs": (0, None, 1, 2),
    }
    assert row.binding == BINDING
    assert row.profile is SCENE


def test_integers_and_floats_have_different_fingerprints() -> None:
    whole, real = (parse_teacher_row(make_row(features=[value] * 75)) for value in (1, 1.0))
    assert whole.fingerprint != real.fingerprint
    assert repr(whole.features[0]) == "1"
    assert repr(real.features[0]) == "1.0"


def test_the_dataset_keys_are_no_part_of_the_fingerprint() -> None:
    plain = make_row()
    marked = make_row(
        provenance=plain["provenance"]
        | {
            "source_hash": 1,
            "source_hashes": [2],
            "dataset_hash": "3",
            "dataset_hashes": {"4": 5},
            "teacher_dataset_hash": "",
            "teacher_source_hashes": None,
        }
    )
    assert parse_teacher_row(marked).fingerprint == parse_teacher_row(plain).fingerprint
    assert parse_teacher_row(marked).binding == BINDING
    other = make_row(provenance=plain["provenance"] | {"sources": 1})
    assert parse_teacher_row(other).fingerprint != parse_teacher_row(plain).fingerprint


def test_both_lists_of_fields_are_told() -> None:
    body = make_row(extra=1)
    del body["costs"], body["row_id"]
    with pytest.raises(InvalidRowError) as caught:
        parse_teacher_row(body, where="memory:4")
    assert str(caught.value) == (
        "memory:4: expected exactly the fields of a teacher row; missing ['row_id', 'costs'], unexpected ['extra']"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"features": np.zeros(75)}, "features: expected JSON, got a value of type ndarray"),
        ({"features": [np.float32(0.5)] * 75}, "features[0]: expected JSON, got a value of type float32"),
        ({"provenance": {1: 2}}, "provenance: expected keys that are texts, got 1"),
        ({"provenance": {"a": {2}}}, "provenance.a: expected JSON, got a value of type set"),
        ({"losses": [float("nan"), 0, 0, 0]}, "losses[0]: expected a finite number, got NaN"),
        ({"row_id": "a\ud800"}, 'row_id: expected text without lone surrogates, got "a\\ud800"'),
        (
            {"control_input": {"rgb_mse": float("inf")}},
            "control_input.rgb_mse: expected a finite number, got Infinity",
        ),
    ],
)
def test_mappings_must_hold_what_json_can(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRowError) as caught:
        parse_teacher_row(make_row(**changes))
    assert caught.value.message == expected


def test_a_mapping_that_contains_itself_is_refused() -> None:
    body = make_row()
    body["provenance"]["again"] = body["provenance"]
    with pytest.raises(InvalidRowError, match="nesting of at most 64 levels"):
        parse_teacher_row(body)


def test_numbers_may_be_as_large_as_float32_and_integers_as_64_bits() -> None:
    largest = [3.4028235677973362e38, -3.4028235677973362e38, 2**63 - 1, -(2**63)]
    row = parse_teacher_row(make_row(features=[*largest, *[0.0] * 71]))
    assert list(row.features[:4]) == largest
    with pytest.raises(InvalidRowError, match="finite in float32"):
        parse_teacher_row(make_row(features=[3.4028235677973366e38, *[0.0] * 74]))


def test_nesting_may_be_64_levels_deep() -> None:
    value: Any = 1
    for _ in range(62):  # the row and its provenance are the other two
        value = [value]
    parse_teacher_row(json.dumps(make_row(provenance={"deep": value})))
    with pytest.raises(InvalidRowError, match="64 levels"):
        parse_teacher_row(json.dumps(make_row(provenance={"deep": [value]})))


def test_a_declared_profile_must_be_given() -> None:
    body = make_row(
        schema_version="steersman.teacher_row.v1",
        actions=["left", "right"],
        features=[1.0, 0, None],
        feasible_mask=[True, True],
        losses=[0.5, 1.5],
        advantages=[0.5, -0.5],
        costs=[0, 0],
        control_input={"city": "Ulm"},
        provenance={"map_hash": "m1", "feature_schema_version": "routing.v1"},
    )
    row = parse_teacher_row(body, profile=DECLARED)
    assert list(row.features) == [1.0, 0, None]
    assert row.binding == {"map_hash": "m1"}
    with pytest.raises(InvalidRowError, match="needs a profile, and none is declared"):
        parse_teacher_row(body)
    with pytest.raises(InvalidRowError, match=r"schema_version: expected one of .*, got \"other\""):
        parse_teacher_row(body | {"schema_version": "other"})
    with pytest.raises(InvalidRowError, match=r"features\[0\]: expected a finite number, got null"):
        parse_teacher_row(body | {"features": [None, 0, None]}, profile=DECLARED)


def test_the_binding_of_the_collection_is_overlaid_by_flat_provenance_keys_alone() -> None:
    body = make_row(
        provenance={"model_content_hash": "own", "binding": {"render_protocol": "nested"}, "x": 1}
    )
    row = parse_teacher_row(body, binding={"model_content_hash": "theirs", "extra": 1, "dataset_hash": "d"})
    assert row.binding == {"model_content_hash": "own", "extra": 1}
