"""Close an episode: add its outcome to the last decision and learn what is still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from steersman.domain.answers import Episode
from steersman.domain.identifiers import check_finite, check_id, check_name
from steersman.domain.records import ClosedEpisode, CloseRequest
from steersman.errors import (
    IdReusedError,
    InvalidInputError,
    InvalidRewardError,
    NotFoundError,
    SteersmanError,
)
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.store.episodes import episode_of
from steersman.store.hot.text import Key, Row
from steersman.store.seals import request_fingerprint
from steersman.usecases.learning import Learner, Pending
from steersman.usecases.reward import check_reward_value
from steersman.usecases.scope import Scope

__all__ = ["close_episode", "close_many"]


def close_episode(
    database: Database, tenant: str, episode: str, outcome: float | None = None
) -> ClosedEpisode:
    """Close one episode and return what was learned; see `close_many` for the errors, raised here."""
    (answer,) = close_many(database, [CloseRequest(tenant, episode, outcome)])
    if isinstance(answer, SteersmanError):
        raise answer
    return answer


def close_many(
    database: Database, requests: Sequence[CloseRequest], *, kind: str = "close"
) -> list[ClosedEpisode | SteersmanError]:
    """Close each of `requests` in turn, in one transaction; return a closed episode or an error for each.

    `kind` is `close`, or `default` for what `expire` closes. An item that is refused leaves the others as they
    are: NotFoundError, InvalidRewardError (the outcome is outside of the tenant's range, or not finite),
    IdReusedError (closed before with another outcome). The same close again is answered as before.
    Raises StoreError when the database cannot do it.
    """
    prepared = [_check_form(request) for request in requests]
    return database.run_hot(
        lambda transaction: _close_within(Scope(database, transaction), prepared, kind),
        tenants={item.tenant for item in prepared if isinstance(item, CloseRequest)},
    )


def _check_form(request: CloseRequest) -> CloseRequest | SteersmanError:
    try:
        tenant = check_name(request.tenant, what="tenant")
        episode = check_id(request.episode, what="episode")
        if request.outcome is None:
            return CloseRequest(tenant, episode)
        try:
            return CloseRequest(tenant, episode, check_finite(request.outcome, what="outcome"))
        except InvalidInputError as error:
            raise InvalidRewardError(error.message) from None
    except SteersmanError as error:
        return error


def _close_within(
    scope: Scope, prepared: list[CloseRequest | SteersmanError], kind: str
) -> list[ClosedEpisode | SteersmanError]:
    asked = [item for item in prepared if isinstance(item, CloseRequest)]
    scope.lock_tenants(item.tenant for item in asked)
    keys = sorted({(item.tenant, item.episode) for item in asked if item.tenant in scope.heads})
    episodes = {(row[0], row[1]): episode_of(row) for row in scope.hot.lock_episodes(scope.cursor, keys)}
    learner = Learner(scope, now())
    chains = _load(scope, learner, [key for key in keys if key in episodes and episodes[key].closed is None])
    closing = _Closing(learner, episodes, chains, kind)
    answers: list[ClosedEpisode | SteersmanError] = []
    for item in prepared:
        if isinstance(item, SteersmanError):
            answers.append(item)
            continue
        try:
            answers.append(closing.close(item))
        except SteersmanError as error:
            answers.append(error)
    if closing.closed:
        rows: list[Row] = [
            (item.outcome, item.kind, item.decisions, item.learned, item.closed_at, *key)
            for key, item in sorted(closing.closed.items())
        ]
        scope.hot.close_episodes(scope.cursor, rows)
        learner.write()
    return answers


def _load(scope: Scope, learner: Learner, keys: list[tuple[str, str]]) -> dict[Key, list[Pending]]:
    """Lock and read all that closing the open episodes `keys` may touch; return their chains without the voided."""
    chains: dict[Key, list[Pending]] = {key: [] for key in keys}
    for pending in learner.remember(scope.hot.whole_chains(scope.cursor, keys)):
        if pending.status != "void":
            chains[pending.tenant, pending.episode].append(pending)
    learner.load_rewards(pending for chain in chains.values() for pending in chain)
    states = set()
    for chain in chains.values():
        states |= {pending.cell for pending in chain}
        for pending in chain[1:]:
            states |= learner.row_keys(pending)
    scope.load(states)
    return chains


@dataclass(slots=True)
class _Closing:
    """The closes of one transaction."""

    learner: Learner
    episodes: dict[Key, Episode]
    chains: dict[Key, list[Pending]]
    kind: str
    closed: dict[Key, ClosedEpisode] = field(default_factory=dict)

    def close(self, item: CloseRequest) -> ClosedEpisode:
        key = (item.tenant, item.episode)
        self.learner.scope.head(item.tenant)
        episode = self.episodes.get(key)
        if episode is None:
            raise NotFoundError(f"tenant {item.tenant!r} has no episode {item.episode!r}")
        known = episode.closed or self.closed.get(key)
        if known is not None:
            return _same_or_conflict(item, known)
        if item.outcome is not None:
            check_reward_value(self.learner.settings(item.tenant), item.outcome, what="outcome")
        chain = self.chains[key]
        learned = self.learner.learn_rest(chain, item.outcome)
        answer = ClosedEpisode(*key, item.outcome, len(chain), learned, self.kind, self.learner.at)
        self.closed[key] = answer
        return answer


def _same_or_conflict(item: CloseRequest, known: ClosedEpisode) -> ClosedEpisode:
    if known.outcome == item.outcome:
        return known
    raise IdReusedError(
        f"episode {item.episode!r} of tenant {item.tenant!r} is closed: stored outcome {known.outcome!r}, "
        f"now {item.outcome!r}",
        stored_fingerprint=request_fingerprint((known.outcome,)).hex(),
        given_fingerprint=request_fingerprint((item.outcome,)).hex(),
    )
