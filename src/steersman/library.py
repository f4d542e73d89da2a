"""The library: one object with every verb, over one database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from steersman.domain.records import (
    ClosedEpisode,
    CloseRequest,
    DecideRequest,
    Decision,
    Reward,
    RewardRequest,
)
from steersman.domain.settings import TenantSpec
from steersman.domain.states import State
from steersman.errors import SteersmanError
from steersman.settings import Settings
from steersman.store.engine import Database
from steersman.store.tenants import Owner
from steersman.usecases.close_episode import close_episode, close_many
from steersman.usecases.decide import decide, decide_many
from steersman.usecases.expire import Expired, expire
from steersman.usecases.reward import reward, reward_many
from steersman.usecases.tenants import create_tenant
from steersman.usecases.void import void

__all__ = ["Steersman"]


class Steersman:
    """Decide, reward, close: the same verbs as the command line, over one database; safe to share among threads."""

    def __init__(self, database: Database) -> None:
        """Take an open database; `Steersman.open` opens one."""
        self.database = database

    @classmethod
    def open(cls, url: str | None = None, *, settings: Settings | None = None) -> Self:
        """Open the database at `url`: a file, `sqlite:///file` or `postgresql://...` (default: the settings').

        Raises UnsupportedStoreError, SchemaError, StoreUnavailableError or MissingExtraError.
        """
        return cls(Database.open(url, settings=settings))

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    def __enter__(self) -> Self:
        """Return the library itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        self.close()

    def create_tenant(self, tenant: str, declaration: TenantSpec | Mapping[str, Any]) -> Owner:
        """Create a tenant; see `steersman.usecases.tenants.create_tenant`."""
        return create_tenant(self.database, tenant, declaration)

    def decide(
        self,
        tenant: str,
        state: State,
        *,
        feasible: Sequence[str | int] | None = None,
        episode: str | None = None,
        decision_id: str | None = None,
        explore: bool = True,
        metadata: Mapping[str, Any] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> Decision:
        """Return one decision; see `steersman.usecases.decide.decide`."""
        return decide(
            self.database,
            tenant,
            state,
            feasible=feasible,
            episode=episode,
            decision_id=decision_id,
            explore=explore,
            metadata=metadata,
            reasons=reasons,
        )

    def decide_many(self, requests: Sequence[DecideRequest]) -> list[Decision | SteersmanError]:
        """Decide a list in one transaction; see `steersman.usecases.decide.decide_many`."""
        return decide_many(self.database, requests)

    def reward(self, tenant: str, decision_id: str, value: float, *, reward_id: str | None = None) -> Reward:
        """Record one reward; see `steersman.usecases.reward.reward`."""
        return reward(self.database, tenant, decision_id, value, reward_id=reward_id)

    def reward_many(self, requests: Sequence[RewardRequest]) -> list[Reward | SteersmanError]:
        """Record a list of rewards in one transaction; see `steersman.usecases.reward.reward_many`."""
        return reward_many(self.database, requests)

    def close_episode(self, tenant: str, episode: str, outcome: float | None = None) -> ClosedEpisode:
        """Close one episode; see `steersman.usecases.close_episode.close_episode`."""
        return close_episode(self.database, tenant, episode, outcome)

    def close_many(self, requests: Sequence[CloseRequest]) -> list[ClosedEpisode | SteersmanError]:
        """Close a list of episodes in one transaction; see `steersman.usecases.close_episode.close_many`."""
        return close_many(self.database, requests)

    def void(self, tenant: str, decision_id: str) -> Decision:
        """Take a decision back; see `steersman.usecases.void.void`."""
        return void(self.database, tenant, decision_id)

    def expire(self, tenant: str) -> Expired:
        """Settle what has waited too long for its reward; see `steersman.usecases.expire.expire`."""
        return expire(self.database, tenant)
