"""Tenants that change in every way while they decide and learn: the books stay right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sqlalchemy import func, select

from steersman.errors import ConflictError, InvalidInputError, NotFoundError
from steersman.library import Steersman
from steersman.store.tables import cells
from steersman.usecases.bases import build_base, change_base, create_base, refresh
from steersman.usecases.import_table import import_table
from steersman.usecases.tenants import change_tenant
from steersman.usecases.verify import verify
from steersman.usecases.versions import activate, freeze, list_versions, roll_back
from tests.support.workload import TENANTS, Load

CATALOGUES = [["a", "b", "c"], ["c", "a"], ["b", "d", "a"], ["a", "b", "c", "d"]]
SIZES = [3, 2, 5]


class Changes:
    """One random change after the other."""

    def __init__(self, library: Steersman, pick: random.Random, folder: Path) -> None:
        self.database = library.database
        self.pick = pick
        self.table = folder / "table.csv"
        create_base(self.database, "base", {"actions": CATALOGUES[-1], "states": 4})
        self.refused = 0

    def make(self) -> None:
        tenant = self.pick.choice(list(TENANTS))
        kinds = (self.declare, self.settle, self.turn_back, self.keep, self.take_in, self.borrow)
        try:
            self.pick.choices(kinds, weights=(5, 2, 3, 2, 1, 2))[0](tenant)
        except (ConflictError, InvalidInputError, NotFoundError):
            self.refused += 1

    def declare(self, tenant: str) -> None:
        parts = {"actions": self.pick.choice(CATALOGUES), "states": self.pick.choice(SIZES), "priors": {}}
        change_tenant(self.database, tenant, parts)

    def settle(self, tenant: str) -> None:
        change_tenant(self.database, tenant, {"exploration": {"epsilon": self.pick.random()}})

    def turn_back(self, tenant: str) -> None:
        if self.pick.random() < 0.5:
            roll_back(self.database, tenant)
        else:
            activate(
                self.database, tenant, self.pick.randint(1, 1 + len(list_versions(self.database, tenant)))
            )

    def keep(self, tenant: str) -> None:
        freeze(self.database, tenant, f"kept-{self.pick.randrange(10**6)}")

    def take_in(self, tenant: str) -> None:
        self.table.write_text("state,action,q,visits,borrowed\n0,a,0.5,2,1\n1,b,0.25,0,3\n1,a,1,1,0\n")
        import_table(self.database, tenant, self.table)

    def borrow(self, tenant: str) -> None:
        change_tenant(self.database, tenant, {"base": "base", "contributes": True})
        change_base(self.database, "base", {"actions": CATALOGUES[-1], "states": self.pick.choice(SIZES)})
        build_base(self.database, "base")
        refresh(self.database, tenant)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_books_stay_right_whatever_changes(store_url: str, tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    with Steersman.open(store_url) as library:
        load = Load(library, pick)
        load.create()
        changes = Changes(library, pick, tmp_path)
        for _ in range(40):
            load.run(12)
            changes.make()
        found = verify(library.database)
        assert found.differences == ()
        with library.database.snapshot() as connection:
            least = connection.execute(select(func.min(cells.c.visits), func.min(cells.c.updates))).one()
        assert least >= (0, 0)
        assert sum(len(list_versions(library.database, tenant)) for tenant in TENANTS) > 20
        assert changes.refused < 20
