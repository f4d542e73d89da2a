"""Every row of a tenant as JSON, streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, select

from steersman.store.tables import (
    api_keys,
    archive_files,
    archived_decisions,
    archived_rewards,
    audit,
    cell_checkpoints,
    cells,
    decisions,
    episodes,
    learning_steps,
    opening_cells,
    operations,
    policy_versions,
    rewards,
    tenants,
)

__all__ = ["iterate_rows"]

_PAGE = 2000
_EXPORTED = (
    tenants,
    api_keys,
    policy_versions,
    opening_cells,
    cells,
    decisions,
    rewards,
    learning_steps,
    episodes,
    archived_decisions,
    archived_rewards,
    cell_checkpoints,
    archive_files,
    operations,
    audit,
)
_SECRET_COLUMNS = {"secret", "digest"}
_JSON_COLUMNS = {
    "actions",
    "answer",
    "detail",
    "feasible",
    "metadata",
    "provenance",
    "reasons",
    "scopes",
    "seen",
    "settings",
    "spec",
    "states",
}


def iterate_rows(connection: Connection, tenant: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (table, row) for every row of `tenant`, table by table and by primary key, ready for JSON.

    Columns that hold JSON are decoded, bytes are hexadecimal. The secret is left out, since who knows it can choose
    decision ids that steer the draws, and so are the digests of keys.
    """
    for table in _EXPORTED:
        for row in _rows_of(connection, table, tenant):
            yield table.name, row


def _rows_of(connection: Connection, table: Table, tenant: str) -> Iterator[dict[str, Any]]:
    columns = [column for column in table.columns if column.name not in _SECRET_COLUMNS]
    query = select(*columns).where(table.c.tenant == tenant).order_by(*table.primary_key.columns)
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as rows:
        for row in rows.mappings():
            yield {name: _as_json(name, value) for name, value in row.items()}


def _as_json(name: str, value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return json.loads(value) if name in _JSON_COLUMNS and value is not None else value
