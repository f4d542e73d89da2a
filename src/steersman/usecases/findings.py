"""What verification finds: differences between what is stored and what the logbook rebuilds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

from steersman.domain.answers import Difference
from steersman.errors import InvalidInputError, NotFoundError
from steersman.store.hot.text import Row
from steersman.store.ledger import misfits
from steersman.store.seals import seal

__all__ = ["UNREADABLE", "Findings", "Mismatch", "printable", "seal_mismatches", "unreadable"]

_KEPT = 1000

UNREADABLE = (
    InvalidInputError,
    NotFoundError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a stored row raises when somebody else has written it."""

Mismatch: TypeAlias = tuple[str, Any, Any]
"""(field, stored, rebuilt) of one thing."""


@dataclass(slots=True)
class Findings:
    """Gathers differences: the first thousand in full, the rest as a count."""

    kept: list[Difference] = field(default_factory=list)
    count: int = 0

    def add(
        self,
        tenant: str,
        subject: str,
        record: Any,
        mismatches: Iterable[Mismatch],
        *,
        cell: tuple[Any, Any, Any] = (None, None, None),
    ) -> None:
        """Add what differs about one thing; `cell` is the (version, state, action) that it concerns."""
        for name, stored, rebuilt in mismatches:
            self.count += 1
            if len(self.kept) < _KEPT:
                number, state, action = map(printable, cell)
                self.kept.append(
                    Difference(
                        tenant=printable(tenant),
                        subject=subject,
                        record=str(printable(record)),
                        version=number,
                        state=state,
                        action=action,
                        field=name,
                        stored=printable(stored),
                        rebuilt=printable(rebuilt),
                    )
                )


def unreadable(table: str, row: Row) -> list[Mismatch]:
    """Return the values of a row of `table` that are not of the column's kind: nothing more can be said of it then."""
    return [(column, value, "a value of the column's type") for column, value in misfits(table, row)]


def seal_mismatches(columns: Row, stored: bytes) -> list[Mismatch]:
    """Return whether the seal of a row is another than that of its `columns`."""
    rebuilt = seal(columns)
    return [] if rebuilt == stored else [("seal", stored, rebuilt)]


def printable(value: Any) -> Any:
    """Return `value` as something that can be printed and written as JSON."""
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in value]
    if isinstance(value, dict):
        return {str(printable(key)): printable(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except UnicodeEncodeError:  # half of a pair, written as JSON's \\u escape
            return value.encode("utf-8", "backslashreplace").decode()
    return value
