"""Export: everything of a tenant as JSON lines, enough to audit it elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from steersman.files import new_file
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
    with (
        database.snapshot() as connection,
        new_file(path, mode=0o600) as part,  # for the owner's eyes: it holds what a customer did
        part.open("w", encoding="ascii") as file,
    ):
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
