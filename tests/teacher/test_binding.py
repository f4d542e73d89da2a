"""What rows are bound to, and what happens when they are bound to different things."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from steersman.errors import InvalidRowError
from steersman.teacher.dataset import load_teacher_dataset, load_teacher_rows
from tests.teacher.making import BINDING, declared_metadata, make_row, write_rows

BARE = {"collector": "test"}


def put_metadata(path: Path, body: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body if isinstance(body, str) else json.dumps(body), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["rows.metadata.json", "metadata.json"])
@pytest.mark.parametrize("body", [{"binding": BINDING}, {"provenance": {"binding": BINDING}}])
def test_the_binding_may_stand_in_metadata(name: str, body: dict[str, Any], tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row(provenance=BARE)])
    put_metadata(tmp_path / name, body)
    assert load_teacher_dataset(path).binding == BINDING
    assert load_teacher_rows(path)[0].binding == BINDING


def test_the_files_own_metadata_comes_before_its_folders(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row(provenance=BARE)])
    put_metadata(tmp_path / "metadata.json", {"binding": BINDING | {"model_content_hash": "folder"}})
    put_metadata(tmp_path / "rows.metadata.json", {"binding": BINDING | {"model_content_hash": "file"}})
    assert load_teacher_dataset(path).binding["model_content_hash"] == "file"


@pytest.mark.parametrize("kind", ["dangling", "folder", "pipe"])
def test_metadata_that_cannot_be_read_does_not_give_way_to_the_folders(kind: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row(provenance=BARE)])
    put_metadata(tmp_path / "metadata.json", {"binding": BINDING})
    own = tmp_path / "rows.metadata.json"
    if kind == "dangling":
        own.symlink_to(tmp_path / "gone")
    elif kind == "folder":
        own.mkdir()
    else:
        os.mkfifo(own)
    with pytest.raises(InvalidRowError, match="metadata file") as caught:
        load_teacher_dataset(path)
    assert caught.value.where == str(own)


def test_metadata_of_one_file_does_not_bind_another(tmp_path: Path) -> None:
    """Rows of both files declare the same; only those of the first have the rest beside them."""
    for number, name in enumerate("ab"):
        write_rows(tmp_path / f"{name}.jsonl", [make_row(number, provenance=BARE)])
    put_metadata(tmp_path / "a.metadata.json", {"binding": BINDING})
    with pytest.raises(InvalidRowError, match="got nothing") as caught:
        load_teacher_dataset(tmp_path)
    assert caught.value.where == f"{tmp_path / 'b.jsonl'}:1"


def test_metadata_of_a_folder_above_does_not_count(tmp_path: Path) -> None:
    write_rows(tmp_path / "inner" / "rows.jsonl", [make_row(provenance=BARE)])
    put_metadata(tmp_path / "metadata.json", {"binding": BINDING})
    with pytest.raises(InvalidRowError, match="missing"):
        load_teacher_dataset(tmp_path)


def test_rows_overlay_metadata_and_extra_keys_are_kept(tmp_path: Path) -> None:
    row = make_row(provenance=BARE | {"model_content_hash": "own", "dataset_hash": "d"})
    path = write_rows(tmp_path / "rows.jsonl", [row])
    put_metadata(tmp_path / "metadata.json", {"binding": BINDING | {"site": "lab 3", "source_hash": "s"}})
    binding = load_teacher_dataset(path).binding
    assert binding == BINDING | {"model_content_hash": "own", "site": "lab 3"}


def test_a_nested_object_is_never_a_binding(tmp_path: Path) -> None:
    row = make_row(provenance=BARE | {"binding": BINDING, "runtime": BINDING})
    path = write_rows(tmp_path / "rows.jsonl", [row])
    with pytest.raises(InvalidRowError, match="missing"):
        load_teacher_dataset(path)


def test_missing_keys_are_all_named_at_the_row(tmp_path: Path) -> None:
    provenance = {
        key: value for key, value in BINDING.items() if key not in {"render_protocol", "budget_protocol"}
    }
    path = write_rows(tmp_path / "rows.jsonl", [make_row(provenance=provenance)])
    with pytest.raises(InvalidRowError) as caught:
        load_teacher_dataset(path)
    assert caught.value.where == f"{path}:1"
    assert "missing ['render_protocol', 'budget_protocol']" in caught.value.message


def test_another_feature_version_in_metadata_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row(provenance=BARE)])
    put_metadata(tmp_path / "metadata.json", {"binding": BINDING | {"feature_schema_version": "v2"}})
    with pytest.raises(InvalidRowError, match=r'binding\.feature_schema_version: expected .*, got "v2"'):
        load_teacher_dataset(path)


@pytest.mark.parametrize(
    ("first", "second"), [(1, 1.0), (1, True), (1.0, True), (0, False), (None, 0), ("1", 1)]
)
def test_values_that_python_may_call_equal_differ_as_json(first: Any, second: Any, tmp_path: Path) -> None:
    rows = [
        make_row(number, provenance=BINDING | {"utility_protocol": {"horizon": value}})
        for number, value in enumerate([first, second])
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(InvalidRowError) as caught:
        load_teacher_dataset(path)
    expected, got = (json.dumps({"horizon": value}, separators=(",", ":")) for value in (first, second))
    assert str(caught.value) == (
        f"{path}:2: binding.utility_protocol: expected {expected} as at {path}:1, got {got}"
    )


def test_the_first_differing_key_is_named_across_files(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [make_row(0), make_row(1)])
    other = BINDING | {"render_protocol": 1, "budget_protocol": 2}
    write_rows(tmp_path / "b.jsonl", [make_row(2), make_row(3, provenance=other)])
    with pytest.raises(InvalidRowError) as caught:
        load_teacher_dataset(tmp_path)
    assert caught.value.where == f"{tmp_path / 'b.jsonl'}:2"
    assert caught.value.message == (
        f'binding.budget_protocol: expected {{"max_units":1000000000000.0}} as at {tmp_path / "a.jsonl"}:1, got 2'
    )


def test_a_key_that_only_one_side_has_differs(tmp_path: Path) -> None:
    write_rows(tmp_path / "a" / "rows.jsonl", [make_row(0)])
    write_rows(tmp_path / "b" / "rows.jsonl", [make_row(1)])
    put_metadata(tmp_path / "b" / "metadata.json", {"binding": {"site": 3}})
    with pytest.raises(
        InvalidRowError, match=r"binding\.site: expected nothing as at .*a/rows.jsonl:1, got 3"
    ):
        load_teacher_dataset(tmp_path)


def test_dataset_keys_may_differ_from_row_to_row(tmp_path: Path) -> None:
    rows = [
        make_row(number, provenance=BINDING | {"teacher_dataset_hash": str(number)}) for number in range(3)
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    assert load_teacher_dataset(path).binding == BINDING


def test_a_duplicate_bound_otherwise_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "a" / "rows.jsonl", [make_row(0, provenance=BARE)])
    write_rows(tmp_path / "b" / "rows.jsonl", [make_row(0, provenance=BARE)])
    for folder, model in (("a", "one"), ("b", "two")):
        put_metadata(
            tmp_path / folder / "metadata.json", {"binding": BINDING | {"model_content_hash": model}}
        )
    with pytest.raises(InvalidRowError, match=r'model_content_hash: expected "one" as at .*, got "two"'):
        load_teacher_dataset(tmp_path)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[]", r"expected a JSON object, got \[\]"),
        ("{", "ends early"),
        ('{"binding": {}, "binding": {}}', 'got "binding" twice'),
        ('{"binding": {"a": NaN}}', "expected a finite number, got NaN"),
        ('{"binding": {"a": 1e39}}', r"binding\.a: expected a number that is finite in float32"),
        ('{"binding": []}', r"binding: expected a JSON object, got \[\]"),
        ('{"provenance": 1}', "provenance: expected a JSON object, got 1"),
        ('{"provenance": {"binding": "x"}}', r'provenance\.binding: expected a JSON object, got "x"'),
        (
            {"binding": BINDING, "provenance": {"binding": {}}},
            "the same under binding and provenance.binding",
        ),
        (
            {"schema_version": "v2", "binding": BINDING},
            r'schema_version: expected null or mcss\..*, got "v2"',
        ),
        ({"schema_version": 1}, "schema_version: expected a text or null, got 1"),
        (
            {"row_schema_version": "v2"},
            r"row_schema_version: expected null or mcss\.dynamic\.action_teacher_row\.v1",
        ),
    ],
)
def test_metadata_is_read_as_strictly_as_rows(body: Any, expected: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row()])
    metadata = put_metadata(tmp_path / "metadata.json", body)
    with pytest.raises(InvalidRowError, match=expected) as caught:
        load_teacher_dataset(path)
    assert caught.value.where == str(metadata)


def test_metadata_may_name_the_schemas_and_hold_anything_else(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row()])
    body = {
        "schema_version": "mcss.dynamic.action_teacher.v1",
        "row_schema_version": "mcss.dynamic.action_teacher_row.v1",
        "binding": None,
        "count": 17,
        "profile": "fast",
    }
    put_metadata(tmp_path / "metadata.json", body)
    assert len(load_teacher_dataset(path)) == 1


def declared_row(number: int = 0, **changes: Any) -> dict[str, Any]:
    return make_row(
        number,
        schema_version="steersman.teacher_row.v1",
        actions=["left", "right"],
        features=[0.5, 1, None],
        feasible_mask=[True, True],
        losses=[0.5, 1.5],
        advantages=[0.5, -0.5],
        costs=[0, 0],
        control_input={"city": "Ulm", "weights": [1, {"a": 2}]},
        provenance={},
        **changes,
    )


def test_a_collection_may_declare_its_own_profile(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [declared_row()])
    put_metadata(tmp_path / "metadata.json", declared_metadata())
    dataset = load_teacher_dataset(path)
    assert dataset.profile.name == "routing"
    assert dataset.profile.catalogue.ids == ("left", "right")
    assert dataset.profile.features.version == "routing.v1"
    assert dataset.binding == {"map_hash": "m1"}
    assert repr(dataset.features.tolist()) == "[[0.5, 1.0, nan]]"


def test_a_declared_profile_is_needed_and_must_be_sound(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [declared_row()])
    with pytest.raises(InvalidRowError, match="needs a profile, and none is declared") as caught:
        load_teacher_dataset(path)
    assert caught.value.where == f"{path}:1"
    profile = declared_metadata()["profile"]
    for changes, expected in (
        ({"actions": []}, "actions: expected 1 to"),
        ({"actions": ["a", "a"]}, "actions: expected each text once"),
        ({"actions": "left"}, "actions: expected a list of texts"),
        ({"features": {"names": ["x"]}}, "features: expected a version and names"),
        ({"features": {"version": "v", "names": []}}, "features.names: expected 1 to"),
        (
            {"features": {"version": "v", "names": ["x"], "nullable": ["y"]}},
            r"features.nullable: .* got \['y'\]",
        ),
        ({"control_keys": [1]}, r"control_keys\[0\]: expected a text"),
        ({"required_binding": ["dataset_hash"]}, "required_binding: expected none of"),
        ({"surprise": 1}, r"profile: unexpected \['surprise'\]"),
        ({"name": 3}, "profile.name: expected a text"),
    ):
        put_metadata(tmp_path / "metadata.json", declared_metadata(profile=profile | changes))
        with pytest.raises(InvalidRowError, match=expected) as caught:
            load_teacher_dataset(path)
        assert caught.value.where == str(tmp_path / "metadata.json")


def test_files_of_different_profiles_are_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "a" / "rows.jsonl", [declared_row(0)])
    write_rows(tmp_path / "b" / "rows.jsonl", [declared_row(1)])
    put_metadata(tmp_path / "a" / "metadata.json", declared_metadata())
    other = declared_metadata()
    other["profile"]["features"]["version"] = "routing.v2"
    put_metadata(tmp_path / "b" / "metadata.json", other)
    with pytest.raises(InvalidRowError, match='expected rows of the profile "routing" as in') as caught:
        load_teacher_dataset(tmp_path)
    assert caught.value.where == str(tmp_path / "b" / "rows.jsonl")
