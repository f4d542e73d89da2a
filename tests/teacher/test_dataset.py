"""Many files become one data set: found, merged, hashed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.errors import InvalidRowError
from steersman.teacher.building import GrowingArray
from steersman.teacher.dataset import as_dataset, load_teacher_dataset, load_teacher_rows
from steersman.teacher.inspection import inspect_rows
from steersman.teacher.merging import convert_rows
from steersman.teacher.rows import parse_teacher_row
from steersman.teacher.sources import LineReader, find_sources
from tests.teacher.making import BINDING, SCENE, make_row, plain_fingerprint, write_rows


def plain_dataset_hash(rows: list[dict[str, Any]], binding: dict[str, Any]) -> str:
    """The hash of a data set, by `json` and `hashlib` alone."""
    pairs = sorted([row["row_id"], plain_fingerprint(row)] for row in rows)
    text = json.dumps({"binding": binding, "rows": pairs}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def test_columns_hold_what_the_rows_hold(tmp_path: Path) -> None:
    rows = [make_row(0), make_row(7), make_row(3)]
    rows[1] |= {
        "feasible_mask": [False, True, False, True],
        "losses": [None, 1, None, 2.5],
        "advantages": [None, 0.75, None, -0.75],
        "costs": [None, 0, None, 5e5],
    }
    dataset = load_teacher_dataset(write_rows(tmp_path / "rows.jsonl", rows))
    assert len(dataset) == 3
    assert dataset.profile is SCENE
    assert dataset.row_ids == ("ep0:prefix:0", "ep1:prefix:2", "ep0:prefix:3")
    assert dataset.scene_ids == ("scene-00", "scene-01")
    assert dataset.scene_index.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(
        dataset.features, np.array([row["features"] for row in rows], dtype=np.float32)
    )
    assert dataset.feasible.tolist() == [row["feasible_mask"] for row in rows]
    for name in ("losses", "advantages", "costs"):
        expected = np.array([row[name] for row in rows], dtype=np.float64)
        np.testing.assert_array_equal(getattr(dataset, name), expected)
    assert dataset.binding == BINDING
    assert dataset.duplicates == dataset.blank_lines == 0


def test_the_dataset_hash_is_that_of_binding_ids_and_fingerprints(tmp_path: Path) -> None:
    rows = [make_row(number) for number in range(12)] + [make_row(12, row_id='zé"\u2028😀\x7f')]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    assert load_teacher_dataset(path).dataset_hash == plain_dataset_hash(rows, BINDING)
    many = [make_row(number, row_id=f"r{number}") for number in range(4100)]
    path = write_rows(tmp_path / "many.jsonl", many)
    assert load_teacher_dataset(path).dataset_hash == plain_dataset_hash(many, BINDING)


def test_the_dataset_hash_depends_neither_on_files_nor_on_order(tmp_path: Path) -> None:
    rows = [make_row(number) for number in range(9)]
    together = load_teacher_dataset(write_rows(tmp_path / "one" / "rows.jsonl", rows))
    write_rows(tmp_path / "two" / "z.jsonl", rows[:4][::-1])
    write_rows(tmp_path / "two" / "deep" / "a.jsonl", rows[4:])
    apart = load_teacher_dataset(tmp_path / "two")
    assert apart.dataset_hash == together.dataset_hash
    assert sorted(apart.row_ids) == sorted(together.row_ids)
    rebound = [row | {"provenance": BINDING | {"model_content_hash": "x"}} for row in rows]
    other = load_teacher_dataset(write_rows(tmp_path / "three.jsonl", rebound))
    assert other.dataset_hash != together.dataset_hash


def test_source_hashes_stand_under_relative_paths(tmp_path: Path) -> None:
    paths = [tmp_path / "in" / "b.jsonl", tmp_path / "in" / "deep" / "er" / "a.jsonl"]
    for number, path in enumerate(paths):
        write_rows(path, [make_row(number)])
    (tmp_path / "in" / "empty.jsonl").touch()
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    nothing = hashlib.sha256(b"").hexdigest()
    assert load_teacher_dataset(tmp_path / "in").source_hashes == {
        "b.jsonl": digests[0],
        "deep/er/a.jsonl": digests[1],
        "empty.jsonl": nothing,
    }
    assert load_teacher_dataset(paths).source_hashes == {"b.jsonl": digests[0], "a.jsonl": digests[1]}


def test_equal_relative_paths_are_told_apart(tmp_path: Path) -> None:
    for number, name in enumerate(["first", "second"]):
        write_rows(tmp_path / name / "rows.jsonl", [make_row(number)])
    dataset = load_teacher_dataset([tmp_path / "second", tmp_path / "first"])
    assert list(dataset.source_hashes) == ["first/rows.jsonl", "second/rows.jsonl"]


def test_a_file_reached_twice_is_read_once(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows" / "a.jsonl", [make_row(0)])
    (tmp_path / "rows" / "link.jsonl").symlink_to(path)
    (tmp_path / "rows" / "loop").symlink_to(tmp_path / "rows")
    dataset = load_teacher_dataset(
        [tmp_path / "rows", path, str(tmp_path / "rows" / ".." / "rows" / "a.jsonl")]
    )
    assert len(dataset) == 1
    assert dataset.duplicates == 0
    assert list(dataset.source_hashes) == ["a.jsonl"]


def test_a_file_is_known_by_the_input_that_names_it_first(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows" / "deep" / "a.jsonl", [make_row(0)])
    for inputs, key in (([tmp_path / "rows", path], "deep/a.jsonl"), ([path, tmp_path / "rows"], "a.jsonl")):
        assert list(load_teacher_dataset(inputs).source_hashes) == [key]


def test_links_to_folders_are_followed_and_loops_end(tmp_path: Path) -> None:
    write_rows(tmp_path / "elsewhere" / "a.jsonl", [make_row(0)])
    write_rows(tmp_path / "rows" / "b.jsonl", [make_row(1)])
    (tmp_path / "rows" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "rows")
    dataset = load_teacher_dataset(tmp_path / "rows")
    assert list(dataset.source_hashes) == ["linked/a.jsonl", "b.jsonl"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("kind", ["dangling", "pipe"])
def test_what_is_named_as_rows_are_is_not_left_out_in_silence(kind: str, suffix: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.jsonl", [make_row(0)])
    odd = tmp_path / "rows" / f"odd{suffix}"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(tmp_path / "gone")
    with pytest.raises(InvalidRowError, match="expected a regular file, got") as caught:
        load_teacher_dataset(tmp_path / "rows")
    assert caught.value.where == str(odd)


@pytest.mark.parametrize("name", ["x" * 300 + ".jsonl", "a\0b.jsonl", "rows.jsonl/below.jsonl"])
def test_names_that_no_file_can_have_are_refused_as_rows_are(name: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [make_row(0)])
    with pytest.raises(InvalidRowError, match=r"expected a (file or folder, found nothing|readable file)"):
        load_teacher_dataset(str(tmp_path / name))


def test_other_files_in_a_folder_are_passed_over(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [make_row(0)])
    for name in ("notes.txt", "b.jsonl.part", "c.json", "d.JSONL", "e.columns"):
        (tmp_path / name).write_text("no rows")
    assert len(load_teacher_dataset(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing", "expected a file or folder, found nothing"),
        ("missing.jsonl", "expected a file or folder, found nothing"),
        ("empty", "expected .jsonl or .parquet files, found none"),
        ("rows.json", "expected a .jsonl or .parquet file, got '.json'"),
        ("rows", "expected a .jsonl or .parquet file, got ''"),
    ],
)
def test_inputs_without_rows_are_refused(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for other in ("rows.json", "rows"):
        (tmp_path / other).write_text("{}")
    good = write_rows(tmp_path / "good" / "rows.jsonl", [make_row()])
    for inputs in ([tmp_path / name], [good, tmp_path / name]):
        if name == "empty" and len(inputs) == 2:
            continue  # one empty folder among others does no harm
        with pytest.raises(InvalidRowError, match=expected) as caught:
            load_teacher_dataset(inputs)
        assert caught.value.where == str(tmp_path / name)
    with pytest.raises(InvalidRowError, match="found none"):
        load_teacher_dataset([])


def test_duplicates_are_dropped_and_counted_within_and_across_files(tmp_path: Path) -> None:
    spelled_otherwise = json.dumps(dict(reversed(make_row(1).items())), indent=None, separators=(" ,", ":  "))
    first = tmp_path / "a.jsonl"
    first.write_text(
        "\n".join(map(json.dumps, [make_row(0), make_row(1), make_row(0)])) + "\n" + spelled_otherwise
    )
    marked = make_row(2, provenance=BINDING | {"collector": "test", "dataset_hash": "marked"})
    write_rows(tmp_path / "b.jsonl", [make_row(1), make_row(2), marked, make_row(3)])
    dataset = load_teacher_dataset(tmp_path)
    assert dataset.row_ids == tuple(f"ep0:prefix:{number}" for number in range(4))
    assert dataset.duplicates == 4
    np.testing.assert_array_equal(dataset.features[3], np.array(make_row(3)["features"], dtype=np.float32))
    assert dataset.scene_index.tolist() == [0, 0, 0, 0]
    rows = load_teacher_rows(tmp_path)
    assert [row.row_id for row in rows] == list(dataset.row_ids)


def test_an_id_with_other_content_names_both_places(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [make_row(0), make_row(1), make_row(0), make_row(2)])
    write_rows(tmp_path / "b.jsonl", [make_row(3), make_row(3), make_row(2, horizon_used=4)])
    for load in (load_teacher_dataset, load_teacher_rows):
        with pytest.raises(InvalidRowError) as caught:
            load(tmp_path)
        assert str(caught.value) == (
            f'{tmp_path / "b.jsonl"}:3: row_id: expected one row for each id, got "ep0:prefix:2" with other content '
            f"at {tmp_path / 'a.jsonl'}:4"
        )


def test_an_integer_for_a_float_is_other_content(tmp_path: Path) -> None:
    rows = [make_row(0, costs=[0.0, 1.0, 2.0, 3.0]), make_row(0, costs=[0, 1.0, 2.0, 3.0])]
    with pytest.raises(InvalidRowError, match="other content"):
        load_teacher_dataset(write_rows(tmp_path / "rows.jsonl", rows))


def test_rows_and_mappings_make_the_same_data_set_as_their_file(tmp_path: Path) -> None:
    bodies = [make_row(number) for number in (4, 0, 9, 0)]
    loaded = load_teacher_dataset(write_rows(tmp_path / "rows.jsonl", bodies))
    for rows in (
        bodies,
        [parse_teacher_row(body) for body in bodies],
        load_teacher_rows(tmp_path),
        iter(bodies),
    ):
        made = as_dataset(rows)
        assert made.dataset_hash == loaded.dataset_hash
        assert made.row_ids == loaded.row_ids
        np.testing.assert_array_equal(made.features, loaded.features)
        assert made.binding == loaded.binding
        assert made.source_hashes == {}
    assert as_dataset(loaded) is loaded


@pytest.mark.parametrize("rows", [5, None, "rows.jsonl", {"row_id": "r"}])
def test_what_is_no_list_of_rows_is_refused(rows: Any) -> None:
    with pytest.raises(InvalidRowError, match="expected a data set or rows, got "):
        as_dataset(rows)


def test_mappings_are_checked_as_rows_of_files_are() -> None:
    with pytest.raises(InvalidRowError, match="expected at least one row"):
        as_dataset([])
    with pytest.raises(InvalidRowError, match=r"^row:2: horizon_used: expected an integer"):
        as_dataset([make_row(0), make_row(1, horizon_used=0)])
    with pytest.raises(
        InvalidRowError, match=r"^row:2: row_id: expected one row .* with other content at row:1"
    ):
        as_dataset([make_row(0), make_row(0, horizon_used=9)])
    with pytest.raises(InvalidRowError, match=r"^row:2: binding\.model_content_hash"):
        as_dataset([make_row(0), make_row(1, provenance=BINDING | {"model_content_hash": 1})])


def test_progress_counts_all_bytes_once(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [make_row(number, row_id=f"a{number}") for number in range(5000)])
    write_rows(tmp_path / "b.jsonl", [make_row(number) for number in range(3)])
    told: list[tuple[int, int]] = []
    load_teacher_dataset(tmp_path, progress=lambda done, total: told.append((done, total)))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) >= 3


def test_progress_of_a_table_grows_with_its_rows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    lines = write_rows(tmp_path / "a.jsonl", [make_row(number) for number in range(4000)])
    table = tmp_path / "a.parquet"
    told: list[tuple[int, int]] = []
    convert_rows(lines, table, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (lines.stat().st_size, lines.stat().st_size)
    told.clear()
    inspect_rows(table, progress=lambda done, total: told.append((done, total)))
    shares = [done / total for done, total in told]
    # 4000 rows, 1024 at a time, and once more at the end.
    assert shares == pytest.approx([0.256, 0.512, 0.768, 1.0, 1.0], abs=1e-4)


def test_lines_longer_than_a_block_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    long = json.dumps(make_row(0, provenance=BINDING | {"note": "x" * 300_000})).encode()
    path.write_bytes(b"\n" + long + b"\n\r\n" + long[:-1] + b" }")
    reader = LineReader(path)
    lines = [line for block in reader.blocks() for line in block]
    assert [(number, len(line)) for number, line in lines] == [(2, len(long)), (4, len(long) + 1)]
    assert reader.blank == 2
    assert reader.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_teacher_dataset(path).duplicates == 1


def test_sources_are_sorted_by_resolved_path(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "a/9.jsonl", "a/1.parquet", "c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_sources([tmp_path / "c.jsonl", tmp_path / "b", tmp_path / "a"])
    assert [source.path.relative_to(tmp_path).as_posix() for source in found] == [
        "a/1.parquet",
        "a/9.jsonl",
        "b/2.jsonl",
        "c.jsonl",
    ]


def test_growing_arrays_hold_exactly_what_was_added() -> None:
    draw = np.random.default_rng(3)
    blocks = [draw.normal(size=(size, 3)) for size in (0, 5, 1, 0, 300, 7)]
    array = GrowingArray((3,), np.float64)
    for block in blocks:
        array.add(block)
    np.testing.assert_array_equal(array.take(), np.concatenate(blocks))
    assert GrowingArray((2,), np.bool_).take().shape == (0, 2)
