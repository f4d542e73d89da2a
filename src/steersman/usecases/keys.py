"""API keys: create, list, revoke, rotate, and find the one that a caller shows."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Mapping

from steersman.domain.answers import ApiKey, IssuedKey
from steersman.domain.identifiers import check_finite, check_name, check_text
from steersman.errors import ConflictError, InvalidInputError, KeyTextShownError, NameTakenError, StoreError
from steersman.store import audit, keys, schema, tenants
from steersman.store.clock import now
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import Operation, lock_operation, name_operation
from steersman.usecases.operations import Unchanged, first_answer, keep_answer, record_form, run_once

__all__ = [
    "MOST_OVERLAP",
    "OPERATORS",
    "SCOPES",
    "create_key",
    "find_key",
    "find_keys",
    "list_keys",
    "lookup_problems",
    "note_use",
    "revoke_key",
    "rotate_key",
]

SCOPES = ("decide", "reward", "read", "manage")
"""What a tenant's key can be allowed to do. An operator's may do all of it for every tenant, and more."""

OPERATORS = "@"
"""Where operations and the audit trail of operators are kept: no tenant or base can be called so."""

MOST_OVERLAP = 365 * 86400.0
"""The longest time in seconds for which a key that was rotated goes on."""

_TEXT = re.compile(r"sk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_KEY_ID = re.compile(r"[0-9a-f]{12}")
_NO_DIGEST = bytes(32)
_KEY = record_form(ApiKey)


def create_key(
    database: Database,
    *,
    tenant: str | None,
    name: str,
    scopes: Collection[str] = SCOPES,
    operation_id: str | None = None,
    actor: str = "library",
) -> IssuedKey:
    """Create a key of a tenant that may do what `scopes` names, or with `tenant` None one of an operator.

    `name` is for people, at most 200 characters. The text of the answer cannot be had again: under the same
    `operation_id` no second key is made, and KeyTextShownError names the one that there is. Raises NotFoundError,
    IdReusedError, or InvalidInputError for no or unknown scopes, and for an operator's key with less than all.
    """
    if tenant is not None:
        check_name(tenant, what="tenant")
    chosen = _check_scopes(scopes, whole=tenant is None)
    check_text(name, what="name", at_most=200)
    operation = name_operation("create_key", operation_id, name=name, scopes=chosen)
    owner = OPERATORS if tenant is None else tenant
    new = _New()

    def work(connection: Connection) -> IssuedKey:
        known = _made_before(connection, owner, operation, new)
        if known is not None:
            return known
        if tenant is not None:
            tenants.get_tenant(connection, tenant)
        return _insert(connection, new, ApiKey("", tenant, chosen, name, 0), operation, actor=actor)

    return database.run(work)


def list_keys(database: Database, tenant: str | None) -> list[ApiKey]:
    """Return the keys of a tenant, or with None those of operators, oldest first; raise NotFoundError."""
    with database.snapshot() as connection:
        if tenant is not None:
            tenants.get_tenant(connection, tenant)
        return keys.list_keys(connection, tenant)


def revoke_key(
    database: Database, key_id: str, *, operation_id: str | None = None, actor: str = "library"
) -> ApiKey:
    """Let a key open nothing from now on and return it; again changes nothing.

    Under the same `operation_id` it is answered as before. Raises NotFoundError or IdReusedError.
    """
    _check_key_id(key_id)
    operation = name_operation("revoke_key", operation_id, key=key_id)
    with database.snapshot() as connection:
        owner = _owner_of(keys.get_key(connection, key_id))

    def work(connection: Connection) -> ApiKey | Unchanged[ApiKey]:
        key = keys.get_key(connection, key_id, lock=True)
        if key.revoked_at is not None:
            return Unchanged(key)
        keys.set_revoked(connection, key_id)
        revoked = keys.get_key(connection, key_id)
        _write_line(connection, key, actor=actor, verb="revoke key", detail=_ends(key, revoked))
        return revoked

    return run_once(database, owner, operation, _KEY, work)


def rotate_key(
    database: Database,
    key_id: str,
    *,
    overlap: float = 0.0,
    operation_id: str | None = None,
    actor: str = "library",
) -> IssuedKey:
    """Create a key like another one, which ends `overlap` seconds from now unless it ends earlier already.

    Under the same `operation_id` no second one is made, see `create_key`. Raises NotFoundError, IdReusedError,
    ConflictError for a key that has ended, InvalidInputError for an overlap that is negative or longer than a year.
    """
    _check_key_id(key_id)
    seconds = check_finite(overlap, what="overlap")
    if not 0.0 <= seconds <= MOST_OVERLAP:
        raise InvalidInputError(f"overlap: expected 0 to {MOST_OVERLAP:.0f} seconds, got {overlap!r}")
    operation = name_operation("rotate_key", operation_id, key=key_id, overlap=seconds)
    new = _New()

    def work(connection: Connection) -> IssuedKey:
        owner = _owner_of(keys.get_key(connection, key_id))
        known = _made_before(connection, owner, operation, new)
        if known is not None:
            return known
        key = keys.get_key(connection, key_id, lock=True)
        at = now()
        if not key.is_valid(at):
            raise ConflictError(
                f"key {key_id!r} has ended and has no successor", hint="create one: steersman keys create"
            )
        end = at + int(seconds * 1e6)
        keys.set_expiry(connection, key_id, end if key.expires_at is None else min(end, key.expires_at))
        detail = {"successor": new.key_id, **_ends(key, keys.get_key(connection, key_id))}
        _write_line(connection, key, actor=actor, verb="rotate key", detail=detail)
        return _insert(connection, new, key, operation, actor=actor)

    return database.run(work)


def find_key(database: Database, text: str) -> ApiKey | None:
    """Return the key whose text this is; None for a text that is no key, or of a key that has ended.

    The key is looked up by its public part. Digests are compared in constant time, also where there is no such key.
    """
    return find_keys(database, [text]).get(text)


def find_keys(database: Database, texts: Collection[str]) -> dict[str, ApiKey]:
    """Return by its text each key that `find_key` would return, of a few hundred at most, with one look."""
    forms = {text: form[1] for text in texts if (form := _TEXT.fullmatch(text)) is not None}
    if not forms:
        return {}
    with database.snapshot() as connection:
        stored = keys.find_stored_keys(connection, set(forms.values()))
    at = now()
    found: dict[str, ApiKey] = {}
    for text, key_id in forms.items():
        known = stored.get(key_id)
        same = hmac.compare_digest(_digest(text), _NO_DIGEST if known is None else known.digest)
        if known is not None and same and known.key.is_valid(at):
            found[text] = known.key
    return found


def lookup_problems(database: Database) -> list[str]:
    """Return in words why keys cannot be looked up in this database; where there is nothing to say they can."""
    try:
        with database.snapshot() as connection:
            schema.check_revision(connection, schema.current_revision(connection))
            keys.find_stored_keys(connection, {_New().key_id})
    except StoreError as error:
        # What a database says names hosts and users, so its kind must do.
        return [f"keys cannot be looked up: {type(error).title()}"]
    return []


def note_use(database: Database, uses: Mapping[str, int]) -> None:
    """Record when keys (by id) were used last, in microseconds since 1970; an older time changes nothing."""
    database.run(lambda connection: keys.note_use(connection, uses))


class _New:
    """The id of a new key and its text, of which 256 bits are random and secret; made before the transaction."""

    def __init__(self) -> None:
        self.key_id = secrets.token_hex(6)
        self.text = f"sk_{self.key_id}_{secrets.token_urlsafe(32)}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("ascii")).digest()


def _made_before(connection: Connection, owner: str, operation: Operation, new: _New) -> IssuedKey | None:
    """Return the key that the same call made before, when the text is still known: its COMMIT was lost.

    Raises KeyTextShownError when it is not, and None is for a call that is the first.
    """
    lock_operation(connection, owner, operation)
    key = first_answer(connection, owner, operation, _KEY)
    if key is None or key.key_id == new.key_id:
        return None if key is None else IssuedKey(key, new.text)
    raise KeyTextShownError(
        f"this call made the key {key.key_id!r} before, and its text is not kept",
        key_id=key.key_id,
        hint=f"where the text was lost: steersman keys revoke {key.key_id}, and create another",
    )


def _insert(
    connection: Connection, new: _New, like: ApiKey, operation: Operation, *, actor: str
) -> IssuedKey:
    """Insert a key with the owner, scopes and name of `like`; raise NameTakenError when its id is taken."""
    if keys.find_stored_key(connection, new.key_id) is not None:
        raise NameTakenError(f"the id {new.key_id!r} of the new key is taken", hint="call again")
    keys.insert_key(
        connection,
        new.key_id,
        tenant=like.tenant,
        scopes=like.scopes,
        name=like.name,
        digest=_digest(new.text),
    )
    key = keys.get_key(connection, new.key_id)
    detail = {"scopes": list(key.scopes), "name": key.name}
    _write_line(connection, key, actor=actor, verb="create key", detail=detail)
    keep_answer(connection, _owner_of(key), operation, _KEY, key)
    return IssuedKey(key, new.text)


def _ends(before: ApiKey, after: ApiKey) -> dict[str, dict[str, int | None]]:
    """Return when a key ends, in microseconds since 1970, before and after a change."""
    return {
        name: {"expires_at": key.expires_at, "revoked_at": key.revoked_at}
        for name, key in (("before", before), ("after", after))
    }


def _owner_of(key: ApiKey) -> str:
    return OPERATORS if key.tenant is None else key.tenant


def _write_line(
    connection: Connection, key: ApiKey, *, actor: str, verb: str, detail: Mapping[str, object]
) -> None:
    audit.write_line(connection, _owner_of(key), actor=actor, verb=verb, detail={"key": key.key_id, **detail})


def _check_scopes(scopes: Collection[str], *, whole: bool) -> tuple[str, ...]:
    """Return the scopes in their order; raise InvalidInputError."""
    given = [scopes] if isinstance(scopes, str) else list(scopes)
    chosen = tuple(scope for scope in SCOPES if scope in given)
    if not chosen or len(chosen) != len(given):
        raise InvalidInputError(f"scopes: expected some of {list(SCOPES)}, each once, got {given!r}")
    if whole and chosen != SCOPES:
        raise InvalidInputError(f"scopes: expected all of them for an operator's key, got {given!r}")
    return chosen


def _check_key_id(key_id: str) -> None:
    if not _KEY_ID.fullmatch(key_id):
        raise InvalidInputError(f"key: expected the 12 hexadecimal digits of its id, got {key_id!r}")
