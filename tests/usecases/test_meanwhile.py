"""What is read from a snapshot or a file first is written only if nothing it rests on has changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from steersman.errors import TenantRetiredError
from steersman.library import Steersman
from steersman.store.cells import iterate_cells
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.bases import build_base, change_base, create_base
from steersman.usecases.import_table import import_table
from steersman.usecases.migrate import migrate
from steersman.usecases.tenants import retire
from steersman.usecases.versions import list_versions

T = TypeVar("T")


class Interrupted(Database):
    """Lets something else happen once, before its first transaction."""

    def __init__(self, sound: Database, happening: Callable[[], object]) -> None:
        super().__init__(sound.engine, sound.settings)
        self.happenings = [happening]

    def run(self, work: Callable[[Connection], T]) -> T:
        while self.happenings:
            self.happenings.pop()()
        return super().run(work)


@pytest.fixture
def library(store_url: str) -> Iterator[Steersman]:
    """A base, and a tenant that has learned hold = 0.5 in state 1."""
    with Steersman.open(store_url) as library:
        create_base(library.database, "base", {"actions": ["hold"], "states": 2})
        library.create_tenant(
            "t", {"actions": ["hold", "trade"], "states": 2, "base": "base", "contributes": True}
        )
        library.reward("t", library.decide("t", 1, feasible=["hold"]).decision_id, 0.5)
        yield library


def test_a_base_that_is_declared_anew_meanwhile_is_merged_anew(library: Steersman) -> None:
    sound = library.database
    database = Interrupted(
        sound, lambda: change_base(sound, "base", {"actions": ["trade", "hold"], "states": 1})
    )
    built = build_base(database, "base")
    assert (built.version, built.cells) == (1, 0)  # state 1 has no place any more


def test_a_base_that_is_built_meanwhile_is_built_again_with_what_is_known_now(library: Steersman) -> None:
    sound = library.database

    def learn_and_build() -> None:
        library.reward("t", library.decide("t", 1, feasible=["hold"]).decision_id, 1.0)
        build_base(sound, "base")

    assert build_base(Interrupted(sound, learn_and_build), "base").version == 2
    with sound.snapshot() as connection:
        assert [cell.q for cell in iterate_cells(connection, "@base", 2)] == [0.75]


def test_a_table_is_read_again_by_a_catalogue_that_changed_meanwhile(
    library: Steersman, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("state,action,q\n0,trade,1\n0,bluff,0.5\n1,hold,0.25\n")
    sound = library.database
    database = Interrupted(sound, lambda: migrate(sound, "t", {"actions": ["bluff", "hold"], "states": 1}))
    done = import_table(database, "t", path)
    assert (done.version, done.cells, done.unknown_states, done.unknown_actions) == (3, 1, 1, 1)
    version = list_versions(sound, "t")[-1]
    assert (version.parent, version.actions.ids) == (2, ("bluff", "hold"))
    with sound.snapshot() as connection:
        assert [(cell.key.action, cell.q) for cell in iterate_cells(connection, "t", 3)] == [("bluff", 0.5)]


def test_a_tenant_that_retires_meanwhile_imports_nothing(library: Steersman, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("state,action,q\n0,hold,1\n")
    sound = library.database
    with pytest.raises(TenantRetiredError):
        import_table(Interrupted(sound, lambda: retire(sound, "t")), "t", path)
    assert len(list_versions(sound, "t")) == 1
