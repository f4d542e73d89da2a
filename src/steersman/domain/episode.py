"""An episode as a block of code: what is decided in the block belongs to it, and its end closes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from steersman.domain.records import ClosedEpisode, Decision, Reward
from steersman.domain.states import State

__all__ = ["EpisodeVerbs", "OpenEpisode"]

_D = TypeVar("_D")
_R = TypeVar("_R")


class EpisodeVerbs(Generic[_D, _R]):
    """The verbs of one episode; `_D` and `_R` are a decision and a reward, or what is awaited for them."""

    def __init__(
        self, tenant: str, episode: str, *, decide: Callable[..., _D], reward: Callable[..., _R]
    ) -> None:
        """Take the verbs that name a tenant and an episode."""
        self.tenant = tenant
        self.episode = episode
        self.outcome: float | None = None  # the reward that the close adds to the last decision
        self.closed: ClosedEpisode | None = None  # the answer of the close, once there is one
        self._decide = decide
        self._reward = reward

    def decide(
        self,
        state: State,
        *,
        feasible: Sequence[str | int] | None = None,
        decision_id: str | None = None,
        explore: bool = True,
        metadata: Mapping[str, Any] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> _D:
        """Return the next decision of the episode; see `decide`."""
        return self._decide(
            self.tenant,
            state,
            feasible=feasible,
            episode=self.episode,
            decision_id=decision_id,
            explore=explore,
            metadata=metadata,
            reasons=reasons,
        )

    def reward(self, decision_id: str, value: float, *, reward_id: str | None = None) -> _R:
        """Record what came of a decision before the end of the episode; see `reward`."""
        return self._reward(self.tenant, decision_id, value, reward_id=reward_id)


class OpenEpisode(EpisodeVerbs[Decision, Reward]):
    """An episode that the end of a `with` block closes with its `outcome`; an exception leaves it open."""

    def __init__(
        self,
        tenant: str,
        episode: str,
        *,
        decide: Callable[..., Decision],
        reward: Callable[..., Reward],
        close: Callable[[str, str, float | None], ClosedEpisode],
    ) -> None:
        """Take the verbs that name a tenant and an episode."""
        super().__init__(tenant, episode, decide=decide, reward=reward)
        self._close = close

    def __enter__(self) -> Self:
        """Return the episode; its first decide opens it, or it is gone on with."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the episode unless an exception ends the block; raises what `close_episode` does."""
        if kind is None:
            self.closed = self._close(self.tenant, self.episode, self.outcome)
