"""Import a table of learning that was made elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import file_digest
from pathlib import Path

import numpy as np

from steersman.domain.settings import TenantSpec
from steersman.errors import InvalidTableError
from steersman.store import audit, tenants
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import Operation, lock_operation, name_operation
from steersman.usecases.cell_table import unpack_cells
from steersman.usecases.make_version import make_version
from steersman.usecases.migrate import locked_tenant, not_retired
from steersman.usecases.operations import first_answer, keep_answer, record_form
from steersman.usecases.table_file import TableFile, read_table

__all__ = ["Imported", "import_table"]


@dataclass(frozen=True, slots=True)
class Imported:
    """A version made from a table, and what was left out of it."""

    tenant: str
    version: int  # the active one now
    cells: int
    unknown_states: int  # rows outside of the state space
    unknown_actions: int  # rows of an action that is not in the catalogue
    without_evidence: int  # cells whose value counts nothing: no visits, updates or borrowed evidence


_IMPORTED = record_form(Imported)


def import_table(
    database: Database,
    tenant: str,
    path: Path,
    *,
    operation_id: str | None = None,
    actor: str = "library",
) -> Imported:
    """Make a CSV or Parquet file of cells the active version of a tenant, and return what came of it.

    The new version holds the cells of the file and no others; those of the version before stay in that. Which
    columns a file has, see `read_table`. Under the same `operation_id` a file of the same bytes is imported once and
    answered as before. Raises NotFoundError, TenantRetiredError, IdReusedError, MissingExtraError, or
    InvalidTableError, naming the file and line, also when no row has a place in the tenant's table.
    """
    digest = _digest_of(path)
    operation = name_operation("import_table", operation_id, sha256=digest)
    while True:
        with database.snapshot() as connection:
            known = first_answer(connection, tenant, operation, _IMPORTED)
            if known is not None:
                return known
            spec = not_retired(tenants.get_tenant(connection, tenant)).spec
        file = _Read(path.name, digest, read_table(path, spec))
        imported = database.run(
            partial(_keep, tenant=tenant, spec=spec, file=file, operation=operation, actor=actor)
        )
        if imported is not None:
            return imported


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    name: str
    digest: str  # SHA-256, hexadecimal
    table: TableFile


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidTableError(f"expected a file that can be read: {error}", where=str(path)) from None


def _keep(
    connection: Connection, *, tenant: str, spec: TenantSpec, file: _Read, operation: Operation, actor: str
) -> Imported | None:
    """Make the version, or return None when the tenant declares something else meanwhile."""
    lock_operation(connection, tenant, operation)
    known = first_answer(connection, tenant, operation, _IMPORTED)
    if known is not None:
        return known
    owner = locked_tenant(connection, tenant)
    table = file.table
    cells = table.cells
    weightless = (cells["visits"] == 0) & (cells["updates"] == 0) & (cells["borrowed"] == 0.0)
    imported = Imported(
        tenant=tenant,
        version=owner.latest_version,
        cells=len(cells),
        unknown_states=table.unknown_states,
        unknown_actions=table.unknown_actions,
        without_evidence=int(np.count_nonzero(weightless)),
    )
    if owner.spec != spec:
        return None
    version = make_version(
        connection,
        owner,
        operation_id=operation.operation_id,
        origin="imported",
        states=spec.states,
        actions=spec.actions,
        settings=spec.settings,
        opening=lambda: unpack_cells(cells, spec.actions),
        parent=owner.active_version,
        provenance={"file": file.name, "sha256": file.digest},
    )
    imported = replace(imported, version=version.number)
    detail = asdict(imported) | {"instead_of": owner.active_version, "sha256": file.digest}
    audit.write_line(connection, tenant, actor=actor, verb="import", detail=detail)
    return keep_answer(connection, tenant, operation, _IMPORTED, imported)
