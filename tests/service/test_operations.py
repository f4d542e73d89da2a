"""Changes over HTTP under an Idempotency-Key: one effect and one answer, byte for byte, however often they arrive."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from steersman.client import verbs
from steersman.client.exchange import Request
from steersman.store.tables import audit, operations
from tests.service.test_isolation import SCOPE_OF
from tests.support.changes import CHANGES, FILES, KEYS, Scene
from tests.support.served import Caller, Server

HEADER = "Idempotency-Key"
OVER_HTTP = sorted({*CHANGES} - {*FILES})
WITH_IDS = {
    ("POST", "/v1/decide"),
    ("POST", "/v1/decide:batch"),
    ("POST", "/v1/reward"),
    ("POST", "/v1/reward:batch"),
    ("POST", "/v1/episodes/{episode}/close"),
    ("POST", "/v1/episodes/close:batch"),
    ("POST", "/v1/decisions/{decision_id}/void"),
}
"""Routes whose path or body holds the id of the call."""

AGAIN = {("POST", "/v1/expire"), ("POST", "/v1/verify")}
"""Routes of which a second call does no more than is due."""

CHANGING = {route for route in SCOPE_OF if route[0] != "GET"} - WITH_IDS - AGAIN


@pytest.fixture
def scene(server: Server, tmp_path: Path) -> Scene:
    return Scene.found(server.library, tmp_path)


@pytest.fixture(scope="module")
def operator(server: Server) -> Caller:
    return server.caller(None)


def request_of(scene: Scene, verb: str) -> Request:
    """The request that a client makes of a verb."""
    call = scene.call(verb)
    made: Request = next(getattr(verbs, verb)(*call.args, **call.options))
    return made


def send(caller: Caller, request: Request, *keys: str) -> httpx.Response:
    return caller.http.request(
        request.method,
        request.path,
        params=request.query,
        content=request.body,
        headers=[(HEADER, key) for key in keys],
    )


def documented(server: Server) -> set[tuple[str, str]]:
    document = server.http.get("/openapi.json").json()
    return {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if any((item["in"], item["name"]) == ("header", HEADER) for item in operation.get("parameters", ()))
    }


def test_the_header_is_described_where_it_is_taken_and_nowhere_else(server: Server) -> None:
    assert documented(server) == CHANGING


@pytest.mark.parametrize("verb", OVER_HTTP)
def test_a_change_is_made_once_and_answered_byte_for_byte(scene: Scene, operator: Caller, verb: str) -> None:
    request = request_of(scene, verb)
    first = send(operator, request, scene.operation_id)
    assert first.status_code in {200, 201}, first.text
    made = scene.rows()
    again = send(operator, request, scene.operation_id)
    if verb in KEYS:
        made_id = first.json()["key"]["key_id"]
        assert (again.status_code, again.json()["code"]) == (409, "key-text-shown")
        assert (
            again.json()["detail"] == f"this call made the key '{made_id}' before, and its text is not kept"
        )
        assert again.json()["hint"].endswith(f"DELETE /v1/keys/{made_id}, and create another")
        assert first.json()["text"].split("_", 2)[2] not in again.text
    else:
        assert (again.status_code, again.content) == (first.status_code, first.content)
    assert kept(scene) == made_but_use(made)
    other = scene.other(verb)
    reused = send(
        operator, next(getattr(verbs, other.verb)(*other.args, **other.options)), scene.operation_id
    )
    assert (reused.status_code, reused.json()["code"]) == (422, "id-reused"), reused.text
    assert reused.json()["stored_fingerprint"] != reused.json()["given_fingerprint"]
    assert kept(scene) == made_but_use(made)


def kept(scene: Scene) -> dict[str, list[tuple[Any, ...]]]:
    return made_but_use(scene.rows())


def made_but_use(rows: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows without when keys were used last, which is written now and then."""
    return {
        name: [row[:-1] for row in found] if name == "api_keys" else found for name, found in rows.items()
    }


@pytest.mark.parametrize("path", ["/v1/tenants/{}", "/v1/operator-keys"])
def test_routes_that_clients_do_not_need_take_it_too(scene: Scene, operator: Caller, path: str) -> None:
    path, key = path.format(scene.name), scene.operation_id
    method, body = ("PATCH", {"states": 5}) if "tenants" in path else ("POST", {"name": key})
    statuses = [
        operator.http.request(method, path, json=body, headers={HEADER: key}).status_code for _ in range(2)
    ]
    assert statuses == ([200, 200] if method == "PATCH" else [201, 409])
    if method == "PATCH":
        assert len(scene.library.list_versions(scene.name)) == 3
    else:
        assert [made.name for made in scene.library.list_keys(None)].count(key) == 1


@pytest.mark.parametrize("verb", ["change_tenant", "create_key", "create_tenant", "erase_tenant"])
def test_eight_at_once_are_one(scene: Scene, server: Server, operator: Caller, verb: str) -> None:
    request, together, before = request_of(scene, verb), Barrier(8), scene.rows()

    def ask(_: int) -> httpx.Response:
        with httpx.Client(base_url=server.url, headers=operator.http.headers, timeout=60.0) as http:
            together.wait()
            return send(Caller(http, None, operator.key), request, scene.operation_id)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    if verb == "create_key":
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
        assert len({answer.json()["detail"] for answer in answers if answer.status_code == 409}) == 1
    else:
        assert len({(answer.status_code, answer.content) for answer in answers}) == 1
        assert answers[0].is_success, answers[0].text
    assert len({*scene.rows()["audit"]} - {*before["audit"]}) == 1


