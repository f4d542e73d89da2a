"""What one transaction of a hot use case works with: tenants' heads, versions, and the cells it has locked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from steersman.domain.records import PolicyVersion
from steersman.errors import NotFoundError
from steersman.policies.tabular import opening_row
from steersman.store import versions
from steersman.store.archive import row_of_stub
from steersman.store.engine import Database
from steersman.store.hot.text import Key, Row
from steersman.store.tenants import TenantHead, head_of
from steersman.store.transactions import HotTransaction
from steersman.usecases.lineage import Lineage, trace_lineage

__all__ = ["Scope", "StateCells"]

_T = TypeVar("_T")


@dataclass(slots=True)
class StateCells:
    """The cells of one state over the catalogue of its version, as they will be written; columns of [A].

    Columns are replaced, never changed in place, so that a row which a decision saw stays as it was.
    """

    version: PolicyVersion
    q: tuple[float, ...]
    visits: tuple[int, ...]
    updates: tuple[int, ...]
    borrowed: tuple[float, ...]
    steps: tuple[int, ...]

    def add_visit(self, position: int, count: int) -> None:
        """Add `count` visits, -1 to take one back, to the cell at `position`."""
        self.visits = _replaced(self.visits, position, self.visits[position] + count)

    def add_step(self, position: int, q: float, *, updates: int) -> None:
        """Count a learning step of the cell at `position`, which leaves it with `q` and so many `updates`."""
        self.q = _replaced(self.q, position, q)
        self.updates = _replaced(self.updates, position, updates)
        self.steps = _replaced(self.steps, position, self.steps[position] + 1)


def _replaced(column: tuple[_T, ...], position: int, value: _T) -> tuple[_T, ...]:
    return (*column[:position], value, *column[position + 1 :])


class Scope:
    """The working set of one transaction; nothing in it outlives the transaction."""

    def __init__(self, database: Database, transaction: HotTransaction) -> None:
        """Take the open transaction."""
        self.database = database
        self.transaction = transaction
        self.hot = database.hot
        self.cursor = transaction.cursor
        self.heads: dict[str, TenantHead] = {}
        self._versions: dict[tuple[str, int], PolicyVersion] = {}
        self._lineages: dict[tuple[str, int], Lineage] = {}
        self._states: dict[Key, StateCells] = {}
        self._changed: dict[tuple[Key, int], None] = {}

    def lock_tenants(self, names: Iterable[str]) -> None:
        """Read the tenants in `names` and keep others from changing their active version."""
        for row in self.hot.lock_tenants(self.cursor, sorted(set(names))):
            head = head_of(row)
            self.heads[head.tenant] = head

    def head(self, tenant: str) -> TenantHead:
        """Return the head of a locked tenant; raise NotFoundError when there is none."""
        found = self.heads.get(tenant)
        if found is None:
            raise NotFoundError(f"there is no tenant {tenant!r}", hint="see: steersman tenant list")
        return found

    def archived(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Row]:
        """Return the rows of those decisions (tenant, decision id) in `keys` that were archived."""
        perhaps = self._perhaps_archived(keys)
        found = self.hot.find_archived(self.cursor, perhaps) if perhaps else []
        return {(stub[0], stub[1]): row_of_stub(stub) for stub in found}

    def archived_rewards(self, keys: Iterable[tuple[str, str]]) -> list[Row]:
        """Return the rows of those rewards (tenant, reward id) in `keys` that were archived."""
        perhaps = self._perhaps_archived(keys)
        return self.hot.find_archived_rewards(self.cursor, perhaps) if perhaps else []

    def _perhaps_archived(self, keys: Iterable[tuple[str, str]]) -> list[Key]:
        """Return those of `keys` whose tenants are locked and were ever archived, sorted."""
        archived = {tenant for tenant, head in self.heads.items() if head.archived}
        return sorted({key for key in keys if key[0] in archived}) if archived else []

    def version(self, tenant: str, number: int) -> PolicyVersion:
        """Return a version of a locked tenant."""
        found = self._versions.get((tenant, number))
        if found is None:
            found = self.database.cached(
                (self.heads[tenant].secret, number),
                lambda: versions.get_version(self.transaction.connection, tenant, number),
            )
            self._versions[tenant, number] = found
        return found

    def active(self, tenant: str) -> PolicyVersion:
        """Return the active version of a locked tenant that has one."""
        number = self.heads[tenant].active_version
        if number is None:
            raise NotFoundError(f"tenant {tenant!r} has no version yet: nothing was decided")
        return self.version(tenant, number)

    def lineage(self, tenant: str, deciding: int) -> Lineage:
        """Return the lineage of decisions that version `deciding` made."""
        found = self._lineages.get((tenant, deciding))
        if found is None:
            active = self.active(tenant)
            found = self.database.cached(
                (self.heads[tenant].secret, "lineage", active.number, deciding),
                lambda: trace_lineage(
                    active,
                    versions.ancestors(self.transaction.connection, active),
                    self.version(tenant, deciding),
                ),
            )
            self._lineages[tenant, deciding] = found
        return found

    def load(self, keys: Iterable[Key]) -> None:
        """Lock the states (tenant, version, state) in `keys` and read their cells."""
        wanted = sorted(set(keys) - self._states.keys())
        if not wanted:
            return
        self.hot.lock_states(self.cursor, wanted)
        for key, rows in zip(wanted, self.hot.read_cells(self.cursor, wanted), strict=True):
            version = self.version(key[0], key[1])
            opening = self._opening(key[0], version)
            cells = opening if not rows else {**opening, **{row[0]: row for row in rows}}
            _, q, visits, updates, borrowed, steps = zip(*cells.values(), strict=True)
            self._states[key] = StateCells(version, q, visits, updates, borrowed, steps)

    def _opening(self, tenant: str, version: PolicyVersion) -> dict[str, Row]:
        """Return the cells of a state that has no rows yet, by action in catalogue order."""

        def make() -> dict[str, Row]:
            row = opening_row(version.actions, version.settings)
            numbers = zip(row.q, row.visits, row.updates, row.borrowed, row.visits, strict=True)
            return {
                action: (action, *cell) for action, cell in zip(version.actions.ids, numbers, strict=True)
            }

        return self.database.cached((self.heads[tenant].secret, "opening", version.number), make)

    def cells(self, key: Key) -> StateCells:
        """Return the cells of a loaded state."""
        return self._states[key]

    def changed(self, key: Key, position: int) -> None:
        """Note that a cell of a loaded state is to be written."""
        self._changed[key, position] = None

    def write_cells(self) -> None:
        """Write the cells that were changed."""
        rows: list[Row] = []
        for key, position in sorted(self._changed):
            cells = self._states[key]
            rows.append(
                (
                    *key,
                    cells.version.actions.ids[position],
                    cells.q[position],
                    cells.visits[position],
                    cells.updates[position],
                    cells.borrowed[position],
                    cells.steps[position],
                )
            )
        self._changed.clear()
        self.hot.write_cells(self.cursor, rows)
