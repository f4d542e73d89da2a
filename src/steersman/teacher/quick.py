"""The fast way to check a line: compiled parsing and writing, and no object that a row does not need.

It answers only for lines that it understands entirely and hands everything else to the careful way in
`steersman.teacher.rows`, which either accepts the line or says what is wrong with it. So it needs no messages,
and may refuse whatever it is not sure of. What it accepts is what the careful way accepts, byte for byte; three
places where compiled JSON libraries differ from Python's decide what it must look out for:

- They keep the last of two equal keys. A line whose texts hold no escaped quote has two quotes for every key and
  text; when the parsed row accounts for all of them, no key was dropped.
- They spell floats below 1e-4 and from 1e16 their own way; elsewhere the shortest digits are the same.
- They leave characters beyond ASCII, and DEL, as they are.
"""

from __future__ import annotations

import hashlib
import re
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any

import msgspec

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidRowError
from steersman.teacher.profiles import RowProfile
from steersman.teacher.rows import FIELDS, SPLIT, CheckedRow, Provenance, check_row
from steersman.teacher.strict_json import INT64_MAX, INT64_MIN, MAX_DEPTH, parse_json

__all__ = ["LARGEST_PLAIN", "RawRow", "RowChecker", "number_list", "plain_document"]

LARGEST_PLAIN = 9.2e18
"""The largest magnitude of a number taken here: safely an integer of 64 bits, should it be one."""

_Number = (
    Annotated[float, msgspec.Meta(ge=-LARGEST_PLAIN, le=LARGEST_PLAIN)]
    | Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]

