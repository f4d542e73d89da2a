"""The doctor finds what was planted, and nothing in a healthy database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from steersman.domain.answers import Finding
from steersman.domain.records import DecideRequest, Decision, RewardRequest
from steersman.errors import NotFoundError
from steersman.library import Steersman
from steersman.store import backends
from steersman.store.clock import now
from steersman.usecases import doctor as doctor_module
from steersman.usecases.doctor import doctor

SPEC = {
    "actions": {"firm": "Hold firm", "split": "Split the difference"},
    "states": {"factors": [{"name": "stage", "values": ["open", "late"]}]},
}
DAY = 86_400_000_000  # microseconds


@pytest.fixture
def steersman(store_url: str) -> Iterator[Steersman]:
    with Steersman.open(store_url) as opened:
        # Whatever ails another tenant must not be found of this one, which waits for nothing.
        opened.create_tenant("bystander", SPEC)
        play(opened, "bystander", "firm", 0.25, 0.5)
        play(opened, "bystander", "split", 0.75)
        yield opened


def play(steersman: Steersman, tenant: str, action: str, *rewards: float) -> None:
    for reward in rewards:
        decision = steersman.decide(tenant, 0, feasible=[action])
        steersman.reward(tenant, decision.decision_id, reward)


def found(steersman: Steersman, code: str, *, at: int | None = None) -> Finding:
    """Return the one finding, which has `code`."""
    (finding,) = doctor(steersman.database, at=at).findings
    assert finding.code == code
    return finding


@pytest.fixture
def healthy(steersman: Steersman) -> Steersman:
    """Both actions played, learned from, and told apart; an episode in progress."""
    steersman.create_tenant("acme", SPEC)
    play(steersman, "acme", "firm", 0.25, 0.5)
    play(steersman, "acme", "split", 0.75)
    steersman.decide("acme", 1, episode="deal")
    return steersman


def test_a_healthy_database_has_no_findings(healthy: Steersman) -> None:
    checkup = doctor(healthy.database)
    assert (checkup.tenants, checkup.findings, checkup.healthy) == (2, (), True)


def test_a_tenant_that_never_decided_has_no_findings(steersman: Steersman) -> None:
    steersman.create_tenant("acme", SPEC)
    assert doctor(steersman.database).healthy


def test_a_tenant_that_does_not_exist_is_refused(steersman: Steersman) -> None:
    with pytest.raises(NotFoundError):
        doctor(steersman.database, "nobody")


def test_retired_tenants_are_examined_only_when_named(healthy: Steersman) -> None:
    healthy.retire_tenant("acme")
    later = now() + 2 * DAY
    assert doctor(healthy.database, at=later).tenants == 1
    assert doctor(healthy.database, "acme", at=later).findings[0].code == "stale-episodes"


def test_an_action_that_was_never_feasible_is_named_by_its_label(steersman: Steersman) -> None:
    steersman.create_tenant("acme", SPEC)
    play(steersman, "acme", "firm", 0.5, 0.25)
    assert doctor(steersman.database).healthy  # two decisions of two actions say nothing yet
    play(steersman, "acme", "firm", 0.5)
    finding = found(steersman, "never-tried")
    assert finding.message == (
        "never played: Split the difference: feasible in none of the latest 3 decisions"
    )
    assert (finding.severity, finding.tenant, finding.command) == ("warning", "acme", "steersman show acme")


def test_an_action_behind_its_prior_is_no_warning(steersman: Steersman) -> None:
    """With c = 0 the larger q is played: 0.75 against a prior of 0.25."""
    priors = {"split": {"q": 0.25, "weight": 2}}
    steersman.create_tenant("acme", SPEC | {"priors": priors, "exploration": {"c": 0, "epsilon": 0}})
    for _ in range(3):
        decision = steersman.decide("acme", 0)
        steersman.reward("acme", decision.decision_id, 0.75)
    finding = found(steersman, "never-tried")
    assert finding.severity == "note"
    assert "Split the difference (feasible in 3 decisions): what it borrowed, or its prior" in finding.message


def test_an_action_that_is_passed_over_is_named_with_its_chances(steersman: Steersman) -> None:
    """Without exploration the one known action is played again and again."""
    steersman.create_tenant("acme", SPEC)
    play(steersman, "acme", "firm", 0.5)
    for explore in (False, False):
        steersman.reward("acme", steersman.decide("acme", 0, explore=explore).decision_id, 0.5)
    assert doctor(steersman.database).healthy
    steersman.reward("acme", steersman.decide("acme", 0, explore=False).decision_id, 0.5)
    finding = found(steersman, "never-tried")
    assert finding.severity == "warning"
    assert "Split the difference (feasible in 3 decisions, 0 with exploration)" in finding.message


def test_nothing_is_said_of_actions_that_had_no_chance_yet(steersman: Steersman) -> None:
    """After one decision of three actions two are not played; after a change the new one is not."""
    steersman.create_tenant("acme", SPEC | {"actions": ["firm", "split", "hold"]})
    steersman.reward("acme", steersman.decide("acme", 0).decision_id, 0.5)
    assert doctor(steersman.database).healthy
    for number in range(40):
        steersman.reward("acme", steersman.decide("acme", 0).decision_id, number / 64)
    steersman.change_tenant("acme", SPEC | {"actions": ["firm", "split", "hold", "brandnew"]})
    assert "never-tried" not in {finding.code for finding in doctor(steersman.database).findings}


def test_ties_are_shown_by_meaning(steersman: Steersman) -> None:
    steersman.create_tenant("acme", SPEC)
    play(steersman, "acme", "firm", 0.5)
    play(steersman, "acme", "split", 0.25, 0.75)
    finding = found(steersman, "ties")
    assert "in 1 of 1 state the best action is not decided: at stage=open, " in finding.message
    assert "Hold firm and Split the difference have the same value" in finding.message


def test_a_reward_that_never_came_is_missed(healthy: Steersman) -> None:
    healthy.close_episode("acme", "deal", 0.5)
    healthy.decide("acme", 0, decision_id="forgotten")
    assert doctor(healthy.database, at=now() + DAY // 2).healthy
    finding = found(healthy, "missing-rewards", at=now() + 3 * DAY)
    assert (
        "1 decision outside of episodes never got a reward, the oldest (forgotten) for 3 days"
        in finding.message
    )
    assert finding.command == "steersman decisions acme --status open"


def test_where_waiting_has_an_end_expire_is_the_next_command(steersman: Steersman) -> None:
    steersman.create_tenant("acme", SPEC | {"reward_wait": 60, "default_reward": 0})
    play(steersman, "acme", "firm", 0.25)
    play(steersman, "acme", "split", 0.5)
    steersman.decide("acme", 0)
    assert doctor(steersman.database).healthy
    finding = found(steersman, "missing-rewards", at=now() + 120_000_000)
    assert finding.command == "steersman expire acme"


def test_an_episode_that_nobody_closes_is_stale(healthy: Steersman) -> None:
    finding = found(healthy, "stale-episodes", at=now() + 2 * DAY)
    assert "1 episode stay open, the oldest (deal) untouched for 2 days" in finding.message
    assert finding.command == "steersman episodes list acme --status open"


def decide_evenly(steersman: Steersman) -> list[Decision]:
    """Return 200 decisions, each action with probability 1/2, which got rewards that tell actions apart."""
    steersman.create_tenant("acme", SPEC | {"exploration": {"epsilon": 1}, "learning": {"alpha": 0.5}})
    answers = steersman.decide_many([DecideRequest("acme", 0, decision_id=f"d{n}") for n in range(200)])
    return [answer for answer in answers if isinstance(answer, Decision)]


def settle(steersman: Steersman, kept: list[Decision]) -> None:
    values = {"firm": 0.25, "split": 0.75}
    requests = [RewardRequest("acme", item.decision_id, values[item.action]) for item in kept]
    steersman.reward_many(requests)


def test_decisions_taken_back_by_what_they_chose_are_found(steersman: Steersman) -> None:
    """Of some 100 left, all split: 50 expected, with a standard deviation of 5."""
    made = decide_evenly(steersman)
    firm = [item for item in made if item.action == "firm"]
    for item in firm[1:]:
        steersman.void("acme", item.decision_id)
    kept = [item for item in made if item.action == "split"]
    settle(steersman, [*kept, firm[0]])
    finding = found(steersman, "action-rates")
    half = (len(kept) + 1) / 2
    assert (
        f"Split the difference {len(kept)} times instead of {half:,.0f} (give or take 5)" in finding.message
    )
    assert (finding.severity, finding.command) == ("problem", "steersman decisions acme --status void")


def test_decisions_taken_back_by_chance_are_not(steersman: Steersman) -> None:
    made = decide_evenly(steersman)
    for item in made[::2]:
        steersman.void("acme", item.decision_id)
    settle(steersman, made[1::2])
    assert doctor(steersman.database).healthy


def test_rewards_cut_off_at_an_end_of_their_range_are_noted(healthy: Steersman) -> None:
    """Three rewards in [0.25, 0.75] are there; 10 of 1.0 and 12 between make 10 of 25."""
    play(healthy, "acme", "split", *([1.0] * 9), *[0.5 + n / 100 for n in range(12)])
    healthy.close_episode("acme", "deal", 1.0)
    finding = found(healthy, "reward-edges")
    assert "of 25 rewards 40% are exactly 1, the highest of the range" in finding.message
    assert finding.severity == "note"


def test_rewards_that_are_all_ends_are_meant_so(steersman: Steersman) -> None:
    steersman.create_tenant("acme", SPEC)
    play(steersman, "acme", "firm", *([1.0] * 20))
    play(steersman, "acme", "split", *([0.0] * 10))
    assert doctor(steersman.database).healthy


def test_an_old_sqlite_is_reported(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program takes the library for an older one, and really uses a rollback journal."""
    for module in (backends, doctor_module):
        monkeypatch.setattr(module, "sqlite_version", lambda: (3, 45, 1))
    with Steersman.open(sqlite_url) as steersman:
        finding = found(steersman, "old-sqlite")
        assert "SQLite 3.45.1 is used with a rollback journal" in finding.message
        assert finding.command == "pip install --upgrade pysqlite3"


