"""Parquet in and out, without losing a digit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.errors import InvalidInputError, InvalidRowError
from steersman.teacher.dataset import load_teacher_dataset, load_teacher_rows
from steersman.teacher.merging import convert_rows
from steersman.teacher.rows import FIELDS, parse_teacher_row
from tests.teacher.making import make_row, plain_fingerprint, write_rows
from tests.teacher.test_quick import scene_rows

pa = pytest.importorskip("pyarrow", reason="the parquet extra is not installed")
pq = pytest.importorskip("pyarrow.parquet")


@given(st.lists(scene_rows(), min_size=1, max_size=4))
@settings(max_examples=60)
def test_rows_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    source = write_rows(folder / "rows.jsonl", rows)
    assert convert_rows(source, folder / "rows.parquet").rows == len(rows)
    convert_rows(folder / "rows.parquet", folder / "back.jsonl")
    expected = [json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows]
    assert (folder / "back.jsonl").read_text().splitlines() == expected
    convert_rows(folder / "back.jsonl", folder / "again.parquet")
    assert (folder / "again.parquet").read_bytes() == (folder / "rows.parquet").read_bytes()


def test_fingerprints_and_hashes_are_those_of_the_lines(tmp_path: Path) -> None:
    rows = [make_row(number, features=[number, -0.0, 0.0, 1e-320, *[0.1] * 71]) for number in range(5000)]
    rows = [row | {"row_id": str(number)} for number, row in enumerate(rows)]
    lines = write_rows(tmp_path / "lines" / "rows.jsonl", rows)
    convert_rows(lines, tmp_path / "parquet" / "rows.parquet")
    read = load_teacher_rows(tmp_path / "parquet")
    assert [row.fingerprint for row in read] == [plain_fingerprint(row) for row in rows]
    dataset, other = load_teacher_dataset(lines), load_teacher_dataset(tmp_path / "parquet")
    assert other.dataset_hash == dataset.dataset_hash
    assert other.features.tobytes() == dataset.features.tobytes()
    assert list(other.source_hashes) == ["rows.parquet"]
    both = load_teacher_dataset(tmp_path)
    assert (len(both), both.duplicates) == (5000, 5000)
    assert both.dataset_hash == dataset.dataset_hash


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in FIELDS}
    for name in ("control_input", "provenance"):
        table[name] = [json.dumps(value) if isinstance(value, dict) else value for value in table[name]]
    return table


def write_table(path: Path, rows: list[dict[str, Any]], types: dict[str, Any] | None = None) -> Path:
    """A Parquet file as other programs would write it."""
    arrays = {name: pa.array(values, (types or {}).get(name)) for name, values in columns(rows).items()}
    pq.write_table(pa.table(arrays), path)
    return path


def test_files_of_other_programs_need_no_exact_numbers(tmp_path: Path) -> None:
    rows = [make_row(0, costs=[0, 1, 2, 3]), make_row(1, costs=[4, 5, 6, 7])]
    path = write_table(tmp_path / "rows.parquet", rows)
    assert [row.fingerprint for row in load_teacher_rows(path)] == [plain_fingerprint(row) for row in rows]


@pytest.mark.parametrize("number", ["float", "double"])
@pytest.mark.parametrize("text", ["large_string", "dictionary"])
def test_narrower_and_wider_types_are_read(number: str, text: str, tmp_path: Path) -> None:
    item = pa.float32() if number == "float" else pa.float64()
    string = pa.large_string() if text == "large_string" else pa.dictionary(pa.int32(), pa.string())
    types = {
        "features": pa.list_(item, 75),
        "losses": pa.large_list(item),
        "prefix_step": pa.uint8(),
        "horizon_used": pa.int32(),
        "row_id": string,
        "scene_id": string,
    }
    row = make_row(3, features=[0.5] * 75, losses=[1.0, 2.0, 0.25, 0.125])
    path = write_table(tmp_path / "rows.parquet", [row], types)
    assert load_teacher_rows(path)[0].fingerprint == plain_fingerprint(row)


def features(value: Any) -> list[Any]:
    return [0.5, value, *[0.25] * 73]


def test_a_schema_that_is_null_is_called_so(tmp_path: Path) -> None:
    path = write_table(tmp_path / "rows.parquet", [make_row(0, schema_version=None), make_row(1)])
    with pytest.raises(InvalidRowError, match="schema_version: expected a text, got null") as caught:
        load_teacher_dataset(path)
    assert caught.value.where == f"{path}:1"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"row_id": None}, "row_id: expected a text that is not empty, got null"),
        ({"row_id": ""}, "row_id: expected a text that is not empty"),
        ({"row_id": "a\x00"}, "row_id: expected text without NUL"),
        ({"prefix_step": -1}, "prefix_step: expected an integer of at least 0, got -1"),
        ({"horizon_used": 0}, "horizon_used: expected an integer of at least 1, got 0"),
        ({"features": features(None)}, r"features\[1\]: expected a finite number, got null"),
        ({"features": features(float("nan"))}, r"features\[1\]: expected a finite number, got NaN"),
        ({"features": features(float("inf"))}, r"features\[1\]: expected a finite number, got Infinity"),
        ({"features": features(1e39)}, r"features\[1\]: expected a number that is finite in float32"),
        ({"features": [0.5] * 74}, "features: expected 75 numbers, got 74"),
        ({"features": None}, "features: expected 75 numbers, got null"),
        (
            {"losses": [1.0, 2.0, None, 3.0]},
            r"losses\[2\]: expected a finite number, as the action is feasible",
        ),
        (
            {"feasible_mask": [True, True, False, True]},
            r"losses\[2\]: expected null, as the action is not feasible",
        ),
        ({"feasible_mask": [True, None, True, True]}, r"feasible_mask\[1\]: expected a boolean, got null"),
        ({"feasible_mask": [False] * 4}, "feasible_mask: expected at least one"),
        ({"actions": ["OFF", "ALL"]}, "actions: expected the catalogue"),
        ({"split_id": "test"}, 'split_id: expected "train"'),
        ({"control_input": None}, "control_input: expected a JSON object, got null"),
        ({"control_input": "{"}, "control_input: expected JSON, got a document that ends early"),
        ({"control_input": '{"rgb_mse": 1, "rgb_mse": 2}'}, "control_input: expected each key once"),
        ({"control_input": '{"rgb_mse": 1}, "row_id": "x"'}, "control_input: expected JSON"),
        ({"control_input": '{"rgb_mse": true}'}, "control_input.rgb_mse: expected no boolean"),
        (
            {"control_input": '{"previous_action": "\\u0000"}'},
            "control_input: previous_action: expected text without NUL",
        ),
        ({"provenance": '{"a": 1e400}'}, "provenance: a: expected a finite number"),
        ({"provenance": '{"a": 1, "a": 1}'}, "provenance: expected each key once"),
        ({"provenance": "[]"}, r"provenance: expected a JSON object, got \[\]"),
    ],
)
def test_rows_that_are_not_valid_are_refused_at_their_number(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "rows.parquet", [make_row(0), make_row(1, **changes), make_row(2)])
    with pytest.raises(InvalidRowError, match=expected) as caught:
        load_teacher_dataset(path)
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"costs": None}, r"missing \['costs'\], unexpected \[\]"),
        ({"note": ["x"]}, r"missing \[\], unexpected \['note'\]"),
        ({"row_id": [1]}, "column row_id: expected text, got int64"),
        ({"prefix_step": [1.0]}, "column prefix_step: expected integers, got double"),
        ({"features": [["a"]]}, "column features: expected lists of numbers, got list<"),
        ({"features": [1.0]}, "column features: expected lists of numbers, got double"),
        ({"actions": [[1]]}, "column actions: expected lists of texts"),
        ({"feasible_mask": [[1]]}, "column feasible_mask: expected lists of booleans"),
        ({"provenance": [{"a": 1}]}, "column provenance: expected text, got struct<"),
    ],
)
def test_other_columns_are_refused(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    table = columns([make_row()]) | changes
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({name: pa.array(values) for name, values in table.items() if values is not None}), path
    )
    with pytest.raises(InvalidRowError, match=expected) as caught:
        load_teacher_dataset(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("exact", "expected"),
    [
        ('{"costs": [0, 1, 2, 4]}', "exact_numbers.costs: expected the numbers of the column costs"),
        ('{"costs": 3}', "exact_numbers.costs: expected the numbers"),
        ('{"row_id": [0]}', "exact_numbers: expected lists under"),
        ("[]", "exact_numbers: expected lists under"),
        ("{", "ends early"),
    ],
)
def test_exact_numbers_must_agree_with_the_columns(exact: str, expected: str, tmp_path: Path) -> None:
    table = columns([make_row(0, costs=[0.0, 1.0, 2.0, 3.0])]) | {"exact_numbers": [exact]}
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({name: pa.array(values) for name, values in table.items()}), path)
    with pytest.raises(InvalidRowError, match=expected) as caught:
        load_teacher_dataset(path)
    assert caught.value.where == f"{path}:1"


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", [make_row(number) for number in range(50)])
    path = tmp_path / "damaged" / "rows.parquet"
    convert_rows(source, path)
    whole = path.read_bytes()
    for content in (
        b"",
        b"PAR1",
        whole[:-1],
        whole[: len(whole) // 2],
        b"x" + whole[1:-1] + b"x",
        json.dumps(make_row()).encode(),
    ):
        path.write_bytes(content)
        with pytest.raises(InvalidRowError, match="expected a Parquet file that can be read") as caught:
            load_teacher_dataset(path)
        assert caught.value.where == str(path)


def test_no_flipped_bit_changes_a_row(tmp_path: Path) -> None:
    rows = [make_row(number) | {"row_id": str(number)} for number in range(20)]
    path = tmp_path / "rows.parquet"
    convert_rows(write_rows(tmp_path / "lines" / "rows.jsonl", rows), path)
    whole, original = path.read_bytes(), load_teacher_dataset(path).dataset_hash
    refused = 0
    for place in range(0, len(whole), max(1, len(whole) // 200)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            assert load_teacher_dataset(path).dataset_hash == original, place
        except (InvalidRowError, InvalidInputError):
            refused += 1
    assert refused > 100


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    source = write_table(tmp_path / "rows.parquet", [make_row()])
    pq.write_table(pq.read_table(source).slice(0, 0), source)
    with pytest.raises(InvalidRowError, match="expected at least one row, found none"):
        load_teacher_dataset(source)


def test_without_the_extra_the_error_tells_how_to_install_it(tmp_path: Path) -> None:
    path = write_table(tmp_path / "rows.parquet", [make_row()])
    lines = write_rows(tmp_path / "lines" / "rows.jsonl", [make_row()])
    program = """if True:
        import sys
        sys.modules["pyarrow"] = None
        from steersman.errors import MissingExtraError
        from steersman.teacher.dataset import load_teacher_dataset
        assert len(load_teacher_dataset(sys.argv[2])) == 1
        try:
            load_teacher_dataset(sys.argv[1])
        except MissingExtraError as error:
            print(error)
    """
    command = [sys.executable, "-c", program, str(path), str(lines)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.strip() == (
        "reading and writing Parquet needs the extra 'parquet', which is not installed "
        "(install it with: pip install 'steersman[parquet]')"
    )


def test_the_reference_row_is_parsed_the_same_from_either_kind(tmp_path: Path) -> None:
    body = make_row(8)
    path = write_table(tmp_path / "rows.parquet", [body])
    assert load_teacher_rows(path)[0] == parse_teacher_row(body)
