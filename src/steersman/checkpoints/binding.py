"""Bindings: what a checkpoint was made for, and whether that is what the runtime expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.domain.canonical import canonical_json

__all__ = ["DATASET_BINDING", "binding_mismatches"]

DATASET_BINDING = ("teacher_dataset_hash", "teacher_source_hashes")
"""Keys that every checkpoint's binding has, beside those that the rows' profile requires."""

_MISSING = object()


def binding_mismatches(expected: Mapping[str, Any], found: Mapping[str, Any], path: str = "") -> list[str]:
    """Return where `expected` is not a part of `found`, one line each: path, what was expected, what was found.

    Objects are compared key by key, and `found` may have more of them. Everything else must be equal as canonical
    JSON, so that 1, 1.0 and true differ.
    """
    lines: list[str] = []
    for key in sorted(expected):
        wanted, got, here = expected[key], found.get(key, _MISSING), f"{path}{key}"
        if got is _MISSING:
            lines.append(f"{here}: expected {canonical_json(wanted)}, found nothing")
        elif isinstance(wanted, Mapping) and isinstance(got, Mapping):
            lines += binding_mismatches(wanted, got, f"{here}.")
        elif canonical_json(wanted) != canonical_json(got):
            lines.append(f"{here}: expected {canonical_json(wanted)}, found {canonical_json(got)}")
    return lines
