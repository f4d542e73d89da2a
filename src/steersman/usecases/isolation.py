"""Isolation on a server: the roles that may touch its tables, and whether the one that serves is held to them."""

from __future__ import annotations

from dataclasses import dataclass

from steersman.errors import InvalidInputError, SchemaError, UnsupportedStoreError
from steersman.store import audit, health, roles, schema
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.keys import OPERATORS

__all__ = ["Granted", "grant_roles", "pairing_problems", "serving_problems"]


@dataclass(frozen=True, slots=True)
class Granted:
    """The roles of a server that services log in with."""

    serving: str  # sees the rows of the tenants that its transaction names
    operator: str  # sees every row, of keys too


def grant_roles(database: Database, *, serving: str, operator: str, actor: str = "library") -> Granted:
    """Give two roles that are there what they need, and no more; again, as after an upgrade, brings them up to date.

    It must run as the owner of the tables. Raises UnsupportedStoreError for a database without roles, and
    InvalidInputError for a role that is missing, or that row-level security would not hold.
    """
    if database.dialect != "postgresql":
        raise UnsupportedStoreError("expected a PostgreSQL database: SQLite has no roles")
    if serving == operator:
        raise InvalidInputError(f"expected two roles, got {serving!r} for both")

    def work(connection: Connection) -> Granted:
        roles.grant_serving(connection, serving)
        roles.grant_operator(connection, operator)
        detail = {"serving": serving, "operator": operator}
        audit.write_line(connection, OPERATORS, actor=actor, verb="grant", detail=detail)
        return Granted(serving, operator)

    return database.run(work)


def serving_problems(database: Database) -> list[str]:
    """Return in words why this database, with the role that it was opened with, must not serve tenants.

    The schema must fit this release. A server must take writes; on it the role must be no superuser, not bypass
    row-level security, own none of the tables and not read keys, and row-level security must be forced on every table
    of tenants. Where there is nothing to say it may serve. Raises StoreUnavailableError when the database cannot be
    reached.
    """
    with database.snapshot() as connection:
        try:
            schema.check_revision(connection, schema.current_revision(connection))
        except SchemaError as error:
            return [str(error)]
        if health.refuses_writes(connection):
            connection.invalidate()  # where it was settled when the connection was made, the next is asked anew
            return ["the database is read-only"]
        return roles.role_problems(connection)


def pairing_problems(serving: Database, operators: Database) -> list[str]:
    """Return in words why these are not two roles of one database; raise StoreError."""
    found = []
    for database in (serving, operators):
        with database.snapshot() as connection:
            found.append(health.database_identity(connection))
    return [] if found[0] == found[1] else ["STEERSMAN_OPERATOR_URL leads to another database"]
