"""The ids of calls that change something: who calls again under the same id asks for the first answer."""

from __future__ import annotations

import re

from steersman.errors import InvalidInputError

__all__ = ["OPERATION_ID", "check_operation_id"]

OPERATION_ID = "[!-~]{1,64}"
"""The pattern of an id: characters of ASCII that are seen, since HTTP carries it in a header."""


def check_operation_id(value: object) -> str:
    """Return `value` if it can be the id of an operation; raise InvalidInputError."""
    if isinstance(value, str) and re.fullmatch(OPERATION_ID, value):
        return value
    shown = ascii(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}... ({len(shown)} characters)"
    raise InvalidInputError(f"operation_id: expected 1 to 64 visible characters of ASCII, got {shown}")
