"""Verifying decisions: each is replayed, and its status is held against its rewards and learning steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import fsum, isfinite, nan
from typing import Any, TypeAlias

import msgspec

from steersman.domain.records import Decision, LearningStep, Reward
from steersman.store.archive import row_of_stub
from steersman.store.connection import Connection
from steersman.store.decisions import decision_of, sealed_part
from steersman.store.hot.text import DECISIONS, Row
from steersman.store.ledger import (
    archived_reward_stream,
    archived_stream,
    decision_stream,
    misfits,
    reward_stream,
    step_stream,
)
from steersman.store.rewards import reward_of
from steersman.store.steps import step_of
from steersman.usecases.ancestry import Ancestry
from steersman.usecases.findings import UNREADABLE, Findings, Mismatch, seal_mismatches, unreadable
from steersman.usecases.merging import merged
from steersman.usecases.replay import replay_mismatches, row_mismatches
from steersman.usecases.reward import DEFAULT_REWARD_PREFIX

__all__ = ["Story", "reward_mismatches", "status_mismatches", "verify_decisions"]

_DECISIONS, _STUBS, _REWARDS, _GONE, _STEPS = range(5)
_AT = {name: index for index, name in enumerate(DECISIONS)}
_CELL = (_AT["version"], _AT["state"], _AT["action"])


_Rows: TypeAlias = tuple[list[Any], list[Row], list[Row], list[Row], list[Row]]
"""Of one decision: its rows, stubs, rewards, stubs of rewards, and learning steps."""


@dataclass(slots=True)
class Story:
    """One decision and all that came of it."""

    decision: Decision
    void_version: int | None = None
    void_state: int | None = None
    episode_status: str | None = None
    outcome: float | None = None  # of its closed episode, where it is the last there that is not void
    rewards: list[Reward] = field(default_factory=list)
    updates: list[LearningStep] = field(default_factory=list)  # one when it was learned
    furthers: list[LearningStep] = field(default_factory=list)  # of rewards that came after that


def verify_decisions(
    connection: Connection,
    tenant: str,
    *,
    secret: bytes,
    ancestry: Ancestry,
    found: Findings,
    tick: Callable[[], None],
) -> None:
    """Replay every decision of a tenant and hold its status against its rewards, steps and episode."""
    streams = [
        (decision_stream(connection, tenant), lambda item: (item[0][_AT["decision_id"]],)),
        (archived_stream(connection, tenant), lambda row: (row[1],)),
        (reward_stream(connection, tenant), lambda row: (row[2],)),
        (archived_reward_stream(connection, tenant), lambda row: (row[2],)),
        (step_stream(connection, tenant, by_decision=True), lambda row: (row[5],)),
    ]
    with merged(streams) as groups:
        for (decision_id,), items in groups:
            rows: _Rows = ([], [], [], [], [])
            for stream, item in items:
                rows[stream].append(item)
                if stream != _STEPS:
                    tick()
            story: Story | None = None
            cell: tuple[Any, Any, Any] = (None, None, None)
            for row, episode in rows[_DECISIONS]:
                cell = (row[_CELL[0]], row[_CELL[1]], row[_CELL[2]])
                problems, story = _read_decision(row, episode, secret, ancestry)
                found.add(tenant, "decision", decision_id, problems, cell=cell)
            for row in rows[_REWARDS]:
                found.add(
                    tenant, "reward", row[1], unreadable("rewards", row) or _reward_problems(row), cell=cell
                )
            for row in rows[_GONE]:
                problems = unreadable("archived_rewards", row) or _reward_problems(row)
                found.add(tenant, "archived reward", row[1], problems)
            if rows[_GONE] and not rows[_STUBS]:
                found.add(tenant, "archived decision", decision_id, [("row", None, "present")])
            if rows[_STUBS]:
                _check_archived(tenant, rows, secret, ancestry, found)
            elif story is not None:
                _check_story(story, rows[_REWARDS], rows[_STEPS], ancestry, found)
            elif not rows[_DECISIONS]:
                found.add(tenant, "decision", decision_id, [("row", None, "present")])


def status_mismatches(story: Story) -> Iterator[Mismatch]:
    """Yield how the status of a decision differs from what its steps, rewards, void mark and episode say."""
    decision = story.decision
    voided = story.void_version is not None
    status = "learned" if story.updates else "void" if voided else "open"
    if decision.status != status:
        yield "status", decision.status, status
    due = story.episode_status == "closed" or (decision.episode is None and bool(story.rewards))
    if due and not voided and not story.updates:
        yield "updates", 0, 1
    if len(story.updates) > 1:
        yield "updates", len(story.updates), 1
    if story.furthers and not story.updates:
        yield "further steps", len(story.furthers), 0
    if voided and (story.updates or story.furthers or story.rewards):
        yield "void_version", story.void_version, None
    if voided != (story.void_state is not None):
        yield "void_state", story.void_state, None
    if (decision.episode is None) != (decision.step is None):
        yield "step", decision.step, None
    if decision.episode is not None and story.episode_status is None:
        yield "episode", decision.episode, None


def reward_mismatches(story: Story) -> Iterator[Mismatch]:
    """Yield how the rewards of a decision, and the outcome of its episode, differ from what was learned.

    Those that came in time sum up, exactly rounded, to the reward of its update; each of the others has a further
    step. A parked reward may be either, and so may the outcome.
    """
    if not story.updates:
        early = [reward.effect for reward in story.rewards if reward.effect != "waits"]
        if early:
            yield "effect", early, "waits"
        return
    furthers = Counter(step.reward for step in story.furthers)
    surely = Counter(reward.value for reward in story.rewards if reward.effect == "further")
    perhaps = Counter(reward.value for reward in story.rewards if reward.effect == "parked")
    everything = Counter(reward.value for reward in story.rewards)
    if story.outcome is not None:
        perhaps[story.outcome] += 1
        everything[story.outcome] += 1
    if surely - furthers or furthers - surely - perhaps:
        yield "further steps", sorted(furthers.elements()), sorted(surely.elements())
    in_time = _total((everything - furthers).elements())
    if story.updates[0].reward != in_time:
        yield "reward", story.updates[0].reward, in_time


def _total(values: Iterable[float]) -> float:
    """Return the sum of `values`, exactly rounded; NaN when it is beyond all numbers."""
    try:
        return fsum(values)
    except OverflowError:
        return nan


def _read_decision(
    row: Row, episode: tuple[Any, Any, bool], secret: bytes, ancestry: Ancestry
) -> tuple[list[Mismatch], Story | None]:
    """Return what is wrong with a row and its choice, and its story so far if the row can be read."""
    bad = unreadable("decisions", row)
    if bad:
        return bad, None
    problems = seal_mismatches(*sealed_part(row))
    version = ancestry.versions.get(row[_AT["version"]])
    if version is None:
        return [*problems, ("version", row[_AT["version"]], None)], None
    try:
        decision = decision_of(row, version.actions.ids)
        unlike = list(row_mismatches(decision, version)) or list(replay_mismatches(decision, version, secret))
    except UNREADABLE as error:
        return [*problems, ("row", str(error), "what a decision can hold")], None
    latest, newest = row[_AT["latest_version"]], max(ancestry.versions)
    if not version.number <= latest <= newest:
        problems.append(("latest_version", latest, f"{version.number} to {newest}"))
    problems += unlike
    status, outcome, last = episode
    # An outcome that is no number is a difference of its episode.
    known = isinstance(outcome, float) and isfinite(outcome)
    counts = known and status == "closed" and last and decision.status != "void"
    story = Story(
        decision, row[_AT["void_version"]], row[_AT["void_state"]], status, outcome if counts else None
    )
    return problems, story


def _check_archived(
    tenant: str,
    rows: _Rows,
    secret: bytes,
    ancestry: Ancestry,
    found: Findings,
) -> None:
    """Replay an archived decision, and hold the steps that have not gone with it against it."""
    decisions, (stub, *_), rewards, gone, steps = rows
    problems = unreadable("archived_decisions", stub) or _count_problems(stub, len(gone))
    story: Story | None = None
    if not problems:
        try:
            row = row_of_stub(stub)
            wrong, story = _read_decision(row, (None, None, False), secret, ancestry)
            problems += wrong
        except (*UNREADABLE, msgspec.DecodeError) as error:
            problems.append(("answer", str(error), "the answer to a decide"))
    if story is not None and (stub[2], stub[3] in {"learned", "void"}) != (story.decision.episode, True):
        problems.append(("episode", stub[2:4], [story.decision.episode, "learned or void"]))
    problems += [(name, "present", None) for name, kept in (("row", decisions), ("rewards", rewards)) if kept]
    found.add(tenant, "archived decision", stub[1], problems)
    for step in (step_of(row) for row in steps if not misfits("learning_steps", row)):
        if story is not None:
            place = (step.key.version, step.key.state, step.key.action)
            mismatches = _step_mismatches(story.decision, step, ancestry)
            found.add(tenant, "step", step.number, mismatches, cell=place)


def _count_problems(stub: Row, gone: int) -> list[Mismatch]:
    """Return how the stub of a decision differs from that so many rewards of it were archived."""
    _, _, episode, status, *_, rewards = stub
    problems: list[Mismatch] = []
    if (rewards or 0) != gone:
        problems.append(("rewards", rewards, gone))
    if rewards is None:  # from before stubs of rewards stayed
        return problems
    # Outside of episodes a reward alone makes a decision learned, and none can have come to one that is void.
    if status == "void" and gone:
        problems.append(("status", status, "learned"))
    if status == "learned" and episode is None and not gone:
        problems.append(("status", status, "void"))
    return problems


def _reward_problems(row: Row) -> list[Mismatch]:
    problems = seal_mismatches(row[:-1], row[-1])
    reward = reward_of(row)
    kind = "default" if reward.reward_id == DEFAULT_REWARD_PREFIX + reward.decision_id else "reward"
    if reward.kind != kind:
        problems.append(("kind", reward.kind, kind))
    if reward.effect not in {"learned", "waits", "further", "parked"}:
        problems.append(("effect", reward.effect, None))
    return problems


def _check_story(
    story: Story, rewards: list[Row], steps: list[Row], ancestry: Ancestry, found: Findings
) -> None:
    decision = story.decision
    story.rewards = [reward_of(row) for row in rewards if not misfits("rewards", row)]
    for step in (step_of(row) for row in steps if not misfits("learning_steps", row)):
        (story.updates if step.kind == "update" else story.furthers).append(step)
        place = (step.key.version, step.key.state, step.key.action)
        found.add(
            decision.tenant, "step", step.number, _step_mismatches(decision, step, ancestry), cell=place
        )
    cell = (decision.version, decision.state, decision.action)
    problems = [*status_mismatches(story), *reward_mismatches(story), *_void_mismatches(story, ancestry)]
    found.add(decision.tenant, "decision", decision.decision_id, problems, cell=cell)


def _step_mismatches(decision: Decision, step: LearningStep, ancestry: Ancestry) -> Iterator[Mismatch]:
    """Yield how a learning step differs from the decision that it learned from."""
    if step.key.action != decision.action:
        yield "action", step.key.action, decision.action
    state = ancestry.place(decision.version, decision.state, within=step.key.version)
    if step.key.state != state:
        yield "state", step.key.state, state
    if decision.episode is None and step.bootstrap != 0.0:
        yield "bootstrap", step.bootstrap, 0.0


def _void_mismatches(story: Story, ancestry: Ancestry) -> Iterator[Mismatch]:
    """Yield how the cell that a visit was taken back from differs from where it can have been counted."""
    if story.void_version is None or story.void_state is None:
        return
    decision = story.decision
    state = ancestry.place(decision.version, decision.state, within=story.void_version)
    if story.void_state != state:
        yield "void_state", story.void_state, state
