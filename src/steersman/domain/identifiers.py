"""Checks of the ids and small values that callers hand in."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidInputError

__all__ = [
    "MAX_ID_LENGTH",
    "MAX_METADATA_BYTES",
    "check_choice",
    "check_finite",
    "check_id",
    "check_limit",
    "check_metadata",
    "check_name",
    "check_text",
    "native",
]

MAX_ID_LENGTH = 200  # characters
MAX_METADATA_BYTES = 4096  # of canonical JSON
_MAX_JSON_DEPTH = 32
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
# C0 and C1 controls (NUL among them) and lone surrogates: databases differ in what they do with them.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_name(value: object, *, what: str, error: type[InvalidInputError] = InvalidInputError) -> str:
    """Return `value` if it can name a tenant, base or version: 1 to 64 letters, digits, `.`, `_`, `-`.

    Raises `error`.
    """
    if isinstance(value, str) and _NAME.match(value):
        return value
    raise error(
        f"{what}: expected 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit; got {value!r}"
    )


def check_id(value: object, *, what: str, error: type[InvalidInputError] = InvalidInputError) -> str:
    """Return `value` if it can be an id: 1 to 200 characters, no control characters, no lone surrogates.

    Raises `error`.
    """
    if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and not _FORBIDDEN.search(value):
        return value
    raise error(
        f"{what}: expected a text of 1 to {MAX_ID_LENGTH} characters without control characters; got {_shown(value)}"
    )


def check_choice(value: object, choices: Sequence[str], *, what: str) -> None:
    """Raise InvalidInputError unless `value` is one of the `choices`, or None."""
    if value is not None and value not in choices:
        raise InvalidInputError(f"{what}: expected one of {', '.join(choices)}; got {_shown(value)}")


def check_limit(value: object) -> int:
    """Return `value` if it can be the most items of a list; raise InvalidInputError."""
    whole = native(value)
    if isinstance(whole, int) and not isinstance(whole, bool) and 1 <= whole <= _INT64_MAX:
        return whole
    raise InvalidInputError(f"limit: expected a number of 1 or more; got {_shown(value)}")


def check_text(value: object, *, what: str, at_most: int = 500) -> str:
    """Return `value` if it is a text for people of at most `at_most` characters that every database can keep.

    Raises InvalidInputError.
    """
    if isinstance(value, str) and len(value) <= at_most and not _FORBIDDEN.search(value):
        return value
    raise InvalidInputError(
        f"{what}: expected a text of at most {at_most} characters without control characters; got {_shown(value)}"
    )


def check_finite(value: object, *, what: str, error: type[InvalidInputError] = InvalidInputError) -> float:
    """Return `value` as a float if it is a finite number and not a boolean; raise `error` otherwise."""
    value = native(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return (
                number + 0.0
            )  # SQLite does not keep the sign of -0.0, and what is logged must read back the same
    raise error(f"{what}: expected a finite number, got {_shown(value)}")


def check_metadata(value: object, *, what: str = "metadata") -> str:
    """Return the canonical JSON of `value` if it is a small JSON object; raise InvalidInputError otherwise.

    Small: at most 4096 bytes, nested at most 32 deep, integers of at most 64 bits.
    """
    if not isinstance(value, dict):
        raise InvalidInputError(f"{what}: expected a JSON object, got {type(value).__name__}")
    _check_json(value, what=what, depth=1)
    text = canonical_json(value)
    if len(text) > MAX_METADATA_BYTES:
        raise InvalidInputError(
            f"{what}: expected at most {MAX_METADATA_BYTES} bytes of JSON, got {len(text)}"
        )
    return text


def native(value: Any) -> Any:
    """Return a NumPy scalar as Python's own number, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _check_json(value: Any, *, what: str, depth: int) -> None:
    if depth > _MAX_JSON_DEPTH:
        raise InvalidInputError(f"{what}: expected nesting of at most {_MAX_JSON_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            check_text(key, what=f"{what} key")
            _check_json(item, what=f"{what}.{key}", depth=depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_json(item, what=f"{what}[{index}]", depth=depth + 1)
    elif isinstance(value, str):
        if re.search("[\x00\ud800-\udfff]", value):
            raise InvalidInputError(f"{what}: expected text without NUL and lone surrogates")
    elif value is None or isinstance(value, bool):
        pass
    elif isinstance(value, int):
        if not _INT64_MIN <= value <= _INT64_MAX:
            raise InvalidInputError(f"{what}: expected an integer of at most 64 bits, got {_shown(value)}")
    elif isinstance(value, float):
        check_finite(value, what=what)
    else:
        raise InvalidInputError(f"{what}: expected JSON, got {type(value).__name__}")


def _shown(value: object) -> str:
    """Return a short form of a rejected value that is safe to print whatever it holds."""
    if isinstance(value, int) and not isinstance(value, bool) and not _INT64_MIN <= value <= _INT64_MAX:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}... ({len(text)} characters)"
