"""JSON read strictly: one document, nothing guessed, and each reader's own bounds.

This is the careful way, whose word is final. Readers that are in a hurry vouch for what they can by faster means
and come here with the rest.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from steersman.errors import InvalidInputError

__all__ = ["INT64_MAX", "INT64_MIN", "JsonRules", "check_json", "parse_json", "shown"]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_BOM = b"\xef\xbb\xbf"
_LONGEST_SHOWN = 80  # characters
_MOST_DIGITS = 4300  # of an integer that Python converts; longer ones are far beyond 64 bits


@dataclass(frozen=True, slots=True)
class JsonRules:
    """What one kind of reader refuses, and how."""

    error: type[InvalidInputError]  # what is raised
    max_depth: int  # levels of nesting
    number_limit: float = math.inf  # no number is of this magnitude or above
    number_type: str = "float64"  # what has that limit, for messages

    def is_number(self, value: object) -> bool:
        """Tell whether `value` is a number within the limit, of at most 64 bits, and no boolean."""
        if isinstance(value, bool):
            return False
        if isinstance(value, int):
            return INT64_MIN <= value <= INT64_MAX
        return isinstance(value, float) and -self.number_limit < value < self.number_limit


def parse_json(text: bytes, rules: JsonRules, *, where: str | None) -> Any:
    """Return the JSON document that `text` holds, as dict, list, str, int, float, bool and None.

    Refused, each with the error of `rules` at `where`: bytes that are no UTF-8 or start with a byte order mark,
    anything but one document, NaN, infinities and numbers beyond the limit, integers beyond 64 bits, a key that
    comes twice, NUL and lone surrogates in texts, nesting that is too deep.
    """
    if text.startswith(_BOM):
        raise rules.error("expected JSON, got a byte order mark", where=where)
    try:
        document = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        found = f"byte 0x{text[error.start]:02x} at column {error.start + 1}"
        raise rules.error(f"expected UTF-8, got {found}", where=where) from None
    except json.JSONDecodeError as error:
        raise rules.error(_syntax_message(error), where=where) from None
    except RecursionError:
        raise rules.error(f"expected nesting of at most {rules.max_depth} levels", where=where) from None
    except _RefusedError as error:
        raise rules.error(str(error), where=where) from None
    except ValueError:
        message = f"expected integers of at most 64 bits, got one of more than {_MOST_DIGITS} digits"
        raise rules.error(message, where=where) from None
    check_json(document, rules, what="", where=where)
    return document


def check_json(value: object, rules: JsonRules, *, what: str, where: str | None) -> None:
    """Raise the error of `rules` unless `value` is what `parse_json` may return; `what` names it in messages.

    Tuples pass for lists, so that what was made in Python can be checked too.
    """
    _check(value, rules, what, where, 1)


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


def _check(value: object, rules: JsonRules, what: str, where: str | None, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        _check_number(value, rules, what, where)
    elif isinstance(value, str):
        _check_text(value, rules, what, where)
    elif depth > rules.max_depth:
        raise rules.error(f"expected nesting of at most {rules.max_depth} levels", where=where)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise rules.error(f"{_named(what)}expected keys that are texts, got {key!r}", where=where)
            _check_text(key, rules, f"{what} key".strip(), where)
            _check(item, rules, f"{what}.{key}" if what else key, where, depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check(item, rules, f"{what}[{index}]", where, depth + 1)
    else:
        raise rules.error(f"{_named(what)}expected JSON, got {shown(value)}", where=where)


def _check_number(value: float, rules: JsonRules, what: str, where: str | None) -> None:
    if rules.is_number(value):
        return
    if isinstance(value, int):
        expected = "an integer of at most 64 bits"
    elif math.isfinite(value):
        expected = f"a number that is finite in {rules.number_type}"
    else:
        expected = "a finite number"
    raise rules.error(f"{_named(what)}expected {expected}, got {shown(value)}", where=where)


def _check_text(value: str, rules: JsonRules, what: str, where: str | None) -> None:
    if value.isascii() and "\x00" not in value:
        return
    if "\x00" in value:
        raise rules.error(f"{_named(what)}expected text without NUL, got {shown(value)}", where=where)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise rules.error(
            f"{_named(what)}expected text without lone surrogates, got {shown(value)}", where=where
        )


def _named(what: str) -> str:
    return f"{what}: " if what else ""
