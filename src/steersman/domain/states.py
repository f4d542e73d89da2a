"""State spaces: products of named factors, so that an index has a readable meaning."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import fingerprint
from steersman.domain.identifiers import check_finite, check_id
from steersman.errors import InvalidSpecError, InvalidStateError

__all__ = ["MAX_STATES", "Factor", "State", "StateSpace"]

_check_finite = partial(check_finite, error=InvalidSpecError)
_check_id = partial(check_id, error=InvalidSpecError)

MAX_STATES = 10_000_000  # a change of states maps every one of them, in arrays of this length

State = int | Mapping[str, Any]
"""A state as callers give it: its index, or a mapping of factor to value."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One named factor of a state: ordered values, or bins of a number between ascending edges.

    With K edges there are K + 1 bins: below the first, [edge, next edge) between, and from the last upward.
    `before` is the value that states had before this factor was added; learning then moves to it.
    Raises InvalidSpecError.
    """

    name: str
    values: tuple[str, ...] = ()  # [V] str; of bins: their labels
    edges: tuple[float, ...] | None = None  # [V - 1] float64, ascending
    before: str | None = None
    position: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the declaration and index the values."""
        where = f"factor {self.name!r}"
        _check_id(self.name, what="factor name")
        if self.edges is not None:
            for index, edge in enumerate(self.edges):
                _check_finite(edge, what=f"{where}: edges[{index}]")
            if not self.edges or any(a >= b for a, b in pairwise(self.edges)):
                raise InvalidSpecError(f"{where}: expected strictly ascending edges, got {list(self.edges)}")
            object.__setattr__(self, "values", _bin_labels(self.edges))
        if not self.values:
            raise InvalidSpecError(f"{where}: expected at least one value")
        for index, value in enumerate(self.values):
            _check_id(value, what=f"{where}: values[{index}]")
        object.__setattr__(self, "position", {value: index for index, value in enumerate(self.values)})
        if len(self.position) != len(self.values):
            raise InvalidSpecError(f"{where}: expected distinct values, got {list(self.values)}")
        if self.before is not None and self.before not in self.position:
            raise InvalidSpecError(
                f"{where}: before: expected one of {list(self.values)}, got {self.before!r}"
            )

    def index(self, value: object) -> int:
        """Return the index of `value`: a declared value, or for bins a finite number or a bin's label.

        Raises InvalidStateError.
        """
        if type(value) is str:
            found = self.position.get(value)
            if found is not None:
                return found
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.edges is not None and (isinstance(value, int) or math.isfinite(value)):
                return bisect_right(self.edges, value)
            found = self.position.get(str(value))
            if self.edges is None and found is not None:
                return found
        expected = f"one of {list(self.values)}"
        if self.edges is not None:
            expected = f"a finite number, or {expected}"
        raise InvalidStateError(f"state factor {self.name!r}: expected {expected}, got {value!r}")

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as JSON."""
        body: dict[str, Any] = {"name": self.name}
        body |= {"values": list(self.values)} if self.edges is None else {"edges": list(self.edges)}
        return body if self.before is None else body | {"before": self.before}


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A product of factors, the last varying fastest; or a plain number of states without meaning.

    Raises InvalidSpecError when a factor is repeated or the product is beyond ten million states.
    """

    factors: tuple[Factor, ...] = ()
    size: int = 0

    def __post_init__(self) -> None:
        """Check the factors and count the states."""
        if self.factors:
            names = [factor.name for factor in self.factors]
            if len(set(names)) != len(names):
                raise InvalidSpecError(f"states: expected distinct factor names, got {names}")
            object.__setattr__(self, "size", math.prod(len(factor.values) for factor in self.factors))
        if type(self.size) is not int or not 0 < self.size <= MAX_STATES:
            raise InvalidSpecError(f"states: expected 1 to {MAX_STATES} states, got {self.size!r}")

    @classmethod
    def plain(cls, size: int) -> StateSpace:
        """Make a space of `size` states that are known by index alone."""
        return cls((), size)

    def __len__(self) -> int:
        """Return the number of states, S."""
        return self.size

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical JSON of what tells states apart (so without `before`)."""
        body = [{k: v for k, v in factor.to_json().items() if k != "before"} for factor in self.factors]
        return fingerprint({"factors": body, "size": self.size})

    def encode(self, state: State) -> int:
        """Return the index of `state`: an index in [0, S), or a mapping of every factor to a value.

        Raises InvalidStateError, naming what was expected.
        """
        if type(state) is int:
            if 0 <= state < self.size:
                return state
            raise InvalidStateError(f"state: expected an index from 0 to {self.size - 1}, got {state}")
        if not isinstance(state, Mapping):
            raise InvalidStateError(
                f"state: expected an index or a mapping of factor to value, got {state!r}"
            )
        names = [factor.name for factor in self.factors]
        if not names:
            raise InvalidStateError(
                f"state: this space has no factors; expected an index from 0 to {self.size - 1}"
            )
        index = 0
        for factor in self.factors:
            if factor.name not in state:
                raise InvalidStateError(f"state: expected the factors {names}, got {list(state)}")
            index = index * len(factor.values) + factor.index(state[factor.name])
        if len(state) != len(names):
            raise InvalidStateError(f"state: expected the factors {names}, got {list(state)}")
        return index

    def decode(self, index: int) -> dict[str, str]:
        """Return the meaning of `index` as a mapping of factor to value; empty for a plain space.

        Raises InvalidStateError when the index is outside [0, S).
        """
        index = self.encode(index)
        meaning: list[tuple[str, str]] = []
        for factor in reversed(self.factors):
            index, digit = divmod(index, len(factor.values))
            meaning.append((factor.name, factor.values[digit]))
        return dict(reversed(meaning))

    def describe(self, index: int) -> str:
        """Return the meaning of `index` for people: `stage=open, gap=wide`, or `state 7`."""
        meaning = self.decode(index)
        return ", ".join(f"{name}={value}" for name, value in meaning.items()) or f"state {index}"

    def remap(self, new: StateSpace) -> NDArray[np.int64]:
        """Return for each state here the index in `new` of the state with the same meaning, or -1: [S] int64.

        A state survives when its mapping of factor to value exists in both; a factor that only `new` has
        counts when it declares the value that old states had (`before`). Plain sizes match by index.
        """
        if not self.factors or not new.factors:
            moved = np.arange(self.size, dtype=np.int64)
            if self.factors or new.factors:
                return np.full(self.size, -1, dtype=np.int64)
            return np.where(moved < new.size, moved, -1)
        old_names = {factor.name for factor in self.factors}
        if old_names - {factor.name for factor in new.factors}:
            return np.full(self.size, -1, dtype=np.int64)
        digits = self._digits()
        index = np.zeros(self.size, dtype=np.int64)
        alive = np.ones(self.size, dtype=bool)
        for factor in new.factors:
            if factor.name in old_names:
                digit = digits[factor.name]
                old = next(candidate for candidate in self.factors if candidate.name == factor.name)
                table = np.array([factor.position.get(value, -1) for value in old.values], dtype=np.int64)
                column = table[digit]
            else:
                column = np.full(self.size, -1 if factor.before is None else factor.position[factor.before])
            alive &= column >= 0
            index = index * len(factor.values) + column
        return np.where(alive, index, -1)

    def _digits(self) -> dict[str, NDArray[np.int64]]:
        rest = np.arange(self.size, dtype=np.int64)
        digits: dict[str, NDArray[np.int64]] = {}
        for factor in reversed(self.factors):
            rest, digits[factor.name] = np.divmod(rest, len(factor.values))
        return digits

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as JSON."""
        if not self.factors:
            return {"size": self.size}
        return {"factors": [factor.to_json() for factor in self.factors]}

    @classmethod
    def from_json(cls, body: object) -> StateSpace:
        """Read `{"size": S}`, or `{"factors": [{"name", "values" or "edges", "before"?}, ...]}`.

        Raises InvalidSpecError, naming the place.
        """
        if isinstance(body, int) and not isinstance(body, bool):
            return cls.plain(body)
        if isinstance(body, Mapping) and set(body) == {"size"}:
            return cls.plain(body["size"])
        if isinstance(body, Mapping) and set(body) == {"factors"} and isinstance(body["factors"], Sequence):
            return cls(tuple(_factor_from_json(item, index) for index, item in enumerate(body["factors"])))
        raise InvalidSpecError(f"states: expected {{size: N}} or {{factors: [...]}}, got {body!r}")


