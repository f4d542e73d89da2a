"""Keys over time: found at once, gone within a second of their end, limited each by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.service.access import LONGEST_TRUST
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.usecases.isolation import pairing_problems
from steersman.usecases.keys import SCOPES, create_key, list_keys, revoke_key, rotate_key
from tests.support.postgres import OPERATOR, SERVING, PostgresCluster, url_as
from tests.support.served import Caller, Server, serving


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Server]:
    """A server that lets each key ask five times a second, and once in a while."""
    with serving(str(tmp_path / "steersman.db"), key_rate=5.0) as running:
        yield running


def codes_until(caller: Caller, status: int) -> list[int]:
    """Ask until `status` is the answer, and return all answers."""
    codes = [caller.get("/v1/tenant").status_code]
    deadline = time.monotonic() + 30
    while codes[-1] != status and time.monotonic() < deadline:
        time.sleep(0.05)
        codes.append(caller.get("/v1/tenant").status_code)
    return codes


def test_a_revoked_key_ends_however_busy_it_is(server: Server, company: Caller) -> None:
    assert company.get("/v1/tenant").status_code == 200
    revoke_key(server.library.database, company.key[3:15])
    codes = codes_until(company, 401)
    assert set(codes) <= {200, 401}
    assert codes[-1] == 401
    assert company.get("/v1/tenant").status_code == 401


def test_a_rotated_key_goes_on_for_its_overlap(server: Server, company: Caller) -> None:
    database = server.library.database
    new = rotate_key(database, company.key[3:15], overlap=3600.0)
    successor = server.caller(company.tenant, key=new.text)
    time.sleep(LONGEST_TRUST)
    assert (company.get("/v1/tenant").status_code, successor.get("/v1/tenant").status_code) == (200, 200)
    last = rotate_key(database, new.key.key_id)
    assert codes_until(successor, 401)[-1] == 401
    assert server.caller(company.tenant, key=last.text).get("/v1/tenant").status_code == 200


def test_it_is_noted_when_a_key_was_used(tmp_path: Path) -> None:
    url = str(tmp_path / "steersman.db")
    started = now()
    with serving(url) as server:
        company = server.company()
        idle = create_key(
            server.library.database, tenant=company.tenant, scopes=SCOPES, name="idle"
        ).key.key_id
        company.post("/v1/decide", {"state": 0})
    with serving(url) as server:
        used = {key.key_id: key.last_used_at for key in list_keys(server.library.database, company.tenant)}
    assert used.pop(idle) is None
    (noted,) = used.values()
    assert noted is not None
    assert started <= noted <= now()


def test_a_key_is_slowed_down_and_others_are_not(narrow: Server) -> None:
    busy, calm = narrow.company(), narrow.company()
    answers = [busy.get("/v1/tenant") for _ in range(50)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert refused[0].json()["code"] == "rate-limited"
    assert int(refused[0].headers["retry-after"]) >= 1
    assert calm.get("/v1/tenant").status_code == 200
    time.sleep(float(refused[0].headers["retry-after"]))
    assert busy.get("/v1/tenant").status_code == 200


def test_a_list_counts_as_its_items(narrow: Server) -> None:
    company = narrow.company()
    listed = company.post("/v1/decide:batch", {"items": [{"state": 0}] * 50})
    assert len(listed.json()["items"]) == 50
    refused = company.post("/v1/decide", {"state": 0})
    assert refused.status_code == 429
    # 46 more than were allowed at that moment are worked off at 5 a second.
    assert 5 <= refused.json()["retry_after"] <= 46 / 5
    other = narrow.caller(company.tenant)
    assert other.post("/v1/decide", {"state": 0}).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["", "Basic {key}", "Bearer", "{key}", "Bearer {key} {key}", "Bearer {key}x", "Token {key}"],
)
def test_only_a_bearer_key_is_one(server: Server, company: Caller, header: str) -> None:
    shown = {"authorization": header.format(key=company.key)}
    refused = server.http.get("/v1/tenant", headers=shown)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert (
        server.http.get("/v1/tenant", headers={"authorization": f"bearer {company.key}"}).status_code == 200
    )


@pytest.mark.parametrize("shown", [("ours", "ours"), ("other", "other", "ours"), ("", "ours"), ("ours", "")])
def test_several_authorization_headers_are_none(
    server: Server, company: Caller, shown: tuple[str, ...]
) -> None:
    texts = {"": "", "ours": f"Bearer {company.key}", "other": f"Bearer {server.company().key}"}
    headers = [("authorization", texts[which]) for which in shown]
    refused = server.http.get("/v1/tenant", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("whole", [True, False], ids=["no-connection", "no-privilege"])
def test_a_service_that_cannot_look_keys_up_is_not_ready(
    postgres_server: PostgresCluster, postgres_template: str, whole: bool
) -> None:
    name = postgres_server.create_database(template=postgres_template)
    with serving(postgres_server.url(name), roles=True, patience=1.0) as server:
        assert server.http.get("/readyz").status_code == 200
        if whole:
            postgres_server.administer("GRANT CONNECT ON DATABASE {} TO {}", name, SERVING)
            postgres_server.administer("REVOKE CONNECT ON DATABASE {} FROM PUBLIC", name)
            postgres_server.administer(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'operator role' AND pid IN"
                " (SELECT pid FROM pg_stat_activity WHERE datname = current_database())",
                database=name,
            )
        else:
            postgres_server.administer("REVOKE ALL ON api_keys FROM {}", OPERATOR, database=name)
        refused = server.http.get("/readyz")
        assert (refused.status_code, refused.json()["code"]) == (503, "not-ready")
        assert refused.json()["detail"].startswith("keys cannot be looked up: ")
        assert "operator" not in refused.text
    postgres_server.drop_database(name)


def test_a_key_that_ended_in_this_process_ends_at_once(server: Server, company: Caller) -> None:
    operator = server.caller(None).http
    assert company.get("/v1/tenant").status_code == 200
    assert operator.delete(f"/v1/keys/{company.key[3:15]}").status_code == 200
    assert company.get("/v1/tenant").status_code == 401
    rotated = server.caller(company.tenant)
    assert rotated.get("/v1/tenant").status_code == 200
    assert operator.post(f"/v1/keys/{rotated.key[3:15]}/rotate").status_code == 201
    assert rotated.get("/v1/tenant").status_code == 401


def test_a_key_of_an_erased_tenant_never_reaches_its_namesake(server: Server, company: Caller) -> None:
    operator = server.caller(None).http
    assert company.post("/v1/decide", {"state": 0}).status_code == 200
    assert operator.delete(f"/v1/tenants/{company.tenant}").status_code == 200
    namesake = {"tenant": company.tenant, "declaration": {"actions": ["other"], "states": 1}}
    assert operator.post("/v1/tenants", json=namesake).status_code == 201
    assert company.get("/v1/tenant").status_code == 401
    assert company.post("/v1/decide", {"state": 0}).status_code == 401


def test_an_idle_key_is_looked_up_again_before_it_opens_anything(server: Server, company: Caller) -> None:
    assert company.get("/v1/tenant").status_code == 200
    revoke_key(server.library.database, company.key[3:15])
    time.sleep(LONGEST_TRUST)
    assert company.get("/v1/tenant").status_code == 401


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_keys_of_another_database_are_not_ready(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if backend == "sqlite":
        url, other = str(tmp_path / "one.db"), str(tmp_path / "other.db")
        same = f"sqlite:///{url}"
        Database.open(other).close()
    else:
        cluster = request.getfixturevalue("postgres_server")
        first, second = (
            cluster.create_database(template=request.getfixturevalue("postgres_template")) for _ in range(2)
        )
        url, same, other = (
            url_as(role, cluster.url(name))
            for role, name in ((SERVING, first), (OPERATOR, first), (OPERATOR, second))
        )
    for operator_url, problems in (
        (same, []),
        (other, ["STEERSMAN_OPERATOR_URL leads to another database"]),
    ):
        serving_database, operators = Database.open(url), Database.open(operator_url)
        assert pairing_problems(serving_database, operators) == problems
        serving_database.close()
        operators.close()


def test_a_key_that_was_idle_is_asked_for_anew(server: Server, company: Caller) -> None:
    assert company.get("/v1/tenant").status_code == 200
    revoke_key(server.library.database, company.key[3:15])
    time.sleep(LONGEST_TRUST)
    assert company.get("/v1/tenant").status_code == 401
