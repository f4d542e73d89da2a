"""JSON read strictly: one line, one document, nothing guessed.

This is the careful way, whose word is final. `steersman.teacher.quick` is the fast one; what it cannot vouch
for comes here.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from steersman.errors import InvalidRowError

__all__ = [
    "FLOAT32_LIMIT",
    "INT64_MAX",
    "INT64_MIN",
    "MAX_DEPTH",
    "check_json",
    "is_number",
    "parse_json",
    "shown",
]

MAX_DEPTH = 64  # levels of nesting
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLOAT32_LIMIT = float(2**128 - 2**103)
"""The smallest magnitude that float32 rounds to infinity: half a step above its largest number."""

_BOM = b"\xef\xbb\xbf"
_LONGEST_SHOWN = 80  # characters
_MOST_DIGITS = 4300  # of an integer that Python converts; longer ones are far beyond 64 bits


def parse_json(text: bytes, *, where: str) -> Any:
    """Return the JSON document that `text` holds, as dict, list, str, int, float, bool and None.

    Refused, each with InvalidRowError at `where`: bytes that are no UTF-8 or start with a byte order mark,
    anything but one document, NaN and infinities, numbers that float32 cannot hold, integers beyond 64 bits,
    a key that comes twice, NUL and lone surrogates in texts, nesting beyond 64 levels.
    """
    if text.startswith(_BOM):
        raise InvalidRowError("expected JSON, got a byte order mark", where=where)
    try:
        document = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        found = f"byte 0x{text[error.start]:02x} at column {error.start + 1}"
        raise InvalidRowError(f"expected UTF-8, got {found}", where=where) from None
    except json.JSONDecodeError as error:
        raise InvalidRowError(_syntax_message(error), where=where) from None
    except RecursionError:
        raise InvalidRowError(f"expected nesting of at most {MAX_DEPTH} levels", where=where) from None
    except _RefusedError as error:
        raise InvalidRowError(str(error), where=where) from None
    except ValueError:
        message = f"expected integers of at most 64 bits, got one of more than {_MOST_DIGITS} digits"
        raise InvalidRowError(message, where=where) from None
    check_json(document, what="", where=where)
    return document


def check_json(value: object, *, what: str, where: str | None) -> None:
    """Raise InvalidRowError unless `value` is what `parse_json` may return; `what` names it in messages.

    Tuples pass for lists, so that rows made in Python can be checked too.
    """
    _check(value, what, where, 1)


def is_number(value: object) -> bool:
    """Tell whether `value` is a number that a row may hold: finite in float32, at most 64 bits, no boolean."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return INT64_MIN <= value <= INT64_MAX
    return isinstance(value, float) and -FLOAT32_LIMIT < value < FLOAT32_LIMIT


def shown(value: object) -> str:
    """Return a rejected value as JSON would have it, cut short, safe to print whatever it holds."""
    if isinstance(value, int) and not isinstance(value, bool) and not INT64_MIN <= value <= INT64_MAX:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return (
        text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}... ({len(text)} characters)"
    )


class _RefusedError(Exception):
    """What the hooks of the decoder refuse: no ValueError, which is left to the conversion of integers."""


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(f"expected a finite number, got {name}")


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"expected each key once, got {shown(key)} twice")
            seen.add(key)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct_keys, parse_constant=_refuse_constant)


def _syntax_message(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()):
        return f"expected JSON, got a document that ends early, at column {error.pos + 1}"
    if error.msg.startswith("Unterminated string"):
        return f"expected JSON, got a document that ends early, in the text from column {error.pos + 1}"
    return f"expected JSON, got {shown(error.doc[error.pos : error.pos + 20])} at column {error.pos + 1}: {error.msg}"


def _check(value: object, what: str, where: str | None, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        _check_number(value, what, where)
    elif isinstance(value, str):
        _check_text(value, what, where)
    elif depth > MAX_DEPTH:
        raise InvalidRowError(f"expected nesting of at most {MAX_DEPTH} levels", where=where)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidRowError(f"{_named(what)}expected keys that are texts, got {key!r}", where=where)
            _check_text(key, f"{what} key".strip(), where)
            _check(item, f"{what}.{key}" if what else key, where, depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check(item, f"{what}[{index}]", where, depth + 1)
    else:
        raise InvalidRowError(f"{_named(what)}expected JSON, got {shown(value)}", where=where)


def _check_number(value: float, what: str, where: str | None) -> None:
    if is_number(value):
        return
    if isinstance(value, int):
        expected = "an integer of at most 64 bits"
    elif math.isfinite(value):
        expected = "a number that is finite in float32"
    else:
        expected = "a finite number"
    raise InvalidRowError(f"{_named(what)}expected {expected}, got {shown(value)}", where=where)


def _check_text(value: str, what: str, where: str | None) -> None:
    if value.isascii() and "\x00" not in value:
        return
    if "\x00" in value:
        raise InvalidRowError(f"{_named(what)}expected text without NUL, got {shown(value)}", where=where)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidRowError(
            f"{_named(what)}expected text without lone surrogates, got {shown(value)}", where=where
        )


def _named(what: str) -> str:
    return f"{what}: " if what else ""
