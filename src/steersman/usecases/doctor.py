"""Doctor: look for what goes wrong quietly, and say it in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

from steersman.domain.records import Cell, PolicyVersion
from steersman.policies.arithmetic import greedy_by_value, mixture
from steersman.policies.tabular import StateRow, greedy_in_row, opening_row
from steersman.store import cells, decisions, health, tenants, versions
from steersman.store.backends import WAL_SAFE_SQLITE, sqlite_version
from steersman.store.clock import now
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.tenants import Owner
from steersman.usecases import symptoms
from steersman.usecases.symptoms import ActionRate, Evidence, Finding, Ties

__all__ = ["Checkup", "doctor"]

_PATIENCE = 86_400.0  # seconds that a decision or episode may wait where the tenant says nothing
_LOOKED_AT = 20_000  # decisions, for the rates of actions


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was looked at and what was found, the database's own first, then by tenant."""

    tenants: int
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def doctor(database: Database, tenant: str | None = None, *, at: int | None = None) -> Checkup:
    """Examine the database and one tenant, or every tenant that is not retired.

    Looks for: actions never tried, ties, rewards that never came, episodes left open, played actions that do not
    follow the logged probabilities, rewards cut off at the ends of their range, an old SQLite, a server that
    acknowledges too early, and a schema that is not this release's. `at` is the time that counts as now, in
    microseconds since 1970 (default: the clock's). Raises NotFoundError.
    """
    at = now() if at is None else at
    with database.snapshot() as connection:
        if tenant is None:
            owners = [owner for owner in tenants.list_tenants(connection) if owner.status == "active"]
        else:
            owners = [tenants.get_tenant(connection, tenant)]
        found = list(_examine_database(connection))
        for owner in owners:
            try:
                found += _examine_tenant(connection, owner, at)
            except (LookupError, TypeError, ValueError) as error:
                found.append(symptoms.unreadable(owner.tenant, error))
    return Checkup(len(owners), tuple(finding for finding in found if finding is not None))


def _examine_database(connection: Connection) -> Iterator[Finding | None]:
    yield symptoms.old_sqlite(health.journal_mode(connection), sqlite_version(), WAL_SAFE_SQLITE)
    mode = health.synchronous_commit(connection)
    yield symptoms.unsafe_commit(mode, database=connection.engine.url.database or "")
    yield symptoms.schema_differs(health.schema_gaps(connection))


def _examine_tenant(connection: Connection, owner: Owner, at: int) -> Iterator[Finding | None]:
    if owner.active_version is None:
        return
    name, spec = owner.tenant, owner.spec
    version = versions.get_version(connection, name, owner.active_version)
    wait = _PATIENCE if spec.reward_wait is None else spec.reward_wait
    before = at - int(wait * 1e6)
    yield symptoms.never_tried(name, spec, _evidence(connection, version))
    yield symptoms.ties(name, spec, _find_ties(connection, version))
    overdue = health.overdue_decision_count(connection, name, before=before)
    yield symptoms.missing_rewards(name, spec, overdue, at=at)
    stale = health.overdue_episode_count(connection, name, before=before)
    yield symptoms.stale_episodes(name, spec, stale, at=at)
    yield symptoms.action_rates(name, spec, _measure_rates(connection, name))
    edges = health.edge_counts(
        connection, name, low=version.settings.reward_low, high=version.settings.reward_high
    )
    yield symptoms.reward_edges(name, spec, edges)


def _evidence(connection: Connection, version: PolicyVersion) -> dict[str, Evidence]:
    evidence = {action: Evidence(0, prior.weight) for action, prior in version.settings.priors}
    stored = health.action_evidence(connection, version.tenant, version.number)
    return evidence | {action: Evidence(*numbers) for action, numbers in stored.items()}


def _find_ties(connection: Connection, version: PolicyVersion) -> Ties:
    count = known = 0
    example = ""
    tied: tuple[str, ...] = ()
    stored = cells.iterate_cells(connection, version.tenant, version.number)
    for state, group in groupby(stored, key=lambda cell: cell.key.state):
        row = _row_of(version, group)
        evidence = zip(row.updates, row.borrowed, strict=True)
        if sum(1 for updates, borrowed in evidence if updates or borrowed) < 2:
            continue
        known += 1
        best = greedy_by_value(row.q, row.updates, row.borrowed)
        if len(best) > 1:
            count += 1
            if count == 1:
                example = version.states.describe(state)
                tied = tuple(version.actions.ids[position] for position in best)
    return Ties(count, known, example, tied)


def _row_of(version: PolicyVersion, stored: Iterable[Cell]) -> StateRow:
    """Return one state's cells over the catalogue; what lies outside of it is left to verify."""
    row = opening_row(version.actions, version.settings)
    for cell in stored:
        position = version.actions.position.get(cell.key.action)
        if position is not None:
            row.q[position], row.visits[position] = cell.q, cell.visits
            row.updates[position], row.borrowed[position] = cell.updates, cell.borrowed
    return row


def _measure_rates(connection: Connection, tenant: str) -> list[ActionRate]:
    """Sum up, action by action, what was played and what the logged rows make one expect."""
    known = {version.number: version for version in versions.list_versions(connection, tenant)}
    observed: dict[str, int] = {}
    expected: dict[str, float] = {}
    variance: dict[str, float] = {}
    with closing(health.latest_decisions(connection, tenant, limit=_LOOKED_AT)) as rows:
        for row in rows:
            version = known[decisions.decision_head(row).version]
            decision = decisions.decision_of(row, version.actions.ids)
            observed[decision.action] = observed.get(decision.action, 0) + 1
            greedy = greedy_in_row(decision.seen, version.settings, explore=decision.explore)
            shares = mixture(greedy, len(decision.feasible), decision.epsilon)
            for action, share in zip(decision.feasible, shares, strict=True):
                expected[action] = expected.get(action, 0.0) + share
                variance[action] = variance.get(action, 0.0) + share * (1.0 - share)
    return [
        ActionRate(action, observed.get(action, 0), total, variance[action])
        for action, total in sorted(expected.items())
    ]