def test_a_server_that_acknowledges_too_early_is_reported(postgres_url: str) -> None:
    with Steersman.open(postgres_url) as steersman:
        name = steersman.database.engine.url.database
        with steersman.database.transaction() as connection:
            connection.execute(text(f'ALTER DATABASE "{name}" SET synchronous_commit = off'))
    with Steersman.open(postgres_url) as steersman:
        finding = found(steersman, "synchronous-commit")
        assert finding.severity == "problem"
        assert finding.command is not None
        with steersman.database.transaction() as connection:
            connection.execute(text(finding.command))
    with Steersman.open(postgres_url) as steersman:
        assert doctor(steersman.database).healthy


def test_a_schema_that_is_not_ours_is_reported(healthy: Steersman) -> None:
    with healthy.database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("DROP INDEX ix_decisions_open"))
    finding = found(healthy, "schema")
    assert "its revision is 9999" in finding.message
    assert "the index ix_decisions_open is missing" in finding.message


def test_what_cannot_be_read_is_a_finding(healthy: Steersman) -> None:
    with healthy.database.transaction() as connection:
        connection.execute(text("UPDATE decisions SET version = 9 WHERE tenant = 'acme'"))
    finding = found(healthy, "unreadable")
    assert finding.command == "steersman verify acme"


