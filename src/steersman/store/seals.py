"""Seals: a digest over the columns of a logged row, so that a changed byte shows."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

__all__ = ["request_fingerprint", "seal"]

_encode = msgspec.json.Encoder(order="deterministic").encode


def seal(values: tuple[Any, ...]) -> bytes:
    """Return the SHA-256 of the JSON list of the `values` of a row: 32 bytes."""
    return hashlib.sha256(_encode(values)).digest()


def request_fingerprint(content: tuple[Any, ...]) -> bytes:
    """Return the SHA-256 of the JSON of what a caller asked for: 32 bytes.

    Mappings count by content, whatever their order. Raises TypeError for what JSON has no form for.
    """
    return hashlib.sha256(_encode(content)).digest()
