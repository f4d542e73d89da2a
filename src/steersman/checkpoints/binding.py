"""Bindings: what a checkpoint was made for, and whether that is what the runtime expects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidCheckpointError

__all__ = ["DATASET_BINDING", "binding_mismatches", "check_dataset_binding"]

DATASET_BINDING = ("teacher_dataset_hash", "teacher_source_hashes")
"""Keys that every checkpoint's binding has, beside those that the rows' profile requires."""

_SHA256 = re.compile("[0-9a-f]{64}")

_MISSING = object()


def check_dataset_binding(binding: Mapping[str, Any]) -> None:
    """Raise InvalidCheckpointError unless `binding` has what every checkpoint says of its rows.

    That is, beside the keys that their profile requires, the hash of the data set and those of its files by name.
    """
    missing = [key for key in DATASET_BINDING if key not in binding]
    if missing:
        raise InvalidCheckpointError(f"binding: missing {missing}")
    if not _is_hash(binding["teacher_dataset_hash"]):
        raise InvalidCheckpointError("binding.teacher_dataset_hash: expected 64 hexadecimal digits")
    sources = binding["teacher_source_hashes"]
    if not isinstance(sources, dict) or not all(map(_is_hash, sources.values())):
        raise InvalidCheckpointError(
            "binding.teacher_source_hashes: expected an object of 64 hexadecimal digits each"
        )


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


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
