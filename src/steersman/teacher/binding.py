"""What rows were made for: the binding of a collection, overlaid by what the rows themselves declare."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steersman.domain.canonical import canonical_json
from steersman.domain.strict_json import shown
from steersman.errors import InvalidRowError
from steersman.teacher.profiles import DATASET_KEYS, RowProfile
from steersman.teacher.strict_json import parse_json

__all__ = ["FEATURE_VERSION_KEY", "BindingCheck", "CollectionMetadata", "declared_binding", "find_metadata"]

FEATURE_VERSION_KEY = "feature_schema_version"
_LONGEST_SIDE = 300  # characters of a value shown in a message


@dataclass(frozen=True, slots=True)
class CollectionMetadata:
    """What a collection's metadata file says about the rows beside it; empty where there is none."""

    path: Path | None = None
    collection_schema: str | None = None
    row_schema: str | None = None
    profile: Mapping[str, Any] | None = None
    binding: Mapping[str, Any] = field(default_factory=dict)

    def check_profile(self, profile: RowProfile) -> None:
        """Raise InvalidRowError when the file declares other schemas than those of `profile`."""
        for what, declared, expected in (
            ("schema_version", self.collection_schema, profile.collection_schema),
            ("row_schema_version", self.row_schema, profile.row_schema),
        ):
            if declared is not None and declared != expected:
                raise InvalidRowError(
                    f"{what}: expected null or {expected}, got {shown(declared)}", where=str(self.path)
                )


def find_metadata(rows: Path) -> CollectionMetadata:
    """Read `<stem>.metadata.json` beside the file `rows`, else `metadata.json` in its folder.

    Whatever has that name is read, so that rows are not bound by another file in its stead. The binding stands at
    `binding` or at `provenance.binding`. Raises InvalidRowError when the file is not read as strictly as rows are, or
    when the two bindings differ.
    """
    for path in (rows.with_name(f"{rows.stem}.metadata.json"), rows.with_name("metadata.json")):
        if os.path.lexists(path):
            return _read_metadata(path)
    return CollectionMetadata()


def declared_binding(provenance: Mapping[str, Any], profile: RowProfile) -> dict[str, Any]:
    """Return what `provenance` itself says of the runtime: its flat values under the required binding keys.

    Values below another key are never looked at, whatever that key is called.
    """
    return {key: provenance[key] for key in profile.required_binding if key in provenance}


class BindingCheck:
    """Holds every row to the binding of the first one."""

    def __init__(self, profile: RowProfile) -> None:
        """Start without a binding; the first row brings it."""
        self._profile = profile
        self._known: dict[str, str] | None = None  # key to canonical JSON of its value
        self._checked: set[tuple[Path | None, str]] = set()  # metadata file and overlay
        self._origin = ""

    @property
    def binding(self) -> dict[str, Any]:
        """The runtime binding that all rows so far share; empty before the first row."""
        return {key: json.loads(text) for key, text in (self._known or {}).items()}

    def check_overlay(self, metadata: CollectionMetadata, overlay: str, where: str) -> None:
        """Check the binding of `metadata` under that of a row, given as JSON; once for rows that share both."""
        if (metadata.path, overlay) not in self._checked:
            self.check({**metadata.binding, **json.loads(overlay)}, where)
            self._checked.add((metadata.path, overlay))

    def check(self, binding: Mapping[str, Any], where: str) -> None:
        """Raise InvalidRowError at `where` unless `binding` has what is required and equals the first one.

        Equal means the same canonical JSON, so that 1, 1.0 and true differ; dataset keys do not count.
        """
        texts = {key: canonical_json(value) for key, value in binding.items() if key not in DATASET_KEYS}
        if self._known is None:
            self._check_required(binding, where)
            self._known, self._origin = dict(sorted(texts.items())), where
        elif texts != self._known:
            self._raise_difference(texts, where)

    def _check_required(self, binding: Mapping[str, Any], where: str) -> None:
        missing = [key for key in self._profile.required_binding if key not in binding]
        if missing:
            raise InvalidRowError(
                f"binding: expected the keys {list(self._profile.required_binding)}, missing {missing}",
                where=where,
                hint="declare them in the metadata file beside the rows or in the provenance of each row",
            )
        expected = self._profile.features.version
        if binding.get(FEATURE_VERSION_KEY, expected) != expected:
            got = shown(binding[FEATURE_VERSION_KEY])
            raise InvalidRowError(
                f"binding.{FEATURE_VERSION_KEY}: expected {expected}, got {got}", where=where
            )

    def _raise_difference(self, texts: Mapping[str, str], where: str) -> None:
        known = self._known or {}
        key = min(key for key in texts.keys() | known.keys() if texts.get(key) != known.get(key))
        expected, got = (_side(side.get(key)) for side in (known, texts))
        raise InvalidRowError(
            f"binding.{key}: expected {expected} as at {self._origin}, got {got}", where=where
        )


def _read_metadata(path: Path) -> CollectionMetadata:
    where = str(path)
    if path.exists() and not path.is_file():
        raise InvalidRowError("expected a metadata file, got something else", where=where)
    try:
        body = parse_json(path.read_bytes(), where=where)
    except OSError as error:
        raise InvalidRowError(
            f"expected a readable metadata file, got: {error.strerror}", where=where
        ) from error
    if not isinstance(body, dict):
        raise InvalidRowError(f"expected a JSON object, got {shown(body)}", where=where)
    provenance = _object(body, "provenance", "provenance", where)
    inner = _object(provenance, "binding", "provenance.binding", where)
    outer = _object(body, "binding", "binding", where)
    is_twice = body.get("binding") is not None and provenance.get("binding") is not None
    if is_twice and canonical_json(outer) != canonical_json(inner):
        raise InvalidRowError("expected the same under binding and provenance.binding", where=where)
    return CollectionMetadata(
        path=path,
        collection_schema=_text(body, "schema_version", where),
        row_schema=_text(body, "row_schema_version", where),
        profile=body.get("profile"),
        binding=outer or inner,
    )


def _object(body: Mapping[str, Any], key: str, what: str, where: str) -> dict[str, Any]:
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRowError(f"{what}: expected a JSON object, got {shown(value)}", where=where)
    return value


def _text(body: Mapping[str, Any], key: str, where: str) -> str | None:
    value = body.get(key)
    if value is None or isinstance(value, str):
        return value
    raise InvalidRowError(f"{key}: expected a text or null, got {shown(value)}", where=where)


def _side(text: str | None) -> str:
    if text is None:
        return "nothing"
    return text if len(text) <= _LONGEST_SIDE else f"{text[: _LONGEST_SIDE - 3]}..."
