"""Converted and merged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steersman.errors import InvalidInputError, InvalidRowError, OutputExistsError
from steersman.teacher.dataset import load_teacher_dataset, load_teacher_rows
from steersman.teacher.merging import convert_rows, merge_rows
from steersman.teacher.sources import hash_file
from tests.teacher.making import BINDING, declared_metadata, make_row, write_rows
from tests.teacher.test_binding import declared_row

BARE = {"collector": "test", "teacher_dataset_hash": "kept"}


def test_merged_rows_are_distinct_and_bound_by_a_metadata_file(tmp_path: Path) -> None:
    write_rows(tmp_path / "a" / "rows.jsonl", [make_row(0, provenance=BARE), make_row(1, provenance=BARE)])
    (tmp_path / "a" / "metadata.json").write_text(
        json.dumps({"binding": BINDING | {"site": 3, "dataset_hash": "x"}})
    )
    own = BINDING | BARE
    write_rows(tmp_path / "b" / "rows.jsonl", [make_row(1, provenance=BARE), make_row(2, provenance=own)])
    (tmp_path / "b" / "metadata.json").write_text(
        json.dumps({"provenance": {"binding": BINDING | {"site": 3}}})
    )
    before = load_teacher_dataset([tmp_path / "a", tmp_path / "b"])
    output = tmp_path / "out" / "all.jsonl"
    written = merge_rows([tmp_path / "a", tmp_path / "b"], output)
    assert (written.rows, written.duplicates) == (3, 1)
    assert written.sha256 == hash_file(output)
    assert written.dataset_hash == before.dataset_hash
    assert written.metadata == tmp_path / "out" / "all.metadata.json"
    after = load_teacher_dataset(output)
    assert after.dataset_hash == before.dataset_hash
    assert after.binding == BINDING | {"site": 3}
    assert load_teacher_rows(output)[0].provenance == BARE
    assert json.loads(json.dumps(written.to_json()))["rows"] == 3
    assert sorted(path.name for path in output.parent.iterdir()) == ["all.jsonl", "all.metadata.json"]


def test_a_declared_profile_goes_along(tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "rows.jsonl", [declared_row(0), declared_row(1)])
    (tmp_path / "in" / "metadata.json").write_text(json.dumps(declared_metadata()))
    before = load_teacher_dataset(tmp_path / "in")
    for name in ("merged.jsonl", "merged.parquet"):
        output = tmp_path / name.replace(".", "-") / name
        merge_rows(tmp_path / "in", output)
        after = load_teacher_dataset(output)
        assert after.dataset_hash == before.dataset_hash
        assert after.profile == before.profile


def test_converting_keeps_every_row_in_its_place(tmp_path: Path) -> None:
    rows = [make_row(2), make_row(0), make_row(2), make_row(1, scene_id="scène \x7f")]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    written = convert_rows(source, tmp_path / "rows.parquet")
    assert (written.rows, written.duplicates, written.metadata, written.dataset_hash) == (4, 0, None, None)
    convert_rows(tmp_path / "rows.parquet", tmp_path / "back.jsonl")
    assert [json.loads(line) for line in (tmp_path / "back.jsonl").read_text().splitlines()] == rows


def test_converting_takes_metadata_along_where_it_would_be_lost(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in" / "rows.jsonl", [make_row(0, provenance=BARE)])
    metadata = json.dumps({"binding": BINDING, "made_by": "hand"})
    (tmp_path / "in" / "metadata.json").write_text(metadata)
    assert convert_rows(source, tmp_path / "in" / "same.parquet").metadata is None
    written = convert_rows(source, tmp_path / "out" / "rows.parquet")
    assert written.metadata == tmp_path / "out" / "rows.metadata.json"
    assert written.metadata.read_text() == metadata
    assert load_teacher_dataset(tmp_path / "out").binding == BINDING


def test_converting_shields_from_metadata_of_others(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in" / "rows.jsonl", [make_row(0)])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "metadata.json").write_text(json.dumps({"binding": {"site": 4}}))
    convert_rows(source, tmp_path / "out" / "rows.jsonl")
    assert load_teacher_dataset(tmp_path / "out" / "rows.jsonl").binding == BINDING


@pytest.mark.parametrize(
    "taken", ["all.jsonl", "all.jsonl.part", "all.metadata.json", "all.metadata.json.part"]
)
def test_what_is_there_is_never_replaced(taken: str, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in" / "rows.jsonl", [make_row()])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / taken).write_text("mine")
    with pytest.raises(OutputExistsError) as caught:
        merge_rows(source, tmp_path / "out" / "all.jsonl")
    assert caught.value.where == str(tmp_path / "out" / taken)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [taken]
    assert (tmp_path / "out" / taken).read_text() == "mine"


def test_a_bad_row_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write_rows(
        tmp_path / "in" / "rows.jsonl", [make_row(0), make_row(1), make_row(0, horizon_used=7)]
    )
    for output in (tmp_path / "out" / "all.jsonl", tmp_path / "out" / "all.parquet"):
        with pytest.raises(InvalidRowError):
            merge_rows(source, output)
        assert list(output.parent.iterdir()) == []


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_rows_are_never_there_without_what_binds_them(suffix: str, tmp_path: Path) -> None:
    """Of 255 bytes a name may have, `.metadata.json.part` takes 19, and the suffix of rows with it 11 or 13."""
    source = write_rows(tmp_path / "in" / "rows.jsonl", [make_row(0, provenance=BARE)])
    (tmp_path / "in" / "metadata.json").write_text(json.dumps({"binding": BINDING}))
    for write in (convert_rows, merge_rows):
        with pytest.raises(InvalidInputError, match="File name too long"):
            write(source, tmp_path / "out" / f"{'a' * 238}{suffix}")
        assert list((tmp_path / "out").iterdir()) == []


def test_rows_whose_place_is_taken_meanwhile_leave_no_metadata_beside_it(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in" / "rows.jsonl", [make_row(0), make_row(1)])
    output = tmp_path / "out" / "all.jsonl"

    def take(*_: int) -> None:
        output.write_text("theirs")

    with pytest.raises(OutputExistsError):
        merge_rows(source, output, progress=take)
    assert [path.name for path in output.parent.iterdir()] == ["all.jsonl"]
    assert output.read_text() == "theirs"


def test_outputs_need_a_known_suffix_and_a_place(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in" / "rows.jsonl", [make_row()])
    for write in (convert_rows, merge_rows):
        with pytest.raises(InvalidInputError, match=r"an output named \.jsonl or \.parquet, got '\.csv'"):
            write(source, tmp_path / "rows.csv")
        with pytest.raises(InvalidInputError, match="expected a place that can be written"):
            write(source, source / "below-a-file.jsonl")
    with pytest.raises(InvalidInputError, match="expected one file to convert, got a folder"):
        convert_rows(tmp_path / "in", tmp_path / "rows.parquet")
