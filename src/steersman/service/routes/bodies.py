"""The bodies of requests that are not hot."""

from __future__ import annotations

from typing import Any

import msgspec

from steersman.usecases.keys import SCOPES

__all__ = [
    "BaseBody",
    "FreezeBody",
    "KeyBody",
    "NoBody",
    "OperatorKeyBody",
    "RollBackBody",
    "RotateBody",
    "TenantBody",
]


class NoBody(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing: no body at all, or an empty object."""


class FreezeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The name that the copy is kept under."""

    name: str


class RollBackBody(msgspec.Struct, forbid_unknown_fields=True):
    """The ancestor to go back to, by number or name; null for the parent."""

    to: int | str | None = None


class TenantBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new tenant: its id and what it declares."""

    tenant: str
    declaration: dict[str, Any]


class BaseBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new base: its name and what it declares."""

    base: str
    declaration: dict[str, Any]


class KeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new key of a tenant: a name for people, and what it may do, which is all of it unless told otherwise."""

    name: str
    scopes: tuple[str, ...] = SCOPES


class OperatorKeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new key of an operator: a name for people."""

    name: str


class RotateBody(msgspec.Struct, forbid_unknown_fields=True):
    """For how many seconds the old key goes on beside the new one."""

    overlap: float = 0.0
