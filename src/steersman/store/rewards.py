"""Rewards as rows."""

from __future__ import annotations

from sqlalchemy import Connection, select

from steersman.domain.records import Reward
from steersman.store.hot.text import Row
from steersman.store.seals import seal
from steersman.store.tables import rewards

__all__ = ["pack_reward", "reward_of", "rewards_of_decision"]


def pack_reward(reward: Reward) -> Row:
    """Return the sealed row of a reward."""
    columns = (
        reward.tenant,
        reward.reward_id,
        reward.decision_id,
        reward.value,
        reward.kind,
        reward.effect,
        reward.created_at,
    )
    return (*columns, seal(columns))


def reward_of(row: Row) -> Reward:
    """Return the reward of a row."""
    tenant, reward_id, decision_id, value, kind, effect, created_at, _ = row
    return Reward(tenant, reward_id, decision_id, value, effect, kind, created_at)


def rewards_of_decision(connection: Connection, tenant: str, decision_id: str) -> list[Reward]:
    """Return the rewards of one decision, oldest first."""
    query = (
        select(rewards)
        .where(rewards.c.tenant == tenant, rewards.c.decision_id == decision_id)
        .order_by(rewards.c.created_at, rewards.c.reward_id)
    )
    return [reward_of(tuple(row)) for row in connection.execute(query)]
