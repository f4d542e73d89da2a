"""The roles of a server: one that serves tenants and is held by row-level security, one for operators.

The role that made the tables owns them; library and command line go on with it as if there were no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, text

from steersman.errors import InvalidInputError
from steersman.store.tables import metadata

__all__ = ["grant_operator", "grant_serving", "role_problems"]

_SCHEMA = {"alembic_version": "SELECT", "schema_floor": "SELECT"}
_CHANGED = "SELECT, INSERT, UPDATE"
_SERVING = {
    "archive_files": "SELECT",
    "archived_decisions": "SELECT",
    "archived_rewards": "SELECT",
    "audit": "SELECT, INSERT",
    "bases": "SELECT",
    "cell_checkpoints": "SELECT",
    "cells": _CHANGED,
    "decisions": _CHANGED,
    "episodes": f"{_CHANGED}, DELETE",
    "learning_steps": "SELECT, INSERT",
    "opening_cells": "SELECT, INSERT",
    "operations": "SELECT, INSERT, DELETE",
    "policy_versions": _CHANGED,
    "rewards": "SELECT, INSERT",
    "state_heads": _CHANGED,
    "tenants": "SELECT, UPDATE",
}
_HELD = tuple(_SERVING)
_OPERATOR = dict.fromkeys(metadata.tables, f"{_CHANGED}, DELETE")

_ROLE = text(
    "SELECT r.rolsuper, r.rolbypassrls, EXISTS (SELECT FROM pg_class c WHERE c.relname = ANY(:tables) "
    "AND c.relnamespace = current_schema()::regnamespace AND pg_has_role(r.oid, c.relowner, 'MEMBER')) AS owns "
    "FROM pg_roles r WHERE r.rolname = :role"
)
_TABLES = text(
    "SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS forced, "
    "ARRAY(SELECT p.polname::text FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive AND EXISTS "
    "(SELECT FROM unnest(p.polroles) AS of_role WHERE of_role = 0 OR pg_has_role(of_role, 'MEMBER')) "
    "ORDER BY p.polname) AS policies FROM pg_class c WHERE c.relname = ANY(:tables) "
    "AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname"
)
_PRIVILEGES = text(
    "SELECT t, p, has_table_privilege(t, p) FROM unnest(CAST(:tables AS text[])) AS t "
    "CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p ORDER BY t, p"
)


def grant_serving(connection: Connection, role: str) -> None:
    """Let a role serve tenants: what it was granted on our tables before is taken back. See `grant_operator`."""
    _grant(connection, role, _SERVING)


def grant_operator(connection: Connection, role: str) -> None:
    """Let a role read and change every row, of keys too; the operators' role of before loses its policy.

    The connection is of the tables' owner. Raises InvalidInputError for a role that is not there or could do more.
    """
    _grant(connection, role, _OPERATOR)
    for table in _HELD:
        connection.execute(text(f"DROP POLICY IF EXISTS operators ON {table}"))
        to = f"TO {_quoted(connection, role)}"
        connection.execute(text(f"CREATE POLICY operators ON {table} {to} USING (true) WITH CHECK (true)"))


def role_problems(connection: Connection) -> list[str]:
    """Return in words why the role of this connection must not serve tenants; nothing where there are no roles."""
    if connection.dialect.name != "postgresql":
        return []
    role = str(connection.execute(text("SELECT current_user")).scalar_one())
    wrong = [*_powers(connection, role)] or [*_operators_powers(connection, role)]
    if wrong:  # all else follows from it
        return [f"{', and '.join(wrong)}: log in as the serving role (docs/isolation.md)"]
    return [*_unheld(connection), *_privilege_problems(connection, role)]


def _grant(connection: Connection, role: str, privileges: dict[str, str]) -> None:
    problems = list(_powers(connection, role))
    if problems:
        raise InvalidInputError("; ".join(problems), hint="CREATE ROLE makes a role that may only log in")
    quoted = _quoted(connection, role)
    schema = connection.execute(text("SELECT current_schema()")).scalar_one()
    connection.execute(text(f"GRANT USAGE ON SCHEMA {_quoted(connection, schema)} TO {quoted}"))
    granted = {**privileges, **_SCHEMA}
    for table in {**_OPERATOR, **_SCHEMA}:
        connection.execute(text(f"REVOKE ALL ON {table} FROM {quoted}"))
        if table in granted:
            connection.execute(text(f"GRANT {granted[table]} ON {table} TO {quoted}"))


def _quoted(connection: Connection, name: str) -> str:
    return connection.dialect.identifier_preparer.quote_identifier(name).replace(":", r"\:")


def _powers(connection: Connection, role: str) -> Iterator[str]:
    """Yield what a role can do that row-level security does not hold it to."""
    found = connection.execute(_ROLE, {"role": role, "tables": list(_HELD)}).first()
    if found is None:
        yield f"there is no role {role!r}"
        return
    if found.rolsuper:
        yield f"role {role!r} is a superuser"
    if found.rolbypassrls:
        yield f"role {role!r} may bypass row-level security"
    if found.owns:
        yield f"role {role!r} owns the tables, or is a member of the role that does"


def _operators_powers(connection: Connection, role: str) -> Iterator[str]:
    """Yield that a role is the operators', where every table of tenants admits it so."""
    rows = connection.execute(_TABLES, {"tables": list(_HELD)}).all()
    if rows and all("operators" in row.policies for row in rows):
        yield f"role {role!r} is the operators'"


def _unheld(connection: Connection) -> Iterator[str]:
    """Yield the tables on which row-level security does not hold the role of this connection."""
    rows: dict[str, Any] = {row.name: row for row in connection.execute(_TABLES, {"tables": list(_HELD)})}
    for table in _HELD:
        row = rows.get(table)
        if row is None:
            yield f"the table {table} is missing"
            continue
        if not row.forced:
            yield f"row-level security is not forced on the table {table}"
        if row.policies != ["tenants"]:
            yield f"the table {table} has policies {row.policies} for this role, expected ['tenants']"


def _privilege_problems(connection: Connection, role: str) -> Iterator[str]:
    needed = {**_SERVING, **_SCHEMA}
    for table, privilege, may in connection.execute(_PRIVILEGES, {"tables": [*{**_OPERATOR, **_SCHEMA}]}):
        if table not in needed and may:
            yield f"role {role!r} may {privilege} the table {table}"
        if privilege in needed.get(table, "") and not may:
            yield f"role {role!r} may not {privilege} the table {table}: run steersman db grant"
