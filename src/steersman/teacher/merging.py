"""Files of rows made from others: converted one by one, or merged into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidInputError
from steersman.files import check_absent, new_files
from steersman.teacher.binding import BindingCheck, find_metadata
from steersman.teacher.dataset import Progress, merged_rows
from steersman.teacher.index import RowIndex
from steersman.teacher.parquet import write_parquet
from steersman.teacher.profiles import BUILT_IN, RowProfile
from steersman.teacher.reading import RowReader, find_collections
from steersman.teacher.rows import CheckedRow
from steersman.teacher.sources import SUFFIXES, Paths, find_sources, hash_file

__all__ = ["WrittenRows", "convert_rows", "merge_rows"]


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """What was written."""

    output: Path
    metadata: Path | None  # the metadata file that was written beside it
    rows: int
    duplicates: int  # rows left out because they were there already
    sha256: str  # of the output
    dataset_hash: str | None  # of merged rows

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {
            "output": str(self.output),
            "metadata": None if self.metadata is None else str(self.metadata),
            "rows": self.rows,
            "duplicates": self.duplicates,
            "sha256": self.sha256,
            "dataset_hash": self.dataset_hash,
        }


def convert_rows(source: Path, output: Path, *, progress: Progress | None = None) -> WrittenRows:
    """Write the rows of the file `source` to `output`, as JSON lines or Parquet by its suffix; all, in their order.

    `progress` is told bytes read and bytes in all.
    What metadata says of the rows goes along, in `<stem>.metadata.json` where `output` would otherwise lose it.
    Raises InvalidRowError at the first row that is not valid, OutputExistsError for an output that is there, and
    InvalidInputError for one that has another suffix or cannot be written.
    """
    _check_suffix(output)
    if source.is_dir():
        raise InvalidInputError("expected one file to convert, got a folder", where=str(source))
    (collection,) = find_collections(find_sources(source))
    metadata = _lost_metadata(collection.metadata.path, output)
    sidecars = {} if metadata is None else {_sidecar(output): metadata}
    check_absent(output, *sidecars)
    with new_files(output, *sidecars) as (part, *sides):
        rows = _write_rows(_rows_of(RowReader(collection), progress), part, output.suffix)
        for side, content in zip(sides, sidecars.values(), strict=True):
            side.write_bytes(content)
    return WrittenRows(output, next(iter(sidecars), None), rows, 0, hash_file(output), None)


def merge_rows(paths: Paths, output: Path, *, progress: Progress | None = None) -> WrittenRows:
    """Write the distinct rows of `paths` to `output`, as JSON lines or Parquet by its suffix, in reading order.

    The binding that they share goes to `<stem>.metadata.json`; `progress` is told bytes read and bytes in all.
    Raises InvalidRowError under the rules of `load_teacher_dataset`, OutputExistsError for an output that is there,
    and InvalidInputError for one that has another suffix or cannot be written.
    """
    _check_suffix(output)
    sidecar = _sidecar(output)
    check_absent(output, sidecar)
    readers = [RowReader(collection) for collection in find_collections(find_sources(paths))]
    profile = readers[0].collection.profile
    index, bindings = RowIndex(), BindingCheck(profile)
    merged = (row for _, _, row in merged_rows(readers, index, bindings, progress=progress))
    with new_files(output, sidecar) as (part, side):
        rows = _write_rows(merged, part, output.suffix)
        metadata = canonical_json(_metadata(profile, bindings.binding))
        side.write_bytes(metadata.encode("ascii") + b"\n")
    dataset_hash = index.dataset_hash(bindings.binding)
    return WrittenRows(output, sidecar, rows, index.duplicates, hash_file(output), dataset_hash)


def _rows_of(reader: RowReader, progress: Progress | None) -> Iterator[CheckedRow]:
    total = reader.collection.source.size
    for block in reader:
        yield from (row for _, row in block)
        if progress is not None:
            progress(reader.bytes_read, total)


def _check_suffix(output: Path) -> None:
    if output.suffix not in SUFFIXES:
        raise InvalidInputError(
            f"expected an output named {' or '.join(SUFFIXES)}, got {output.suffix!r}", where=str(output)
        )


def _sidecar(output: Path) -> Path:
    return output.with_name(f"{output.stem}.metadata.json")


def _write_rows(rows: Iterable[CheckedRow], part: Path, suffix: str) -> int:
    return (write_parquet if suffix == ".parquet" else _write_lines)(rows, part)


def _write_lines(rows: Iterable[CheckedRow], path: Path) -> int:
    count = 0
    with path.open("wb") as file:
        for count, row in enumerate(rows, 1):  # noqa: B007  (it is wanted after the last one)
            file.write(row.text() + b"\n")
    return count


def _metadata(profile: RowProfile, binding: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "schema_version": profile.collection_schema,
        "row_schema_version": profile.row_schema,
        "binding": binding,
    }
    return body if profile.row_schema in BUILT_IN else body | {"profile": profile.to_json()}


def _lost_metadata(metadata: Path | None, output: Path) -> bytes | None:
    """Return what must stand beside `output` for its rows to be bound as before, None where they are anyway."""
    if find_metadata(output.resolve()).path == metadata:
        return None
    return b"{}\n" if metadata is None else metadata.read_bytes()
