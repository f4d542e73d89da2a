"""Canonical JSON and the fingerprints made of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["canonical_json", "fingerprint"]


def canonical_json(value: Any) -> str:
    """Return `value` as canonical JSON: sorted keys, no spaces, ASCII, shortest floats that read back the same.

    Raises ValueError for NaN and infinities, and TypeError for what JSON has no form for.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
