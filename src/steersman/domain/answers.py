"""What the verbs that read and change answer with; the records of deciding and learning are in `records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steersman.domain.records import ClosedEpisode, Decision, LearningStep, Reward
from steersman.domain.settings import TenantSpec

__all__ = [
    "ApiKey",
    "AuditLine",
    "BaseBuild",
    "Checkup",
    "Contribution",
    "Difference",
    "Episode",
    "EpisodeDetail",
    "Erased",
    "Expired",
    "ExplainedAction",
    "Explanation",
    "Fate",
    "Finding",
    "Group",
    "IssuedKey",
    "LearnedCell",
    "LearnedState",
    "LearnedTable",
    "MigrationPlan",
    "Owner",
    "Refresh",
    "Verification",
]


@dataclass(frozen=True, slots=True)
class Owner:
    """A tenant, or a base (whose name begins with `@` here and which has no secret): an owner of versions."""

    tenant: str
    spec: TenantSpec
    status: str  # active or retired
    active_version: int | None
    latest_version: int
    created_at: int  # microseconds since 1970, UTC
    secret: bytes = field(default=b"", repr=False)

    @property
    def is_base(self) -> bool:
        """Whether this is a base."""
        return self.tenant.startswith("@")

    @property
    def shown(self) -> str:
        """What a message calls it."""
        return f"base {self.tenant[1:]!r}" if self.is_base else f"tenant {self.tenant!r}"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key but its text; times are microseconds since 1970, UTC."""

    key_id: str  # 12 hexadecimal digits, which the text of the key shows
    tenant: str | None  # None for a key of an operator
    scopes: tuple[str, ...]  # what it may do: some of decide, reward, read, manage
    name: str  # for people
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None

    def is_valid(self, at: int) -> bool:
        """Return whether the key opens anything at the time `at`."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key and its text, which is shown this once."""

    key: ApiKey
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One change."""

    tenant: str
    audit_id: str
    created_at: int  # microseconds since 1970, UTC
    actor: str
    verb: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode, open or closed; times are microseconds since 1970, UTC."""

    tenant: str
    episode: str
    status: str  # open or closed
    steps: int  # decisions made in it, voided ones included
    opened_at: int
    touched_at: int  # the latest decide or reward
    closed: ClosedEpisode | None


@dataclass(frozen=True, slots=True)
class EpisodeDetail:
    """One episode and its decisions, in step order, voided ones included."""

    episode: Episode
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one tenant gave to a base, or why it gave nothing."""

    tenant: str
    version: int | None
    cells: int
    updates: int
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class BaseBuild:
    """A version of a base, and what it was merged from."""

    base: str
    version: int
    cells: int
    contributions: tuple[Contribution, ...]  # by tenant


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh did: untouched cells that are borrowed now, and those of before that are not any more."""

    tenant: str
    version: int  # the active one
    made: bool  # False when the base had nothing new to lend
    base_version: int
    borrowed: int
    dropped: int
    kept: int  # with visits or updates


@dataclass(frozen=True, slots=True)
class Expired:
    """What was settled for a tenant."""

    tenant: str
    decisions: int  # given the default reward
    episodes: int  # closed with it as their outcome


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows of a tenant there were, by table; the line of the audit that stays holds the same."""

    tenant: str
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is stored otherwise than the logbook rebuilds it."""

    tenant: str  # a base has its @
    subject: str  # decision, reward, step, cell, episode, version, tenant, table or file
    record: str  # its id; of a step its number within the cell; empty for a cell
    version: Any  # int, or None where it concerns no version; what is stored in its place is shown as it is
    state: Any  # int or None, as the version
    action: Any  # str or None, as the version
    field: str
    stored: Any  # bytes as hexadecimal digits, and what is no finite number as text
    rebuilt: Any


@dataclass(frozen=True, slots=True)
class Verification:
    """What was verified and what differs; an empty database is clean."""

    owners: int  # tenants and bases
    rows: int  # decisions, rewards, episodes, learning steps and cells
    count: int  # of differences
    differences: tuple[Difference, ...]  # the first thousand

    @property
    def clean(self) -> bool:
        """Whether everything is as the logbook says."""
        return self.count == 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, in words, and the command to go on with if there is one."""

    severity: str  # problem, warning or note
    code: str  # never-tried, ties, missing-rewards, action-rates, stale-episodes, reward-edges, ...
    tenant: str | None  # None: the database
    message: str
    command: str | None


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was looked at and what was found, the database's own first, then by tenant."""

    tenants: int
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class ExplainedAction:
    """One action of the catalogue as a decision saw it; the numbers are None where it was not feasible."""

    action: str
    label: str
    feasible: bool
    reason: str | None  # why it was not, when the caller said
    q: float | None = None
    visits: int | None = None
    updates: int | None = None
    borrowed: float | None = None
    bonus: float | None = None  # None also without exploration, and while one without evidence comes first
    greedy: bool = False
    probability: float | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision, explained."""

    decision: Decision
    meaning: Mapping[str, str]  # of the state: factor to value
    actions: tuple[ExplainedAction, ...]  # catalogue order
    draw: float  # in [0, 1): where it falls among the summed probabilities decides
    rewards: tuple[Reward, ...]
    steps: tuple[LearningStep, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """How many things share a fate, and which: all action ids, or the first states or cells by their meaning."""

    count: int = 0
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of actions, states or cells; the groups do not overlap."""

    kept: Group = Group()  # where they are
    moved: Group = Group()  # kept, at another position or index
    new: Group = Group()  # never known in this line of versions
    parked: Group = Group()  # left behind in the active version
    restored: Group = Group()  # back from an older ancestor


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What a changed declaration does, or did.

    When it needs no new version, everything after `changed` is empty. A kept cell is a row with its four
    numbers; `cells.new` counts every pair of state and action that nothing is known of.
    """

    tenant: str
    before: int | None  # the active version until then; None when nothing was decided yet
    version: int | None  # the one that was made; None for a dry run, or when none is needed
    needs_version: bool
    changed: tuple[str, ...]  # parts of the declaration: actions, labels, states, learning, ...
    actions: Fate = Fate()
    states: Fate = Fate()
    cells: Fate = Fate()
    remarks: tuple[str, ...] = ()  # what to know of it beforehand, in words


@dataclass(frozen=True, slots=True)
class LearnedCell:
    """One cell, for reading."""

    action: str
    label: str
    q: float
    visits: int  # times chosen
    updates: int  # times learned from
    borrowed: float  # evidence it started with
    greedy: bool  # played without exploration, when every action is feasible

    @property
    def tried(self) -> bool:
        """Whether anything is known of it, by itself or borrowed."""
        return bool(self.visits or self.updates or self.borrowed)


@dataclass(frozen=True, slots=True)
class LearnedState:
    """One state by its meaning, with every action of the catalogue."""

    state: int
    meaning: str
    evidence: float  # visits and borrowed evidence, summed
    cells: tuple[LearnedCell, ...]  # catalogue order


@dataclass(frozen=True, slots=True)
class LearnedTable:
    """What a version has learned: the states with the most evidence, and what is missing."""

    tenant: str
    version: int
    states: tuple[LearnedState, ...]  # the most evidence first
    known_states: int  # states with any evidence
    all_states: int
    never_tried: tuple[str, ...]  # labels of actions that were played in no state, whatever they borrowed
