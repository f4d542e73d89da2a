"""Teacher rows as Parquet: one typed column a field, and nothing lost on the way in or out.

Numbers are columns of float64, in which 1 and 1.0 are the same; their fingerprints are not. So where a list of
numbers holds an integer, the column `exact_numbers` keeps the lists of that row as JSON, and otherwise is null.
Control input and provenance, whose keys differ from row to row, are columns of JSON text.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidRowError, MissingExtraError
from steersman.teacher.quick import RowChecker
from steersman.teacher.rows import FIELDS, CheckedRow, NumberedRow, RowFields, check_row
from steersman.teacher.strict_json import parse_json

__all__ = [
    "EXACT_NUMBERS",
    "load_pyarrow",
    "read_parquet",
    "row_count_of",
    "row_schema_of",
    "write_parquet",
]

EXACT_NUMBERS = "exact_numbers"

_TEXTS = ("schema_version", "row_id", "episode_id", "scene_id", "split_id", "control_input", "provenance")
_COUNTS = ("prefix_step", "prefix_frame_id", "horizon_used")
_NUMBERS = ("features", "losses", "advantages", "costs")
_DOCUMENTS = ("control_input", "provenance")
_FINGERPRINTS = b"steersman.fingerprints"
"""The metadata of our own files under which a digest over the fingerprints of all rows stands, in order."""
_BATCH = 1024  # rows decoded together
_ROW_GROUP = 16_384  # rows


def load_pyarrow() -> tuple[ModuleType, ModuleType]:
    """Return pyarrow and its Parquet module; raise MissingExtraError where they are not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("parquet", purpose="reading and writing Parquet") from error
    return pa, pq


def row_schema_of(path: Path) -> str | None:
    """Return the row schema of the first row of `path`, or None where there is no row; raise InvalidRowError."""
    for batch in _batches(path, ["schema_version"], 1):
        for value in batch.column(0).to_pylist():
            if value is None:
                raise InvalidRowError("schema_version: expected a text, got null", where=f"{path}:1")
            return str(value)
    return None


def row_count_of(path: Path) -> int:
    """Return how many rows `path` says that it has; raise InvalidRowError for a file that is no Parquet."""
    return int(_footer_of(path).num_rows)


def _metadata_of(path: Path) -> dict[bytes, bytes]:
    return _footer_of(path).metadata or {}


def _footer_of(path: Path) -> Any:
    pa, pq = load_pyarrow()
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def read_parquet(path: Path, checker: RowChecker) -> Iterator[list[NumberedRow]]:
    """Yield the rows of `path`, some at a time, with their numbers from 1.

    A file may lack `exact_numbers`; integer columns then give integers and float columns floats.
    Raises InvalidRowError for a file that is no Parquet, for columns that are missing, unexpected or of
    another type, at `path:row` for a row that is not valid, and after the last row when these are not the rows
    that we wrote: page checksums leave out what stands between the pages.
    """
    number, digest = 1, hashlib.sha256()
    for batch in _batches(path, None, _BATCH):
        bodies = list(_bodies(batch, path, number))
        rows = checker.try_bodies(bodies)
        if rows is None:
            rows = [
                _check_body(body, checker, f"{path}:{index}") for index, body in enumerate(bodies, number)
            ]
        yield list(enumerate(rows, number))
        number += len(rows)
        digest.update(b"".join(row.digest for row in rows))
    recorded = _metadata_of(path).get(_FINGERPRINTS)
    if recorded not in (None, digest.hexdigest().encode()):
        raise InvalidRowError(
            "expected the rows that were written, got others: the file is damaged", where=str(path)
        )


def write_parquet(rows: Iterable[CheckedRow], path: Path) -> int:
    """Write `rows` to the new file `path` and return their number."""
    pa, pq = load_pyarrow()
    schema = _schema(pa)
    count, digest = 0, hashlib.sha256()
    texts = [*_TEXTS, "actions.list.element", EXACT_NUMBERS]
    options = {"compression": "zstd", "use_dictionary": texts, "write_page_checksum": True}
    with pq.ParquetWriter(path, schema, **options) as writer:
        remaining = iter(rows)
        while group := list(itertools.islice(remaining, _ROW_GROUP)):
            columns = _columns(group)
            arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            count += len(group)
            digest.update(b"".join(row.digest for row in group))
        writer.add_key_value_metadata({_FINGERPRINTS: digest.hexdigest()})
    return count


def _schema(pa: ModuleType) -> Any:
    kinds = dict.fromkeys(_TEXTS, pa.string()) | dict.fromkeys(_COUNTS, pa.int64())
    kinds |= dict.fromkeys(_NUMBERS, pa.list_(pa.float64()))
    kinds |= {"actions": pa.list_(pa.string()), "feasible_mask": pa.list_(pa.bool_())}
    return pa.schema([*((name, kinds[name]) for name in FIELDS), (EXACT_NUMBERS, pa.string())])


