"""Learning steps as rows."""

from __future__ import annotations

from sqlalchemy import Connection, select

from steersman.domain.records import CellKey, LearningStep
from steersman.store.hot.text import Row
from steersman.store.seals import seal
from steersman.store.tables import learning_steps

__all__ = ["pack_step", "step_of", "steps_of_decision"]

_PAGE = 5000


def pack_step(step: LearningStep) -> Row:
    """Return the sealed row of a learning step."""
    columns = (
        step.tenant,
        step.key.version,
        step.key.state,
        step.key.action,
        step.number,
        step.decision_id,
        step.kind,
        step.reward,
        step.discount,
        step.bootstrap,
        step.target,
        step.step_size,
        step.created_at,
    )
    return (*columns, seal(columns))


def step_of(row: Row) -> LearningStep:
    """Return the learning step of a row."""
    (
        tenant,
        version,
        state,
        action,
        number,
        decision_id,
        kind,
        reward,
        discount,
        bootstrap,
        target,
        size,
        at,
        _,
    ) = row
    key = CellKey(version, state, action)
    return LearningStep(tenant, key, number, decision_id, kind, reward, discount, bootstrap, target, size, at)


def steps_of_decision(
    connection: Connection, tenant: str, keys: list[CellKey], decision_id: str
) -> list[LearningStep]:
    """Return the learning steps of one decision in the cells `keys` that they may have gone to."""
    found: list[LearningStep] = []
    for key in keys:
        query = select(learning_steps).where(
            learning_steps.c.tenant == tenant,
            learning_steps.c.version == key.version,
            learning_steps.c.state == key.state,
            learning_steps.c.action == key.action,
            learning_steps.c.decision_id == decision_id,
        )
        found += [step_of(tuple(row)) for row in connection.execute(query.order_by(learning_steps.c.number))]
    return found
