"""One teacher row: every feasible action of one prefix, tried and scored.

The checks here are the careful ones, whose word is final and whose messages name field and index.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np

from steersman.domain.canonical import canonical_json
from steersman.domain.strict_json import INT64_MAX, shown
from steersman.errors import InvalidRowError
from steersman.teacher.binding import FEATURE_VERSION_KEY, declared_binding
from steersman.teacher.profiles import DATASET_KEYS, RowProfile, find_profile
from steersman.teacher.strict_json import check_json, is_number, parse_json

__all__ = [
    "FIELDS",
    "SPLIT",
    "CheckedRow",
    "NumberedRow",
    "Provenance",
    "RowFields",
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

    def __init__(
        self, body: object, profile: RowProfile, *, write: Callable[[object], str] = canonical_json
    ) -> None:
        """Take what `json.loads` makes of it, and a way to write canonical JSON.

        Raises InvalidRowError for no object or another feature version.
        """
        if not isinstance(body, dict):
            raise InvalidRowError(f"provenance: expected a JSON object, got {shown(body)}")
        version = body.get(FEATURE_VERSION_KEY, profile.features.version)
        if version != profile.features.version:
            raise InvalidRowError(
                f"provenance.{FEATURE_VERSION_KEY}: expected {profile.features.version}, got {shown(version)}"
            )
        self.text = write(body)
        lasting = {key: value for key, value in body.items() if key not in DATASET_KEYS}
        self.lasting_raw = msgspec.Raw(write(lasting).encode("ascii"))  # without the dataset keys
        self.overlay_text = write(declared_binding(body, profile))


class RowFields(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The fields of a row as a file has them, in the order of canonical JSON; the provenance is text.

    `steersman.teacher.quick` narrows the types to those of a profile.
    """

    actions: Any  # [A] str
    advantages: list[Any]  # [A] number, None where not feasible; so are costs and losses
    control_input: Any
    costs: list[Any]
    episode_id: str
    feasible_mask: tuple[bool, ...]  # [A]
    features: list[Any]  # [D] number, None where a nullable one is missing
    horizon_used: int
    losses: list[Any]
    prefix_frame_id: int
    prefix_step: int
    provenance: msgspec.Raw
    row_id: str
    scene_id: str
    schema_version: str
    split_id: str


class _ControlOnly(msgspec.Struct, gc=False):
    control_input: msgspec.Raw


_decode_control = msgspec.json.Decoder(_ControlOnly).decode


class CheckedRow(msgspec.Struct, frozen=True, gc=False):
    """A valid row on its way into columns or files; a struct, because a million are made and dropped.

    The provenance in `fields` is without its dataset keys.
    """

    fields: RowFields
    provenance: Provenance
    numbers: bytes  # [D + 3 A] float64: features, losses, advantages, costs; NaN for None
    canonical: bytes  # the canonical JSON of `fields`
    digest: bytes  # [32], the SHA-256 of `canonical`

    def control_text(self) -> bytes:
        """Return the canonical JSON of the control input."""
        return bytes(_decode_control(self.canonical).control_input)

    def text(self) -> bytes:
        """Return the canonical JSON of the whole row, dataset keys included."""
        before, after = b',"provenance":', b',"row_id":'
        lasting = bytes(self.provenance.lasting_raw)
        # The last one is the row's own: what follows are texts, in which no quote stands bare.
        start = self.canonical.rindex(before + lasting + after) + len(before)
        text = self.provenance.text.encode("ascii")
        return self.canonical[:start] + text + self.canonical[start + len(lasting) :]


NumberedRow: TypeAlias = tuple[int, CheckedRow]
"""A row and its place in its file."""


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
    fields = row.fields
    overlay = json.loads(row.provenance.overlay_text)
    return TeacherRow(
        schema_version=fields.schema_version,
        row_id=fields.row_id,
        episode_id=fields.episode_id,
        scene_id=fields.scene_id,
        split_id=fields.split_id,
        prefix_step=fields.prefix_step,
        prefix_frame_id=fields.prefix_frame_id,
        control_input=json.loads(row.control_text()),
        features=tuple(fields.features),
        actions=profile.catalogue.ids,
        feasible_mask=fields.feasible_mask,
        losses=tuple(fields.losses),
        advantages=tuple(fields.advantages),
        costs=tuple(fields.costs),
        horizon_used=fields.horizon_used,
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
    try:
        provenance = Provenance(body["provenance"], profile)
    except InvalidRowError as error:
        raise InvalidRowError(error.message, where=where) from None
    lists = {name: list(body[name]) for name in ("features", *_OUTCOMES)}
    fields = RowFields(**{**body, **lists, "feasible_mask": mask, "provenance": provenance.lasting_raw})
    canonical = _text_of({**body, "provenance": json.loads(bytes(provenance.lasting_raw))})
    numbers = np.array([value for values in lists.values() for value in values], dtype=np.float64)
    return CheckedRow(fields, provenance, numbers.tobytes(), canonical, hashlib.sha256(canonical).digest())


def _text_of(value: object) -> bytes:
    return canonical_json(value).encode("ascii")


def _sized(value: object) -> str:
    return f"{len(value)}" if isinstance(value, (list, tuple)) else shown(value)


def _expected(what: str, expected: str, got: str, where: str | None) -> InvalidRowError:
    return InvalidRowError(f"{what}: expected {expected}, got {got}", where=where)
