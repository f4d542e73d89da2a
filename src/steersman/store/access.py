"""Which tenants' rows a transaction may touch: on a server, row-level security holds every statement to them.

A transaction names its tenants in `steersman.tenants`, set with SET LOCAL so that it ends with the transaction: a
connection that goes back to its pool admits nobody. SQLite knows no such thing; there the code alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, text

from steersman.domain.identifiers import check_name
from steersman.errors import StoreError

__all__ = ["admit", "begin_admitting", "check_owners", "require_sight"]

_ADMIT = text(
    "SELECT set_config('steersman.tenants', (COALESCE(NULLIF(current_setting('steersman.tenants', true), ''), '{}')"
    "::text[] || CAST(:names AS text[]))::text, true)"
)
# The role, where a policy holds it to the tenants that are named, and none is.
_BLIND = text(
    "SELECT current_user WHERE COALESCE(current_setting('steersman.tenants', true), '') = '' "
    "AND row_security_active('tenants') AND NOT EXISTS (SELECT FROM pg_policy p "
    "WHERE p.polrelid = 'tenants'::regclass AND p.polname <> 'tenants' AND p.polpermissive AND EXISTS "
    "(SELECT FROM unnest(p.polroles) AS of_role WHERE of_role = 0 OR pg_has_role(of_role, 'MEMBER')))"
)


def check_owners(names: Iterable[str]) -> frozenset[str]:
    """Return the names of tenants and, with their `@`, bases; raise InvalidInputError for what can be neither."""
    owners = frozenset(names)
    for name in owners:
        check_name(name.removeprefix("@"), what="tenant")
    return owners


def admit(connection: Connection, names: Iterable[str]) -> None:
    """Let the transaction touch the rows of the tenants and bases in `names` as well, from now on."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ADMIT, {"names": _array_of(names)})


def require_sight(connection: Connection) -> None:
    """Raise StoreError where the transaction could see no tenant, so that none found says nothing of what there is."""
    if connection.dialect.name != "postgresql":
        return
    role = connection.execute(_BLIND).scalar()
    if role is not None:
        raise StoreError(
            f"row-level security holds the role {role!r} to the tenants that a transaction names, and this one names "
            "none",
            hint="log in as the operators' role or as the owner, see docs/isolation.md",
        )


def begin_admitting(driver: Any, names: Iterable[str], *, at_most: float | None = None) -> None:
    """Begin a transaction of `names` on a connection of psycopg, which would else take a message of its own for each.

    It waits `at_most` so many seconds for each lock, if not as long as the connection does. Raises the errors of
    psycopg.
    """
    import psycopg  # an extra

    # The names are letters, digits and the like (see `check_owners`): there is nothing in them to escape.
    command = f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL steersman.tenants = '{_array_of(names)}'"
    if at_most is not None:
        command += f"; SET LOCAL lock_timeout = {max(1, int(at_most * 1000))}"
    result = driver.pgconn.exec_(command.encode("ascii"))
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        if result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) is None:  # the server did not say it
            raise psycopg.OperationalError(result.get_error_message())
        raise psycopg.errors.error_from_result(result)


def _array_of(names: Iterable[str]) -> str:
    """Return the text of an array of PostgreSQL; quoted, since a tenant may be called NULL."""
    return "{" + ",".join(f'"{name}"' for name in sorted(check_owners(names))) + "}"
