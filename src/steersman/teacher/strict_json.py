"""Strict JSON as teacher rows have it: numbers that float32 holds, at most 64 levels of nesting.

`steersman.teacher.quick` is the fast way; what it cannot vouch for comes here.
"""

from __future__ import annotations

from typing import Any

from steersman.domain import strict_json
from steersman.domain.strict_json import JsonRules
from steersman.errors import InvalidRowError

__all__ = ["FLOAT32_LIMIT", "MAX_DEPTH", "check_json", "is_number", "parse_json"]

MAX_DEPTH = 64  # levels of nesting
FLOAT32_LIMIT = float(2**128 - 2**103)
"""The smallest magnitude that float32 rounds to infinity: half a step above its largest number."""

_RULES = JsonRules(InvalidRowError, MAX_DEPTH, FLOAT32_LIMIT, "float32")


def is_number(value: object) -> bool:
    """Tell whether `value` is a number that a row may hold: finite in float32, at most 64 bits, no boolean."""
    return _RULES.is_number(value)


def parse_json(text: bytes, *, where: str) -> Any:
    """Return the JSON document that `text` holds; raise InvalidRowError at `where`."""
    return strict_json.parse_json(text, _RULES, where=where)


def check_json(value: object, *, what: str, where: str | None) -> None:
    """Raise InvalidRowError unless `value` is what `parse_json` may return; `what` names it in messages."""
    strict_json.check_json(value, _RULES, what=what, where=where)
