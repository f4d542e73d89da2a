"""Who calls, and what they may do: API keys, their scopes and their limits."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor

from steersman.domain.answers import ApiKey
from steersman.domain.identifiers import check_name
from steersman.errors import (
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    UnauthorizedError,
)
from steersman.settings import Settings
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.usecases.keys import find_keys, note_use

__all__ = ["LONGEST_TRUST", "Access", "Keyring"]

LONGEST_TRUST = 1.0
"""Seconds for which a key is taken to be what the database said of it; so long a revoked one may go on."""

_RENEWED_AFTER = 0.4 * LONGEST_TRUST  # by a look-up in the background, so that a busy key never waits for one
_RENEWED_TOGETHER = 0.2 * LONGEST_TRUST  # with others that are due in this time
_FORM = re.compile(rb"[Bb]earer +(sk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}) *\Z")
_NOTING = 1.0  # seconds to wait for a database that is to keep when keys were used
_MOST_KEYS = 10_000  # that are remembered
_MOST_ASKED = 500  # look-ups that are under way
_RETRY_AFTER = 1.0  # seconds


class _Limits:
    """How often, and how much at once, one key asks; of one event loop, so nothing is locked."""

    __slots__ = ("_in_flight", "_most_in_flight", "_rate", "_room", "_stamp")

    def __init__(self, settings: Settings) -> None:
        """Start with room for the requests of one second."""
        self._rate = settings.key_rate
        self._room = max(1.0, settings.key_rate)
        self._stamp = time.monotonic()
        self._in_flight = 0
        self._most_in_flight = settings.key_in_flight

    def enter(self, at: float) -> None:
        """Count a request that begins at a monotonic time; raise RateLimitedError where that is too much."""
        if self._in_flight >= self._most_in_flight:
            raise RateLimitedError(
                f"the key has {self._in_flight} requests under way, as many as it may",
                retry_after=_RETRY_AFTER,
            )
        self._room = min(max(1.0, self._rate), self._room + (at - self._stamp) * self._rate)
        self._stamp = at
        if self._room < 1.0:
            raise RateLimitedError(
                f"the key asks more than {self._rate:g} times a second",
                retry_after=(1.0 - self._room) / self._rate,
            )
        self._room -= 1.0
        self._in_flight += 1

    def charge(self, more: int) -> None:
        """Count the further items of a list; later requests wait until they are worked off."""
        self._room -= more

    def leave(self) -> None:
        """Count the end of a request."""
        self._in_flight -= 1


class Access:
    """A key that was found, as it may be used until `until`, a monotonic time."""

    __slots__ = ("key_id", "limits", "renew_at", "scopes", "tenant", "until")

    def __init__(
        self, key_id: str, tenant: str | None, scopes: frozenset[str], limits: _Limits, found_at: float
    ) -> None:
        """Take what the database said of a key at a monotonic time."""
        self.key_id = key_id
        self.tenant = tenant
        self.scopes = scopes
        self.limits = limits
        self.renew_at = found_at + _RENEWED_AFTER
        self.until = found_at + LONGEST_TRUST

    @property
    def actor(self) -> str:
        """Who the audit trail names for a change made with this key."""
        return f"key:{self.key_id}"

    def require(self, scope: str) -> None:
        """Raise ForbiddenError unless the key has `scope`; `operator` is that of operators' keys alone."""
        if self.tenant is None or scope in self.scopes:
            return
        wanted = "an operator's key" if scope == "operator" else f"a key with the scope {scope!r}"
        raise ForbiddenError(f"expected {wanted}", scope=scope)

    def tenant_of(self, given: str | None) -> str:
        """Return the tenant that a call is about, where it names `given`.

        Of a tenant's key, any other one is answered as one that does not exist. Raises NotFoundError, or
        InvalidInputError for a name that none has, or where an operator names none.
        """
        if given is None:
            if self.tenant is None:
                raise InvalidInputError("tenant: expected one, since the key is an operator's")
            return self.tenant
        if given == self.tenant:
            return given
        check_name(given, what="tenant")
        if self.tenant is not None:
            raise NotFoundError(f"there is no tenant {given!r}", hint="a tenant's key need not name one")
        return given


