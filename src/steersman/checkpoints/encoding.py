"""The bytes of a checkpoint: the safetensors layout, written in one way only and read as strictly.

A file is the length of a JSON header (8 bytes, little-endian), the header, and the bytes of the tensors. The
header names each tensor's dtype, shape and place, and holds one metadata entry. What was read is encoded again and
compared with the bytes that came: a file that says the same in another way (repeated keys, other spacing, gaps,
bytes behind the end) is refused, so nothing in a file escapes the digest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidCheckpointError

__all__ = ["MAX_HEADER_BYTES", "METADATA_KEY", "decode", "encode"]

METADATA_KEY = "steersman"
MAX_HEADER_BYTES = 64 * 2**20

_DTYPES = {"F32": "float32", "F64": "float64", "I32": "int32"}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_PREFIX = 8
_HINT = "a checkpoint is what `steersman fit --output` writes"


def encode(payload: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a file with `payload` as its metadata and these `tensors`.

    Tensors lie in order of item size (largest first, so that each is aligned), then of name.
    """
    header: dict[str, Any] = {"__metadata__": {METADATA_KEY: canonical_json(payload)}}
    parts: list[bytes] = []
    offset = 0
    for name, array in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        raw = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        offset += len(raw)
        parts.append(raw)
    text = canonical_json(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(_PREFIX, "little"), text, *parts])


def decode(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the payload and the tensors of a file; raise InvalidCheckpointError unless `encode` wrote it.

    Nothing in the file is believed before it was compared: sizes are checked before they are used, and no byte
    is ever executed or unpickled.
    """
    size = int.from_bytes(data[:_PREFIX], "little")
    if data[_PREFIX : _PREFIX + 1] != b"{" or size > MAX_HEADER_BYTES:
        raise InvalidCheckpointError("expected a checkpoint, and this is no .safetensors file", hint=_HINT)
    if size > len(data) - _PREFIX:
        raise InvalidCheckpointError(
            f"header: expected {size} bytes, and {len(data) - _PREFIX} are left: the file was cut short"
        )
    header = _parse(data[_PREFIX : _PREFIX + size], "header")
    metadata = header.pop("__metadata__", None)
    if (
        not isinstance(metadata, dict)
        or set(metadata) != {METADATA_KEY}
        or not isinstance(metadata[METADATA_KEY], str)
    ):
        raise InvalidCheckpointError(
            f"header: expected one metadata entry, {METADATA_KEY!r}: Steersman did not write this file",
            hint=_HINT,
        )
    payload = _parse(metadata[METADATA_KEY].encode("utf-8", "surrogatepass"), "payload")
    body = memoryview(data)[_PREFIX + size :]
    tensors = {name: _tensor(name, item, body) for name, item in header.items()}
    if encode(payload, tensors) != data:
        raise InvalidCheckpointError(
            "the file is not laid out as Steersman writes it: it was changed or made elsewhere"
        )
    return payload, tensors


def _parse(text: bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        raise InvalidCheckpointError(f"{what}: expected JSON in ASCII") from None
    if not isinstance(parsed, dict):
        raise InvalidCheckpointError(f"{what}: expected a JSON object, got {type(parsed).__name__}")
    try:
        canonical = canonical_json(parsed).encode("ascii")
    except (ValueError, RecursionError):
        raise InvalidCheckpointError(f"{what}: expected finite numbers") from None
    if canonical != text.rstrip(b" "):
        raise InvalidCheckpointError(f"{what}: expected canonical JSON, each key once and sorted")
    return parsed


def _tensor(name: str, item: object, body: memoryview) -> NDArray[Any]:
    if (
        not isinstance(item, dict)
        or set(item) != {"dtype", "shape", "data_offsets"}
        or not _known(item["dtype"])
    ):
        raise InvalidCheckpointError(
            f"tensors.{name}: expected dtype (one of {list(_DTYPES)}), shape and data_offsets"
        )
    dtype = np.dtype(_DTYPES[item["dtype"]])
    shape, offsets = item["shape"], item["data_offsets"]
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2 or len(shape) > 2:
        raise InvalidCheckpointError(
            f"tensors.{name}: expected at most two sizes and two offsets, all at least 0"
        )
    first, last = offsets
    if not first <= last <= len(body) or last - first != math.prod(shape) * dtype.itemsize:
        raise InvalidCheckpointError(f"tensors.{name}: expected {shape} to fill the bytes {first} to {last}")
    return np.frombuffer(body[first:last], dtype=dtype.newbyteorder("<")).reshape(shape).astype(dtype)


def _sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 2**48 for size in value)


def _known(dtype: object) -> bool:
    return isinstance(dtype, str) and dtype in _DTYPES
