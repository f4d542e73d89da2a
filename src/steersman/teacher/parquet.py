"""Teacher rows as Parquet: one typed column a field, and nothing lost on the way in or out.

Numbers are columns of float64, in which 1 and 1.0 are the same; their fingerprints are not. So where a list of
numbers holds an integer, the column `exact_numbers` keeps the lists of that row as JSON, and otherwise is null.
Control input and provenance, whose keys differ from row to row, are columns of JSON text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidRowError, MissingExtraError
from steersman.teacher.profiles import RowProfile
from steersman.teacher.quick import LARGEST_PLAIN, RawRow, RowChecker
from steersman.teacher.rows import FIELDS, SPLIT, CheckedRow, check_row
from steersman.teacher.strict_json import parse_json

__all__ = ["EXACT_NUMBERS", "load_pyarrow", "read_parquet", "row_schema_of", "write_parquet"]

EXACT_NUMBERS = "exact_numbers"

_TEXTS = ("schema_version", "row_id", "episode_id", "scene_id", "split_id", "control_input", "provenance")
_COUNTS = ("prefix_step", "prefix_frame_id", "horizon_used")
_NUMBERS = ("features", "losses", "advantages", "costs")
_DOCUMENTS = ("control_input", "provenance")
_BATCH = 4096  # rows decoded together
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
            return str(value)
    return None


def read_parquet(path: Path, checker: RowChecker) -> Iterator[tuple[int, CheckedRow]]:
    """Yield the rows of `path` with their numbers, from 1.

    A file may lack `exact_numbers`; integer columns then give integers and float columns floats.
    Raises InvalidRowError for a file that is no Parquet, for columns that are missing, unexpected or of
    another type, and at `path:row` for a row that is not valid.
    """
    number = 1
    for batch in _batches(path, None, _BATCH):
        try:
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        except UnicodeDecodeError as error:
            raise InvalidRowError(
                f"expected UTF-8, got {error.object!r:.40}", where=f"{path}:{number}"
            ) from None
        exact = columns.pop(EXACT_NUMBERS, None) or itertools.repeat(None, batch.num_rows)
        careful = not _is_plain(batch, columns, gaps=bool(checker.profile.nullable))
        rows = zip(*(columns[name] for name in FIELDS), strict=True)
        for values, exact_text in zip(rows, exact, strict=True):
            where = f"{path}:{number}"
            body = dict(zip(FIELDS, values, strict=True))
            if exact_text is not None:
                body.update(_exact_lists(exact_text, body, where))
            row = None if careful else checker.check_raw(_raw_row(body))
            yield number, row or _check_carefully(body, checker.profile, where)
            number += 1


def write_parquet(rows: Iterable[CheckedRow], path: Path, profile: RowProfile) -> int:
    """Write `rows` to the new file `path` and return their number."""
    pa, pq = load_pyarrow()
    schema = _schema(pa)
    count = 0
    texts = [*_TEXTS, "actions.list.element", EXACT_NUMBERS]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=texts) as writer:
        remaining = iter(rows)
        while group := list(itertools.islice(remaining, _ROW_GROUP)):
            columns = _columns(group, profile)
            arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            count += len(group)
    return count


def _schema(pa: ModuleType) -> Any:
    kinds = dict.fromkeys(_TEXTS, pa.string()) | dict.fromkeys(_COUNTS, pa.int64())
    kinds |= dict.fromkeys(_NUMBERS, pa.list_(pa.float64()))
    kinds |= {"actions": pa.list_(pa.string()), "feasible_mask": pa.list_(pa.bool_())}
    return pa.schema([*((name, kinds[name]) for name in FIELDS), (EXACT_NUMBERS, pa.string())])


def _columns(rows: Sequence[CheckedRow], profile: RowProfile) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "schema_version": [profile.row_schema] * len(rows),
        "split_id": [SPLIT] * len(rows),
        "actions": [list(profile.catalogue.ids)] * len(rows),
        "control_input": [row.control_text.decode() for row in rows],
        "provenance": [row.provenance.text.decode() for row in rows],
        "feasible_mask": [list(row.feasible_mask) for row in rows],
        EXACT_NUMBERS: [_exact_text(row) for row in rows],
    }
    for name in ("row_id", "episode_id", "scene_id", *_COUNTS):
        columns[name] = [getattr(row, name) for row in rows]
    for name in _NUMBERS:
        columns[name] = [[v if v is None else float(v) for v in getattr(row, name)] for row in rows]
    return columns


def _exact_text(row: CheckedRow) -> str | None:
    """Return the lists of `row` that hold an integer as JSON, or None where there is none."""
    lists = {name: list(getattr(row, name)) for name in _NUMBERS if int in set(map(type, getattr(row, name)))}
    return canonical_json(lists) if lists else None


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
        with pq.ParquetFile(path) as file:
            _check_columns(pa, file.schema_arrow, str(path))
            yield from file.iter_batches(size, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidRowError(
            f"expected a Parquet file that can be read, got: {reason}", where=str(path)
        ) from error


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


def _is_plain(batch: Any, columns: dict[str, list[Any]], *, gaps: bool) -> bool:
    """Tell whether every value is of the kind and in the range that `RawRow` promises."""
    if any(None in column for column in columns.values()) or any("" in columns[name] for name in _TEXTS):
        return False
    if any(min(columns[name]) < 0 for name in _COUNTS) or min(columns["horizon_used"]) < 1:
        return False
    if any(None in mask for mask in columns["feasible_mask"]):
        return False
    if not gaps and any(None in features for features in columns["features"]):
        return False
    for name in (*_NUMBERS, *_COUNTS):
        column = batch.column(name)
        numbers = np.asarray((column.flatten() if name in _NUMBERS else column).drop_null())
        if not (np.abs(numbers) <= LARGEST_PLAIN).all():
            return False
    return True


def _raw_row(body: dict[str, Any]) -> RawRow:
    documents = {name: msgspec.Raw(body[name].encode()) for name in _DOCUMENTS}
    return RawRow(**{**body, **documents, "feasible_mask": tuple(body["feasible_mask"])})


def _check_carefully(body: dict[str, Any], profile: RowProfile, where: str) -> CheckedRow:
    documents = {}
    for name in _DOCUMENTS:
        if not isinstance(body[name], str):
            raise InvalidRowError(f"{name}: expected a JSON object, got null", where=where)
        try:
            documents[name] = parse_json(body[name].encode(), where=where)
        except InvalidRowError as error:
            raise InvalidRowError(f"{name}: {error.message}", where=where) from None
    return check_row({**body, **documents}, profile, where=where)
