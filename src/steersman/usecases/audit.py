"""The audit trail as a file: every line of a tenant, a base or the operators, for those who keep it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from steersman.files import new_file
from steersman.store import audit
from steersman.store.clock import now
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.export import EXPORT_FORMAT, Exported

__all__ = ["export_audit"]


def export_audit(database: Database, owner: str, path: Path) -> Exported:
    """Write the audit trail of a tenant, of the base `@NAME` or of operators (`@`) to a new file, oldest line first.

    Lines are as in the export of a tenant; unlike that, this one is to be had of who was erased too, which may be
    nothing. Raises OutputExistsError, or InvalidInputError when the file cannot be written.
    """
    with (
        database.snapshot() as connection,
        new_file(path, mode=0o600) as part,  # for the owner's eyes: it tells who works there
        part.open("w", encoding="ascii") as file,
    ):
        return Exported(path, {"audit": _write(connection, owner, file)})


def _write(connection: Connection, owner: str, file: TextIO) -> int:
    count = 0
    _line(file, {"format": EXPORT_FORMAT, "tenant": owner, "exported_at": now()})
    for line in audit.iterate_lines(connection, owner):
        _line(file, {"table": "audit", "row": asdict(line)})
        count += 1
    _line(file, {"rows": {"audit": count}})
    return count


def _line(file: TextIO, body: Mapping[str, Any]) -> None:
    file.write(json.dumps(body, separators=(",", ":"), allow_nan=False) + "\n")
