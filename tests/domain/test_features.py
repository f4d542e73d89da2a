"""Feature schemas."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidInputError

BODY: dict[str, Any] = {
    "version": "v1",
    "names": ["distance", "is_night", "traffic"],
    "categorical": ["is_night"],
    "nullable": ["traffic"],
}


def test_a_schema_is_read_and_written() -> None:
    schema = FeatureSchema.from_json(BODY)
    assert len(schema) == 3
    assert schema.to_json() == BODY
    assert schema.categorical_mask().tolist() == [False, True, False]
    assert schema.nullable_mask().tolist() == [False, False, True]
    assert schema.position == {"distance": 0, "is_night": 1, "traffic": 2}
    text = json.dumps(BODY, sort_keys=True, separators=(",", ":"))
    assert schema.fingerprint == hashlib.sha256(text.encode()).hexdigest()
    assert FeatureSchema.from_json({"version": "v1", "names": ["x"]}) == FeatureSchema("v1", ("x",))


def test_a_mapping_is_encoded_in_order() -> None:
    schema = FeatureSchema.from_json(BODY)
    assert schema.encode({"traffic": 3, "distance": 0.5, "is_night": 1}).tolist() == [0.5, 1, 3]
    for values in ({"distance": 0.5, "is_night": 0}, {"distance": 0.5, "is_night": 0, "traffic": None}):
        assert repr(schema.encode(values).tolist()) == "[0.5, 0.0, nan]"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"distance": 1}, r"missing \['is_night'\], unexpected \[\]"),
        ({"distance": 1, "is_night": 0, "x": 1}, r"missing \[\], unexpected \['x'\]"),
        ({"distance": None, "is_night": 0}, "features.distance: expected a finite number, got None"),
        ({"distance": True, "is_night": 0}, "features.distance: expected a finite number, got True"),
        ({"distance": float("nan"), "is_night": 0}, "features.distance: expected a finite number"),
    ],
)
def test_what_is_no_feature_vector_is_refused(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        FeatureSchema.from_json(BODY).encode(values)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": ""}, "features.version: expected a text"),
        ({"names": []}, "features.names: expected 1 to 65536 names, got 0"),
        ({"names": "x"}, "features.names: expected a list of names, got str"),
        ({"names": ["x", 3]}, r"features.names\[1\]: expected a text"),
        ({"names": ["x", "y", "x"], "categorical": [], "nullable": []}, r"got \['x'\] more than once"),
        ({"categorical": ["x"]}, r"features.categorical: expected names of features, got \['x'\]"),
        (
            {"nullable": ["traffic", "traffic"]},
            r"features.nullable: expected distinct names, got \['traffic'\]",
        ),
        ({"extra": 1}, r"features: unexpected \['extra'\]"),
    ],
)
def test_what_is_no_schema_is_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        FeatureSchema.from_json(BODY | changes)
    with pytest.raises(InvalidInputError, match="expected a version and names, got list"):
        FeatureSchema.from_json([])
