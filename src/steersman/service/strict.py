"""Bodies of requests, read strictly and, where nothing is unusual about them, fast."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from steersman.domain.strict_json import JsonRules, parse_json
from steersman.errors import InvalidInputError

__all__ = ["MAX_DEPTH", "read_as", "read_document"]

_T = TypeVar("_T")

MAX_DEPTH = 32  # levels of nesting

_RULES = JsonRules(InvalidInputError, MAX_DEPTH)
_WHERE = "body"
_MISSING = -1_000_000

_KINDS = {
    "array": "a list",
    "bool": "a boolean",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a text",
}
_PLACED = re.compile(r"(.*) - at `\$([^`]*)`", re.DOTALL)
_SENTENCES = (
    (re.compile(r"Object missing required field (`.*`)", re.DOTALL), r"the field \1 is missing"),
    (re.compile(r"Object contains unknown field (`.*`)", re.DOTALL), r"the field \1 is not known"),
)

_decode = msgspec.json.Decoder().decode
_unusual = re.compile(rb"\\|[^\x00-\x7f]|[0-9]{19}").search
"""An escape, a byte beyond ASCII or a number that may have more than 64 bits: for the careful way to look at."""


def read_document(raw: bytes, *, where: str = _WHERE) -> Any:
    """Return the JSON document that `raw` holds.

    Refused, each with InvalidInputError: what is not one JSON document in UTF-8, NaN, infinities and numbers that no
    float64 holds, integers beyond 64 bits, a key that comes twice, NUL and lone surrogates, nesting beyond 32. `where`
    is the place that errors name.
    """
    if not _unusual(raw):
        try:
            document = _decode(raw)
        except (msgspec.DecodeError, RecursionError):
            document = None
        # As many colons as keys: no key came twice, since of these only the last is left.
        if document is not None and _count_keys(document, MAX_DEPTH) == raw.count(b":"):
            return document
    try:
        return parse_json(raw, _RULES, where=where)
    except InvalidInputError as error:
        if "finite number" not in error.message:
            raise
        # No answer repeats what is no number.
        raise InvalidInputError(error.message.partition(", got")[0], where=where) from None


def read_as(kind: type[_T], document: object, *, where: str = _WHERE) -> _T:
    """Return a document as `kind`; raise InvalidInputError, naming the place."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        placed = _PLACED.fullmatch(str(error))
        message, path = (str(error), "") if placed is None else placed.groups()
        raise InvalidInputError(_in_words(message), where=f"{where}{path}") from None


def _in_words(message: str) -> str:
    """Return what msgspec says in words that do not depend on the language of the program."""
    for pattern, sentence in _SENTENCES:
        if pattern.fullmatch(message):
            return pattern.sub(sentence, message)
    told = re.sub(r"`([a-z]+(?: \| [a-z]+)*)`", lambda found: _kinds_in_words(found[1]), message)
    return f"{told[0].lower()}{told[1:]}"


def _kinds_in_words(kinds: str) -> str:
    told = [_KINDS.get(kind, kind) for kind in kinds.split(" | ")]
    return " or ".join(told) if len(told) < 3 else f"{', '.join(told[:-1])} or {told[-1]}"


def _count_keys(value: object, left: int) -> int:
    """Return how many keys a document has, at any depth; far below zero when it is nested deeper than `left`."""
    if type(value) is dict:
        if not left:
            return _MISSING
        count = len(value)
        for item in value.values():
            if type(item) is dict or type(item) is list:
                count += _count_keys(item, left - 1)
        return count
    if type(value) is list:
        if not left:
            return _MISSING
        count = 0
        for item in value:
            if type(item) is dict or type(item) is list:
                count += _count_keys(item, left - 1)
        return count
    return 0
