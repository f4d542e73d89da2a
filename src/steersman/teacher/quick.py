"""The fast way to check rows: compiled parsing and writing, many rows at a time.

It answers only for rows that it understands entirely and hands everything else to the careful way in
`steersman.teacher.rows`, which either accepts the row or says what is wrong with it. So it needs no messages, and
may refuse whatever it is not sure of. What it accepts is what the careful way accepts, byte for byte. Compiled JSON
libraries differ from Python's in three things that it must look out for:

- They keep the last of two equal keys. A line whose texts hold no escaped quote has two quotes for every key and
  text; when the parsed row accounts for all of them, no key was dropped.
- They spell floats below 1e-4 and from 1e16 their own way; in between the shortest digits are the same.
- They leave characters beyond ASCII, and DEL, as they are.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import nan
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import canonical_json
from steersman.domain.strict_json import INT64_MAX, INT64_MIN
from steersman.errors import InvalidRowError
from steersman.teacher.profiles import RowProfile
from steersman.teacher.rows import FIELDS, SPLIT, CheckedRow, Provenance, RowFields, check_row
from steersman.teacher.strict_json import MAX_DEPTH, parse_json

__all__ = ["RowChecker", "canonical_text", "number_list"]

_LARGEST = 9.2e18  # of a number taken here: safely an integer of 64 bits, should it be one
_Number = (
    Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
    | Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]

_Scalar = _Number | str | None
_ControlValue = _Scalar | list[_Scalar | list[_Scalar | list[_Scalar]]]

_SMALLEST_PLAIN, _FIRST_EXPONENT = 1e-4, 1e16  # Python spells floats in between without an exponent
# A quote that is no structure, which would spoil the count, or a NUL.
_TELLING_ESCAPE = re.compile(rb'\\"|\\u0022|\\u0000')
# A number that is spelled with an exponent or is below 1e-4.
_ODD_NUMBER = re.compile(rb"[:,\[]-?(?:0\.0000|[0-9][0-9.]*e)")
# A number that may be beyond 64 bits, or that has an exponent and may be beyond float32.
_LARGE_NUMBER = re.compile(rb"[:,\[]\s*-?(?:[0-9]{19}|[0-9.]+[eE])")
_MOST_REMEMBERED = 1024  # provenances
_QUOTES_OF_KEYS = 2 * len(FIELDS)
_QUOTES_OF_TEXTS = 2 * 5  # row schema, split and the three ids
_QUOTES_BEFORE_CONTROL = 4  # of its own key and that of the advantages
# Ends the control input and nothing before it: it holds no object, and no quote stands bare in its texts.
_CONTROL_END = b'},"costs":['
_LISTS = ("features", "losses", "advantages", "costs")
_IDS = ("row_id", "episode_id", "scene_id")

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class RowChecker:
    """Checks the rows of one profile."""

    def __init__(self, profile: RowProfile) -> None:
        """Prepare what all rows of `profile` share."""
        self.profile = profile
        self._type = _row_type(profile)
        self._decode = msgspec.json.Decoder(self._type).decode
        self._decode_control = msgspec.json.Decoder(_control_type(profile.control_keys)).decode
        self._size, self._actions = len(profile.features), len(profile.catalogue)
        self._width = self._size + 3 * self._actions
        self._pack = struct.Struct(f"={self._width}d").pack
        self._gaps = bool(profile.nullable)
        self._required = ~profile.features.nullable_mask()
        self._quotes = _QUOTES_OF_KEYS + _QUOTES_OF_TEXTS + 2 * self._actions
        self._head = len(b'{"actions":%b,' % _text_of(list(profile.catalogue.ids)))
        self._provenances: dict[bytes, tuple[Provenance, int]] = {}

    def check_lines(self, path: Path, lines: Sequence[tuple[int, bytes]]) -> list[CheckedRow]:
        """Return the rows of numbered lines; raise InvalidRowError at `path:line`, naming field and index."""
        rows = self._try_lines([line for _, line in lines])
        if rows is None:
            rows = [self._check_line(line, f"{path}:{number}") for number, line in lines]
        return rows

    def try_bodies(self, bodies: Sequence[Mapping[str, Any]]) -> list[CheckedRow] | None:
        """Return the rows of sixteen fields each, two of them JSON text; None when one takes the careful way."""
        try:
            texts = [(body["control_input"].encode(), body["provenance"].encode()) for body in bodies]
            fields = [self._convert(body, *both) for body, both in zip(bodies, texts, strict=True)]
        except (AttributeError, msgspec.DecodeError, RecursionError):  # the first is a null for a text
            return None
        ids = "".join([row.row_id + row.episode_id + row.scene_id for row in fields])
        if "\x00" in ids or any(_TELLING_ESCAPE.search(text) for both in texts for text in both):
            return None
        return self._finish(fields, [control.count(b'"') + other.count(b'"') for control, other in texts])

    def _check_line(self, line: bytes, where: str) -> CheckedRow:
        rows = self._try_lines([line])
        return rows[0] if rows else check_row(parse_json(line, where=where), self.profile, where=where)

    def _try_lines(self, lines: Sequence[bytes]) -> list[CheckedRow] | None:
        """Return the rows of `lines`, or None when one of them takes the careful way."""
        if any(b"\\" in line and _TELLING_ESCAPE.search(line) for line in lines):
            return None
        try:
            fields = list(map(self._decode, lines))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return self._finish(fields, [line.count(b'"') - self._quotes for line in lines])

    def _convert(self, body: Mapping[str, Any], control: bytes, provenance: bytes) -> RowFields:
        documents = {"control_input": {}, "provenance": msgspec.Raw(provenance)}
        fields = msgspec.convert({**body, **documents}, self._type)
        fields.control_input = self._decode_control(control)
        return fields

    def _finish(self, fields: list[RowFields], quotes: list[int]) -> list[CheckedRow] | None:
        """Return the rows of `fields`, whose texts hold as many `quotes` as control input and provenance did."""
        provenances = self._find_provenances([bytes(row.provenance) for row in fields])
        numbers = self._pack_numbers(fields)
        if provenances is None or numbers is None:
            return None
        values = np.frombuffer(b"".join(numbers)).reshape(len(fields), self._width)
        masks = b"".join([bytes(row.feasible_mask) for row in fields])
        if not self._are_complete(values, np.frombuffer(masks, np.bool_).reshape(len(fields), self._actions)):
            return None
        for row, (provenance, _) in zip(fields, provenances, strict=True):
            row.provenance = provenance.lasting_raw
        texts = _canonical_texts(fields, values, self._head)
        ends = [text.find(_CONTROL_END, self._head) for text in texts]
        found = [text.count(b'"', self._head, end) for text, end in zip(texts, ends, strict=True)]
        expected = [
            count - inside + _QUOTES_BEFORE_CONTROL
            for count, (_, inside) in zip(quotes, provenances, strict=True)
        ]
        if found != expected:
            return None
        digests = [hashlib.sha256(text).digest() for text in texts]
        return list(
            map(CheckedRow, fields, [provenance for provenance, _ in provenances], numbers, texts, digests)
        )

    def _pack_numbers(self, fields: list[RowFields]) -> list[bytes] | None:
        pack = self._pack
        try:
            return [
                pack(*row.features, *row.losses, *row.advantages, *row.costs)
                if not self._gaps and False not in row.feasible_mask
                else pack(*_filled((*row.features, *row.losses, *row.advantages, *row.costs)))
                for row in fields
            ]
        except struct.error:  # a null where there must be a number
            return None

    def _find_provenances(self, raws: list[bytes]) -> list[tuple[Provenance, int]] | None:
        """Return the provenances, and how many quotes each has as text; None when one is not valid."""
        found: list[tuple[Provenance, int]] = []
        for raw, same in groupby(raws):  # those of an episode are mostly equal
            provenance = self._provenances.get(raw) or self._add_provenance(raw)
            if provenance is None:
                return None
            found.extend(provenance for _ in same)
        return found

    def _add_provenance(self, raw: bytes) -> tuple[Provenance, int] | None:
        try:
            # Carefully, it is read one level below the row, where its nesting counts from.
            document = _plain_object(raw) or parse_json(b'{"":%b}' % raw, where="")[""]
            provenance = Provenance(document, self.profile, write=canonical_text)
        except InvalidRowError:
            return None
        if len(self._provenances) >= _MOST_REMEMBERED:
            self._provenances.clear()
        return self._provenances.setdefault(raw, (provenance, raw.count(b'"')))

    def _are_complete(self, numbers: NDArray[np.float64], masks: NDArray[np.bool_]) -> bool:
        """Tell whether all rows have numbers exactly where they must, and a feasible action.

        `numbers` are [B, D + 3 A], `masks` [B, A].
        """
        missing = np.isnan(numbers)
        outcomes = missing[:, self._size :].reshape(-1, 3, self._actions)
        if not (outcomes != masks[:, np.newaxis]).all() or not masks.any(axis=1).all():
            return False
        return not self._gaps or not missing[:, : self._size][:, self._required].any()


def number_list(values: Sequence[float | None]) -> bytes:
    """Return the canonical JSON of finite floats, integers of 64 bits and None."""
    text = _encode(values)
    if b"e" not in text and b"0.0000" not in text:
        return text
    tokens = text[1:-1].split(b",")
    for index, value in enumerate(values):
        if type(value) is float and not _SMALLEST_PLAIN <= abs(value) < _FIRST_EXPONENT:
            tokens[index] = repr(value).encode()
    return b"[%b]" % b",".join(tokens)


def canonical_text(value: Any) -> str:
    """Return the canonical JSON of an object whose numbers and texts a row may hold."""
    text = _encode_sorted(value)
    if not text.isascii() or b"\x7f" in text or _ODD_NUMBER.search(text):
        return canonical_json(value)
    return text.decode()


def _plain_object(raw: bytes) -> dict[str, Any] | None:
    """Return the object that `raw` is, or None where reading it takes care."""
    nesting = raw.count(b"[") + raw.count(b"{")
    if b"\\" in raw or nesting >= MAX_DEPTH or _LARGE_NUMBER.search(raw):
        return None
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # No quote is escaped, so a key that was dropped would have left two more in `raw`.
    is_whole = isinstance(value, dict) and _encode(value).count(b'"') == raw.count(b'"')
    return value if is_whole else None


def _row_type(profile: RowProfile) -> type[RowFields]:
    size, actions = len(profile.features), len(profile.catalogue)
    features: Any = Annotated[list[_Number], _length(size)]
    if profile.nullable:
        features = Annotated[list[_Number | None], _length(size)]
    outcomes: Any = Annotated[list[_Number | None], _length(actions)]
    types: dict[str, Any] = {
        "actions": tuple[tuple(Literal[action] for action in profile.catalogue.ids)],  # type: ignore[misc]
        "control_input": _control_type(profile.control_keys),
        "feasible_mask": Annotated[tuple[bool, ...], _length(actions)],
        "features": features,
        "losses": outcomes,
        "advantages": outcomes,
        "costs": outcomes,
        **dict.fromkeys(_IDS, _Text),
        "prefix_step": _Count,
        "prefix_frame_id": _Count,
        "horizon_used": _Positive,
        "schema_version": Literal[profile.row_schema],
        "split_id": Literal[SPLIT],
    }
    return msgspec.defstruct(  # type: ignore[return-value]  # it has that base
        "ProfileRow", list(types.items()), bases=(RowFields,), forbid_unknown_fields=True, gc=False
    )


def _control_type(keys: Sequence[str]) -> type[msgspec.Struct]:
    """Return the type of a control input without objects inside: its keys, sorted, each of which may be left out."""
    names = {f"key_{index}": key for index, key in enumerate(sorted(keys))}
    fields = [(name, _ControlValue | msgspec.UnsetType, msgspec.UNSET) for name in names]
    return msgspec.defstruct("ControlInput", fields, rename=names, forbid_unknown_fields=True, gc=False)


def _length(size: int) -> msgspec.Meta:
    return msgspec.Meta(min_length=size, max_length=size)


def _filled(values: tuple[Any, ...]) -> list[float]:
    return [nan if value is None else value for value in values]


def _canonical_texts(fields: list[RowFields], values: NDArray[np.float64], head: int) -> list[bytes]:
    """Return the canonical JSON of each of B rows with their numbers, [B, D + 3 A]."""
    size = np.abs(values)
    is_odd: NDArray[np.bool_] = ((size < _SMALLEST_PLAIN) & (size > 0)) | (size >= _FIRST_EXPONENT)
    odd = set(np.flatnonzero(is_odd.any(axis=1)).tolist())
    texts = [_spelled(row) if index in odd else _encode(row) for index, row in enumerate(fields)]
    everything = b"".join(texts)
    if not everything.isascii() or b"\x7f" in everything:
        plain = [text.isascii() and b"\x7f" not in text for text in texts]
        texts = [
            text if is_plain else _spelled(row)
            for row, text, is_plain in zip(fields, texts, plain, strict=True)
        ]
    controls = [text[head : text.find(_CONTROL_END, head)] for text in texts]
    if _ODD_NUMBER.search(b"".join(controls)):
        texts = [
            _spelled(row) if _ODD_NUMBER.search(control) else text
            for row, text, control in zip(fields, texts, controls, strict=True)
        ]
    return texts


def _spelled(fields: RowFields) -> bytes:
    """Return the canonical JSON of `fields` whatever numbers and texts they hold."""
    spelled = msgspec.structs.asdict(fields)
    spelled |= {name: msgspec.Raw(number_list(spelled[name])) for name in _LISTS}
    spelled |= {name: msgspec.Raw(_text_of(spelled[name])) for name in _IDS}
    spelled["control_input"] = msgspec.Raw(_text_of(msgspec.to_builtins(fields.control_input)))
    return _encode(spelled)


def _text_of(value: object) -> bytes:
    return canonical_json(value).encode("ascii")