def _factor_from_json(body: object, index: int) -> Factor:
    where = f"states.factors[{index}]"
    if not isinstance(body, Mapping) or "name" not in body or ("values" in body) == ("edges" in body):
        raise InvalidSpecError(f"{where}: expected a name and either values or edges, got {body!r}")
    unexpected = sorted(set(body) - {"name", "values", "edges", "before"})
    if unexpected:
        raise InvalidSpecError(f"{where}: unexpected {unexpected}; expected name, values or edges, before")
    name = _check_id(body["name"], what=f"{where}.name")
    before = None if body.get("before") is None else _value_text(body["before"], f"{where}.before")
    items = body["values"] if "values" in body else body["edges"]
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InvalidSpecError(f"{where}: expected a list, got {items!r}")
    if "edges" in body:
        edges = tuple(_check_finite(edge, what=f"{where}.edges[{i}]") for i, edge in enumerate(items))
        return Factor(name, edges=edges, before=before)
    return Factor(
        name, tuple(_value_text(v, f"{where}.values[{i}]") for i, v in enumerate(items)), None, before
    )


def _value_text(value: object, what: str) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return _check_id(value, what=what)


def _bin_labels(edges: tuple[float, ...]) -> tuple[str, ...]:
    shown = [f"{edge:g}" if float(f"{edge:g}") == edge else repr(edge) for edge in edges]
    between = [f"{low}..{high}" for low, high in pairwise(shown)]
    return (f"<{shown[0]}", *between, f">={shown[-1]}")
