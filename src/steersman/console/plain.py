"""Records as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.identifiers import native

__all__ = ["plain"]

# Nothing that is shown tells the secret that draws are made of.
_HIDDEN = {"secret"}


def plain(value: Any) -> Any:
    """Return `value` as mappings, lists, texts and numbers, as JSON has them.

    Bytes become hexadecimal digits; what JSON has no form for, infinity among it, becomes its text.
    """
    if isinstance(value, ActionCatalogue):
        return list(value.ids)
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in _HIDDEN]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, AbstractSet) or (isinstance(value, Sequence) and not isinstance(value, str)):
        return [plain(item) for item in value]
    value = native(value)
    known = value is None or isinstance(value, (str, bool, int)) or _is_finite_float(value)
    return value if known else str(value)


def _is_finite_float(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
