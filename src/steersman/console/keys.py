"""How API keys look."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table

from steersman.console.grid import facts, grid
from steersman.console.words import moment
from steersman.domain.answers import ApiKey, IssuedKey
from steersman.store.clock import now

__all__ = ["issued_parts", "keys_table"]


def issued_parts(issued: IssuedKey) -> list[RenderableType]:
    """Return a new key with its text, on a line of its own that can be copied."""
    key = issued.key
    pairs = {
        "id": key.key_id,
        "of": "operators" if key.tenant is None else key.tenant,
        "may": "everything" if key.tenant is None else ", ".join(key.scopes),
    }
    return [facts(key.name or "Key", pairs), issued.text, "Keep it now: it is not shown again."]


def keys_table(keys: Sequence[ApiKey]) -> Table:
    """Return a table of keys."""
    at = now()
    rows = [
        (
            key.key_id,
            key.name or "-",
            ", ".join(key.scopes),
            _status(key, at),
            moment(key.created_at),
            moment(key.last_used_at),
        )
        for key in keys
    ]
    return grid("Keys", ["id", "name", "may", "status", "created", "last used"], rows)


def _status(key: ApiKey, at: int) -> str:
    if key.revoked_at is not None:
        return f"revoked {moment(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'ends' if key.is_valid(at) else 'ended'} {moment(key.expires_at)}"
