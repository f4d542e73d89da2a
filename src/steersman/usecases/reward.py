"""Reward: record what came of a decision, and learn from it as soon as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from steersman.domain.identifiers import check_finite, check_id, check_name
from steersman.domain.records import Reward, RewardRequest
from steersman.domain.settings import PolicySettings
from steersman.errors import (
    ArchivedError,
    DecisionVoidError,
    IdReusedError,
    InvalidInputError,
    InvalidRewardError,
    NotFoundError,
    SteersmanError,
)
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.store.hot.text import Key
from steersman.store.rewards import pack_reward, reward_of
from steersman.store.seals import request_fingerprint
from steersman.usecases.learning import Learner, Pending
from steersman.usecases.scope import Scope

__all__ = ["DEFAULT_REWARD_PREFIX", "check_reward_value", "reward", "reward_many"]

DEFAULT_REWARD_PREFIX = "default:"
"""What the id of a default reward begins with, so that a late real reward is not taken for the same."""


class _Asked(NamedTuple):
    tenant: str
    decision_id: str
    value: float
    reward_id: str

    @property
    def decision_key(self) -> tuple[str, str]:
        return self.tenant, self.decision_id

    @property
    def reward_key(self) -> tuple[str, str]:
        return self.tenant, self.reward_id


def reward(
    database: Database, tenant: str, decision_id: str, value: float, *, reward_id: str | None = None
) -> Reward:
    """Record one reward and return what it did; see `reward_many` for the errors, raised here."""
    (answer,) = reward_many(database, [RewardRequest(tenant, decision_id, value, reward_id)])
    if isinstance(answer, SteersmanError):
        raise answer
    return answer


def reward_many(
    database: Database, requests: Sequence[RewardRequest], *, kind: str = "reward"
) -> list[Reward | SteersmanError]:
    """Record each of `requests` in turn, in one transaction; return a reward or an error for each, in order.

    `kind` is `reward`, or `default` for what `expire` supplies. An item that is refused leaves the others as
    they are: NotFoundError, ArchivedError, DecisionVoidError, InvalidRewardError (outside of the tenant's range, or not
    finite), IdReusedError (the reward id was used for something else). The same reward again is answered as
    before, also when it was archived since. Raises StoreError when the database cannot do it.
    """
    prepared = [_check_form(request, kind) for request in requests]
    return database.run_hot(
        lambda transaction: _reward_within(Scope(database, transaction), prepared, kind),
        tenants={item.tenant for item in prepared if isinstance(item, _Asked)},
    )


def check_reward_value(settings: PolicySettings, value: float, *, what: str) -> None:
    """Raise InvalidRewardError when `value` is outside of the reward range of `settings`."""
    if not settings.reward_low <= value <= settings.reward_high:
        raise InvalidRewardError(
            f"{what}: expected {settings.reward_low:g} to {settings.reward_high:g}, the tenant's reward range; "
            f"got {value!r}"
        )


def _check_form(request: RewardRequest, kind: str) -> _Asked | SteersmanError:
    try:
        tenant = check_name(request.tenant, what="tenant")
        decision_id = check_id(request.decision_id, what="decision_id")
        try:
            value = check_finite(request.value, what="reward")
        except InvalidInputError as error:
            raise InvalidRewardError(error.message) from None
        if kind == "default":
            return _Asked(tenant, decision_id, value, DEFAULT_REWARD_PREFIX + decision_id)
        reward_id = (
            decision_id if request.reward_id is None else check_id(request.reward_id, what="reward_id")
        )
        if reward_id.startswith(DEFAULT_REWARD_PREFIX):
            raise InvalidInputError(
                f"reward_id: expected an id that does not begin with {DEFAULT_REWARD_PREFIX!r}, got {reward_id!r}"
            )
        return _Asked(tenant, decision_id, value, reward_id)
    except SteersmanError as error:
        return error


def _reward_within(
    scope: Scope, prepared: list[_Asked | SteersmanError], kind: str
) -> list[Reward | SteersmanError]:
    asked = [item for item in prepared if isinstance(item, _Asked)]
    scope.lock_tenants(item.tenant for item in asked)
    asked = [item for item in asked if item.tenant in scope.heads]
    learner = Learner(scope, now())
    stored = _find(scope, {item.reward_key for item in asked})
    fresh = {item.decision_key for item in asked if item.reward_key not in stored}
    chains = _load(scope, learner, sorted(fresh))
    made: dict[Key, Reward] = {}
    answers: list[Reward | SteersmanError] = []
    for item in prepared:
        if isinstance(item, SteersmanError):
            answers.append(item)
            continue
        try:
            known = stored.get(item.reward_key) or made.get(item.reward_key)
            if known is not None:
                answers.append(_same_or_conflict(item, known))
                continue
            answer = _apply(scope, learner, chains, item, kind)
            made[item.reward_key] = answer
            answers.append(answer)
        except SteersmanError as error:
            answers.append(error)
    if made:
        scope.hot.insert_rewards(scope.cursor, [pack_reward(made[key]) for key in sorted(made)])
        learner.write()
    return answers


def _find(scope: Scope, keys: set[tuple[str, str]]) -> dict[Key, Reward]:
    """Return the rewards (tenant, reward id) in `keys` that are there or were archived."""
    found = {(row[0], row[1]): row for row in scope.hot.find_rewards(scope.cursor, sorted(keys))}
    archived = scope.archived_rewards(key for key in keys if key not in found)
    return {(row[0], row[1]): reward_of(row) for row in (*found.values(), *archived)}


def _load(scope: Scope, learner: Learner, keys: list[tuple[str, str]]) -> dict[Key, list[Pending]]:
    """Lock and read all that rewards of the decisions `keys` may touch; return the open chains by episode."""
    found = learner.remember(scope.hot.find_decisions(scope.cursor, keys))
    episodes = sorted({(item.tenant, item.episode) for item in found if item.episode is not None})
    chains: dict[Key, list[Pending]] = {}
    if episodes:
        locked = scope.hot.lock_episodes(scope.cursor, episodes)
        touched = [(row[3], learner.at, row[0], row[1]) for row in locked if row[2] == "open"]
        scope.hot.touch_episodes(scope.cursor, touched)
        # Only where decisions wait for their successor does a reward reach others of its episode.
        waiting = [key for key in episodes if _waits_for_successor(learner.settings(key[0]))]
        for pending in learner.remember(scope.hot.open_chains(scope.cursor, waiting)):
            if pending.status != "void":
                chains.setdefault((pending.tenant, pending.episode), []).append(pending)
        reached = [*found, *(pending for chain in chains.values() for pending in chain)]
        learner.load_rewards(item for item in reached if item.status == "open" and item.episode is not None)
    states = {pending.cell for pending in found}
    for chain in chains.values():
        states |= {pending.cell for pending in chain}
        for pending in chain[1:]:
            states |= learner.row_keys(pending)
    scope.load(states)
    if scope.hot.shares_database:
        # Another transaction may have learned from or voided these between the first look and the locks.
        learner.remember(scope.hot.find_decisions(scope.cursor, keys))
    return chains


def _waits_for_successor(settings: PolicySettings) -> bool:
    return settings.gamma > 0.0 and settings.lam == 0.0


def _apply(
    scope: Scope, learner: Learner, chains: dict[Key, list[Pending]], item: _Asked, kind: str
) -> Reward:
    scope.head(item.tenant)
    pending = learner.known.get(item.decision_key)
    if pending is None:
        if scope.archived([item.decision_key]):
            raise ArchivedError(f"decision {item.decision_id!r} of tenant {item.tenant!r} was archived")
        raise NotFoundError(f"tenant {item.tenant!r} has no decision {item.decision_id!r}")
    if pending.status == "void":
        raise DecisionVoidError(f"decision {item.decision_id!r} of tenant {item.tenant!r} was taken back")
    settings = learner.settings(item.tenant)
    check_reward_value(settings, item.value, what="reward")
    effect = "waits"
    if pending.status == "learned":
        learner.further(pending, item.value)
        effect = "further"
    else:
        pending.rewards.append(item.value)
        if pending.episode is None or settings.gamma == 0.0:
            learner.learn_one(pending, successor=None)
        elif settings.lam == 0.0:
            learner.learn_ready(chains[item.tenant, pending.episode])
        if pending.status == "learned":
            effect = "learned"
    if effect != "waits" and learner.is_parked(pending.cell):
        effect = "parked"
    return Reward(item.tenant, item.reward_id, item.decision_id, item.value, effect, kind, learner.at)


def _same_or_conflict(item: _Asked, known: Reward) -> Reward:
    if (known.decision_id, known.value) == (item.decision_id, item.value):
        return known
    raise IdReusedError(
        f"reward {item.reward_id!r} of tenant {item.tenant!r} is taken: stored {known.value!r} for decision "
        f"{known.decision_id!r}, now {item.value!r} for decision {item.decision_id!r}",
        stored_fingerprint=request_fingerprint((known.decision_id, known.value)).hex(),
        given_fingerprint=request_fingerprint((item.decision_id, item.value)).hex(),
        hint="a further reward of a decision needs a reward id of its own",
    )
