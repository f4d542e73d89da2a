"""One teacher row: every feasible action of one prefix, tried and scored.

The checks here are the careful ones, whose word is final and whose messages name field and index.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidRowError
from steersman.teacher.binding import FEATURE_VERSION_KEY, declared_binding
from steersman.teacher.profiles import DATASET_KEYS, RowProfile, find_profile
from steersman.teacher.strict_json import INT64_MAX, check_json, is_number, parse_json, shown

__all__ = [
    "FIELDS",
    "SPLIT",
    "CheckedRow",
    "Provenance",
    "TeacherRow",
    "check_fields",
    "check_row",
    "parse_teacher_row",
    "to_teacher_row",
]

FIELDS = (
    "schema_version",
    "row_id",
    "episode_id",
    "scene_id",
    "split_id",
    "prefix_step",
    "prefix_frame_id",
    "control_input",
    "features",
    "actions",
    "feasible_mask",
    "losses",
    "advantages",
    "costs",
    "horizon_used",
    "provenance",
)
SPLIT = "train"
"""The only split that rows may carry: what is held out is decided by scene, when a policy is fitted."""

_IDS = ("row_id", "episode_id", "scene_id")
_COUNTS = {"prefix_step": 0, "prefix_frame_id": 0, "horizon_used": 1}  # field to least value
_OUTCOMES = ("losses", "advantages", "costs")


@dataclass(frozen=True, slots=True)
class TeacherRow:
    """A valid row. Numbers keep their kind, int or float, as the row's fingerprint tells them apart."""

    schema_version: str
    row_id: str
    episode_id: str
    scene_id: str
    split_id: str
    prefix_step: int
    prefix_frame_id: int
    control_input: Mapping[str, Any]
    features: tuple[float | None, ...]  # [D] float, None where a nullable feature is missing
    actions: tuple[str, ...]  # [A] str, the catalogue
    feasible_mask: tuple[bool, ...]  # [A] bool
    losses: tuple[float | None, ...]  # [A] float, None where not feasible; so are the next two
    advantages: tuple[float | None, ...]  # [A]
    costs: tuple[float | None, ...]  # [A]
    horizon_used: int
    provenance: Mapping[str, Any]
    fingerprint: str  # SHA-256 as hexadecimal digits
    binding: Mapping[str, Any]  # the collection's, overlaid by the provenance's own
    profile: RowProfile

    def to_json(self) -> dict[str, Any]:
        """Return the sixteen fields as the row's line of JSON holds them."""
        return {name: getattr(self, name) for name in FIELDS}


class Provenance:
    """The provenance of one row, or of many that share it."""

    def __init__(self, text: bytes, body: Mapping[str, Any], profile: RowProfile) -> None:
        """Take the canonical JSON `text` of `body`; raise InvalidRowError for another feature version."""
        version = body.get(FEATURE_VERSION_KEY, profile.features.version)
        if version != profile.features.version:
            raise InvalidRowError(
                f"provenance.{FEATURE_VERSION_KEY}: expected {profile.features.version}, got {shown(version)}"
            )
        self.text = text
        self.lasting_text = text
        if not body.keys().isdisjoint(DATASET_KEYS):
            lasting = {key: value for key, value in body.items() if key not in DATASET_KEYS}
            self.lasting_text = canonical_json(lasting).encode("ascii")
        self.overlay_text = canonical_json(declared_binding(body, profile))


class CheckedRow(msgspec.Struct, frozen=True, gc=False):
    """A valid row on its way into columns or files; a struct, because a million are made and dropped.

    `control_text` and the texts of `provenance` are canonical JSON, `canonical` is that of the whole row
    without its dataset keys.
    """

    row_id: str
    episode_id: str
    scene_id: str
    prefix_step: int
    prefix_frame_id: int
    control_text: bytes
    features: Sequence[float | None]  # [D]
    feasible_mask: tuple[bool, ...]  # [A]
    losses: Sequence[float | None]  # [A]
    advantages: Sequence[float | None]  # [A]
    costs: Sequence[float | None]  # [A]
    horizon_used: int
    provenance: Provenance
    canonical: bytes
    digest: bytes  # [32], the SHA-256 of `canonical`