def _columns(rows: Sequence[CheckedRow]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "control_input": [row.control_text().decode() for row in rows],
        "provenance": [row.provenance.text for row in rows],
        EXACT_NUMBERS: [_exact_text(row.fields) for row in rows],
    }
    for name in _NUMBERS:
        columns[name] = [_as_floats(getattr(row.fields, name)) for row in rows]
    for name in set(FIELDS) - columns.keys():
        columns[name] = [getattr(row.fields, name) for row in rows]
    return columns


def _bodies(batch: Any, path: Path, number: int) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row of `batch`, which starts with row `number`."""
    try:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    except UnicodeDecodeError as error:
        raise InvalidRowError(f"expected UTF-8, got {error.object!r:.40}", where=f"{path}:{number}") from None
    exact = columns.pop(EXACT_NUMBERS, None) or itertools.repeat(None, batch.num_rows)
    rows = zip(*columns.values(), strict=True)
    for index, (values, exact_text) in enumerate(zip(rows, exact, strict=True), number):
        body = dict(zip(columns, values, strict=True))
        if exact_text is not None:
            body.update(_exact_lists(exact_text, body, f"{path}:{index}"))
        yield body


def _exact_text(fields: RowFields) -> str | None:
    """Return the lists of a row that hold an integer as JSON, or None where there is none."""
    lists = {name: getattr(fields, name) for name in _NUMBERS}
    exact = {name: values for name, values in lists.items() if int in set(map(type, values))}
    return canonical_json(exact) if exact else None


def _exact_lists(text: str, body: dict[str, Any], where: str) -> dict[str, Any]:
    lists = parse_json(text.encode(), where=where)
    if not isinstance(lists, dict) or not lists.keys() <= set(_NUMBERS):
        raise InvalidRowError(f"{EXACT_NUMBERS}: expected lists under {list(_NUMBERS)}", where=where)
    for name, values in lists.items():
        if not isinstance(values, list) or _as_floats(values) != body[name]:
            raise InvalidRowError(
                f"{EXACT_NUMBERS}.{name}: expected the numbers of the column {name}", where=where
            )
    return lists


def _as_floats(values: list[Any]) -> list[Any]:
    return [float(value) if type(value) is int else value for value in values]


def _batches(path: Path, columns: list[str] | None, size: int) -> Iterator[Any]:
    pa, pq = load_pyarrow()
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_columns(pa, file.schema_arrow, str(path))
            yield from file.iter_batches(size, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InvalidRowError:
    reason = str(error).splitlines()[0]
    return InvalidRowError(f"expected a Parquet file that can be read, got: {reason}", where=str(path))


def _check_columns(pa: ModuleType, schema: Any, where: str) -> None:
    missing = [name for name in FIELDS if name not in schema.names]
    unexpected = sorted(set(schema.names) - {*FIELDS, EXACT_NUMBERS})
    if missing or unexpected or len(set(schema.names)) < len(schema.names):
        raise InvalidRowError(
            f"expected one column for each field of a teacher row; missing {missing}, unexpected {unexpected}",
            where=where,
        )
    for field in schema:
        expected = _expected_kind(pa, field.name, field.type)
        if expected:
            raise InvalidRowError(f"column {field.name}: expected {expected}, got {field.type}", where=where)


def _expected_kind(pa: ModuleType, name: str, kind: Any) -> str | None:
    """Return what the column `name` should be, or None where `kind` is right."""
    types = pa.types
    if name in (*_TEXTS, EXACT_NUMBERS):
        return None if _is_text(types, kind) else "text"
    if name in _COUNTS:
        return None if types.is_integer(kind) else "integers"
    item = (
        kind.value_type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        else None
    )
    if name in _NUMBERS:
        is_number = item in (pa.float32(), pa.float64()) or (item is not None and types.is_integer(item))
        return None if is_number else "lists of numbers"
    if name == "actions":
        return None if item is not None and _is_text(types, item) else "lists of texts"
    return None if item is not None and types.is_boolean(item) else "lists of booleans"


def _is_text(types: Any, kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_body(body: dict[str, Any], checker: RowChecker, where: str) -> CheckedRow:
    rows = checker.try_bodies([body])
    if rows:
        return rows[0]
    documents = {}
    for name in _DOCUMENTS:
        if not isinstance(body[name], str):
            raise InvalidRowError(f"{name}: expected a JSON object, got null", where=where)
        try:
            documents[name] = parse_json(body[name].encode(), where=where)
        except InvalidRowError as error:
            raise InvalidRowError(f"{name}: {error.message}", where=where) from None
    return check_row({**body, **documents}, checker.profile, where=where)
