"""Versions: list, show, compare, freeze a copy, activate, roll back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from steersman.domain.answers import Owner
from steersman.domain.identifiers import check_id, check_name
from steersman.domain.records import Cell, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.errors import ConflictError, InvalidInputError, InvalidSpecError, NameTakenError, NotFoundError
from steersman.store import audit, cells, tenants, versions
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import Operation, name_operation
from steersman.usecases.make_version import make_version, moved_cell
from steersman.usecases.migrate import locked_tenant
from steersman.usecases.operations import VERSION, Unchanged, run_once

__all__ = [
    "VersionDetail",
    "activate",
    "find_version",
    "freeze",
    "list_versions",
    "roll_back",
    "show_version",
]

_ACTIVE = "active"  # stands for the active version, so no version can be named so
_LARGEST = 2**31 - 1  # number that every database has room for


@dataclass(frozen=True, slots=True)
class VersionDetail:
    """One version and the size of its table."""

    version: PolicyVersion
    ancestors: tuple[int, ...]  # nearest first
    cells: int  # that have a row; the others are as they opened: at their prior, or at 0
    visits: int  # summed over cells
    updates: int  # summed over cells


def list_versions(database: Database, owner: str) -> list[PolicyVersion]:
    """Return every version of a tenant, or of the base `@NAME`, oldest first; raise NotFoundError."""
    with database.snapshot() as connection:
        tenants.get_owner(connection, owner)
        return versions.list_versions(connection, owner)


def show_version(database: Database, owner: str, version: int | str | None = None) -> VersionDetail:
    """Return a version of a tenant, or of the base `@NAME`, by number or name (default: the active one).

    Raises NotFoundError.
    """
    with database.snapshot() as connection:
        found = find_version(connection, tenants.get_owner(connection, owner), version)
        line = tuple(ancestor.number for ancestor in versions.ancestors(connection, found))
        return VersionDetail(found, line, *cells.cell_totals(connection, owner, found.number))


def find_version(connection: Connection, owner: Owner, version: int | str | None) -> PolicyVersion:
    """Return a version by number or name, the active one for None or `active`.

    Raises NotFoundError, or InvalidInputError for what can be no name.
    """
    if version == _ACTIVE:
        version = None
    if isinstance(version, str):
        check_id(version, what="version")
        named = versions.find_named_version(connection, owner.tenant, version)
        if named is None:
            raise NotFoundError(f"{owner.shown} has no version named {version!r}")
        return named
    number = owner.active_version if version is None else version
    if number is None:
        missing = "it was never built" if owner.is_base else "nothing was decided"
        raise NotFoundError(f"{owner.shown} has no version yet: {missing}")
    if not 0 < number <= _LARGEST:
        raise NotFoundError(f"{owner.shown} has no version {number}")
    return versions.get_version(connection, owner.tenant, number)


def freeze(
    database: Database,
    tenant: str,
    name: str,
    *,
    version: int | str | None = None,
    operation_id: str | None = None,
    actor: str = "library",
) -> PolicyVersion:
    """Keep a copy of a version (default: the active one) under `name` that never changes, and return it.

    Under the same `operation_id` it is done once and answered as before; under another one too, while the version
    it copied is unchanged. Raises NotFoundError, TenantRetiredError, IdReusedError, InvalidInputError for a name
    that is a number or `active`, NameTakenError when the name is taken.
    """
    check_name(name, what="name")
    if name.isdigit() or name == _ACTIVE:
        raise InvalidInputError(f"name: expected no version number and not {_ACTIVE!r}, got {name!r}")
    if version == _ACTIVE:
        version = None
    operation = name_operation("freeze", operation_id, name=name, version=version)

    def work(connection: Connection) -> PolicyVersion | Unchanged[PolicyVersion]:
        owner = locked_tenant(connection, tenant)
        source = find_version(connection, owner, version)
        taken = versions.find_named_version(connection, tenant, name)
        if taken is not None:
            return Unchanged(_same_copy(connection, source, taken))
        copy = _copy(connection, owner, source, operation, frozen_as=name)
        detail = {"name": name, "version": copy.number, "of": source.number}
        audit.write_line(connection, tenant, actor=actor, verb="freeze", detail=detail)
        return copy

    return run_once(database, tenant, operation, VERSION, work)


def activate(
    database: Database,
    tenant: str,
    version: int | str,
    *,
    operation_id: str | None = None,
    actor: str = "library",
) -> PolicyVersion:
    """Make a copy of a version, by number or name, the active one and return it; the active one itself stays.

    Its catalogue, states and settings become those that the tenant declares. Under the same `operation_id` it is
    done once and answered as before. Raises NotFoundError, TenantRetiredError, IdReusedError, or InvalidSpecError
    when the rest of the declaration does not go with them.
    """
    operation = name_operation("activate", operation_id, version=version)

    def work(connection: Connection) -> PolicyVersion | Unchanged[PolicyVersion]:
        owner = locked_tenant(connection, tenant)
        target = find_version(connection, owner, version)
        return _restore(connection, owner, target, operation, actor=actor)

    return run_once(database, tenant, operation, VERSION, work)


def roll_back(
    database: Database,
    tenant: str,
    *,
    to: int | str | None = None,
    operation_id: str | None = None,
    actor: str = "library",
) -> PolicyVersion:
    """Activate the parent of the active version, or its ancestor `to`; see `activate`.

    Raises ConflictError when there is no parent, or `to` is no ancestor, besides the errors of `activate`.
    """
    operation = name_operation("roll_back", operation_id, to=to)

    def work(connection: Connection) -> PolicyVersion | Unchanged[PolicyVersion]:
        owner = locked_tenant(connection, tenant)
        active = find_version(connection, owner, None)
        line = versions.ancestors(connection, active)
        if not line:
            raise ConflictError(
                f"version {active.number} of tenant {tenant!r} has no ancestor to roll back to"
            )
        target = line[0] if to is None else find_version(connection, owner, to)
        if target.number not in {ancestor.number for ancestor in line}:
            raise ConflictError(
                f"expected an ancestor of version {active.number} of tenant {tenant!r}: "
                f"{[ancestor.number for ancestor in line]}, got {target.number}",
                hint="activate takes any version",
            )
        return _restore(connection, owner, target, operation, actor=actor)

    return run_once(database, tenant, operation, VERSION, work)


def _same_copy(connection: Connection, source: PolicyVersion, taken: PolicyVersion) -> PolicyVersion:
    if taken.parent == source.number and cells.same_cells(
        connection, taken.tenant, source.number, taken.number
    ):
        return taken
    raise NameTakenError(
        f"the name {taken.name!r} of tenant {taken.tenant!r} is taken by version {taken.number}, a copy of version "
        f"{taken.parent}, which is not what version {source.number} holds now",
        hint="choose another name",
    )


def _restore(
    connection: Connection, owner: Owner, target: PolicyVersion, operation: Operation, *, actor: str
) -> PolicyVersion | Unchanged[PolicyVersion]:
    if target.number == owner.active_version:
        return Unchanged(target)
    spec = _declaration_of(connection, owner, target)
    tenants.set_spec(connection, owner.tenant, spec)
    copy = _copy(connection, owner, target, operation)
    detail = {
        "version": copy.number,
        "of": target.number,
        "instead_of": owner.active_version,
        "before": owner.spec.to_json(),
        "after": spec.to_json(),
    }
    audit.write_line(connection, owner.tenant, actor=actor, verb=operation.verb, detail=detail)
    return copy


def _declaration_of(connection: Connection, owner: Owner, target: PolicyVersion) -> TenantSpec:
    """Return the tenant's declaration with the catalogue, states and settings of `target`."""
    labels: dict[str, str] = {}
    for version in versions.list_versions(connection, owner.tenant):
        labels |= version.provenance.get("retired_labels", {})
    labels |= dict(zip(owner.spec.actions.ids, owner.spec.labels, strict=True))
    try:
        return replace(
            owner.spec,
            actions=target.actions,
            labels=tuple(labels.get(action, action) for action in target.actions.ids),
            states=target.states,
            settings=target.settings,
        )
    except InvalidSpecError as error:
        raise InvalidSpecError(
            error.message,
            where=f"version {target.number} of tenant {owner.tenant!r}",
            hint="change the declaration first: without default_reward and reward_wait it fits every version",
        ) from None


def _copy(
    connection: Connection,
    owner: Owner,
    source: PolicyVersion,
    operation: Operation,
    *,
    frozen_as: str | None = None,
) -> PolicyVersion:
    def copied() -> Iterator[Cell]:
        for cell in cells.iterate_cells(connection, owner.tenant, source.number):
            yield moved_cell(cell, state=cell.key.state)

    return make_version(
        connection,
        owner,
        operation_id=operation.operation_id,
        origin="restored",
        states=source.states,
        actions=source.actions,
        settings=source.settings,
        opening=copied,
        parent=source.number,
        provenance={"copy_of": source.number},
        frozen_as=frozen_as,
    )
