"""Row-level security on a server: what a transaction sees that names no tenant, another, or several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, select, text

from steersman.domain.records import CloseRequest, DecideRequest, Decision, Reward, RewardRequest
from steersman.errors import ArchivedError, InvalidInputError, NotFoundError, StoreError
from steersman.library import Steersman
from steersman.store import access
from steersman.store.engine import Database
from steersman.store.tables import TENANT_TABLES, api_keys, audit, metadata, operations
from steersman.store.transactions import HotTransaction
from steersman.usecases.bases import list_bases, refresh, show_base
from steersman.usecases.close_episode import close_many
from steersman.usecases.database import database_status
from steersman.usecases.decide import decide, decide_many
from steersman.usecases.doctor import doctor
from steersman.usecases.explain import explain
from steersman.usecases.isolation import grant_roles, serving_problems
from steersman.usecases.keys import create_key, find_key
from steersman.usecases.reward import reward_many
from steersman.usecases.show import show
from steersman.usecases.tenants import (
    audit_trail,
    change_tenant,
    create_tenant,
    list_tenants,
    show_tenant,
)
from steersman.usecases.verify import verify
from steersman.usecases.versions import freeze, roll_back
from steersman.usecases.void import void
from tests.support.postgres import OPERATOR, SERVING, PostgresCluster, url_as

DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2}
HELD = sorted(table.name for table in {*TENANT_TABLES, audit, operations} - {api_keys})


@pytest.fixture
def owner(postgres_url: str, tmp_path: Path) -> Iterator[Steersman]:
    """The library as the owner of the tables, with rows of two tenants in every table but that of bases."""
    with Steersman.open(postgres_url) as library:
        for tenant in ("acme", "bolt"):
            library.create_tenant(tenant, DECLARED)
            for decision_id in ("archived", "d"):
                library.reward(tenant, library.decide(tenant, 0, decision_id=decision_id).decision_id, 0.5)
                if decision_id == "archived":
                    library.archive(tenant, older_than=0, output=tmp_path)
            library.decide(tenant, 1, episode="deal")
            library.freeze(tenant, "kept")
            create_key(library.database, tenant=tenant, name="backend")
        library.create_base("shared", DECLARED)
        yield library


@pytest.fixture
def serving(owner: Steersman, postgres_url: str) -> Iterator[Database]:
    """The same database as the role that serves."""
    assert [tenant.tenant for tenant in owner.list_tenants()] == ["acme", "bolt"]
    database = Database.open(url_as(SERVING, postgres_url))
    yield database
    database.close()


def visible(connection: Any) -> dict[str, list[str]]:
    """The tenants whose rows are visible, by table, where there are any."""
    found = {
        name: list(
            connection.execute(
                select(metadata.tables[name].c.tenant).distinct().order_by(metadata.tables[name].c.tenant)
            ).scalars()
        )
        for name in HELD
    }
    return {name: tenants for name, tenants in found.items() if tenants}


def leaks(database: Database) -> dict[str, dict[str, list[str]]]:
    """What is visible that should not be, by the way in which it was tried; also right after a hot transaction."""
    found = {}
    with database.snapshot() as connection:
        found["nothing set"] = visible(connection)
    with database.transaction() as connection:
        connection.execute(text("SET LOCAL steersman.tenants = ''"))
        found["empty"] = visible(connection)
    with database.for_tenants(["nobody"]).transaction() as connection:
        found["another tenant"] = visible(connection)
    for tenants in (["acme"], ["bolt", "acme"]):
        database.run_hot(lambda _: None, tenants=tenants)
        with database.transaction() as connection:
            found[f"after {tenants}"] = visible(connection)
    with database.for_tenants(["acme"]).snapshot() as connection:
        found["its own"] = {
            name: others
            for name, tenants in visible(connection).items()
            if (others := [t for t in tenants if t != "acme"])
        }
    return {way: tables for way, tables in found.items() if tables}


def test_nothing_is_visible_but_what_a_transaction_names(serving: Database) -> None:
    assert leaks(serving) == {}
    with serving.for_tenants(["acme"]).snapshot() as connection:
        assert set(visible(connection)) == set(HELD) - {"bases"}
    with serving.for_tenants(["acme", "bolt", "@shared"]).transaction() as connection:
        both = visible(connection)
        assert both.pop("bases") == ["@shared"]
        for name in ("audit", "operations"):
            assert both.pop(name) == ["@shared", "acme", "bolt"]
        assert both == {
            name: ["acme", "bolt"] for name in HELD if name not in {"bases", "audit", "operations"}
        }


def test_every_table_with_tenants_is_held(owner: Steersman, serving: Database) -> None:
    assert serving_problems(serving) == []
    with_tenant = {table.name for table in metadata.tables.values() if "tenant" in table.columns}
    assert with_tenant == {*HELD, "api_keys"}
    with (
        pytest.raises(StoreError, match="permission denied for table api_keys"),
        serving.snapshot() as connection,
    ):
        connection.execute(select(func.count()).select_from(api_keys))
    with owner.database.snapshot() as connection:
        assert set(visible(connection)) == set(HELD)


def test_who_names_no_tenant_is_not_answered_that_there_is_none(
    serving: Database, postgres_url: str, tmp_path: Path
) -> None:
    library = Steersman(serving)
    for ask in (
        library.list_tenants,
        lambda: list_bases(serving),
        library.doctor,
        library.verify,
        lambda: database_status(url_as(SERVING, postgres_url)),
        lambda: library.show_tenant("acme"),
        lambda: show_base(serving, "shared"),
        lambda: audit_trail(serving, "acme"),
        lambda: library.export_audit("acme", tmp_path / "audit.jsonl"),
    ):
        with pytest.raises(StoreError, match=f"row-level security holds the role '{SERVING}'") as caught:
            ask()
        assert "log in as the operators' role or as the owner" in (caught.value.hint or "")
    # Whoever names tenants asks for no more.
    assert [tenant.tenant for tenant in list_tenants(serving.for_tenants(["acme"]))] == ["acme"]
    assert list_tenants(serving.for_tenants(["nobody"])) == list_tenants(serving.for_tenants([])) == []
    with Steersman.open(url_as(OPERATOR, postgres_url)) as operators:
        assert [tenant.tenant for tenant in operators.list_tenants()] == ["acme", "bolt"]
        assert operators.doctor().tenants == 2
        assert database_status(url_as(OPERATOR, postgres_url)).tenants == 2


def test_a_view_of_a_view_admits_what_is_in_both(serving: Database) -> None:
    view = serving.for_tenants(["acme"]).for_tenants(["bolt", "acme"])
    with view.snapshot() as connection:
        assert visible(connection)["tenants"] == ["acme"]
    seen: list[Any] = []

    def look(transaction: HotTransaction) -> None:
        seen.append(visible(transaction.connection)["tenants"])

    view.run_hot(look, tenants=["bolt", "acme"])
    serving.run_hot(look, tenants=["bolt", "acme"])
    assert seen == [["acme"], ["acme", "bolt"]]
    assert isinstance(decide_many(view, [DecideRequest("bolt", 0)])[0], NotFoundError)
    with pytest.raises(NotFoundError, match="there is no tenant 'bolt'"):
        show_tenant(view, "bolt")


@pytest.mark.parametrize("name", ["", "@", "a b", "a'b", 'a"b', "a}", "a\\", "a\0", "@@a", "ä", "\ud800"])
def test_what_is_no_name_reaches_no_statement(serving: Database, name: str) -> None:
    with pytest.raises(InvalidInputError, match="tenant: expected"):
        serving.for_tenants([name])
    with pytest.raises(InvalidInputError, match="tenant: expected"):
        serving.run_hot(lambda _: None, tenants=[name])


def test_a_tenant_may_be_called_null(owner: Steersman, serving: Database) -> None:
    for name in ("NULL", "null"):
        create_tenant(owner.database, name, DECLARED)
        assert isinstance(decide_many(serving, [DecideRequest(name, 0)])[0], Decision)
        assert show_tenant(serving.for_tenants([name]), name).tenant == name
    with pytest.raises(NotFoundError):
        show_tenant(serving.for_tenants(["NULL"]), "null")


def test_one_transaction_serves_several_tenants(serving: Database) -> None:
    requests = [DecideRequest(tenant, 0, None, "e", f"{n}") for n, tenant in enumerate(["acme", "bolt"] * 3)]
    first = decide_many(serving, [*requests, DecideRequest("nobody", 0)])
    assert [type(item) for item in first] == [Decision] * 6 + [NotFoundError]
    assert decide_many(serving, requests) == first[:6]
    archived = [
        RewardRequest(tenant, "archived", 0.5, name) for name in (None, "late") for tenant in ("acme", "bolt")
    ]
    answered = reward_many(serving, archived)
    assert [type(item) for item in answered] == [Reward] * 2 + [ArchivedError] * 2
    assert [item.tenant for item in answered[:2]] == ["acme", "bolt"]  # type: ignore[union-attr]
    rewards = [RewardRequest(item.tenant, item.decision_id or "", 0.5) for item in requests]
    assert [item.tenant for item in reward_many(serving, rewards)] == ["acme", "bolt"] * 3  # type: ignore[union-attr]
    closed = close_many(serving, [CloseRequest("bolt", "e", 1.0), CloseRequest("acme", "e", 0.0)])
    assert [item.decisions for item in closed] == [3, 3]  # type: ignore[union-attr]
    # The same decision id is a thing of its own for each tenant.
    with pytest.raises(NotFoundError, match="has no decision"):
        void(serving, "bolt", "0")


def test_all_that_a_tenant_may_do_goes_with_the_serving_role(owner: Steersman, serving: Database) -> None:
    owner.create_tenant("seed", DECLARED | {"base": "shared", "contributes": True})
    for value in (1.0, 0.5):
        owner.reward("seed", owner.decide("seed", 0, feasible=["hold"]).decision_id, value)
    owner.build_base("shared")
    owner.create_tenant("new", DECLARED | {"base": "shared"})
    # The first decide starts the tenant from its base, of which it has borrowed two observations.
    assert decide(serving, "new", 0, explore=False, decision_id="first").seen.borrowed == (2.0, 0.0)
    mine = serving.for_tenants(["new"])
    assert void(mine, "new", "first").status == "void"
    assert refresh(mine, "new").tenant == "new"
    assert change_tenant(mine, "new", {"actions": ["hold", "trade", "walk"]}).needs_version
    assert change_tenant(mine, "new", {"base": "shared"}).tenant == "new"
    assert freeze(mine, "new", "then").name == "then"
    assert verify(mine, "new").clean
    assert doctor(mine, "new").findings == doctor(owner.database, "new").findings
    assert explain(mine, "new", "first").decision.status == "void"
    assert show(mine, "new").known_states == show(owner.database, "new").known_states > 0
    assert roll_back(mine, "new").origin == "restored"
    assert verify(owner.database).clean


def test_the_operator_sees_all_and_keys(serving: Database, postgres_url: str, tmp_path: Path) -> None:
    operators = Database.open(url_as(OPERATOR, postgres_url))
    try:
        with operators.snapshot() as connection:
            assert set(visible(connection)) == set(HELD)
        issued = create_key(operators, tenant="acme", name="backend")
        assert find_key(operators, issued.text) == issued.key
        with pytest.raises(StoreError, match="permission denied"):
            find_key(serving, issued.text)
        assert Steersman(operators).archive("acme", older_than=0, output=tmp_path).decisions == 1
        assert Steersman(operators).erase_tenant("acme").rows["api_keys"] == 2
        told = f"role '{OPERATOR}' is the operators': log in as the serving role (docs/isolation.md)"
        assert serving_problems(operators) == [told]
    finally:
        operators.close()


def test_naming_tenants_costs_no_message_and_a_decide_waits_five_times(
    serving: Database, tmp_path: Path
) -> None:
    decide(serving, "acme", 0)
    path = tmp_path / "messages"
    with path.open("w") as file:
        with serving.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
        driver.pgconn.trace(file.fileno())  # the pool has this one connection
        decide(serving, "acme", 0)
        driver.pgconn.untrace()
    sent = [line.split("\t") for line in path.read_text().splitlines()]
    (alone,) = [message[4].strip() for message in sent if message[1:4:2] == ["F", "Query"]]
    assert alone.startswith('"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL steersman.tenants =')
    ways = [message[1] for message in sent]
    assert sum(pair == ("F", "B") for pair in pairwise(ways)) == 5


def test_another_tenants_rows_can_be_neither_made_nor_changed(serving: Database) -> None:
    cells = metadata.tables["cells"]
    row = {"tenant": "bolt", "version": 1, "state": 1, "action": "walk", "q": 0.0, "visits": 0, "updates": 0}
    with (
        pytest.raises(StoreError, match="violates row-level security policy"),
        serving.for_tenants(["acme"]).transaction() as connection,
    ):
        connection.execute(cells.insert(), [row | {"borrowed": 0.0, "steps": 0}])
    with serving.for_tenants(["acme"]).transaction() as connection:
        assert connection.execute(cells.update().values(q=9.0)).rowcount > 0
    with serving.for_tenants(["bolt"]).snapshot() as connection:
        assert 9.0 not in connection.execute(select(cells.c.q)).scalars().all()


def test_a_connection_that_is_gone_at_begin_is_replaced(serving: Database, postgres_url: str) -> None:
    assert isinstance(decide_many(serving, [DecideRequest("acme", 0)])[0], Decision)
    with psycopg.connect(url_as(SERVING, postgres_url)) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE usename = current_user AND pid <> pg_backend_pid()"
        )
    assert isinstance(decide_many(serving, [DecideRequest("acme", 0)])[0], Decision)


# Planted violations


@pytest.mark.parametrize("table", HELD)
@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE {} NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY tenants ON {}",
        "CREATE POLICY more ON {} USING (true)",
        'REVOKE SELECT ON {} FROM PUBLIC; REVOKE SELECT ON {} FROM "serving role"',
    ],
)
def test_a_table_that_is_not_held_is_a_problem(
    owner: Steersman, serving: Database, table: str, damage: str
) -> None:
    with owner.database.transaction() as connection:
        connection.execute(text(damage.replace("{}", table)))
    problems = serving_problems(serving)
    assert len(problems) == 1
    assert f"the table {table}" in problems[0]


@pytest.mark.parametrize(
    "damage", ["ALTER TABLE cells DISABLE ROW LEVEL SECURITY", "CREATE POLICY more ON cells USING (true)"]
)
def test_rows_that_leak_would_be_seen(owner: Steersman, serving: Database, damage: str) -> None:
    with owner.database.transaction() as connection:
        connection.execute(text(damage))
    assert {way: set(found) for way, found in leaks(serving).items()}["nothing set"] == {"cells"}


def test_a_setting_that_outlives_its_transaction_would_be_seen(
    serving: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(driver: Any, names: Any, **_: Any) -> None:
        driver.pgconn.exec_(f"SET steersman.tenants = '{access._array_of(names)}'; BEGIN".encode())

    monkeypatch.setattr("steersman.store.engine.begin_admitting", begin)
    assert leaks(serving)["after ['acme']"]["cells"] == ["acme"]


@pytest.mark.parametrize("power", ["SUPERUSER", "BYPASSRLS"])
def test_a_role_with_too_much_power_is_a_problem(private_postgres: PostgresCluster, power: str) -> None:
    name = private_postgres.create_database()
    database = Database.open(private_postgres.url(name), upgrade=True)
    grant_roles(database, serving=SERVING, operator=OPERATOR)
    private_postgres.administer(f"ALTER ROLE {{}} {power}", SERVING)
    with pytest.raises(InvalidInputError, match=f"role '{SERVING}'"):
        grant_roles(database, serving=SERVING, operator=OPERATOR)
    serving = Database.open(url_as(SERVING, private_postgres.url(name)))
    assert any(f"role '{SERVING}'" in problem for problem in serving_problems(serving))
    serving.close()
    database.close()


def test_the_owner_must_not_serve(owner: Steersman) -> None:
    told = "role 'tester' owns the tables, or is a member of the role that does"
    assert serving_problems(owner.database) == [f"{told}: log in as the serving role (docs/isolation.md)"]
    for serving, operator in (
        ("tester", OPERATOR),
        (SERVING, "tester"),
        ("nobody", OPERATOR),
        (SERVING, SERVING),
    ):
        with pytest.raises(InvalidInputError):
            grant_roles(owner.database, serving=serving, operator=operator)
