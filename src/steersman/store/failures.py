"""The one seam where errors of drivers and libraries become errors of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pysqlite3
import sqlalchemy.exc

from steersman.errors import (
    ConflictError,
    SteersmanError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)

__all__ = ["is_transient", "outlives_its_use", "translated", "translation"]

# SQLSTATE: serialization failure, deadlock, unique violation (two made the same row at once; a second try finds it).
_AGAIN = {"40001", "40P01", "23505"}
# SQLSTATE classes: connection trouble, server shutting down or starting, too many connections.
_GONE = {"08", "57", "53"}
# SQLSTATE: the server told that it ends this connection, which the driver knows only later.
_ENDED = {"57P01", "57P02", "57P03", "57P05"}
# A server that was demoted, or told to refuse writes. A new connection may lead to the one that takes them now.
_READ_ONLY = "25006"
_SQLITE_FULL = {"database or disk is full", "disk I/O error"}

# A connection that is refused comes without a SQLSTATE, so that the words are all there is.
_REFUSALS = (
    (
        re.compile(
            r"authentication failed|no password supplied|role .* does not exist|no pg_hba\.conf entry"
        ),
        "correct the role or the password in the database's URL",
    ),
    (
        re.compile(r"database .* does not exist"),
        "correct the database's name in its URL, or make it as docs/postgresql.md says",
    ),
    (
        re.compile(r"permission denied for database"),
        "as the database's owner: GRANT CONNECT ON DATABASE ... TO the role",
    ),
)
_MAY_NOT = "42501"  # SQLSTATE: insufficient privilege


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed when it is tried again."""
    cause = _driver_error(error)
    if isinstance(cause, pysqlite3.dbapi2.Error):
        return "UNIQUE constraint failed" in str(cause)
    state = getattr(cause, "sqlstate", None)
    if state == "53100" or _refusal_hint(cause) is not None:
        return False
    return state in _AGAIN or _is_away(state, cause)


def outlives_its_use(error: BaseException) -> bool:
    """Return whether the connection that raised `error` seems to answer still, and is of no more use all the same."""
    state = getattr(_driver_error(error), "sqlstate", None) or ""
    return state == _READ_ONLY or state in _ENDED or state.startswith("08")


def translation(error: BaseException) -> SteersmanError:
    """Return our error for an `error` of a driver or of SQLAlchemy."""
    cause = _driver_error(error)
    text = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    if isinstance(cause, pysqlite3.dbapi2.Error):
        return _sqlite_translation(text)
    state = getattr(cause, "sqlstate", None)
    if state == "53100":
        return StoreFullError(f"the database server has no room: {text}")
    if state == "23505":
        # What the server says of it names its constraints, and callers of the service are told of a conflict.
        return ConflictError("two calls made the same thing at once")
    if state == "55P03":
        return StoreUnavailableError(
            f"others kept the rows locked: {text}", hint="call again, or raise STEERSMAN_PATIENCE"
        )
    if state in _AGAIN or _is_away(state, cause):
        return StoreUnavailableError(
            f"the database is not available: {text}",
            hint=_refusal_hint(cause) or "nothing was acknowledged; call again with the same ids",
        )
    if isinstance(cause, sqlalchemy.exc.TimeoutError):
        return StoreUnavailableError("no database connection became free in time")
    if state == _MAY_NOT:
        return StoreError(
            f"the database refused: {text}",
            hint="`steersman db upgrade` and `db grant` run as the owner, other commands as the owner or the "
            "operators' role",
        )
    return StoreError(f"the database refused: {text}")


@contextmanager
def translated() -> Iterator[None]:
    """Turn what drivers and SQLAlchemy raise within the block into errors of ours."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, pysqlite3.dbapi2.Error) as error:
        raise translation(error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "psycopg":
            raise
        raise translation(error) from error


def _driver_error(error: BaseException) -> BaseException:
    return getattr(error, "orig", None) or error


def _is_away(state: str | None, cause: BaseException) -> bool:
    return (state or "")[:2] in _GONE or state == _READ_ONLY or _is_disconnect(cause)


def _is_disconnect(cause: BaseException) -> bool:
    # Psycopg raises a kind of OperationalError without a SQLSTATE when the socket is gone or cannot be opened.
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    return "OperationalError" in kinds and not getattr(cause, "sqlstate", None)


def _refusal_hint(cause: BaseException) -> str | None:
    """Return what to do about a connection that the server refused for good; None for any other error."""
    if not _is_disconnect(cause):
        return None
    return next((hint for words, hint in _REFUSALS if words.search(str(cause))), None)


def _sqlite_translation(text: str) -> SteersmanError:
    if "locked" in text or "busy" in text:
        return StoreUnavailableError(
            f"other processes kept the database busy: {text}", hint="call again, or raise STEERSMAN_PATIENCE"
        )
    if text in _SQLITE_FULL:
        return StoreFullError(
            f"the database could not be written: {text}", hint="free disk space and call again"
        )
    if "malformed" in text or "not a database" in text:
        return StoreCorruptError(f"the file is no sound database: {text}")
    if "unable to open" in text or "readonly" in text:
        return StoreUnavailableError(f"the database file cannot be opened for writing: {text}")
    return StoreError(f"the database refused: {text}")
