"""Versions: listed, shown, compared, frozen, activated and rolled back; every number is worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from steersman.domain.records import PolicyVersion
from steersman.errors import (
    ConflictError,
    InvalidInputError,
    InvalidSpecError,
    NotFoundError,
    TenantRetiredError,
)
from steersman.library import Steersman
from steersman.usecases.migrate import migrate
from steersman.usecases.tenants import audit_trail, change_tenant, retire, show_tenant
from steersman.usecases.verify import verify
from steersman.usecases.version_diff import CellChange, diff_versions
from steersman.usecases.versions import activate, freeze, list_versions, roll_back, show_version
from tests.support.company import Company

STAGES = {"factors": [{"name": "stage", "values": ["open", "late"]}]}


def numbers(company: Company, action: str, state: int, version: int) -> tuple[float, int, int, float]:
    cell = company.cell(action, state, version=version)
    return cell.q, cell.visits, cell.updates, cell.borrowed


def all_of(company: Company) -> list[PolicyVersion]:
    return list_versions(company.library.database, company.name)


def statuses(company: Company) -> list[str]:
    return [version.status for version in all_of(company)]


def verbs(company: Company) -> list[str]:
    return [line.verb for line in audit_trail(company.library.database, company.name)]


def assert_clean(company: Company) -> None:
    assert verify(company.library.database, company.name).differences == ()


@pytest.fixture
def learned(company: Company) -> Company:
    """Version 1: hold 0.5 of two, trade 1.0 of one. Version 2, without hold: trade 0.75 of two."""
    company.teach("hold", 0.0, 1.0)
    company.teach("trade", 1.0)
    migrate(company.library.database, company.name, {"actions": {"trade": "Trade on"}, "states": 2})
    company.teach("trade", 0.5)
    return company


def test_versions_are_listed_and_shown(learned: Company) -> None:
    database = learned.library.database
    one, two = all_of(learned)
    assert (one.number, one.status, one.origin, one.parent) == (1, "superseded", "empty", None)
    assert (two.number, two.status, two.origin, two.parent) == (2, "active", "migrated", 1)
    shown = show_version(database, learned.name)
    assert (shown.version, shown.ancestors) == (two, (1,))
    assert (shown.cells, shown.visits, shown.updates) == (1, 2, 2)
    shown = show_version(database, learned.name, 1)
    assert (shown.version, shown.ancestors) == (one, ())
    assert (shown.cells, shown.visits, shown.updates) == (2, 3, 3)


def test_the_active_version_has_a_word_of_its_own(learned: Company) -> None:
    database, name = learned.library.database, learned.name
    assert show_version(database, name, "active") == show_version(database, name, 2)
    assert learned.library.show(name, version="active") == learned.library.show(name, version=2)
    assert activate(database, name, "active").number == 2
    frozen = freeze(database, name, "good", version="active", operation_id="op")
    assert frozen.parent == 2
    # However the call says it, it is the same one.
    assert freeze(database, name, "good", operation_id="op") == frozen
    with pytest.raises(NotFoundError, match="nothing was decided"):
        show_version(database, Company.found(learned.library).name, "active")


def test_a_frozen_copy_keeps_what_was_known_then(learned: Company) -> None:
    database = learned.library.database
    frozen = freeze(database, learned.name, "good")
    assert (frozen.number, frozen.status, frozen.name) == (3, "frozen", "good")
    assert (frozen.origin, frozen.parent, frozen.actions.ids) == ("restored", 2, ("trade",))
    assert show_tenant(database, learned.name).active_version == 2
    learned.teach("trade", 0.0)  # (0.75 * 2 + 0) / 3
    assert learned.q("trade", version=2) == pytest.approx(0.5, abs=1e-15)
    assert numbers(learned, "trade", 0, 3) == (0.75, 2, 2, 0.0)
    assert show_version(database, learned.name, "good").version == frozen
    assert verbs(learned)[0] == "freeze"
    assert_clean(learned)


def test_the_same_freeze_is_answered_as_before(learned: Company) -> None:
    database = learned.library.database
    frozen = freeze(database, learned.name, "good")
    assert freeze(database, learned.name, "good") == frozen
    assert freeze(database, learned.name, "good", version=2) == frozen
    assert len(all_of(learned)) == 3
    with pytest.raises(ConflictError, match=r"'good'.*taken by version 3, a copy of version 2"):
        freeze(database, learned.name, "good", version=1)
    learned.play("trade")
    with pytest.raises(ConflictError, match="which is not what version 2 holds now"):
        freeze(database, learned.name, "good")
    assert verbs(learned).count("freeze") == 1


def test_any_version_can_be_frozen(learned: Company) -> None:
    database = learned.library.database
    frozen = freeze(database, learned.name, "first", version=1)
    assert (frozen.parent, frozen.actions.ids) == (1, ("hold", "trade"))
    assert numbers(learned, "hold", 0, frozen.number) == (0.5, 2, 2, 0.0)
    again = freeze(database, learned.name, "second", version="first")
    assert again.parent == frozen.number


@pytest.mark.parametrize("name", ["", "12", "a b", "@a", 3])
def test_a_name_is_a_name(learned: Company, name: Any) -> None:
    with pytest.raises(InvalidInputError, match="name: expected"):
        freeze(learned.library.database, learned.name, name)


def test_activating_copies_a_version_and_what_it_declared(learned: Company) -> None:
    database = learned.library.database
    change_tenant(database, learned.name, {"learning": {"alpha": 0.5}})
    version = activate(database, learned.name, 1)
    assert (version.number, version.status, version.origin, version.parent) == (4, "active", "restored", 1)
    assert statuses(learned) == ["superseded", "superseded", "superseded", "active"]
    assert numbers(learned, "hold", 0, 4) == (0.5, 2, 2, 0.0)
    assert numbers(learned, "trade", 0, 4) == (1.0, 1, 1, 0.0)
    spec = show_tenant(database, learned.name).spec
    assert (spec.actions.ids, spec.settings.alpha) == (("hold", "trade"), None)
    assert spec.labels == ("hold", "Trade on")
    learned.teach("hold", 1.0)  # (0.5 * 2 + 1) / 3
    assert learned.q("hold", version=4) == pytest.approx(2 / 3, abs=1e-15)
    assert numbers(learned, "hold", 0, 1) == (0.5, 2, 2, 0.0)
    line = audit_trail(database, learned.name)[0]
    assert (line.verb, line.detail["of"], line.detail["instead_of"]) == ("activate", 1, 3)
    assert_clean(learned)


def test_activating_the_active_version_changes_nothing(learned: Company) -> None:
    database = learned.library.database
    before = verbs(learned)
    assert activate(database, learned.name, 2).number == 2
    assert len(all_of(learned)) == 2
    assert verbs(learned) == before


def test_a_frozen_copy_can_be_activated_by_name(learned: Company) -> None:
    database = learned.library.database
    freeze(database, learned.name, "first", version=1)
    version = activate(database, learned.name, "first")
    assert (version.number, version.parent, version.name) == (4, 3, None)
    assert statuses(learned) == ["superseded", "superseded", "frozen", "active"]
    learned.teach("hold", 1.0)
    assert numbers(learned, "hold", 0, 3) == (0.5, 2, 2, 0.0)
    assert_clean(learned)


def test_labels_of_retired_actions_return(shared_library: Steersman) -> None:
    company = Company.found(shared_library, actions={"hold": "Hold firm", "trade": "Trade"})
    database = shared_library.database
    company.decide()
    migrate(database, company.name, {"actions": {"trade": "Trade on"}, "states": 2})
    activate(database, company.name, 1)
    assert show_tenant(database, company.name).spec.labels == ("Hold firm", "Trade on")


def test_rolling_back_activates_the_parent(learned: Company) -> None:
    database = learned.library.database
    version = roll_back(database, learned.name)
    assert (version.number, version.parent, version.origin) == (3, 1, "restored")
    assert numbers(learned, "trade", 0, 3) == (1.0, 1, 1, 0.0)
    assert verbs(learned)[0] == "roll_back"
    learned.teach("trade", 0.0)
    # Once more: what was learned since goes too.
    version = roll_back(database, learned.name)
    assert (version.number, version.parent) == (4, 1)
    assert numbers(learned, "trade", 0, 4) == (1.0, 1, 1, 0.0)
    assert_clean(learned)


def test_rolling_back_to_an_ancestor(learned: Company) -> None:
    database = learned.library.database
    change_tenant(database, learned.name, {"states": 3})
    change_tenant(database, learned.name, {"states": 4})
    frozen = freeze(database, learned.name, "aside", version=1)
    with pytest.raises(ConflictError, match=r"expected an ancestor of version 4.*\[3, 2, 1\], got 5"):
        roll_back(database, learned.name, to=frozen.number)
    version = roll_back(database, learned.name, to=2)
    assert (version.parent, version.states.size, version.actions.ids) == (2, 2, ("trade",))
    assert numbers(learned, "trade", 0, 6) == (0.75, 2, 2, 0.0)


def test_the_first_version_has_nothing_to_roll_back_to(company: Company) -> None:
    company.decide()
    with pytest.raises(ConflictError, match="no ancestor to roll back to"):
        roll_back(company.library.database, company.name)


def test_what_was_retired_since_is_there_again_after_a_roll_back(learned: Company) -> None:
    database = learned.library.database
    roll_back(database, learned.name)
    # A version of its own line: what version 2 learned of trade is not in it, and hold was never parked here.
    plan = migrate(database, learned.name, {"actions": ["trade"], "states": 2})
    assert numbers(learned, "trade", 0, 4) == (1.0, 1, 1, 0.0)
    assert plan.cells.parked.count == 1


def test_a_declaration_that_does_not_go_with_an_old_version_is_refused(shared_library: Steersman) -> None:
    company = Company.found(shared_library, reward_range=[0, 1])
    database = shared_library.database
    company.decide()
    change_tenant(database, company.name, {"reward_range": [10, 20], "reward_wait": 60, "default_reward": 15})
    before = show_tenant(database, company.name)
    with pytest.raises(
        InvalidSpecError, match=r"version 1 of tenant .*default_reward: expected 0\.0 to 1\.0"
    ):
        activate(database, company.name, 1)
    assert show_tenant(database, company.name) == before
    change_tenant(database, company.name, {"reward_wait": None, "default_reward": None})
    assert activate(database, company.name, 1).number == 3


def test_what_is_not_there_is_not_found(company: Company) -> None:
    database = company.library.database
    with pytest.raises(NotFoundError, match="no version yet"):
        show_version(database, company.name)
    with pytest.raises(NotFoundError, match="no version yet"):
        freeze(database, company.name, "x")
    company.decide()
    with pytest.raises(NotFoundError, match="no version 7"):
        activate(database, company.name, 7)
    with pytest.raises(NotFoundError, match="no version named 'x'"):
        activate(database, company.name, "x")
    for call in (list_versions, show_version, roll_back):
        with pytest.raises(NotFoundError, match="there is no tenant 'nobody'"):
            call(database, "nobody")
    with pytest.raises(NotFoundError, match="there is no base 'nothing'"):
        list_versions(database, "@nothing")


def test_a_retired_tenant_keeps_its_versions_as_they_are(learned: Company) -> None:
    database = learned.library.database
    retire(database, learned.name)
    with pytest.raises(TenantRetiredError):
        freeze(database, learned.name, "x")
    with pytest.raises(TenantRetiredError):
        activate(database, learned.name, 1)
    with pytest.raises(TenantRetiredError):
        roll_back(database, learned.name)
    assert len(all_of(learned)) == 2


def test_the_cells_that_changed_most_come_first(shared_library: Steersman) -> None:
    company = Company.found(shared_library, states=STAGES)
    database = shared_library.database
    company.teach("hold", 0.5)
    company.teach("trade", 1.0, state=1)
    company.teach("hold", 0.25, state=1)
    freeze(database, company.name, "then")
    company.teach("hold", 1.0)  # 0.75
    company.teach("trade", 0.0, state=1)  # 0.5
    company.play("hold", 1)  # a visit changes no value
    company.teach("trade", 0.125)  # had no row
    diff = diff_versions(database, company.name, "then")
    assert (diff.before, diff.after, diff.changed, diff.only_before, diff.only_after) == (2, 1, 3, 0, 0)
    assert diff.changes == (
        CellChange(1, "stage=late", "trade", "trade", 1.0, 0.5, 1.0, 2.0),
        CellChange(0, "stage=open", "hold", "hold", 0.5, 0.75, 1.0, 2.0),
        CellChange(0, "stage=open", "trade", "trade", 0.0, 0.125, 0.0, 1.0),
    )
    assert diff_versions(database, company.name, "then", 1, top=1).changes == diff.changes[:1]


def test_versions_are_compared_by_meaning(shared_library: Steersman) -> None:
    company = Company.found(
        shared_library,
        states=STAGES,
        actions={"hold": "Hold firm", "trade": "Trade"},
        priors={"trade": {"q": 0.5, "weight": 2}},
    )
    database = shared_library.database
    company.teach("hold", 0.5, state={"stage": "late"})
    company.teach("trade", 0.5, state={"stage": "late"})
    turned = {"factors": [{"name": "stage", "values": ["late", "over"]}]}
    migrate(
        database,
        company.name,
        {"actions": {"new": "New", "hold": "Hold firm"}, "states": turned},
    )
    company.teach("hold", 1.0, state={"stage": "late"})  # 0.75
    company.teach("new", 1.0, state={"stage": "late"})
    company.teach("hold", 1.0, state={"stage": "over"})
    diff = diff_versions(database, company.name, 1)
    assert diff.changes == (CellChange(0, "stage=late", "hold", "Hold firm", 0.5, 0.75, 1.0, 2.0),)
    assert (diff.only_before, diff.only_after) == (1, 2)


def test_a_cell_without_a_row_counts_as_it_opens(shared_library: Steersman) -> None:
    company = Company.found(shared_library, priors={"hold": {"q": 0.5, "weight": 1}})
    database = shared_library.database
    company.play("trade")
    freeze(database, company.name, "then")
    company.teach("hold", 1.0)  # 0.5 + (1 - 0.5) / 2
    assert diff_versions(database, company.name, "then").changes == (
        CellChange(0, "state 0", "hold", "hold", 0.5, 0.75, 1.0, 2.0),
    )
