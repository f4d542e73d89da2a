"""Reading a table of learning from a CSV or Parquet file, strictly."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steersman.domain.identifiers import check_finite
from steersman.domain.settings import LARGEST_WEIGHT, LEAST_WEIGHT, TenantSpec
from steersman.domain.states import Factor
from steersman.errors import InvalidInputError, InvalidStateError, InvalidTableError, MissingExtraError
from steersman.usecases.cell_table import CELL

__all__ = ["TableFile", "read_table"]

_OPTIONAL = ("visits", "updates", "borrowed")
_RESERVED = {"state", "action", "action_index", "q", *_OPTIONAL}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_LARGEST_COUNT = 10**15  # sums of these stay exact, and fit what databases count with
_LARGEST_VALUE = 1e100  # as rewards and priors
_LINED = np.dtype([*CELL.descr, ("line", np.int64)])

_Rows = tuple[list[str], Iterator[tuple[int, Sequence[Any]]]]  # columns; line or row number, and values


@dataclass(frozen=True, slots=True, eq=False)
class TableFile:
    """The cells of a file that a tenant has a place for, and how many rows it has none for."""

    cells: NDArray[Any]  # [n] of CELL, ascending keys
    unknown_states: int
    unknown_actions: int


def read_table(path: Path, spec: TenantSpec) -> TableFile:
    """Return the cells of the file at `path` by the catalogue and states of `spec`.

    Columns: `state` (an index) or one for each factor; `action` (an id) or `action_index`; `q`; and optionally
    `visits`, `updates` and `borrowed`, which count 0 where missing. A row whose state or action `spec` does not
    have is counted and left out. Without ids a table is only taken when it has as many actions as the catalogue.
    Raises InvalidTableError, naming the file and the line (of Parquet: the row), or MissingExtraError.
    """
    suffix = path.suffix.lower()
    if suffix not in {".csv", ".parquet"}:
        raise InvalidTableError("expected a file that ends in .csv or .parquet", where=str(path))
    with _csv_rows(path) if suffix == ".csv" else _parquet_rows(path) as (columns, rows):
        table = _Table(path, spec, _Form.of(columns, spec, where=str(path)))
        lined = np.fromiter(table.read(rows), dtype=_LINED)
    table.check_size()
    if not len(lined):
        raise InvalidTableError(
            "expected at least one row with a state and an action of the tenant; got "
            f"{table.unknown_states} of other states and {table.unknown_actions} of other actions",
            where=str(path),
        )
    lined = lined[np.argsort(lined["key"], kind="stable")]
    twice = np.flatnonzero(lined["key"][1:] == lined["key"][:-1])
    if len(twice):
        first, again = lined["line"][twice[0]], lined["line"][twice[0] + 1]
        raise InvalidTableError(
            f"expected each cell once, got that of line {first} again", where=f"{path}:{again}"
        )
    cells = np.empty(len(lined), dtype=CELL)
    for name in CELL.names or ():
        cells[name] = lined[name]
    return TableFile(cells, table.unknown_states, table.unknown_actions)


@dataclass(frozen=True, slots=True)
class _Form:
    """Which column of a file holds what."""

    factors: tuple[tuple[Factor, int], ...]  # with their columns; empty when the state is an index
    state: int | None
    action: int
    by_id: bool  # or by index
    q: int
    optional: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, columns: list[str], spec: TenantSpec, *, where: str) -> Self:
        """Return the form of a file with these `columns`; raise InvalidTableError."""
        at = {name: index for index, name in enumerate(columns)}
        names = [factor.name for factor in spec.states.factors]
        by_index = "state" in at or not names or bool(_RESERVED & set(names))
        state_columns = ["state"] if by_index else names
        expected = [*state_columns, "action_index" if "action" not in at else "action", "q"]
        missing = [name for name in expected if name not in at]
        unexpected = sorted(set(columns) - set(expected) - set(_OPTIONAL))
        if missing or unexpected or len(at) != len(columns):
            shown = "state" if not names else f"state (or {', '.join(names)})"
            raise InvalidTableError(
                f"expected the columns {shown}, action (or action_index), q and optionally {', '.join(_OPTIONAL)}, "
                f"each once; got {columns}",
                where=where,
            )
        return cls(
            factors=() if by_index else tuple((factor, at[factor.name]) for factor in spec.states.factors),
            state=at["state"] if by_index else None,
            action=at[expected[-2]],
            by_id="action" in at,
            q=at["q"],
            optional=tuple((name, at[name]) for name in _OPTIONAL if name in at),
        )


class _Table:
    """Turns rows into cells, and counts those that have no place."""

    def __init__(self, path: Path, spec: TenantSpec, form: _Form) -> None:
        self.path = path
        self.spec = spec
        self.form = form
        self.unknown_states = 0
        self.unknown_actions = 0
        self.size = 0  # by the largest action index

    def read(
        self, rows: Iterator[tuple[int, Sequence[Any]]]
    ) -> Iterator[tuple[int, float, int, int, float, int]]:
        """Yield (key, q, visits, updates, borrowed, line) of each row that has a place."""
        actions = len(self.spec.actions)
        for line, values in rows:
            try:
                position = self._position(values[self.form.action])
                state = self._state(values)
                q = _value(values[self.form.q])
                rest: dict[str, Any] = dict.fromkeys(_OPTIONAL, 0)
                for name, index in self.form.optional:
                    rest[name] = (_weight if name == "borrowed" else _count)(values[index], name)
            except InvalidInputError as error:
                raise InvalidTableError(error.message, where=f"{self.path}:{line}") from None
            if position is None:
                self.unknown_actions += 1
            elif state is None:
                self.unknown_states += 1
            else:
                yield state * actions + position, q, rest["visits"], rest["updates"], rest["borrowed"], line

    def check_size(self) -> None:
        """Raise InvalidTableError when actions go by index and the table has another number of them."""
        actions = len(self.spec.actions)
        if not self.form.by_id and self.size != actions:
            raise InvalidTableError(
                f"expected {actions} actions, as many as the catalogue has, because without ids nothing else tells "
                f"which is which; got {self.size}, by the largest action_index",
                where=str(self.path),
                hint="give a column of action ids",
            )

    def _position(self, value: Any) -> int | None:
        if not self.form.by_id:
            index = _count(value, "action_index")
            self.size = max(self.size, index + 1)
            return index if index < len(self.spec.actions) else None
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise InvalidTableError(f"action: expected an action id, got {value!r}")
        return self.spec.actions.position.get(str(value))

    def _state(self, values: Sequence[Any]) -> int | None:
        if self.form.state is not None:
            index = _integer(values[self.form.state], "state")
            return index if 0 <= index < self.spec.states.size else None
        state = {factor.name: _factor_value(factor, values[index]) for factor, index in self.form.factors}
        try:
            return self.spec.states.encode(state)
        except InvalidStateError:
            return None


def _factor_value(factor: Factor, value: Any) -> Any:
    """Return a value as the factor takes it: a text that is no label of a bin may be a number to put into one."""
    if value is None or value == "":
        raise InvalidTableError(f"{factor.name}: expected a value, got nothing")
    if isinstance(value, str) and factor.edges is not None and value not in factor.position:
        return _number(value, factor.name)
    return value


def _integer(value: Any, what: str) -> int:
    if isinstance(value, str) and _INTEGER.match(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidTableError(f"{what}: expected an integer, got {value!r}")


def _count(value: Any, what: str) -> int:
    number = _integer(value, what)
    if not 0 <= number <= _LARGEST_COUNT:
        raise InvalidTableError(f"{what}: expected an integer from 0 to {_LARGEST_COUNT}, got {number}")
    return number


def _number(value: Any, what: str) -> float:
    if isinstance(value, str) and _NUMBER.match(value):
        value = float(value)
    return check_finite(value, what=what)


def _value(value: Any) -> float:
    number = _number(value, "q")
    if abs(number) > _LARGEST_VALUE:
        raise InvalidTableError(f"q: expected a number within {_LARGEST_VALUE:g}, got {number:g}")
    return number


def _weight(value: Any, what: str) -> float:
    number = _number(value, what)
    if number != 0.0 and not LEAST_WEIGHT <= number <= LARGEST_WEIGHT:
        raise InvalidTableError(
            f"{what}: expected 0, or {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}; got {number:g}"
        )
    return number


@contextmanager
def _csv_rows(path: Path) -> Iterator[_Rows]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            columns = next(reader, [])
            yield columns, _full_rows(reader, len(columns), path)
    except (OSError, UnicodeError, csv.Error) as error:
        raise InvalidTableError(f"expected a readable CSV file: {error}", where=str(path)) from None


def _full_rows(reader: Any, width: int, path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    for values in reader:
        if len(values) == width:
            yield reader.line_num, values
        elif values:
            raise InvalidTableError(
                f"expected {width} values, got {len(values)}", where=f"{path}:{reader.line_num}"
            )


@contextmanager
def _parquet_rows(path: Path) -> Iterator[_Rows]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("parquet", purpose="reading a Parquet table") from None
    try:
        with parquet.ParquetFile(path) as file:
            yield list(file.schema_arrow.names), _batch_rows(file)
    except (OSError, pa.ArrowException) as error:
        raise InvalidTableError(f"expected a readable Parquet file: {error}", where=str(path)) from None


def _batch_rows(file: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    number = 0
    for batch in file.iter_batches():
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            number += 1
            yield number, values
