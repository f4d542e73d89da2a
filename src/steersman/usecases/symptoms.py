"""What the doctor makes of what was counted: each function judges one thing and returns a finding, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from steersman.domain.answers import Finding
from steersman.domain.settings import TenantSpec
from steersman.store.health import EdgeCounts, Overdue

__all__ = [
    "ActionRate",
    "Chances",
    "Evidence",
    "Ties",
    "action_rates",
    "missing_rewards",
    "never_tried",
    "old_sqlite",
    "reward_edges",
    "schema_differs",
    "stale_episodes",
    "ties",
    "unreadable",
    "unsafe_commit",
]

_RATE_SCORE = 5.0  # standard deviations
_RATE_VARIANCE = 10.0  # of a count, below which its distribution is too skewed to be judged by them
_EDGE_SHARE = 0.1
_EDGE_COUNT = 20
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an action over all states of a version."""

    visits: int
    borrowed: float  # from a base or a prior


@dataclass(frozen=True, slots=True)
class Chances:
    """How often an action could have been played, among the latest decisions of the active version."""

    feasible: int  # decisions
    exploring: int  # of them, with exploration
    # Whether some state had more of them than there were feasible actions; of an action that was never feasible,
    # whether some state had more decisions than the catalogue has actions.
    enough: bool


@dataclass(frozen=True, slots=True)
class ActionRate:
    """How often an action was played, and how often the logged probabilities lead one to expect."""

    action: str
    observed: int
    expected: float  # the sum of its probabilities
    variance: float  # the sum of p (1 - p)


@dataclass(frozen=True, slots=True)
class Ties:
    """States in which several actions share the largest q of those known."""

    count: int
    known: int  # states in which at least two actions are known
    example: str  # the meaning of one of them
    tied: tuple[str, ...]  # the actions tied there


def never_tried(
    tenant: str,
    spec: TenantSpec,
    evidence: Mapping[str, Evidence],
    chances: Mapping[str, Chances],
    made: int,
) -> Finding | None:
    """Judge actions that were never played, once there were chances enough; `made` decisions were looked at."""
    untried = [
        action
        for action, had in chances.items()
        if had.enough and not (action in evidence and evidence[action].visits)
    ]
    if not untried:
        return None
    behind, passed_over, infeasible = [], [], []
    for action in untried:
        had, label = chances[action], spec.label_of(action)
        if not had.feasible:
            infeasible.append(label)
        elif action in evidence and evidence[action].borrowed:
            behind.append(f"{label} (feasible in {_count(had.feasible, 'decision')})")
        else:
            times = f"feasible in {_count(had.feasible, 'decision')}, {had.exploring:,} with exploration"
            passed_over.append(f"{label} ({times})")
    parts = []
    if infeasible:
        parts.append(f"{_listed(infeasible)}: feasible in none of the latest {_count(made, 'decision')}")
    if passed_over:
        parts.append(f"{_listed(passed_over)}: without exploration, what nothing is known of is passed over")
    if behind:
        parts.append(f"{_listed(behind)}: what it borrowed, or its prior, keeps it behind the others")
    severity = "warning" if infeasible or passed_over else "note"
    message = f"never played: {'; '.join(parts)}"
    return Finding(severity, "never-tried", tenant, message, f"steersman show {tenant}")


def ties(tenant: str, spec: TenantSpec, found: Ties) -> Finding | None:
    """Judge in how many states the best action is not decided."""
    if not found.count:
        return None
    tied = _listed([spec.label_of(action) for action in found.tied])
    message = (
        f"in {found.count:,} of {_count(found.known, 'state')} the best action is not decided: "
        f"at {found.example}, {tied} have the same value, and any of them is played"
    )
    return Finding("note", "ties", tenant, message, f"steersman show {tenant}")


def missing_rewards(tenant: str, spec: TenantSpec, found: Overdue, *, at: int) -> Finding | None:
    """Judge open decisions outside of episodes that have waited for longer than they should; `at` is now."""
    if not found.count or found.since is None:
        return None
    message = (
        f"{_count(found.count, 'decision')} outside of episodes never got a reward, the oldest ({found.oldest}) for "
        f"{_duration(at - found.since)}: nothing is learned from them"
    )
    return Finding("warning", "missing-rewards", tenant, message, _settling(tenant, spec, "decisions"))


def stale_episodes(tenant: str, spec: TenantSpec, found: Overdue, *, at: int) -> Finding | None:
    """Judge open episodes that were not touched for longer than they should be; `at` is now."""
    if not found.count or found.since is None:
        return None
    message = (
        f"{_count(found.count, 'episode')} stay open, the oldest ({found.oldest}) untouched for "
        f"{_duration(at - found.since)}: what is open in them is not learned before they are closed"
    )
    return Finding("warning", "stale-episodes", tenant, message, _settling(tenant, spec, "episodes list"))


