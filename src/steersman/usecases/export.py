"""Export: everything of a tenant as JSON lines, enough to audit it elsewhere."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from steersman.errors import InvalidInputError, OutputExistsError
from steersman.policies.arithmetic import draw_uniform
from steersman.store import tenants
from steersman.store.clock import now
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.export import iterate_rows

__all__ = ["EXPORT_FORMAT", "Exported", "export"]

EXPORT_FORMAT = 1
"""The format that the first line of the file names."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Where an export is, and how many rows of each table it holds."""

    path: Path
    rows: Mapping[str, int]


def export(database: Database, tenant: str, path: Path) -> Exported:
    """Write everything of a tenant to a new file at `path` and return what it holds; a snapshot of one moment.

    Each line is a JSON object with the name of a `table` and a `row` of it. The first line names the format, the
    last one counts the rows, so that a file cut short shows. A decision carries the number in [0, 1) that its
    action was drawn with; the secret behind these numbers stays. Raises NotFoundError, OutputExistsError, or
    InvalidInputError when the file cannot be written.
    """
    with database.snapshot() as connection, _new_file(path) as file:
        return Exported(path, _write(connection, tenant, file))


def _write(connection: Connection, tenant: str, file: TextIO) -> dict[str, int]:
    secret = tenants.get_tenant(connection, tenant).secret
    rows: Counter[str] = Counter()
    _line(file, {"format": EXPORT_FORMAT, "tenant": tenant, "exported_at": now()})
    for table, row in iterate_rows(connection, tenant):
        if table == "decisions":
            row["draw"] = draw_uniform(secret, row["decision_id"])
        _line(file, {"table": table, "row": row})
        rows[table] += 1
    _line(file, {"rows": dict(rows)})
    return dict(rows)


def _line(file: TextIO, body: Mapping[str, Any]) -> None:
    file.write(json.dumps(body, separators=(",", ":"), allow_nan=False) + "\n")


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """Yield a file that is at `path` once it is complete and on the disk, and gone after any error."""
    if not path.name:
        raise InvalidInputError("expected the name of a file", where=str(path))
    part = path.with_name(path.name + ".part")
    _refuse_existing(path)
    try:
        # For the owner's eyes: it holds what a customer did.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise OutputExistsError(f"{part} exists: another export writes it, or one was interrupted") from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"expected a file that can be written: {error}", where=str(path)) from None
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        _refuse_existing(path)
        part.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InvalidInputError(f"expected a file that can be written: {error}", where=str(path)) from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise OutputExistsError(f"{path} exists already", hint="choose another name")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
