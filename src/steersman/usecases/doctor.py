"""Doctor: look for what goes wrong quietly, and say it in plain words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby

from steersman.domain.answers import Checkup, Finding, Owner
from steersman.domain.records import Cell, Decision, PolicyVersion
from steersman.errors import InvalidInputError, NotFoundError
from steersman.policies.arithmetic import greedy_by_value, mixture
from steersman.policies.tabular import StateRow, greedy_in_row, opening_row
from steersman.store import cells, decisions, health, tenants, versions
from steersman.store.backends import WAL_SAFE_SQLITE, sqlite_version
from steersman.store.clock import now
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.ledger import lenient_texts, misfits, owner_rows
from steersman.usecases import symptoms
from steersman.usecases.findings import UNREADABLE, printable
from steersman.usecases.symptoms import ActionRate, Chances, Evidence, Ties

__all__ = ["doctor"]

_PATIENCE = 86_400.0  # seconds that a decision or episode may wait where the tenant says nothing
_LOOKED_AT = 20_000  # decisions, for the rates of actions


def doctor(database: Database, tenant: str | None = None, *, at: int | None = None) -> Checkup:
    """Examine the database and one tenant, or every tenant that is not retired.

    Looks for: actions never tried, ties, rewards that never came, episodes left open, played actions that do not
    follow the logged probabilities, rewards cut off at the ends of their range, an old SQLite, a server that
    acknowledges too early, and a schema that is not this release's. `at` is the time that counts as now, in
    microseconds since 1970 (default: the clock's). Raises NotFoundError.
    """
    at = now() if at is None else at
    with database.snapshot() as connection, lenient_texts(connection):
        statuses = health.tenant_statuses(connection)
        if tenant is not None and tenant not in statuses:
            raise NotFoundError(f"there is no tenant {tenant!r}", hint="see: steersman tenant list")
        # One whose status is neither is damaged, and said to be.
        active = [name for name, status in statuses.items() if status != "retired"]
        names = active if tenant is None else [tenant]
        found = list(_examine_database(connection))
        for name in names:
            try:
                found += _examine_tenant(connection, _read_tenant(connection, name), at)
            except UNREADABLE as error:
                found.append(symptoms.unreadable(printable(name), error))
    # What is quoted need not be UTF-8.
    shown = (replace(item, message=printable(item.message)) for item in found if item is not None)
    return Checkup(len(names), tuple(shown))


def _read_tenant(connection: Connection, name: str) -> Owner:
    for table, row in owner_rows(connection, name):
        for column, value in misfits(table, row):
            raise InvalidInputError(f"{column}: expected a value of the column's type, got {value!r}")
    return tenants.get_tenant(connection, name)


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
    log = _read_log(connection, version)
    yield symptoms.never_tried(name, spec, _evidence(connection, version), log.chances(version), log.made)
    yield symptoms.ties(name, spec, _find_ties(connection, version))
    overdue = health.overdue_decision_count(connection, name, before=before)
    yield symptoms.missing_rewards(name, spec, overdue, at=at)
    stale = health.overdue_episode_count(connection, name, before=before)
    yield symptoms.stale_episodes(name, spec, stale, at=at)
    yield symptoms.action_rates(name, spec, log.rates())
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


@dataclass(slots=True)
class _Log:
    """Sums over the latest decisions: of all versions for rates, of the active one for chances."""

    observed: Counter[str] = field(default_factory=Counter)
    expected: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    variance: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    made: int = 0
    exploring: Counter[str] = field(default_factory=Counter)
    # By action, then state; and the most actions that were feasible together with it there.
    feasible: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    together: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    states: Counter[int] = field(default_factory=Counter)

    def add_rates(self, decision: Decision, version: PolicyVersion) -> None:
        self.observed[decision.action] += 1
        greedy = greedy_in_row(decision.seen, version.settings, explore=decision.explore)
        shares = mixture(greedy, len(decision.feasible), decision.epsilon)
        for action, share in zip(decision.feasible, shares, strict=True):
            self.expected[action] += share
            self.variance[action] += share * (1.0 - share)

    def add_chances(self, decision: Decision) -> None:
        self.made += 1
        self.states[decision.state] += 1
        for action in decision.feasible:
            self.exploring[action] += decision.explore
            self.feasible[action][decision.state] += 1
            together = self.together[action]
            together[decision.state] = max(together[decision.state], len(decision.feasible))

    def rates(self) -> list[ActionRate]:
        return [
            ActionRate(action, self.observed[action], total, self.variance[action])
            for action, total in sorted(self.expected.items())
        ]

    def chances(self, version: PolicyVersion) -> dict[str, Chances]:
        crowded = max(self.states.values(), default=0) > len(version.actions)
        found = {}
        for action in version.actions.ids:
            counts, together = self.feasible[action], self.together[action]
            enough = any(count > together[state] for state, count in counts.items()) if counts else crowded
            found[action] = Chances(counts.total(), self.exploring[action], enough)
        return found


def _read_log(connection: Connection, active: PolicyVersion) -> _Log:
    known = {version.number: version for version in versions.list_versions(connection, active.tenant)}
    log = _Log()
    with closing(health.latest_decisions(connection, active.tenant, limit=_LOOKED_AT)) as rows:
        for row in rows:
            version = known[decisions.decision_head(row).version]
            decision = decisions.decision_of(row, version.actions.ids)
            log.add_rates(decision, version)
            if version.number == active.number:
                log.add_chances(decision)
    return log