WRITTEN: dict[str, list[tuple[str, set[str]]]] = {
    "activate": [("activate", {"before", "after", "instead_of"})],
    "build_base": [("build", {"version", "instead_of"})],
    "change_tenant": [("change", {"before", "after"})],
    "create_base": [("create", {"after"})],
    "create_key": [("create key", {"key", "name", "scopes"})],
    "create_tenant": [("create", {"after"})],
    "erase_tenant": [("erase", {"rows"})],
    "freeze": [("freeze", {"of", "version", "name"})],
    "refresh": [("refresh", {"version", "instead_of"})],
    "retire_tenant": [("retire", {"before", "after"})],
    "revoke_key": [("revoke key", {"key", "before", "after"})],
    "roll_back": [("roll_back", {"before", "after", "instead_of"})],
    "rotate_key": [
        ("create key", {"key", "name", "scopes"}),
        ("rotate key", {"key", "successor", "before", "after"}),
    ],
}
"""What a change writes into the audit trail: its verb, and at least these facts."""


@pytest.mark.parametrize("verb", OVER_HTTP)
def test_the_trail_says_of_every_change_who_made_it_and_what_it_was(
    scene: Scene, operator: Caller, verb: str
) -> None:
    def lines() -> dict[int, tuple[str, str, dict[str, Any]]]:
        query = select(audit).where(audit.c.tenant.contains(scene.name))
        with scene.library.database.snapshot() as connection:
            return {
                row.audit_id: (row.actor, row.verb, json.loads(row.detail))
                for row in connection.execute(query)
            }

    before = lines()
    assert send(operator, request_of(scene, verb)).is_success
    made = sorted(
        (line for number, line in lines().items() if number not in before), key=lambda line: line[1]
    )
    assert {actor for actor, *_ in made} == {f"key:{operator.key[3:15]}"}
    assert [what for _, what, _ in made] == [what for what, _ in WRITTEN[verb]]
    for (_, _, detail), (_, facts) in zip(made, WRITTEN[verb], strict=True):
        assert facts <= detail.keys()
        assert detail.get("before") != detail.get("after", {})


def test_without_the_header_each_call_is_one_of_its_own(scene: Scene, operator: Caller) -> None:
    request = request_of(scene, "roll_back")
    assert [send(operator, request).json()["number"] for _ in range(2)] == [3, 4]
    request = request_of(scene, "erase_tenant")
    assert [send(operator, request).status_code for _ in range(2)] == [200, 404]


def test_what_nobody_can_ask_for_does_not_pile_up(server: Server, company: Caller) -> None:
    def kept() -> list[str]:
        query = select(operations.c.operation_id).where(operations.c.tenant == company.tenant)
        with server.library.database.snapshot() as connection:
            return list(connection.execute(query).scalars())

    old = "own 0188d000-0000-7000-8000-000000000000"  # of 2023
    with server.library.database.transaction() as connection:
        connection.execute(
            update(operations)
            .where(operations.c.tenant == company.tenant)
            .values(operation_id=old)
            .where(operations.c.verb == "create_tenant")
        )
    made = kept()
    assert len(made) == 2  # the tenant and its key
    for _ in range(3):
        assert company.http.patch("/v1/tenant", json={}).status_code == 200
    assert sorted(kept()) == sorted(made)
    # The role that serves may take the old one away.
    assert company.http.patch("/v1/tenant", json={"states": 3}).status_code == 200
    assert len(kept()) == 2
    assert old not in kept()


@pytest.mark.parametrize("wrong", ["", "a b", "x" * 65, "é"])
@pytest.mark.parametrize("verb", OVER_HTTP)
def test_a_key_that_is_none_is_a_problem(scene: Scene, operator: Caller, verb: str, wrong: str) -> None:
    before = scene.rows()
    request = request_of(scene, verb)
    answer = operator.http.request(
        request.method,
        request.path,
        params=request.query,
        content=request.body,
        headers=[(HEADER.encode(), wrong.encode())],
    )
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["code"] == "invalid-input"
    assert "idempotency-key" in answer.json()["detail"].lower()
    assert kept(scene) == made_but_use(before)


def test_several_keys_are_none(scene: Scene, operator: Caller) -> None:
    answer = send(operator, request_of(scene, "retire_tenant"), "one", "two")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "Idempotency-Key: expected one, got several",
    )
    assert scene.library.show_tenant(scene.name).status == "active"


def test_a_dry_run_takes_none(company: Caller) -> None:
    headers, query = {HEADER: "op"}, {"dry_run": True}
    refused = company.http.patch("/v1/tenant", json={"states": 3}, params=query, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-input")
    assert company.http.patch("/v1/tenant", json={"states": 3}, params=query).status_code == 200
    done = company.http.patch("/v1/tenant", json={"states": 3}, headers=headers)
    assert (done.status_code, done.json()["changed"]) == (200, ["states"])


def test_a_refused_change_leaves_its_key_free(company: Caller) -> None:
    headers = {HEADER: "op"}
    assert company.post("/v1/versions/1/activate", headers=headers).status_code == 404
    company.post("/v1/decide", {"state": 0})
    assert company.post("/v1/versions/1/activate", headers=headers).json()["number"] == 1


def test_the_key_of_another_tenant_is_nobodys(server: Server, company: Caller) -> None:
    other = server.company()
    headers = {HEADER: "op"}
    for caller, states in ((company, 5), (other, 6)):
        done = caller.http.patch("/v1/tenant", json={"states": states}, headers=headers)
        assert (done.status_code, done.json()["tenant"]) == (200, caller.tenant), done.text
    assert server.library.show_tenant(other.tenant or "").spec.states.size == 6
