"""Why: everything that a decision was made of, as it was seen then, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.domain.answers import ExplainedAction, Explanation
from steersman.domain.identifiers import check_choice, check_id, check_limit, check_metadata
from steersman.domain.records import CellKey, Decision, LearningStep, PolicyVersion
from steersman.policies.arithmetic import draw_uniform, mixture, ucb_bonuses
from steersman.policies.tabular import greedy_in_row
from steersman.store import decisions, tenants, versions
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.rewards import rewards_of_decision
from steersman.store.steps import steps_of_decision
from steersman.usecases.ancestry import Ancestry

__all__ = ["explain", "list_decisions"]


def explain(database: Database, tenant: str, decision_id: str) -> Explanation:
    """Return why a decision was made and what came of it; raise NotFoundError or InvalidInputError."""
    check_id(decision_id, what="decision id")
    with database.snapshot() as connection:
        owner = tenants.get_tenant(connection, tenant)
        row = decisions.get_decision(connection, tenant, decision_id)
        known = {version.number: version for version in versions.list_versions(connection, tenant)}
        version = known[decisions.decision_head(row).version]
        decision = decisions.decision_of(row, version.actions.ids)
        labels = {action: owner.spec.label_of(action) for action in version.actions.ids}
        return Explanation(
            decision,
            version.states.decode(decision.state),
            _explained(decision, version, labels),
            draw_uniform(owner.secret, decision_id),
            tuple(rewards_of_decision(connection, tenant, decision_id)),
            tuple(_steps(connection, decision, known)),
        )


def list_decisions(
    database: Database,
    tenant: str,
    *,
    episode: str | None = None,
    status: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[Decision]:
    """Return decisions, newest first, of one episode, status or with some metadata.

    `after` is the decision that the page before ended with, archived since or not. Raises NotFoundError, or
    InvalidInputError for what can be no id, status, metadata or limit.
    """
    check_choice(status, ("open", "learned", "void"), what="status")
    limit = check_limit(limit)
    for what, value in (("episode", episode), ("after", after)):
        if value is not None:
            check_id(value, what=what)
    if metadata is not None:
        check_metadata(metadata)
    with database.snapshot() as connection:
        tenants.get_tenant(connection, tenant)
        catalogues = {item.number: item.actions.ids for item in versions.list_versions(connection, tenant)}
        rows = decisions.list_decisions(
            connection, tenant, episode=episode, status=status, metadata=metadata, after=after, limit=limit
        )
        return [decisions.decision_of(row, catalogues[decisions.decision_head(row).version]) for row in rows]


def _explained(
    decision: Decision, version: PolicyVersion, labels: Mapping[str, str]
) -> tuple[ExplainedAction, ...]:
    seen, settings = decision.seen, version.settings
    greedy = set(greedy_in_row(seen, settings, explore=decision.explore))
    probabilities = mixture(sorted(greedy), len(seen.q), decision.epsilon)
    evidence = [count + weight for count, weight in zip(seen.visits, seen.borrowed, strict=True)]
    shows_bonus = decision.explore and all(evidence)
    bonuses = ucb_bonuses(evidence, decision.c * settings.width) if shows_bonus else [None] * len(evidence)
    position = {action: index for index, action in enumerate(decision.feasible)}
    actions = []
    for action in version.actions.ids:
        index = position.get(action)
        if index is None:
            reason = (decision.reasons or {}).get(action)
            actions.append(ExplainedAction(action, labels[action], feasible=False, reason=reason))
            continue
        actions.append(
            ExplainedAction(
                action,
                labels[action],
                feasible=True,
                reason=None,
                q=seen.q[index],
                visits=seen.visits[index],
                updates=seen.updates[index],
                borrowed=seen.borrowed[index],
                bonus=bonuses[index],
                greedy=index in greedy,
                probability=probabilities[index],
                chosen=action == decision.action,
            )
        )
    return tuple(actions)


def _steps(
    connection: Connection, decision: Decision, known: Mapping[int, PolicyVersion]
) -> list[LearningStep]:
    """Return the learning steps of a decision, wherever they went while one version or another was active."""
    ancestry = Ancestry(known)
    keys = []
    for number in known:
        state = ancestry.place(decision.version, decision.state, within=number)
        if state is not None:
            keys.append(CellKey(number, state, decision.action))
    steps = steps_of_decision(connection, decision.tenant, keys, decision.decision_id)
    return sorted(steps, key=lambda step: (step.created_at, step.key, step.number))