def parse_teacher_row(
    row: bytes | str | Mapping[str, Any],
    *,
    profile: RowProfile | None = None,
    binding: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> TeacherRow:
    """Return the row that a line of JSON or a plain mapping holds.

    `profile` None takes the built-in one of the row's `schema_version`; `binding` is what the collection says,
    `where` the place that messages name. Raises InvalidRowError, naming field and index.
    """
    if isinstance(row, (bytes, str)):
        encoded = row.encode("utf-8", "surrogatepass") if isinstance(row, str) else row
        row = parse_json(encoded, where=where or "row")
    body = check_fields(row, where=where)
    if profile is None:
        profile = find_profile(body["schema_version"], None, where=where)
    return to_teacher_row(check_row(body, profile, where=where), profile, binding or {})


def check_row(row: object, profile: RowProfile, *, where: str | None) -> CheckedRow:
    """Return `row`, as `json.loads` makes it, checked against `profile`.

    Raises InvalidRowError at `where`, naming field and index.
    """
    body = check_fields(row, where=where)
    check_json(body, what="", where=where)
    _check_constants(body, profile, where)
    for name in _IDS:
        if not isinstance(body[name], str) or not body[name]:
            raise _expected(name, "a text that is not empty", shown(body[name]), where)
    for name, least in _COUNTS.items():
        if type(body[name]) is not int or not least <= body[name] <= INT64_MAX:
            raise _expected(name, f"an integer of at least {least}", shown(body[name]), where)
    _check_features(body["features"], profile, where)
    mask = _check_mask(body["feasible_mask"], profile, where)
    for name in _OUTCOMES:
        _check_outcome(name, body[name], mask, where)
    _check_control(body["control_input"], profile, where)
    return _checked(body, profile, mask, where)


def check_fields(row: object, *, where: str | None) -> dict[str, Any]:
    """Return `row` if it is an object of exactly the sixteen fields.

    Raises InvalidRowError at `where`, listing both what is missing and what is not expected.
    """
    if not isinstance(row, Mapping):
        raise InvalidRowError(f"expected a JSON object, got {shown(row)}", where=where)
    missing = [name for name in FIELDS if name not in row]
    unexpected = sorted(str(name) for name in row if name not in FIELDS)
    if missing or unexpected:
        raise InvalidRowError(
            f"expected exactly the fields of a teacher row; missing {missing}, unexpected {unexpected}",
            where=where,
        )
    return dict(row)


def to_teacher_row(row: CheckedRow, profile: RowProfile, binding: Mapping[str, Any]) -> TeacherRow:
    """Return `row` as the object that callers get; `binding` is what its collection says."""
    overlay = json.loads(row.provenance.overlay_text)
    return TeacherRow(
        schema_version=profile.row_schema,
        row_id=row.row_id,
        episode_id=row.episode_id,
        scene_id=row.scene_id,
        split_id=SPLIT,
        prefix_step=row.prefix_step,
        prefix_frame_id=row.prefix_frame_id,
        control_input=json.loads(row.control_text),
        features=tuple(row.features),
        actions=profile.catalogue.ids,
        feasible_mask=row.feasible_mask,
        losses=tuple(row.losses),
        advantages=tuple(row.advantages),
        costs=tuple(row.costs),
        horizon_used=row.horizon_used,
        provenance=json.loads(row.provenance.text),
        fingerprint=row.digest.hex(),
        binding={key: value for key, value in {**binding, **overlay}.items() if key not in DATASET_KEYS},
        profile=profile,
    )


def _check_constants(body: Mapping[str, Any], profile: RowProfile, where: str | None) -> None:
    if body["schema_version"] != profile.row_schema:
        raise _expected("schema_version", profile.row_schema, shown(body["schema_version"]), where)
    if body["split_id"] != SPLIT:
        raise _expected("split_id", f'"{SPLIT}"', shown(body["split_id"]), where)
    actions = body["actions"]
    if not isinstance(actions, (list, tuple)) or tuple(actions) != profile.catalogue.ids:
        raise _expected("actions", f"the catalogue {list(profile.catalogue.ids)}", shown(actions), where)


def _check_features(features: object, profile: RowProfile, where: str | None) -> None:
    size = len(profile.features)
    if not isinstance(features, (list, tuple)) or len(features) != size:
        raise _expected("features", f"{size} numbers", _sized(features), where)
    for index in [index for index, value in enumerate(features) if not is_number(value)]:
        if features[index] is not None or profile.features.names[index] not in profile.nullable:
            raise _expected(f"features[{index}]", "a finite number", shown(features[index]), where)


def _check_mask(mask: object, profile: RowProfile, where: str | None) -> tuple[bool, ...]:
    size = len(profile.catalogue)
    if not isinstance(mask, (list, tuple)) or len(mask) != size:
        raise _expected("feasible_mask", f"{size} booleans", _sized(mask), where)
    for index, value in enumerate(mask):
        if not isinstance(value, bool):
            raise _expected(f"feasible_mask[{index}]", "a boolean", shown(value), where)
    if not any(mask):
        raise _expected("feasible_mask", "at least one feasible action", shown(list(mask)), where)
    return tuple(mask)


def _check_outcome(name: str, values: object, mask: tuple[bool, ...], where: str | None) -> None:
    if not isinstance(values, (list, tuple)) or len(values) != len(mask):
        raise _expected(name, f"{len(mask)} entries", _sized(values), where)
    for index, (value, feasible) in enumerate(zip(values, mask, strict=True)):
        if feasible and not is_number(value):
            raise _expected(
                f"{name}[{index}]", "a finite number, as the action is feasible", shown(value), where
            )
        if not feasible and value is not None:
            raise _expected(f"{name}[{index}]", "null, as the action is not feasible", shown(value), where)


def _check_control(control: object, profile: RowProfile, where: str | None) -> None:
    if not isinstance(control, dict):
        raise _expected("control_input", "a JSON object", shown(control), where)
    unexpected = sorted(set(control) - set(profile.control_keys))
    if unexpected:
        raise InvalidRowError(
            f"control_input: unexpected {unexpected}; expected keys among {list(profile.control_keys)}",
            where=where,
        )
    _refuse_booleans(control, "control_input", where)


def _refuse_booleans(value: object, what: str, where: str | None) -> None:
    if isinstance(value, bool):
        raise _expected(what, "no boolean", shown(value), where)
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_booleans(item, f"{what}.{key}", where)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_booleans(item, f"{what}[{index}]", where)


def _checked(
    body: Mapping[str, Any], profile: RowProfile, mask: tuple[bool, ...], where: str | None
) -> CheckedRow:
    raw = body["provenance"]
    if not isinstance(raw, dict):
        raise _expected("provenance", "a JSON object", shown(raw), where)
    try:
        provenance = Provenance(canonical_json(raw).encode("ascii"), raw, profile)
    except InvalidRowError as error:
        raise InvalidRowError(error.message, where=where) from None
    lasting = {**body, "provenance": {key: value for key, value in raw.items() if key not in DATASET_KEYS}}
    canonical = canonical_json(lasting).encode("ascii")
    return CheckedRow(
        row_id=body["row_id"],
        episode_id=body["episode_id"],
        scene_id=body["scene_id"],
        prefix_step=body["prefix_step"],
        prefix_frame_id=body["prefix_frame_id"],
        control_text=canonical_json(body["control_input"]).encode("ascii"),
        features=body["features"],
        feasible_mask=mask,
        losses=body["losses"],
        advantages=body["advantages"],
        costs=body["costs"],
        horizon_used=body["horizon_used"],
        provenance=provenance,
        canonical=canonical,
        digest=hashlib.sha256(canonical).digest(),
    )


def _sized(value: object) -> str:
    return f"{len(value)}" if isinstance(value, (list, tuple)) else shown(value)


def _expected(what: str, expected: str, got: str, where: str | None) -> InvalidRowError:
    return InvalidRowError(f"{what}: expected {expected}, got {got}", where=where)
