"""A COMMIT whose answer is lost: the same call is tried again, finds its own work and tells what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steersman.library import Steersman
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.apply import apply_file
from steersman.usecases.bases import build_base, create_base, refresh
from steersman.usecases.import_table import import_table
from steersman.usecases.migrate import migrate
from steersman.usecases.tenants import audit_trail, create_tenant, erase, list_tenants, retire, show_tenant
from steersman.usecases.versions import activate, freeze, list_versions, roll_back

T = TypeVar("T")
DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2, "base": "base", "contributes": True}


class LosingCommits(Database):
    """Commits each transaction, loses the answer, and does it again."""

    def run(self, work: Callable[[Connection], T]) -> T:
        with self.transaction() as connection:
            work(connection)
        return super().run(work)


@pytest.fixture
def losing(store_url: str) -> Iterator[LosingCommits]:
    """A database with a tenant of two versions; what was learned differs between them."""
    sound = Database.open(store_url, upgrade=True)
    create_base(sound, "base", {"actions": ["hold", "trade"], "states": 2})
    library = Steersman(sound)
    library.create_tenant("t", DECLARED)
    for action, value in (("hold", 0.5), ("trade", 0.25)):
        library.reward("t", library.decide("t", 0, feasible=[action]).decision_id, value)
        migrate(sound, "t", DECLARED | {"states": 3})
    yield LosingCommits(sound.engine, sound.settings)
    sound.close()


def numbers(database: Database, owner: str) -> list[int]:
    return [version.number for version in list_versions(database, owner)]


def test_a_migration_is_made_once(losing: LosingCommits) -> None:
    plan = migrate(losing, "t", DECLARED | {"states": 4})
    assert (plan.version, plan.changed, plan.cells.kept.count) == (3, ("states",), 2)
    assert numbers(losing, "t") == [1, 2, 3]
    assert [line.verb for line in audit_trail(losing, "t")] == ["change", "change", "start", "create"]


def test_versions_are_frozen_and_restored_once(losing: LosingCommits) -> None:
    assert freeze(losing, "t", "then").number == 3
    assert activate(losing, "t", 1).number == 4
    assert roll_back(losing, "t").number == 5
    assert [version.parent for version in list_versions(losing, "t")] == [None, 1, 2, 1, 1]
    assert [line.verb for line in audit_trail(losing, "t")[:3]] == ["roll_back", "activate", "freeze"]


def test_a_base_is_created_once(losing: LosingCommits) -> None:
    assert create_base(losing, "other", {"actions": ["x"], "states": 1}).spec.states.size == 1
    assert [line.verb for line in audit_trail(losing, "@other")] == ["create"]


def test_a_base_is_built_and_borrowed_from_once(losing: LosingCommits) -> None:
    built = build_base(losing, "base")
    assert (built.version, built.cells) == (1, 2)
    assert numbers(losing, "@base") == [1]
    create_tenant(losing, "u", DECLARED | {"base": None, "contributes": False})
    Steersman(losing).decide("u", 0, decision_id="d", feasible=["hold"])
    migrate(losing, "u", DECLARED)
    done = refresh(losing, "u")
    assert (done.version, done.made, done.borrowed) == (2, True, 1)
    assert numbers(losing, "u") == [1, 2]


def test_a_table_is_imported_once(losing: LosingCommits, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("state,action,q\n0,hold,1\n")
    assert import_table(losing, "t", tmp_path / "table.csv").version == 3
    assert numbers(losing, "t") == [1, 2, 3]


def test_a_tenant_is_created_retired_and_erased_once(losing: LosingCommits) -> None:
    create_tenant(losing, "u", DECLARED)
    assert show_tenant(losing, "u").spec.actions.ids == ("hold", "trade")
    assert retire(losing, "u").status == "retired"
    assert erase(losing, "u").rows["audit"] == 2
    assert [line.verb for line in audit_trail(losing, "u")] == ["erase"]


def test_a_file_is_applied_once(losing: LosingCommits, tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("tenants: {t: {actions: [hold], states: 3}, u: {actions: [x], states: 1}}")
    apply_file(losing, path)
    assert [owner.tenant for owner in list_tenants(losing)] == ["t", "u"]
    assert numbers(losing, "t") == [1, 2, 3]
    assert [line.verb for line in audit_trail(losing, "u")] == ["create"]