@pytest.mark.parametrize(
    "damage",
    [
        "decisions SET feasible = '[]'",
        "decisions SET metadata = CAST(x'f0' AS TEXT)",
        "cells SET visits = 9223372036854775807",
        "cells SET q = 'zz'",
        "tenants SET secret = 9e999",
        "tenants SET secret = 1000000000000000000",
        "tenants SET spec = '{'",
        "tenants SET spec = '[]'",
        "tenants SET spec = CAST(x'f0' AS TEXT)",
        "tenants SET spec = replace(spec, '\"reward_wait\":null', '\"reward_wait\":1e13')",
        "tenants SET active_version = 9",
        "tenants SET tenant = CAST(x'f0' AS TEXT)",
        "policy_versions SET settings = '7'",
    ],
)
def test_damage_to_one_tenant_leaves_the_others_examined(sqlite_url: str, damage: str) -> None:
    with Steersman.open(sqlite_url) as steersman:
        for tenant in ("acme", "beta"):
            steersman.create_tenant(tenant, SPEC)
        play(steersman, "beta", "firm", 0.5, 0.5, 0.5)
        steersman.decide("acme", 0, metadata={"deal": 7})
        with steersman.database.transaction() as connection:
            connection.exec_driver_sql(f"UPDATE {damage} WHERE tenant = 'acme'")
        checkup = doctor(steersman.database)
    assert checkup.tenants == 2
    assert [finding.code for finding in checkup.findings if finding.tenant == "beta"] == ["never-tried"]
    # How large a count is does not matter, nor what the one known action of a state is worth.
    codes = [finding.code for finding in checkup.findings if finding.tenant != "beta"]
    assert codes == ([] if damage.startswith("cells") else ["unreadable"])
    assert all(finding.message.encode() for finding in checkup.findings)


def test_a_wait_longer_than_all_time_is_survived(healthy: Steersman) -> None:
    """Settings refuse it; one that was stored all the same is a finding."""
    with healthy.database.transaction() as connection:
        spec = connection.execute(text("SELECT spec FROM tenants WHERE tenant = 'acme'")).scalar_one()
        longer = spec.replace('"reward_wait":null', '"reward_wait":1e13')
        connection.execute(text("UPDATE tenants SET spec = :spec WHERE tenant = 'acme'"), {"spec": longer})
    found(healthy, "unreadable")
