"""Bases: built from what tenants learned, and lent to others; every number is worked out by hand."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from steersman.domain.answers import Contribution
from steersman.domain.records import Cell
from steersman.errors import (
    ConflictError,
    InvalidInputError,
    InvalidSpecError,
    NotFoundError,
    TenantRetiredError,
)
from steersman.library import Steersman
from steersman.store.cells import iterate_cells
from steersman.usecases.bases import build_base, change_base, create_base, list_bases, refresh, show_base
from steersman.usecases.migrate import migrate
from steersman.usecases.tenants import audit_trail, change_tenant, erase, retire
from steersman.usecases.verify import verify
from steersman.usecases.versions import list_versions, show_version
from tests.support.company import Company

DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2}
STAGES = {"factors": [{"name": "stage", "values": ["open", "late"]}]}
TURNED = {"factors": [{"name": "stage", "values": ["late", "open", "over"]}]}


@pytest.fixture
def base(shared_library: Steersman) -> str:
    """A base of actions hold and trade and two states."""
    name = f"base-{uuid4().hex}"
    create_base(shared_library.database, name, DECLARED)
    return name


def member(library: Steersman, base: str, **parts: Any) -> Company:
    """A tenant that names the base and contributes, unless told otherwise."""
    return Company.found(library, **({"base": base, "contributes": True} | parts))


def cells_of(
    library: Steersman, owner: str, version: int
) -> dict[tuple[int, str], tuple[float, int, int, float]]:
    def numbers(cell: Cell) -> tuple[float, int, int, float]:
        return cell.q, cell.visits, cell.updates, cell.borrowed

    with library.database.snapshot() as connection:
        return {
            (cell.key.state, cell.key.action): numbers(cell)
            for cell in iterate_cells(connection, owner, version)
        }


def test_a_base_is_created_listed_and_changed(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    owner = show_base(database, base)
    assert (owner.tenant, owner.active_version, owner.spec.actions.ids) == (
        f"@{base}",
        None,
        ("hold", "trade"),
    )
    assert owner in list_bases(database)
    with pytest.raises(ConflictError, match=f"there is a base '{base}' already"):
        create_base(database, base, DECLARED)
    assert change_base(database, base, DECLARED) == ()
    assert change_base(database, base, DECLARED | {"states": 3}) == ("states",)
    assert show_base(database, base).spec.states.size == 3
    assert [line.verb for line in audit_trail(database, f"@{base}")] == ["change", "create"]


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"base": "other"}, InvalidSpecError),
        ({"base": "other", "contributes": True}, InvalidSpecError),
        ({"reward_wait": 1, "default_reward": 0.5}, InvalidSpecError),
        ({"actions": []}, InvalidSpecError),
    ],
)
def test_a_base_declares_no_more_than_a_base_has(
    shared_library: Steersman, base: str, parts: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        create_base(shared_library.database, f"base-{uuid4().hex}", DECLARED | parts)
    with pytest.raises(error):
        change_base(shared_library.database, base, DECLARED | parts)
    assert show_base(shared_library.database, base).spec.states.size == 2


def test_a_base_needs_a_name(shared_library: Steersman) -> None:
    with pytest.raises(InvalidInputError, match="base: expected"):
        create_base(shared_library.database, "@x", DECLARED)


def test_values_are_weighted_by_updates(shared_library: Steersman, base: str) -> None:
    one, two = member(shared_library, base), member(shared_library, base)
    one.teach("hold", 0.25, 0.75)  # 0.5 of two
    one.play("hold")
    two.teach("hold", 0.875)
    two.teach("trade", 1.0, state=1)
    two.play("trade")  # a visit alone says nothing
    built = build_base(shared_library.database, base)
    assert (built.base, built.version, built.cells) == (base, 1, 2)
    # (0.5 * 2 + 0.875) / 3 = 0.625
    assert cells_of(shared_library, f"@{base}", 1) == {
        (0, "hold"): (0.625, 4, 3, 0.0),
        (1, "trade"): (1.0, 1, 1, 0.0),
    }
    expected = {Contribution(one.name, 1, 1, 2), Contribution(two.name, 1, 2, 2)}
    assert set(built.contributions) == expected
    assert [given.tenant for given in built.contributions] == sorted([one.name, two.name])
    assert verify(shared_library.database, f"@{base}").differences == ()


def test_only_those_who_contribute_do(shared_library: Steersman, base: str) -> None:
    given, quiet, elsewhere = (
        member(shared_library, base),
        member(shared_library, base, contributes=False),
        Company.found(shared_library),
    )
    for company in (given, quiet, elsewhere):
        company.teach("hold", 1.0)
    built = build_base(shared_library.database, base)
    assert [contribution.tenant for contribution in built.contributions] == [given.name]


def test_who_cannot_contribute_is_told_why(shared_library: Steersman, base: str) -> None:
    wide = member(shared_library, base, reward_range=[0, 100])
    idle = member(shared_library, base)
    wide.decide()
    built = build_base(shared_library.database, base)
    assert set(built.contributions) == {
        Contribution(wide.name, 1, 0, 0, "its reward range is [0.0, 100.0], and that of the base [0.0, 1.0]"),
        Contribution(idle.name, None, 0, 0, "it has not decided anything yet"),
    }
    assert built.cells == 0


def test_cells_are_merged_by_action_id_and_meaning(shared_library: Steersman) -> None:
    name = f"base-{uuid4().hex}"
    create_base(shared_library.database, name, {"actions": ["trade", "hold"], "states": TURNED})
    company = member(shared_library, name, actions=["hold", "own"], states=STAGES)
    company.teach("hold", 0.5, state={"stage": "open"})
    company.teach("own", 0.5, state={"stage": "open"})
    plain = member(shared_library, name, actions=["hold"], states=3)
    plain.teach("hold", 1.0)
    built = build_base(shared_library.database, name)
    assert cells_of(shared_library, f"@{name}", 1) == {(1, "hold"): (0.5, 1, 1, 0.0)}
    assert {given.tenant: given.cells for given in built.contributions} == {company.name: 1, plain.name: 0}


def test_each_build_is_a_version_that_says_what_went_in(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    company = member(shared_library, base)
    company.teach("hold", 0.5)
    build_base(database, base)
    company.teach("hold", 1.0)
    change_base(database, base, DECLARED | {"actions": ["new", "hold"]})
    assert build_base(database, base).version == 2
    one, two = list_versions(database, f"@{base}")
    assert (one.origin, one.parent, one.status) == ("empty", None, "superseded")
    assert (two.origin, two.parent, two.status) == ("migrated", 1, "active")
    assert two.actions.ids == ("new", "hold")
    assert two.provenance == {
        "contributions": [{"tenant": company.name, "version": 1, "cells": 1, "updates": 2, "skipped": None}]
    }
    assert show_version(database, f"@{base}").cells == 1
    assert cells_of(shared_library, f"@{base}", 2) == {(0, "hold"): (0.75, 2, 2, 0.0)}
    assert [line.verb for line in audit_trail(database, f"@{base}")] == ["build", "change", "build", "create"]


def test_a_new_tenant_starts_from_the_base(shared_library: Steersman, base: str) -> None:
    teacher = member(shared_library, base)
    teacher.teach("hold", *[0.8] * 30)
    teacher.teach("trade", 0.5, 0.5, state=1)
    build_base(shared_library.database, base)
    pupil = member(shared_library, base, actions=["new", "hold", "trade"], states=3)
    pupil.teach("hold", 0.3)
    q, visits, updates, borrowed = cells_of(shared_library, pupil.name, 1)[0, "hold"]
    assert (visits, updates, borrowed) == (1, 1, 20.0)  # of 30, capped
    assert q == pytest.approx(0.8 + (0.3 - 0.8) / 21, abs=1e-15)
    assert cells_of(shared_library, pupil.name, 1)[1, "trade"] == (0.5, 0, 0, 2.0)
    (version,) = list_versions(shared_library.database, pupil.name)
    assert (version.origin, version.provenance) == ("warm_start", {"base": base, "base_version": 1})
    assert verify(shared_library.database, pupil.name).differences == ()


def test_a_tenant_with_another_range_starts_empty(shared_library: Steersman, base: str) -> None:
    member(shared_library, base).teach("hold", 0.8)
    build_base(shared_library.database, base)
    pupil = member(shared_library, base, reward_range=[0, 100])
    assert pupil.decide().seen.borrowed == (0.0, 0.0)
    (version,) = list_versions(shared_library.database, pupil.name)
    assert version.origin == "empty"


def test_a_refresh_touches_only_what_nobody_touched(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    teacher = member(shared_library, base)
    teacher.teach("hold", 0.5)
    teacher.teach("hold", 0.5, state=1)
    build_base(database, base)
    pupil = member(shared_library, base, borrow_cap=2)
    pupil.teach("hold", 1.0)  # 0.5 + (1 - 0.5) / 2
    pupil.play("trade")  # visited, not learned
    teacher.teach("hold", 1.0, 1.0)
    teacher.teach("hold", 1.0, state=1)  # 0.75 of two
    teacher.teach("trade", 0.25)
    teacher.teach("trade", 0.25, 0.25, 0.25, state=1)
    build_base(database, base)
    done = refresh(database, pupil.name)
    assert (done.version, done.made, done.base_version) == (2, True, 2)
    assert (done.borrowed, done.dropped, done.kept) == (2, 0, 2)
    assert cells_of(shared_library, pupil.name, 2) == {
        (0, "hold"): (0.75, 1, 1, 1.0),
        (0, "trade"): (0.0, 1, 0, 0.0),
        (1, "hold"): (0.75, 0, 0, 2.0),
        (1, "trade"): (0.25, 0, 0, 2.0),
    }
    version = list_versions(database, pupil.name)[-1]
    assert (version.origin, version.parent, version.status) == ("warm_start", 1, "active")
    assert version.provenance == {"base": base, "base_version": 2}
    line = audit_trail(database, pupil.name)[0]
    assert (line.verb, line.detail["version"], line.detail["base_version"]) == ("refresh", 2, 2)
    assert verify(database, pupil.name).differences == ()


def test_a_refresh_without_news_makes_no_version(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    member(shared_library, base).teach("hold", 0.5)
    build_base(database, base)
    pupil = member(shared_library, base)
    pupil.teach("trade", 1.0)
    build_base(database, base)  # pupil contributes trade, which it has already
    done = refresh(database, pupil.name)
    assert (done.version, done.made, done.borrowed, done.kept) == (1, False, 1, 1)
    assert len(list_versions(database, pupil.name)) == 1
    assert [line.verb for line in audit_trail(database, pupil.name)] == ["start", "create"]


def test_what_a_base_lost_is_not_borrowed_any_more(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    left, stays = member(shared_library, base), member(shared_library, base)
    left.teach("hold", 1.0)
    stays.teach("trade", 0.5)
    build_base(database, base)
    pupil = member(shared_library, base, contributes=False)
    pupil.decide(1)
    erase(database, left.name)
    build_base(database, base)
    done = refresh(database, pupil.name)
    assert (done.borrowed, done.dropped) == (1, 1)
    cells = cells_of(shared_library, pupil.name, 2)
    assert (0, "hold") not in cells
    assert cells[0, "trade"] == (0.5, 0, 0, 1.0)


def test_a_retired_tenant_goes_on_contributing(shared_library: Steersman, base: str) -> None:
    company = member(shared_library, base)
    company.teach("hold", 1.0)
    retire(shared_library.database, company.name)
    assert build_base(shared_library.database, base).cells == 1


def test_a_tenant_may_turn_to_a_base_later(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    member(shared_library, base).teach("hold", 0.5)
    build_base(database, base)
    company = Company.found(shared_library)
    company.teach("trade", 1.0)
    with pytest.raises(ConflictError, match="names no base"):
        refresh(database, company.name)
    change_tenant(database, company.name, {"base": base})
    assert refresh(database, company.name).version == 2
    assert cells_of(shared_library, company.name, 2) == {
        (0, "hold"): (0.5, 0, 0, 1.0),
        (0, "trade"): (1.0, 1, 1, 0.0),
    }


def test_a_refresh_that_cannot_be_is_refused(shared_library: Steersman, base: str) -> None:
    database = shared_library.database
    company = member(shared_library, base)
    with pytest.raises(NotFoundError, match="nothing was decided"):
        refresh(database, company.name)
    company.decide()
    with pytest.raises(NotFoundError, match=f"base '{base}' has no version yet: it was never built"):
        refresh(database, company.name)
    build_base(database, base)
    migrate(database, company.name, DECLARED | {"base": base, "reward_range": [0, 5]})
    with pytest.raises(ConflictError, match="another reward range"):
        refresh(database, company.name)
    retire(database, company.name)
    with pytest.raises(TenantRetiredError):
        refresh(database, company.name)
    for call in (build_base, show_base):
        with pytest.raises(NotFoundError, match="there is no base 'nothing'"):
            call(database, "nothing")
    with pytest.raises(NotFoundError, match="there is no tenant 'nobody'"):
        refresh(database, "nobody")
