"""Row profiles: what the rows of one schema must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import fingerprint
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.domain.identifiers import check_id
from steersman.domain.strict_json import shown
from steersman.errors import InvalidInputError, InvalidRowError, InvalidSpecError
from steersman.teacher import streaming_scene

__all__ = [
    "BUILT_IN",
    "DATASET_KEYS",
    "DECLARED_COLLECTION_SCHEMA",
    "DECLARED_ROW_SCHEMA",
    "Encoder",
    "RowProfile",
    "find_profile",
]

DECLARED_ROW_SCHEMA = "steersman.teacher_row.v1"
"""The row schema whose profile the collection's metadata declares."""
DECLARED_COLLECTION_SCHEMA = "steersman.teacher.v1"
DATASET_KEYS = (
    "source_hash",
    "source_hashes",
    "dataset_hash",
    "dataset_hashes",
    "teacher_dataset_hash",
    "teacher_source_hashes",
)
"""Keys of provenance and binding that say which files a row came from: no part of what the row says."""

Encoder: TypeAlias = Callable[[Mapping[str, Any]], NDArray[np.float64]]
"""Makes the features [D] of a control input."""

_PARTS = ("name", "actions", "features", "control_keys", "required_binding")


@dataclass(frozen=True, slots=True)
class RowProfile:
    """What rows of one schema must hold: actions, features, control keys, binding keys."""

    name: str
    row_schema: str
    collection_schema: str
    catalogue: ActionCatalogue  # A actions
    features: FeatureSchema  # D features
    control_keys: tuple[str, ...] = ()
    required_binding: tuple[str, ...] = ()
    encode: Encoder | None = field(default=None, compare=False)
    """Where the problem knows how to make features of a control input."""
    nullable: frozenset[str] = field(init=False, repr=False, compare=False)  # names of features

    def __post_init__(self) -> None:
        """Index the features that may be missing."""
        object.__setattr__(self, "nullable", frozenset(self.features.nullable))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical JSON of the schemas and the declaration."""
        schemas = [self.row_schema, self.collection_schema]
        return fingerprint({"schemas": schemas, "profile": self.to_json()})

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as a collection's metadata holds it."""
        return {
            "name": self.name,
            "actions": list(self.catalogue.ids),
            "features": self.features.to_json(),
            "control_keys": list(self.control_keys),
            "required_binding": list(self.required_binding),
        }

    @classmethod
    def from_json(cls, body: object) -> RowProfile:
        """Read `{name, actions, features, control_keys?, required_binding?}` of a collection's metadata.

        Raises InvalidSpecError or another InvalidInputError, naming the place.
        """
        if not isinstance(body, Mapping) or not {"name", "actions", "features"} <= set(body):
            raise InvalidSpecError(f"profile: expected name, actions and features, got {shown(body)}")
        unexpected = sorted(set(body) - set(_PARTS))
        if unexpected:
            raise InvalidSpecError(f"profile: unexpected {unexpected}; expected {list(_PARTS)}")
        required_binding = _texts(body, "required_binding")
        if not set(required_binding).isdisjoint(DATASET_KEYS):
            raise InvalidSpecError(f"profile.required_binding: expected none of {list(DATASET_KEYS)}")
        return cls(
            name=check_id(body["name"], what="profile.name"),
            row_schema=DECLARED_ROW_SCHEMA,
            collection_schema=DECLARED_COLLECTION_SCHEMA,
            catalogue=ActionCatalogue(_texts(body, "actions")),
            features=FeatureSchema.from_json(body["features"]),
            control_keys=_texts(body, "control_keys"),
            required_binding=required_binding,
        )


BUILT_IN = {
    streaming_scene.ROW_SCHEMA: RowProfile(
        name="streaming-scene",
        row_schema=streaming_scene.ROW_SCHEMA,
        collection_schema=streaming_scene.COLLECTION_SCHEMA,
        catalogue=ActionCatalogue(streaming_scene.ACTIONS),
        features=streaming_scene.FEATURES,
        control_keys=streaming_scene.CONTROL_KEYS,
        required_binding=streaming_scene.REQUIRED_BINDING,
        encode=streaming_scene.encode,
    )
}
"""The profiles that come with Steersman, by row schema."""


def find_profile(
    row_schema: object, declared: object, *, where: str | None, declared_at: str | None = None
) -> RowProfile:
    """Return the profile of `row_schema`; `declared` is the collection's own declaration, or None.

    Raises InvalidRowError: at `where`, the row, for an unknown schema and a declaration that is missing; at
    `declared_at` for one that is wrong.
    """
    built_in = BUILT_IN.get(row_schema) if isinstance(row_schema, str) else None
    if built_in is not None:
        return built_in
    if row_schema != DECLARED_ROW_SCHEMA:
        expected = [*BUILT_IN, DECLARED_ROW_SCHEMA]
        raise InvalidRowError(
            f"schema_version: expected one of {expected}, got {shown(row_schema)}", where=where
        )
    if declared is None:
        raise InvalidRowError(
            f"schema_version: {DECLARED_ROW_SCHEMA} needs a profile, and none is declared",
            where=where,
            hint="declare it under 'profile' in the metadata file beside the rows",
        )
    try:
        return RowProfile.from_json(declared)
    except InvalidInputError as error:
        raise InvalidRowError(error.message, where=declared_at) from error


def _texts(body: Mapping[str, Any], what: str) -> tuple[str, ...]:
    items = body.get(what, [])
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InvalidSpecError(f"profile.{what}: expected a list of texts, got {shown(items)}")
    texts = tuple(check_id(item, what=f"profile.{what}[{index}]") for index, item in enumerate(items))
    if len(set(texts)) != len(texts):
        raise InvalidSpecError(f"profile.{what}: expected each text once, got {shown(items)}")
    return texts