def action_rates(tenant: str, spec: TenantSpec, rates: Sequence[ActionRate]) -> Finding | None:
    """Judge played counts against logged probabilities, by z = (observed - expected) / standard deviation.

    Draws are independent of each other given what was seen, so each count is a sum of independent 0s and 1s
    around its probabilities; five deviations are chance once in a million counts or less.
    """
    off = [
        rate
        for rate in rates
        if rate.variance >= _RATE_VARIANCE
        and abs(rate.observed - rate.expected) > _RATE_SCORE * sqrt(rate.variance)
    ]
    if not off:
        return None
    shown = [
        f"{spec.label_of(rate.action)} {rate.observed:,} times instead of {rate.expected:,.0f} "
        f"(give or take {sqrt(rate.variance):,.0f})"
        for rate in off
    ]
    message = (
        f"what was played does not follow the logged probabilities: {_listed(shown)}. Draws cannot be steered, so "
        "decisions were taken back or made again depending on what they chose; estimates from this log are biased"
    )
    return Finding("problem", "action-rates", tenant, message, f"steersman decisions {tenant} --status void")


def reward_edges(tenant: str, spec: TenantSpec, counts: EdgeCounts) -> Finding | None:
    """Judge the share of rewards at an end of their range; rewards that are nothing but ends are meant so."""
    inside = counts.total - counts.low - counts.high
    if counts.total < _EDGE_COUNT or inside < _EDGE_SHARE * counts.total:
        return None
    ends = (
        ("lowest", spec.settings.reward_low, counts.low),
        ("highest", spec.settings.reward_high, counts.high),
    )
    parts = [
        f"{count / counts.total:.0%} are exactly {edge:g}, the {name} of the range"
        for name, edge, count in ends
        if count >= _EDGE_SHARE * counts.total
    ]
    if not parts:
        return None
    message = (
        f"of {_count(counts.total, 'reward')} {' and '.join(parts)}: if they were cut off to fit, the best and the "
        "merely good look alike; a wider range keeps them apart"
    )
    return Finding("note", "reward-edges", tenant, message, f"steersman tenant change {tenant} --help")


def old_sqlite(mode: str | None, version: tuple[int, ...], safe: tuple[int, ...]) -> Finding | None:
    """Judge SQLite's journal `mode` (None: not SQLite), given its version and the oldest that is safe with a WAL."""
    if mode is None or mode == "wal":
        return None
    found, needed = (".".join(map(str, parts)) for parts in (version, safe))
    message = (
        f"SQLite {found} is used with a rollback journal, in which readers and writers wait for each other: libraries "
        f"before {needed} can corrupt a write-ahead log that several processes share"
        if version < safe
        else "SQLite is used with a rollback journal, in which readers and writers wait for each other: this file "
        "system does not allow a write-ahead log"
    )
    return Finding(
        "warning", "old-sqlite", None, message, "pip install --upgrade pysqlite3" if version < safe else None
    )


def unsafe_commit(mode: str | None, *, database: str) -> Finding | None:
    """Judge PostgreSQL's `synchronous_commit` (None: not PostgreSQL) as connections to `database` get it."""
    if mode != "off":
        return None
    message = "synchronous_commit is off: the server acknowledges what it has not written, and a crash loses the latest"
    command = f'ALTER DATABASE "{database}" SET synchronous_commit = on'
    return Finding("problem", "synchronous-commit", None, message, command)


def schema_differs(gaps: Sequence[str]) -> Finding | None:
    """Judge how the schema differs from this release's."""
    if not gaps:
        return None
    return Finding(
        "problem", "schema", None, f"the schema is not this release's: {_listed(gaps)}", "steersman db status"
    )


def unreadable(tenant: str, error: Exception) -> Finding:
    """Report a tenant of which something stored cannot be read."""
    message = f"what is stored contradicts itself ({type(error).__name__}: {error})"
    return Finding("problem", "unreadable", tenant, message, f"steersman verify {tenant}")


def _settling(tenant: str, spec: TenantSpec, listing: str) -> str:
    return (
        f"steersman {listing} {tenant} --status open"
        if spec.reward_wait is None
        else f"steersman expire {tenant}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(items: Sequence[str]) -> str:
    if len(items) > _SHOWN:
        return f"{', '.join(items[:_SHOWN])} and {len(items) - _SHOWN} more"
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def _duration(microseconds: int) -> str:
    """Return a time in its largest unit that fits at least once: `3 days`."""
    seconds = max(0, microseconds // 1_000_000)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return _count(seconds // length, unit)
    return _count(seconds, "second")
