"""Changing what a tenant declares, with learning carried over; every number is worked out by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from steersman.domain.answers import Fate, Group, MigrationPlan
from steersman.domain.records import DecideRequest
from steersman.errors import InvalidSpecError, NotFoundError, TenantRetiredError
from steersman.library import Steersman
from steersman.usecases.migrate import migrate
from steersman.usecases.tenants import audit_trail, change_tenant, retire, show_tenant
from steersman.usecases.verify import verify
from steersman.usecases.versions import list_versions
from tests.support.company import Company

DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2}
STAGES = {"name": "stage", "values": ["open", "late"]}


def change(company: Company, **parts: Any) -> MigrationPlan:
    return migrate(company.library.database, company.name, DECLARED | parts)


def numbers(company: Company, action: str, state: int, version: int) -> tuple[float, int, int, float]:
    cell = company.cell(action, state, version=version)
    return cell.q, cell.visits, cell.updates, cell.borrowed


def newest(company: Company) -> int:
    return list_versions(company.library.database, company.name)[-1].number


def assert_clean(company: Company) -> None:
    assert verify(company.library.database, company.name).differences == ()


def test_what_survives_keeps_all_four_numbers(shared_library: Steersman) -> None:
    company = Company.found(shared_library, priors={"hold": {"q": 0.5, "weight": 2}})
    company.teach("hold", 1.0)  # 0.5 + (1 - 0.5) / 3 = 2/3
    company.play("hold")
    company.teach("trade", 1.0, 0.5, state=1)  # 0.75
    plan = change(
        company, actions=["trade", "new", "hold"], states=3, priors={"hold": {"q": 0.5, "weight": 2}}
    )
    assert (plan.before, plan.version, plan.changed) == (1, 2, ("actions", "states"))
    assert numbers(company, "hold", 0, 2) == pytest.approx((2 / 3, 2, 1, 2.0), abs=1e-15)
    assert numbers(company, "trade", 1, 2) == (0.75, 2, 2, 0.0)
    assert numbers(company, "hold", 0, 1) == numbers(company, "hold", 0, 2)
    decision = company.decide()
    assert decision.version == 2
    assert decision.feasible == ("trade", "new", "hold")
    assert decision.seen.visits == (0, 0, 2)
    assert_clean(company)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_reward_range_of_another_scale_is_remarked_on(company: Company, *, dry_run: bool) -> None:
    company.teach("hold", 1.0)
    database, parts = company.library.database, {"reward_range": [0, 10]}
    plan = change_tenant(database, company.name, parts, dry_run=dry_run)
    assert plan.cells.kept.count == 1
    (remark,) = plan.remarks
    assert remark.startswith("reward_range: the cell that goes on holds a value of rewards from 0 to 1, ")
    assert "rewards from 0 to 10 are of another scale, a new tenant" in remark
    same_range = [0, 1] if dry_run else [0, 10]
    assert change(company, exploration={"c": 0.1}, reward_range=same_range).remarks == ()


def test_a_reward_range_needs_no_remark_where_nothing_goes_on(company: Company) -> None:
    company.teach("hold", 1.0)
    plan = change(company, actions=["new"], reward_range=[-5, 10])
    assert (plan.cells.parked.count, plan.remarks) == (1, ())


def test_the_plan_says_what_becomes_of_every_cell(company: Company) -> None:
    company.teach("hold", 1.0)
    company.teach("trade", 1.0)
    company.teach("trade", 1.0, state=1)
    plan = change(company, actions=["new", "trade"], states=1)
    assert plan.needs_version
    assert plan.actions == Fate(kept=Group(1, ("trade",)), new=Group(1, ("new",)), parked=Group(1, ("hold",)))
    assert plan.states == Fate(kept=Group(1, ("state 0",)), parked=Group(1, ("state 1",)))
    assert plan.cells == Fate(
        kept=Group(1, ("state 0: trade",)),
        new=Group(1, ("state 0: new",)),
        parked=Group(2, ("state 0: hold", "state 1: trade")),
    )
    plan = change(company, actions=["hold", "trade"], states=2)
    assert plan.actions == Fate(
        kept=Group(1, ("trade",)), restored=Group(1, ("hold",)), parked=Group(1, ("new",))
    )
    assert plan.states == Fate(kept=Group(1, ("state 0",)), restored=Group(1, ("state 1",)))
    assert plan.cells == Fate(
        kept=Group(1, ("state 0: trade",)),
        restored=Group(2, ("state 0: hold", "state 1: trade")),
    )


def test_a_dry_run_says_the_same_and_changes_nothing(company: Company) -> None:
    company.teach("hold", 1.0)
    company.teach("trade", 1.0, state=1)
    database, before = company.library.database, show_tenant(company.library.database, company.name)
    new = DECLARED | {"actions": ["new", "hold"], "states": 3}
    foreseen = migrate(database, company.name, new, dry_run=True)
    assert show_tenant(database, company.name) == before
    assert newest(company) == 1
    assert len(audit_trail(database, company.name)) == 2  # create and start
    assert replace(foreseen, version=2) == migrate(database, company.name, new)
    assert foreseen.version is None


def test_a_state_follows_its_meaning(shared_library: Steersman) -> None:
    company = Company.found(shared_library, states={"factors": [STAGES, {"name": "gap", "edges": [0.5]}]})
    company.teach("hold", 0.5, state={"stage": "late", "gap": 0.7})
    company.teach("hold", 0.25, state={"stage": "open", "gap": 0.1})
    turned = {"factors": [{"name": "gap", "edges": [0.5]}, {"name": "stage", "values": ["late", "over"]}]}
    plan = change(company, states=turned)
    # Late with a gap of at least 0.5 is the second gap's first stage.
    assert numbers(company, "hold", 2, 2) == (0.5, 1, 1, 0.0)
    assert plan.cells.parked == Group(1, ("stage=open, gap=<0.5: hold",))
    assert_clean(company)


def test_an_added_factor_moves_states_to_the_value_that_they_had(shared_library: Steersman) -> None:
    company = Company.found(shared_library, states={"factors": [STAGES]})
    company.teach("hold", 0.5, state={"stage": "late"})
    gap = {"name": "gap", "values": ["wide", "small"], "before": "small"}
    plan = change(company, states={"factors": [STAGES, gap]})
    assert plan.states.moved == Group(2, ("stage=open", "stage=late"))
    assert plan.states.new == Group(2, ("stage=open, gap=wide", "stage=late, gap=wide"))
    assert numbers(company, "hold", 3, 2) == (0.5, 1, 1, 0.0)


def test_without_a_value_of_before_an_added_factor_parks_and_its_removal_restores(
    shared_library: Steersman,
) -> None:
    company = Company.found(shared_library, states={"factors": [STAGES]})
    company.teach("hold", 0.5, state={"stage": "late"})
    plan = change(company, states={"factors": [STAGES, {"name": "gap", "values": ["wide", "small"]}]})
    assert (plan.cells.parked.count, plan.cells.kept.count + plan.cells.moved.count) == (1, 0)
    company.teach("hold", 1.0, state={"stage": "late", "gap": "wide"})
    plan = change(company, states={"factors": [STAGES]})
    assert plan.cells.parked == Group(1, ("stage=late, gap=wide: hold",))
    assert plan.cells.restored == Group(1, ("stage=late: hold",))
    assert numbers(company, "hold", 1, 3) == (0.5, 1, 1, 0.0)


def test_what_returns_has_what_the_nearest_ancestor_knew(company: Company) -> None:
    company.teach("hold", 0.5)
    change(company, borrow_cap=3, learning={"gamma": 0.5})  # version 2: same cells
    company.teach("hold", 1.0)  # 0.75 of two
    change(company, actions=["trade"])
    company.teach("trade", 0.25)
    plan = change(company, actions=["trade", "hold"])
    assert plan.version == 4
    assert numbers(company, "hold", 0, 4) == (0.75, 2, 2, 0.0)
    assert numbers(company, "trade", 0, 4) == (0.25, 1, 1, 0.0)
    company.teach("hold", 0.0)  # (0.75 * 2 + 0) / 3
    assert company.q("hold", version=4) == pytest.approx(0.5, abs=1e-15)
    assert_clean(company)


@pytest.mark.parametrize(
    ("parts", "changed"),
    [
        ({"actions": {"hold": "Hold firm", "trade": "Trade"}}, ("labels",)),
        ({"borrow_cap": 3}, ("borrow_cap",)),
        ({"reward_wait": 60, "default_reward": 0.5}, ("reward_wait", "default_reward")),
        ({"learning": {"alpha": "1/n"}}, ()),
    ],
    ids=",".join,
)
def test_what_needs_no_version_makes_none(
    company: Company, parts: dict[str, Any], changed: tuple[str, ...]
) -> None:
    company.teach("hold", 0.5)
    plan = change(company, **parts)
    assert plan == MigrationPlan(company.name, 1, None, needs_version=False, changed=changed)
    assert newest(company) == 1
    assert [line.verb for line in audit_trail(company.library.database, company.name)] == (
        ["change"] * bool(changed) + ["start", "create"]
    )


def test_the_order_in_which_priors_are_written_does_not_count(shared_library: Steersman) -> None:
    low, high = {"q": 0.1, "weight": 1}, {"q": 0.9, "weight": 1}
    company = Company.found(shared_library, priors={"hold": low, "trade": high})
    company.decide()
    assert change(company, priors={"trade": high, "hold": low}).changed == ()


def test_settings_make_a_version_with_every_cell(company: Company) -> None:
    company.teach("hold", 0.5)
    plan = change(company, learning={"alpha": 0.5}, exploration={"epsilon": 0.2})
    assert (plan.version, plan.changed) == (2, ("learning", "exploration"))
    assert plan.cells.kept.count == 1
    company.teach("hold", 1.0)  # 0.5 + 0.5 * (1 - 0.5)
    assert numbers(company, "hold", 0, 2) == (0.75, 2, 2, 0.0)
    assert company.decide().epsilon == 0.2


def test_a_new_prior_is_for_cells_that_nothing_is_known_of(company: Company) -> None:
    company.teach("hold", 0.5)
    change(company, priors={"hold": {"q": 0.9, "weight": 4}, "trade": {"q": 0.8, "weight": 3}})
    seen = company.decide(0).seen
    assert (seen.q, seen.borrowed) == ((0.5, 0.8), (0.0, 3.0))
    seen = company.decide(1).seen
    assert (seen.q, seen.borrowed) == ((0.9, 0.8), (4.0, 3.0))


def test_a_tenant_that_has_not_decided_yet_only_declares(company: Company) -> None:
    plan = change(company, actions=["x"], states=5)
    assert plan == MigrationPlan(company.name, None, None, needs_version=False, changed=("actions", "states"))
    decision = company.decide(4)
    assert (decision.version, decision.action) == (1, "x")


def test_provenance_and_audit_tell_what_was_before(company: Company) -> None:
    change(company, actions={"hold": "Hold firm", "trade": "Trade"})
    company.decide()
    change(company, actions=["trade"], learning={"gamma": 0.5})
    version = list_versions(company.library.database, company.name)[-1]
    assert (version.origin, version.parent, version.status) == ("migrated", 1, "active")
    assert version.provenance == {
        "changed": ["actions", "learning"],
        "restored_from": [],
        "retired_labels": {"hold": "Hold firm"},
    }
    line = audit_trail(company.library.database, company.name)[0]
    assert (line.verb, line.detail["version"]) == ("change", 2)
    assert [action["id"] for action in line.detail["before"]["actions"]] == ["hold", "trade"]
    assert [action["id"] for action in line.detail["after"]["actions"]] == ["trade"]


def test_parts_can_be_changed_alone(company: Company) -> None:
    database = company.library.database
    change_tenant(database, company.name, {"learning": {"gamma": 0.5, "lambda": 0.25}})
    change_tenant(database, company.name, {"learning": {"alpha": 0.1}, "borrow_cap": 7})
    spec = show_tenant(database, company.name).spec
    assert (spec.settings.alpha, spec.settings.gamma, spec.settings.lam) == (0.1, 0.5, 0.25)
    assert (spec.borrow_cap, spec.actions.ids) == (7, ("hold", "trade"))
    plan = change_tenant(database, company.name, {"states": 9}, dry_run=True)
    assert plan.changed == ("states",)
    assert show_tenant(database, company.name).spec == spec


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"actions": []}, "1 to 10000 action ids"),
        ({"states": 0}, "expected 1 to"),
        ({"base": "nobody"}, "there is no base 'nobody'"),
        ({"lerning": {}}, "unexpected \\['lerning'\\]"),
        ({"priors": {"other": {"q": 0, "weight": 1}}}, "expected ids of the catalogue"),
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_declaration_that_is_wrong_changes_nothing(
    company: Company, parts: dict[str, Any], message: str, dry_run: bool
) -> None:
    company.decide()
    database, before = company.library.database, show_tenant(company.library.database, company.name)
    with pytest.raises(InvalidSpecError, match=message):
        migrate(database, company.name, DECLARED | parts, dry_run=dry_run)
    assert show_tenant(database, company.name) == before


def test_a_retired_or_unknown_tenant_is_refused(company: Company) -> None:
    database = company.library.database
    retire(database, company.name)
    for dry_run in (False, True):
        with pytest.raises(TenantRetiredError):
            migrate(database, company.name, DECLARED | {"states": 3}, dry_run=dry_run)
        with pytest.raises(NotFoundError):
            migrate(database, "nobody", DECLARED, dry_run=dry_run)


def test_migrating_at_once_makes_one_version_and_loses_nothing(company: Company) -> None:
    database = company.library.database
    company.teach("hold", 0.5)
    together = Barrier(5)

    def move(_: int) -> MigrationPlan:
        together.wait()
        return migrate(database, company.name, DECLARED | {"actions": ["trade", "hold"]})

    def learn() -> None:
        together.wait()
        company.teach("hold", *[0.5] * 20)

    with ThreadPoolExecutor(5) as threads:
        learning = threads.submit(learn)
        plans = list(threads.map(move, range(4)))
        learning.result()
    assert sorted(plan.version or 0 for plan in plans) == [0, 0, 0, 2]
    assert numbers(company, "hold", 0, 2) == (0.5, 21, 21, 0.0)
    assert_clean(company)


def test_many_cells_stream(company: Company) -> None:
    states = 6001  # more than a page of rows
    change(company, states=states)
    for start in range(0, states, 2000):
        company.library.decide_many(
            [
                DecideRequest(company.name, state, feasible=["hold"])
                for state in range(start, min(states, start + 2000))
            ]
        )
    plan = change(company, states=states - 1, actions=["trade", "hold"])
    assert (plan.cells.moved.count, plan.cells.parked.count) == (states - 1, 1)
    assert numbers(company, "hold", states - 2, 2) == (0.0, 1, 0, 0.0)
    assert_clean(company)
