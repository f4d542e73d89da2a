"""Ids of requests: the caller's, or one that no other request of any process has."""

from __future__ import annotations

import itertools
import re
import secrets

__all__ = ["next_id", "request_id_of"]

_own_id = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z").match
_process = secrets.token_hex(6)
_numbers = itertools.count(1)


def next_id() -> str:
    """Return an id of ours."""
    return f"{_process}-{next(_numbers):x}"


def request_id_of(given: bytes) -> str:
    """Return what a caller gave, where it is 1 to 64 letters, digits, `.`, `_` and `-`; else an id of ours."""
    return given.decode() if _own_id(given) else next_id()
