"""The library: one object with every verb, over one database."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from steersman.domain.answers import (
    ApiKey,
    AuditLine,
    BaseBuild,
    Checkup,
    Episode,
    EpisodeDetail,
    Erased,
    Expired,
    Explanation,
    IssuedKey,
    LearnedTable,
    MigrationPlan,
    Owner,
    Refresh,
    Verification,
)
from steersman.domain.episode import OpenEpisode
from steersman.domain.records import (
    ClosedEpisode,
    CloseRequest,
    DecideRequest,
    Decision,
    PolicyVersion,
    Reward,
    RewardRequest,
)
from steersman.domain.settings import TenantSpec
from steersman.domain.states import State
from steersman.errors import SteersmanError
from steersman.settings import Settings
from steersman.store.archive import ArchiveFile
from steersman.store.engine import Database
from steersman.usecases.apply import Applied, apply_file
from steersman.usecases.archive import Archived, archive, list_archive
from steersman.usecases.audit import export_audit
from steersman.usecases.bases import build_base, create_base, refresh
from steersman.usecases.close_episode import close_episode, close_many
from steersman.usecases.decide import decide, decide_many
from steersman.usecases.doctor import doctor
from steersman.usecases.episodes import list_episodes, show_episode
from steersman.usecases.expire import expire
from steersman.usecases.explain import explain, list_decisions
from steersman.usecases.export import Exported, export
from steersman.usecases.import_table import Imported, import_table
from steersman.usecases.keys import SCOPES, create_key, list_keys, revoke_key, rotate_key
from steersman.usecases.reward import reward, reward_many
from steersman.usecases.show import show
from steersman.usecases.tenants import (
    audit_trail,
    change_tenant,
    create_tenant,
    erase,
    list_tenants,
    retire,
    show_tenant,
)
from steersman.usecases.verify import verify
from steersman.usecases.versions import activate, freeze, list_versions, roll_back
from steersman.usecases.void import void

__all__ = ["Steersman"]


class Steersman:
    """Decide, reward, close: the same verbs as the command line, over one database; safe to share among threads."""

    def __init__(self, database: Database) -> None:
        """Take an open database; `Steersman.open` opens one."""
        self.database = database

    @classmethod
    def open(cls, url: str | os.PathLike[str] | None = None, *, settings: Settings | None = None) -> Self:
        """Open the database at `url`: a file, `sqlite:///file` or `postgresql://...` (default: the settings').

        Raises UnsupportedStoreError, SchemaError, StoreUnavailableError or MissingExtraError.
        """
        return cls(Database.open(None if url is None else os.fspath(url), settings=settings))

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

    def create_tenant(
        self,
        tenant: str,
        declaration: TenantSpec | Mapping[str, Any],
        *,
        operation_id: str | None = None,
    ) -> Owner:
        """Create a tenant; see `steersman.usecases.tenants.create_tenant`."""
        return create_tenant(self.database, tenant, declaration, operation_id=operation_id)

    def change_tenant(
        self,
        tenant: str,
        changes: Mapping[str, Any],
        *,
        dry_run: bool = False,
        operation_id: str | None = None,
    ) -> MigrationPlan:
        """Change parts of a declaration, learning moves along; see `steersman.usecases.tenants.change_tenant`."""
        return change_tenant(self.database, tenant, changes, dry_run=dry_run, operation_id=operation_id)

    def show_tenant(self, tenant: str) -> Owner:
        """Return one tenant; see `steersman.usecases.tenants.show_tenant`."""
        return show_tenant(self.database, tenant)

    def list_tenants(self) -> list[Owner]:
        """Return every tenant, by id."""
        return list_tenants(self.database)

    def retire_tenant(self, tenant: str, *, operation_id: str | None = None) -> Owner:
        """Retire a tenant; see `steersman.usecases.tenants.retire`."""
        return retire(self.database, tenant, operation_id=operation_id)

    def export_tenant(self, tenant: str, path: str | os.PathLike[str]) -> Exported:
        """Write everything of a tenant to a new file; see `steersman.usecases.export.export`."""
        return export(self.database, tenant, Path(path))

    def export_audit(self, tenant: str, path: str | os.PathLike[str]) -> Exported:
        """Write who changed what of a tenant to a new file; see `steersman.usecases.audit.export_audit`."""
        return export_audit(self.database, tenant, Path(path))

    def erase_tenant(self, tenant: str, *, operation_id: str | None = None) -> Erased:
        """Erase every row of a tenant; see `steersman.usecases.tenants.erase`."""
        return erase(self.database, tenant, operation_id=operation_id)

    def apply(self, path: str | os.PathLike[str], *, operation_id: str | None = None) -> list[Applied]:
        """Create and change what a YAML or TOML file declares; see `steersman.usecases.apply.apply_file`."""
        return apply_file(self.database, Path(path), operation_id=operation_id)

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

    def episode(self, tenant: str, episode: str) -> OpenEpisode:
        """Return an episode for a `with` block, whose end closes it with the `outcome` that it was given."""
        return OpenEpisode(tenant, episode, decide=self.decide, reward=self.reward, close=self.close_episode)

    def void(self, tenant: str, decision_id: str) -> Decision:
        """Take a decision back; see `steersman.usecases.void.void`."""
        return void(self.database, tenant, decision_id)

    def expire(self, tenant: str) -> Expired:
        """Settle what has waited too long for its reward; see `steersman.usecases.expire.expire`."""
        return expire(self.database, tenant)

    def list_versions(self, tenant: str) -> list[PolicyVersion]:
        """Return every version, oldest first; see `steersman.usecases.versions.list_versions`."""
        return list_versions(self.database, tenant)

    def freeze(
        self,
        tenant: str,
        name: str,
        *,
        version: int | str | None = None,
        operation_id: str | None = None,
    ) -> PolicyVersion:
        """Keep a copy of a version under a name; see `steersman.usecases.versions.freeze`."""
        return freeze(self.database, tenant, name, version=version, operation_id=operation_id)

    def activate(self, tenant: str, version: int | str, *, operation_id: str | None = None) -> PolicyVersion:
        """Make a copy of a version the active one; see `steersman.usecases.versions.activate`."""
        return activate(self.database, tenant, version, operation_id=operation_id)

    def roll_back(
        self, tenant: str, *, to: int | str | None = None, operation_id: str | None = None
    ) -> PolicyVersion:
        """Go back to an earlier version; see `steersman.usecases.versions.roll_back`."""
        return roll_back(self.database, tenant, to=to, operation_id=operation_id)

    def import_table(
        self, tenant: str, path: str | os.PathLike[str], *, operation_id: str | None = None
    ) -> Imported:
        """Make a version of a table that was learned elsewhere; see `steersman.usecases.import_table.import_table`."""
        return import_table(self.database, tenant, Path(path), operation_id=operation_id)

    def create_base(
        self, base: str, declaration: TenantSpec | Mapping[str, Any], *, operation_id: str | None = None
    ) -> Owner:
        """Create a base; see `steersman.usecases.bases.create_base`."""
        return create_base(self.database, base, declaration, operation_id=operation_id)

    def build_base(self, base: str, *, operation_id: str | None = None) -> BaseBuild:
        """Merge what the contributing tenants learned; see `steersman.usecases.bases.build_base`."""
        return build_base(self.database, base, operation_id=operation_id)

    def refresh(self, tenant: str, *, operation_id: str | None = None) -> Refresh:
        """Let a tenant borrow anew from its base; see `steersman.usecases.bases.refresh`."""
        return refresh(self.database, tenant, operation_id=operation_id)

    def archive(self, tenant: str, *, older_than: float, output: str | os.PathLike[str]) -> Archived:
        """Move old decisions to Parquet files; see `steersman.usecases.archive.archive`."""
        return archive(self.database, tenant, older_than=older_than, output=Path(output))

    def list_archive(self, tenant: str) -> list[ArchiveFile]:
        """Return the files of a tenant's archive; see `steersman.usecases.archive.list_archive`."""
        return list_archive(self.database, tenant)

    def create_key(
        self,
        tenant: str | None,
        *,
        name: str,
        scopes: Collection[str] = SCOPES,
        operation_id: str | None = None,
    ) -> IssuedKey:
        """Create a key of a tenant, or with None of an operator; see `steersman.usecases.keys.create_key`."""
        return create_key(self.database, tenant=tenant, name=name, scopes=scopes, operation_id=operation_id)

    def list_keys(self, tenant: str | None) -> list[ApiKey]:
        """Return the keys of a tenant, or with None those of operators; see `steersman.usecases.keys.list_keys`."""
        return list_keys(self.database, tenant)

    def revoke_key(self, key_id: str, *, operation_id: str | None = None) -> ApiKey:
        """Let a key open nothing from now on; see `steersman.usecases.keys.revoke_key`."""
        return revoke_key(self.database, key_id, operation_id=operation_id)

    def rotate_key(self, key_id: str, *, overlap: float = 0.0, operation_id: str | None = None) -> IssuedKey:
        """Create a key that takes over from another; see `steersman.usecases.keys.rotate_key`."""
        return rotate_key(self.database, key_id, overlap=overlap, operation_id=operation_id)

    def verify(self, tenant: str | None = None) -> Verification:
        """Recompute the logbook; see `steersman.usecases.verify.verify`."""
        return verify(self.database, tenant)

    def doctor(self, tenant: str | None = None) -> Checkup:
        """Say what goes wrong quietly; see `steersman.usecases.doctor.doctor`."""
        return doctor(self.database, tenant)

    def explain(self, tenant: str, decision_id: str) -> Explanation:
        """Return why a decision was made; see `steersman.usecases.explain.explain`."""
        return explain(self.database, tenant, decision_id)

    def list_decisions(
        self,
        tenant: str,
        *,
        episode: str | None = None,
        status: Literal["open", "learned", "void"] | None = None,
        metadata: Mapping[str, Any] | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Decision]:
        """Return decisions, newest first, a page at a time; see `steersman.usecases.explain.list_decisions`."""
        return list_decisions(
            self.database,
            tenant,
            episode=episode,
            status=status,
            metadata=metadata,
            after=after,
            limit=limit,
        )

    def list_episodes(
        self,
        tenant: str,
        *,
        status: Literal["open", "closed"] | None = None,
        after: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> list[Episode]:
        """Return episodes, the latest touched first; see `steersman.usecases.episodes.list_episodes`."""
        return list_episodes(self.database, tenant, status=status, after=after, limit=limit)

    def show_episode(self, tenant: str, episode: str) -> EpisodeDetail:
        """Return one episode and its decisions; see `steersman.usecases.episodes.show_episode`."""
        return show_episode(self.database, tenant, episode)

    def list_audit(self, owner: str, *, after: str | None = None, limit: int = 100) -> list[AuditLine]:
        """Return who changed what, newest first; see `steersman.usecases.tenants.audit_trail`."""
        return audit_trail(self.database, owner, after=after, limit=limit)

    def show(self, tenant: str, *, version: int | str | None = None, limit: int = 20) -> LearnedTable:
        """Return what was learned, for reading; see `steersman.usecases.show.show`."""
        return show(self.database, tenant, version=version, limit=limit)