_SMALLEST_PLAIN, _FIRST_EXPONENT = 1e-4, 1e16  # Python spells floats in between without an exponent
_ESCAPED_QUOTE = re.compile(rb'\\"|\\u0022')
# A number that is spelled with an exponent, is below 1e-4 or may be beyond 64 bits.
_ODD_NUMBER = re.compile(rb"[:,\[]-?(?:[0-9]{19}|0\.0000|[0-9][0-9.]*e)")
_MOST_REMEMBERED = 1024  # provenances
_QUOTES_OF_KEYS = 2 * len(FIELDS)
_QUOTES_OF_TEXTS = 2 * 5  # row schema, split and the three ids

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class RawRow(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The fields of a row as a file has them; control input and provenance still as their text."""

    schema_version: str
    row_id: _Text
    episode_id: _Text
    scene_id: _Text
    split_id: str
    prefix_step: _Count
    prefix_frame_id: _Count
    control_input: msgspec.Raw
    features: list[_Number]  # [D]
    actions: list[str]  # [A]
    feasible_mask: tuple[bool, ...]  # [A]
    losses: list[_Number | None]  # [A]
    advantages: list[_Number | None]  # [A]
    costs: list[_Number | None]  # [A]
    horizon_used: _Positive
    provenance: msgspec.Raw


class _RawRowWithGaps(RawRow):
    """A row of a profile with features that may be missing."""

    features: list[_Number | None]  # type: ignore[assignment]


class RowChecker:
    """Checks the rows of one profile."""

    def __init__(self, profile: RowProfile) -> None:
        """Prepare what all rows of `profile` share."""
        self.profile = profile
        self._decode = msgspec.json.Decoder(_RawRowWithGaps if profile.nullable else RawRow).decode
        self._size, self._gaps = len(profile.features), bool(profile.nullable)
        self._actions = list(profile.catalogue.ids)
        self._control_keys = frozenset(profile.control_keys)
        self._required = [i for i, name in enumerate(profile.features.names) if name not in profile.nullable]
        self._quotes = _QUOTES_OF_KEYS + _QUOTES_OF_TEXTS + 2 * len(self._actions)
        self._head = b'{"actions":%b,"advantages":' % _text_of(self._actions)
        self._tail = b',"schema_version":%b,"split_id":"%b"}' % (_text_of(profile.row_schema), SPLIT.encode())
        self._masks: dict[tuple[bool, ...], bytes] = {}
        self._provenances: dict[bytes, tuple[Provenance, int]] = {}

    def check_line(self, line: bytes, *, where: str) -> CheckedRow:
        """Return the row of one line; raise InvalidRowError at `where`, naming field and index."""
        return self._try_line(line) or check_row(parse_json(line, where=where), self.profile, where=where)

    def check_raw(self, raw: RawRow) -> CheckedRow | None:
        """Return the row of fields whose kinds and ranges are those of `RawRow`, or None for the careful way."""
        checked = self._try_raw(raw)
        return None if checked is None else checked[0]

    def _try_line(self, line: bytes) -> CheckedRow | None:
        if b"\\" in line and _ESCAPED_QUOTE.search(line):
            return None
        try:
            checked = self._try_raw(self._decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if checked is None or line.count(b'"') != self._quotes + checked[1]:
            return None
        return checked[0]

    def _try_raw(self, raw: RawRow) -> tuple[CheckedRow, int] | None:
        """Return the row, and how many quotes the texts of its control input and provenance hold."""
        if (
            raw.schema_version != self.profile.row_schema
            or raw.split_id != SPLIT
            or raw.actions != self._actions
            or not self._are_features(raw.features)
            or "\x00" in raw.row_id + raw.episode_id + raw.scene_id
        ):
            return None
        mask_text = self._masks.get(raw.feasible_mask) or self._add_mask(raw.feasible_mask)
        if mask_text is None or not _fit_mask(raw):
            return None
        control_raw = bytes(raw.control_input)
        control_text = self._control(control_raw)
        provenance_raw = bytes(raw.provenance)
        provenance, quotes = self._provenances.get(provenance_raw) or self._add_provenance(provenance_raw)
        if control_text is None or provenance is None:
            return None
        return self._assemble(raw, mask_text, control_text, provenance), quotes + control_raw.count(b'"')

    def _assemble(self, raw: RawRow, mask: bytes, control: bytes, provenance: Provenance) -> CheckedRow:
        parts = (
            self._head,
            number_list(raw.advantages),
            b',"control_input":',
            control,
            b',"costs":',
            number_list(raw.costs),
            b',"episode_id":',
            encode_basestring_ascii(raw.episode_id).encode(),
            b',"feasible_mask":',
            mask,
            b',"features":',
            number_list(raw.features),
            b',"horizon_used":%d,"losses":' % raw.horizon_used,
            number_list(raw.losses),
            b',"prefix_frame_id":%d,"prefix_step":%d,"provenance":' % (raw.prefix_frame_id, raw.prefix_step),
            provenance.lasting_text,
            b',"row_id":',
            encode_basestring_ascii(raw.row_id).encode(),
            b',"scene_id":',
            encode_basestring_ascii(raw.scene_id).encode(),
            self._tail,
        )
        canonical = b"".join(parts)
        return CheckedRow(
            raw.row_id,
            raw.episode_id,
            raw.scene_id,
            raw.prefix_step,
            raw.prefix_frame_id,
            control,
            raw.features,
            raw.feasible_mask,
            raw.losses,
            raw.advantages,
            raw.costs,
            raw.horizon_used,
            provenance,
            canonical,
            hashlib.sha256(canonical).digest(),
        )

    def _are_features(self, features: list[Any]) -> bool:
        if len(features) != self._size:
            return False
        return not self._gaps or all(features[index] is not None for index in self._required)

    def _add_mask(self, mask: tuple[bool, ...]) -> bytes | None:
        if len(mask) != len(self._actions) or True not in mask:
            return None
        return self._masks.setdefault(mask, _text_of(list(mask)))

    def _control(self, raw: bytes) -> bytes | None:
        document = None if b"true" in raw or b"false" in raw else plain_document(raw)
        if document is None or not document[0].keys() <= self._control_keys:
            return None
        return document[1]

    def _add_provenance(self, raw: bytes) -> tuple[Provenance | None, int]:
        document = plain_document(raw) or _careful_document(raw)
        if document is None:
            return None, 0
        try:
            provenance = Provenance(document[1], document[0], self.profile)
        except InvalidRowError:
            return None, 0
        if len(self._provenances) >= _MOST_REMEMBERED:
            self._provenances.clear()
        return self._provenances.setdefault(raw, (provenance, raw.count(b'"')))


def plain_document(raw: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Return the object that `raw` holds and its canonical JSON, or None where that takes the careful way.

    `raw` stands one level deep in a row.
    """
    if b"\\" in raw or b"\x7f" in raw or not raw.isascii():
        return None
    try:
        document = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(document, dict) or not _is_shallow(raw, document):
        return None
    text = _encode_sorted(document)
    if raw.count(b'"') != text.count(b'"') or _ODD_NUMBER.search(text):
        return None
    return document, text


def number_list(values: list[Any]) -> bytes:
    """Return the canonical JSON of finite floats, integers of 64 bits and None."""
    text = _encode(values)
    if b"e" not in text and b"0.0000" not in text:
        return text
    tokens = text[1:-1].split(b",")
    for index, value in enumerate(values):
        if type(value) is float and not _SMALLEST_PLAIN <= abs(value) < _FIRST_EXPONENT:
            tokens[index] = repr(value).encode()
    return b"[%b]" % b",".join(tokens)


def _careful_document(raw: bytes) -> tuple[dict[str, Any], bytes] | None:
    try:
        document = parse_json(b'{"":%b}' % raw, where="")[""]
    except InvalidRowError:
        return None
    return (document, _text_of(document)) if isinstance(document, dict) else None


def _fit_mask(raw: RawRow) -> bool:
    """Tell whether losses, advantages and costs are null exactly where an action is not feasible."""
    missing = [not feasible for feasible in raw.feasible_mask]
    return (
        [value is None for value in raw.losses] == missing
        and [value is None for value in raw.advantages] == missing
        and [value is None for value in raw.costs] == missing
    )


def _is_shallow(raw: bytes, document: object) -> bool:
    """Tell whether `document`, itself one level deep, nests no deeper than rows may."""
    # No opening bracket, no deeper level: that settles nearly all without a walk.
    return raw.count(b"[") + raw.count(b"{") < MAX_DEPTH or _nests_within(document, MAX_DEPTH - 1)


def _nests_within(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        return levels > 0 and all(_nests_within(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_nests_within(item, levels - 1) for item in value)
    return True


def _text_of(value: object) -> bytes:
    return canonical_json(value).encode("ascii")
