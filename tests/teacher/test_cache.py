"""The cache of columns: as if it were not there, only faster."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.errors import InvalidInputError, InvalidRowError
from steersman.teacher.dataset import TeacherDataset, load_teacher_dataset
from steersman.teacher.merging import convert_rows
from tests.teacher.making import BINDING, declared_metadata, make_row, write_rows
from tests.teacher.test_binding import declared_row

pyarrow = pytest.importorskip("pyarrow", reason="the parquet extra is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="the parquet extra is not installed")


def assert_same(left: TeacherDataset, right: TeacherDataset) -> None:
    for name in TeacherDataset.__slots__:
        one, other = getattr(left, name), getattr(right, name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()
            assert one.shape == other.shape
        else:
            assert one == other


def some_rows(count: int, **changes: Any) -> list[dict[str, Any]]:
    rows = [make_row(number, row_id=f"r{number}", **changes) for number in range(count)]
    for row in rows[::3]:
        row |= {"feasible_mask": [True, False, True, True]}
        row |= {name: [row[name][0], None, *row[name][2:]] for name in ("losses", "advantages", "costs")}
    return rows


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_the_second_load_equals_the_first(suffix: str, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "lines.jsonl", some_rows(9000))
    if suffix == ".jsonl":
        source.write_text(source.read_text() + "\n \n")
    path = tmp_path / "in" / f"rows{suffix}"
    path.parent.mkdir()
    if suffix == ".parquet":
        convert_rows(source, path)
    else:
        shutil.copy(source, path)
    cache = tmp_path / "cache" / "deep"
    plain = load_teacher_dataset(path)
    assert_same(load_teacher_dataset(path, cache_dir=cache), plain)
    assert len(list(cache.iterdir())) == 1
    path.with_name("unreadable").write_bytes(path.read_bytes())
    told: list[tuple[int, int]] = []
    again = load_teacher_dataset(path, cache_dir=cache, progress=lambda *counts: told.append(counts))
    assert_same(again, plain)
    assert told[-1] == (path.stat().st_size, path.stat().st_size)
    assert plain.blank_lines == (2 if suffix == ".jsonl" else 0)


def test_an_entry_is_used_by_content_wherever_the_file_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_rows(tmp_path / "a" / "rows.jsonl", some_rows(5))
    second = tmp_path / "b" / "other.jsonl"
    second.parent.mkdir()
    shutil.copy(first, second)
    cache = tmp_path / "cache"
    plain = load_teacher_dataset(first, cache_dir=cache)

    def refuse(*_: object) -> None:
        raise AssertionError("the entry was there and was not used")

    monkeypatch.setattr("steersman.teacher.dataset.RowReader", refuse)
    again = load_teacher_dataset(second, cache_dir=cache)
    assert again.dataset_hash == plain.dataset_hash
    assert list(again.source_hashes) == ["other.jsonl"]


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", some_rows(5))
    cache = tmp_path / "cache"
    load_teacher_dataset(path, cache_dir=cache)
    write_rows(path, some_rows(6))
    assert len(load_teacher_dataset(path, cache_dir=cache)) == 6
    assert len(list(cache.iterdir())) == 2


def test_bindings_and_duplicates_are_looked_at_again(tmp_path: Path) -> None:
    bare = {"collector": "test"}
    path = write_rows(tmp_path / "rows.jsonl", some_rows(5, provenance=bare))
    metadata = tmp_path / "metadata.json"
    metadata.write_text(json.dumps({"binding": BINDING}))
    cache = tmp_path / "cache"
    first = load_teacher_dataset(path, cache_dir=cache)
    metadata.write_text(json.dumps({"binding": BINDING | {"model_content_hash": "new"}}))
    second = load_teacher_dataset(path, cache_dir=cache)
    assert second.binding["model_content_hash"] == "new"
    assert second.dataset_hash != first.dataset_hash
    metadata.write_text(json.dumps({"binding": {}}))
    with pytest.raises(InvalidRowError, match="missing") as caught:
        load_teacher_dataset(path, cache_dir=cache)
    assert caught.value.where == f"{path}:1"
    metadata.write_text(json.dumps({"binding": BINDING}))
    write_rows(tmp_path / "s.jsonl", [make_row(1, row_id="r4", provenance=bare)])
    for _ in range(2):
        with pytest.raises(InvalidRowError, match=f"other content at {path}:5") as caught:
            load_teacher_dataset([path, tmp_path / "s.jsonl"], cache_dir=cache)
        assert caught.value.where == f"{tmp_path / 's.jsonl'}:1"


def test_overlays_that_differ_keep_their_places(tmp_path: Path) -> None:
    rows = some_rows(4)
    rows[2]["provenance"] = BINDING | {"model_content_hash": "odd"}
    path = write_rows(tmp_path / "rows.jsonl", rows)
    for _ in range(2):
        with pytest.raises(InvalidRowError, match="model_content_hash") as caught:
            load_teacher_dataset(path, cache_dir=tmp_path / "cache")
        assert caught.value.where == f"{path}:3"


def test_profiles_do_not_share_entries(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [declared_row()])
    metadata = tmp_path / "metadata.json"
    cache = tmp_path / "cache"
    for version in ("routing.v1", "routing.v2"):
        body = declared_metadata()
        body["profile"]["features"]["version"] = version
        metadata.write_text(json.dumps(body))
        assert load_teacher_dataset(path, cache_dir=cache).profile.features.version == version
    assert len(list(cache.iterdir())) == 2


def test_files_with_errors_leave_no_entry(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [*some_rows(5000), make_row(1, row_id="")])
    for _ in range(2):
        with pytest.raises(InvalidRowError) as caught:
            load_teacher_dataset(path, cache_dir=tmp_path / "cache")
        assert caught.value.where == f"{path}:5001"
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TeacherDataset, Path]:
    """A file, its data set and its entry of several blocks."""
    folder = tmp_path_factory.mktemp("cached")
    path = write_rows(folder / "rows.jsonl", some_rows(9000))
    plain = load_teacher_dataset(path, cache_dir=folder / "cache")
    (entry,) = (folder / "cache").iterdir()
    return path, plain, entry


@pytest.mark.parametrize("seed", range(15))
def test_damaged_entries_are_replaced(
    seed: int, cached: tuple[Path, TeacherDataset, Path], tmp_path: Path
) -> None:
    path, plain, entry = cached
    damaged = bytearray(entry.read_bytes())
    draw = np.random.default_rng(seed)
    if seed % 3 == 0:
        del damaged[int(draw.integers(len(damaged))) :]
    else:
        damaged[int(draw.integers(len(damaged) - 3000))] ^= 1 << int(draw.integers(8))
    (tmp_path / entry.name).write_bytes(damaged)
    assert_same(load_teacher_dataset(path, cache_dir=tmp_path), plain)
    assert (tmp_path / entry.name).read_bytes() == entry.read_bytes()


def test_an_entry_of_other_content_is_not_believed(
    cached: tuple[Path, TeacherDataset, Path], tmp_path: Path
) -> None:
    _, _, entry = cached
    other = write_rows(tmp_path / "other.jsonl", some_rows(20))
    plain = load_teacher_dataset(other, cache_dir=tmp_path / "cache")
    (place,) = (tmp_path / "cache").iterdir()
    whole = place.read_bytes()
    shutil.copy(entry, place)
    assert_same(load_teacher_dataset(other, cache_dir=tmp_path / "cache"), plain)
    assert place.read_bytes() == whole


def changed(name: str, value: Any) -> Callable[[Any], Any]:
    """A change of a table: `value` in the first row of the column `name`."""

    def change(table: Any) -> Any:
        place, values = table.schema.names.index(name), table.column(name).to_pylist()
        field = table.schema.field(place)
        return table.set_column(place, field, pyarrow.array([value, *values[1:]], field.type))

    return change


CHANGES: dict[str, Callable[[Any], Any]] = {
    "an id that is null": changed("row_id", None),
    "a scene that is null": changed("scene_id", None),
    "a number that is null": changed("number", None),
    "a digest that is null": changed("digest", None),
    "an overlay that is null": changed("overlay", None),
    "an overlay that is no JSON": changed("overlay", "not json"),
    "an overlay that is no object": changed("overlay", "3"),
    "fewer rows": lambda table: table.slice(0, 3),
    "no rows": lambda table: table.slice(0, 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_entries_that_are_not_whole_are_replaced(change: str, tmp_path: Path) -> None:
    path, cache = write_rows(tmp_path / "rows.jsonl", some_rows(10)), tmp_path / "cache"
    plain = load_teacher_dataset(path, cache_dir=cache)
    (place,) = cache.iterdir()
    whole, table = place.read_bytes(), parquet.read_table(place)
    facts = parquet.read_metadata(place).metadata[b"steersman"]
    with parquet.ParquetWriter(place, table.schema, compression="none", write_page_checksum=True) as writer:
        writer.write_table(CHANGES[change](table))
        writer.add_key_value_metadata({b"steersman": facts})
    assert_same(load_teacher_dataset(path, cache_dir=cache), plain)
    assert place.read_bytes() == whole


@pytest.mark.parametrize("facts", [None, "", "[]", "7", '{"blank_lines": -7}', '{"blank_lines": 0}'])
def test_entries_that_say_nothing_sound_of_themselves_are_replaced(facts: str | None, tmp_path: Path) -> None:
    path, cache = write_rows(tmp_path / "rows.jsonl", some_rows(10)), tmp_path / "cache"
    plain = load_teacher_dataset(path, cache_dir=cache)
    (place,) = cache.iterdir()
    whole, table = place.read_bytes(), parquet.read_table(place)
    with parquet.ParquetWriter(place, table.schema, compression="none", write_page_checksum=True) as writer:
        writer.write_table(table)
        if facts is not None:
            writer.add_key_value_metadata({"steersman": facts})
    assert_same(load_teacher_dataset(path, cache_dir=cache), plain)
    assert place.read_bytes() == whole


def test_a_pipe_in_the_place_of_an_entry_is_not_waited_for(tmp_path: Path) -> None:
    path, cache = write_rows(tmp_path / "rows.jsonl", some_rows(3)), tmp_path / "cache"
    plain = load_teacher_dataset(path, cache_dir=cache)
    (place,) = cache.iterdir()
    place.unlink()
    os.mkfifo(place)
    assert_same(load_teacher_dataset(path, cache_dir=cache), plain)
    assert place.is_file()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", some_rows(2))
    (tmp_path / "taken").write_text("")
    with pytest.raises(InvalidInputError, match="expected a cache folder that can be written"):
        load_teacher_dataset(path, cache_dir=tmp_path / "taken")