class Keyring:
    """The keys in use: what was looked up is trusted for at most a second, and looked up together with others."""

    def __init__(self, database: Database, settings: Settings) -> None:
        """Take the database that keys are looked up in; it belongs to the running event loop."""
        self._database = database
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._found: dict[bytes, Access] = {}
        self._limits: dict[str, _Limits] = {}
        self._awaited: dict[bytes, asyncio.Future[Access]] = {}
        self._due: set[bytes] = set()
        self._looking: asyncio.Task[None] | None = None
        self._used: dict[str, int] = {}
        self._changes = 0
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="steersman-keys")

    def fresh(self, header: bytes, at: float) -> Access | None:
        """Return what is known of an Authorization header at a monotonic time; None where that is to be asked."""
        access = self._found.get(header)
        if access is None or at >= access.until:
            return None
        if at >= access.renew_at:
            access.renew_at = access.until
            if not self._due:
                self._loop.call_later(_RENEWED_TOGETHER, self._look)
            self._due.add(header)
        return access

    async def find(self, header: bytes) -> Access:
        """Return what the database says of an Authorization header.

        Raises UnauthorizedError, OverloadedError when too many others are asked for, or StoreError.
        """
        form = _FORM.match(header)
        if form is None:
            expected = "'Bearer ' and a key" if header else "the header 'Authorization: Bearer KEY'"
            raise UnauthorizedError(f"expected {expected}", hint="a key is made with: steersman keys create")
        future = self._awaited.get(header)
        if future is None:
            if len(self._awaited) >= _MOST_ASKED:
                raise OverloadedError("too many keys are being looked up", retry_after=_RETRY_AFTER)
            future = self._awaited[header] = self._loop.create_future()
            self._look()
        # Whoever waits may go away; the look-up is for the others as well.
        return await asyncio.shield(future)

    def forget(self) -> None:
        """Trust nothing that was looked up until now, since keys have ended; it may be called in any thread."""
        self._loop.call_soon_threadsafe(self._forget)

    async def note_uses(self) -> None:
        """Record when keys were used since this was called last; raise StoreError.

        It does not wait for a database that is away: a process that ends would outlive the patience of whoever ends it.
        """
        used, self._used = self._used, {}
        if used:
            database = self._database.with_patience(_NOTING)
            await self._loop.run_in_executor(self._executor, note_use, database, used)

    def close(self) -> None:
        """Wait for look-ups under way."""
        self._executor.shutdown()

    def _forget(self) -> None:
        self._changes += 1
        self._found.clear()

    def _look(self) -> None:
        if self._looking is None:
            self._looking = self._loop.create_task(self._look_up())
            self._looking.add_done_callback(self._looked)

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._looking = None
        if self._awaited or self._due:
            self._look()

    async def _look_up(self) -> None:
        """Look up all who are waited for or due; those who come meanwhile are for the next time."""
        awaited, self._awaited = self._awaited, {}
        due, self._due = self._due, set()
        texts = {header: header.split()[1].decode("ascii") for header in (*awaited, *due)}
        at, changes = time.monotonic(), -1
        found: dict[str, ApiKey] = {}
        try:
            while changes != self._changes:  # what was forgotten meanwhile is asked again
                at, changes = time.monotonic(), self._changes
                found = await self._loop.run_in_executor(
                    self._executor, find_keys, self._database, list(texts.values())
                )
        except Exception as error:  # noqa: BLE001  (it is passed on to whoever waits)
            for future in awaited.values():
                future.set_exception(error)
                future.exception()  # all who waited may be gone
            return
        for header, text in texts.items():
            key = found.get(text)
            access = None if key is None else self._remember(header, key, at)
            future_of = awaited.get(header)
            if access is None:
                self._found.pop(header, None)
            if future_of is not None and access is not None:
                future_of.set_result(access)
            elif future_of is not None:
                future_of.set_exception(UnauthorizedError("the key is not known, or not valid any more"))
                future_of.exception()

    def _remember(self, header: bytes, key: ApiKey, at: float) -> Access:
        limits = self._limits.get(key.key_id)
        if limits is None:
            if len(self._limits) >= _MOST_KEYS:
                self._limits.clear()
            limits = self._limits[key.key_id] = _Limits(self._settings)
        if len(self._found) >= _MOST_KEYS:
            self._found.clear()
        access = Access(key.key_id, key.tenant, frozenset(key.scopes), limits, at)
        self._found[header] = access
        self._used[key.key_id] = now()
        return access
