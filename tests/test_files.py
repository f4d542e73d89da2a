from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from steersman.errors import InvalidInputError, OutputExistsError
from steersman.files import check_absent, new_file, new_files


def test_a_file_takes_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "out.txt"
    with new_file(path, mode=0o600) as part:
        part.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["out.txt"]


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with new_file(tmp_path / "out.txt") as part:
            part.write_text("ha")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert list(tmp_path.iterdir()) == []


def test_what_came_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"

    def be_overtaken() -> None:
        with new_file(path) as part:
            part.write_text("ours")
            path.write_text("theirs")

    with pytest.raises(OutputExistsError):
        be_overtaken()
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.txt", "theirs")]


@pytest.mark.parametrize("taken", ["out.txt", "out.txt.part"])
def test_what_is_there_is_refused(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExistsError) as caught:
        check_absent(tmp_path / "other.txt", tmp_path / "out.txt")
    assert caught.value.where == str(tmp_path / taken)
    with pytest.raises(OutputExistsError), new_file(tmp_path / "out.txt"):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == [taken]


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "below.txt", tmp_path / "nul\0", Path("/")):
        with pytest.raises(InvalidInputError), new_file(path):
            pass

    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(InvalidInputError, match="No space left on device"), new_file(tmp_path / "out"):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_several_files_come_together_or_not_at_all(tmp_path: Path) -> None:
    rows, beside = tmp_path / "rows.jsonl", tmp_path / "metadata.json"
    with new_files(rows, beside) as (first, second):
        first.write_text("rows")
        second.write_text("metadata")
    assert [path.read_text() for path in (rows, beside)] == ["rows", "metadata"]

    def be_overtaken(*paths: Path) -> None:
        with new_files(*paths) as (first, second):
            first.write_text("ours")
            second.write_text("ours")
            paths[0].write_text("theirs")

    taken, other = tmp_path / "taken", tmp_path / "other"
    with pytest.raises(OutputExistsError):
        be_overtaken(taken, other)
    assert taken.read_text() == "theirs"
    assert not other.exists()
    assert not list(tmp_path.glob("*.part"))
