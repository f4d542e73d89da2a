"""Nobody reaches another tenant's things: every route of the description, with every wrong key and foreign id."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import event, select

from steersman.store.hot import HotStatements
from steersman.store.tables import TENANT_TABLES, audit, operations
from steersman.usecases.keys import SCOPES, create_key, revoke_key
from tests.support.served import Caller, Server

CANARY = "canary-7f3a"
"""What only the victim may read: it is in texts of the victim, never in an id that a stranger may try."""

SCOPE_OF = {
    ("POST", "/v1/decide"): "decide",
    ("POST", "/v1/decide:batch"): "decide",
    ("POST", "/v1/reward"): "reward",
    ("POST", "/v1/reward:batch"): "reward",
    ("POST", "/v1/episodes/{episode}/close"): "reward",
    ("POST", "/v1/episodes/close:batch"): "reward",
    ("POST", "/v1/decisions/{decision_id}/void"): "reward",
    ("POST", "/v1/expire"): "reward",
    ("GET", "/v1/decisions"): "read",
    ("GET", "/v1/decisions/{decision_id}"): "read",
    ("GET", "/v1/episodes"): "read",
    ("GET", "/v1/episodes/{episode}"): "read",
    ("GET", "/v1/versions"): "read",
    ("GET", "/v1/versions/{version}"): "read",
    ("GET", "/v1/cells"): "read",
    ("GET", "/v1/catalogue"): "read",
    ("GET", "/v1/tenant"): "read",
    ("GET", "/v1/doctor"): "read",
    ("POST", "/v1/verify"): "read",
    ("GET", "/v1/audit"): "read",
    ("POST", "/v1/versions/{version}/freeze"): "manage",
    ("POST", "/v1/versions/{version}/activate"): "manage",
    ("POST", "/v1/roll-back"): "manage",
    ("PATCH", "/v1/tenant"): "manage",
    ("POST", "/v1/refresh"): "manage",
    ("GET", "/v1/tenants"): "operator",
    ("POST", "/v1/tenants"): "operator",
    ("GET", "/v1/tenants/{tenant}"): "operator",
    ("PATCH", "/v1/tenants/{tenant}"): "operator",
    ("DELETE", "/v1/tenants/{tenant}"): "operator",
    ("POST", "/v1/tenants/{tenant}/retire"): "operator",
    ("GET", "/v1/tenants/{tenant}/keys"): "operator",
    ("POST", "/v1/tenants/{tenant}/keys"): "operator",
    ("GET", "/v1/operator-keys"): "operator",
    ("POST", "/v1/operator-keys"): "operator",
    ("POST", "/v1/keys/{key_id}/rotate"): "operator",
    ("DELETE", "/v1/keys/{key_id}"): "operator",
    ("GET", "/v1/bases"): "operator",
    ("POST", "/v1/bases"): "operator",
    ("POST", "/v1/bases/{base}/build"): "operator",
    ("GET", "/v1/bases/{base}/audit"): "operator",
    ("GET", "/v1/operator-audit"): "operator",
    ("GET", "/healthz"): "open",
    ("GET", "/readyz"): "open",
    ("GET", "/metrics"): "open",
    ("GET", "/openapi.json"): "open",
}
"""Which key each route needs. A route that is new must be entered here, and is then tried by every test below."""

KEYED = [route for route, scope in SCOPE_OF.items() if scope != "open"]
TENANTS = [route for route in KEYED if SCOPE_OF[route] != "operator"]

HERS = {
    "tenant": "victim",
    "decision_id": "d-1",
    "episode": "e-1",
    "version": "kept",
    "base": "bass",
    "Idempotency-Key": "op-1",
}
NOBODYS = {
    "tenant": "nobody",
    "decision_id": "d-9",
    "episode": "e-9",
    "version": "kepd",
    "base": "bast",
    "Idempotency-Key": "op-9",
}
"""Ids that exist for the victim, and ids as long that exist for nobody."""

VOLATILE = {"date", "x-request-id", "content-length"}


@dataclass(frozen=True)
class Scene:
    """A victim whose texts hold the canary, and a stranger with every scope."""

    server: Server
    document: dict[str, Any]
    stranger: Caller
    ids: dict[str, str]  # that exist for the victim
    missing: dict[str, str]  # that exist for nobody

    def ask(
        self,
        route: tuple[str, str],
        ids: dict[str, str],
        *,
        key: str | None = None,
        named: bool = False,
    ) -> httpx.Response:
        """Call a route about `ids` as its description has it; `named` says that it names their tenant."""
        method, path = route
        operation = self.document["paths"][path][method.lower()]
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        parameters = {item["name"] for item in operation.get("parameters", ()) if item["in"] == "query"}
        query = {name: ids[name] for name in parameters & {"episode", "version"}}
        if "after" in parameters:
            query["after"] = ids["decision_id"]
        body = _example(operation)
        for item in body.get("items", [body]):
            item |= {name: ids[name] for name in item.keys() & ids.keys() if name != "tenant"}
            if "state" in item:
                item |= {"state": 0, "feasible": None}
        if named and "tenant" in parameters:
            query["tenant"] = ids["tenant"]
        elif named:
            for item in body.get("items", [body]):
                item["tenant"] = ids["tenant"]
        headers = {} if key == "" else {"authorization": f"Bearer {key or self.stranger.key}"}
        headers |= {
            item["name"]: ids[item["name"]]
            for item in operation.get("parameters", ())
            if item["in"] == "header"
        }
        return self.server.http.request(
            method,
            path,
            params=query,
            json=body if "requestBody" in operation else None,
            headers=headers,
        )


def _example(operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return copy.deepcopy(content.get("example", {}))


def unclassified(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the routes of a description that `SCOPE_OF` does not have as they are described, and its others."""
    described = {
        (method.upper(), path, operation.get("x-scope"))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    expected = {(*route, scope) for route, scope in SCOPE_OF.items()}
    return {(method, path) for method, path, _ in described ^ expected}


@pytest.fixture(scope="module")
def scene(server: Server) -> Iterator[Scene]:
    declaration = {
        "actions": {"hold": f"hold {CANARY}", "trade": f"trade {CANARY}"},
        "states": {"factors": [{"name": f"stage {CANARY}", "values": [f"early {CANARY}", "late"]}]},
        "base": "bass",
    }
    library = server.library
    library.create_base("bass", {"actions": ["hold", "trade"], "states": 2})
    library.create_tenant("victim", declaration)
    for name in ("d-1", "d-2"):
        library.decide("victim", 0, decision_id=name, episode="e-1", metadata={"secret": CANARY}, feasible=["hold"],
                       reasons={"trade": CANARY})  # fmt: skip
    library.freeze("victim", "kept", operation_id=HERS["Idempotency-Key"])
    key = create_key(library.database, tenant="victim", scopes=SCOPES, name=CANARY).key
    stranger = server.company()
    stranger.post("/v1/decide", {"state": 0})
    document = stranger.get("/openapi.json").json()
    missing = NOBODYS | {"key_id": "f" * 12}
    yield Scene(server, document, stranger, HERS | {"key_id": key.key_id}, missing)
    assert CANARY not in server.log.getvalue()
    assert "sk_" not in server.log.getvalue()


def rows_of_victim(server: Server) -> list[Any]:
    owned = [table for table in (*TENANT_TABLES, audit, operations) if "tenant" in table.c]
    with server.library.database.snapshot() as connection:
        return [
            tuple(row)
            for table in owned
            for row in connection.execute(
                select(table).where(table.c.tenant == "victim").order_by(*table.primary_key.columns)
            )
        ]


def same_but_for_ids(scene: Scene, one: httpx.Response, other: httpx.Response) -> bool:
    """Tell whether two answers differ in nothing but the ids that were asked for, and in what always differs."""
    shown, headers = [], []
    for answer, ids in ((one, scene.ids), (other, scene.missing)):
        text = answer.text.replace(answer.headers["x-request-id"], "REQUEST")
        for name, value in ids.items():
            text = text.replace(repr(value), name)
        shown.append(text)
        headers.append({name: value for name, value in answer.headers.items() if name not in VOLATILE})
    return shown[0] == shown[1] and headers[0] == headers[1] and one.status_code == other.status_code


def test_every_route_is_classified(scene: Scene) -> None:
    assert unclassified(scene.document) == set()
    planted = copy.deepcopy(scene.document)
    planted["paths"]["/v1/everything"] = {"get": {"x-scope": "read", "responses": {}}}
    assert unclassified(planted) == {("GET", "/v1/everything")}
    opened = copy.deepcopy(scene.document)
    opened["paths"]["/v1/audit"]["get"]["x-scope"] = "open"
    assert unclassified(opened) == {("GET", "/v1/audit")}


@pytest.mark.parametrize("route", KEYED, ids=" ".join)
def test_without_a_good_key_nothing_is_answered(scene: Scene, route: tuple[str, str]) -> None:
    database = scene.server.library.database
    revoked = create_key(database, tenant="victim", scopes=SCOPES, name="revoked")
    revoke_key(database, revoked.key.key_id)
    unknown = f"sk_{'0' * 12}_{'A' * 43}"
    for key in ("", "sk_malformed", unknown, revoked.text, revoked.text + "A"):
        refused = scene.ask(route, scene.ids, key=key, named=True)
        assert refused.status_code == 401, (key, refused.text)
        assert refused.json()["code"] == "unauthorized"
        assert CANARY not in refused.text
        assert refused.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", KEYED, ids=" ".join)
def test_a_key_without_the_scope_is_refused(scene: Scene, route: tuple[str, str]) -> None:
    database = scene.server.library.database
    scopes = [scope for scope in SCOPES if scope != SCOPE_OF[route]]
    key = create_key(database, tenant="victim", scopes=scopes, name="narrow").text
    refused = scene.ask(route, scene.ids, key=key)
    assert refused.status_code == 403
    assert refused.json()["scope"] == SCOPE_OF[route]
    assert CANARY not in refused.text


@pytest.mark.parametrize("route", TENANTS, ids=" ".join)
def test_another_tenant_is_as_one_that_does_not_exist(scene: Scene, route: tuple[str, str]) -> None:
    before = rows_of_victim(scene.server)
    hers = scene.ask(route, scene.ids, named=True)
    nobodys = scene.ask(route, scene.missing, named=True)
    assert same_but_for_ids(scene, hers, nobodys), (hers.text, nobodys.text)
    if route[1].endswith(":batch"):
        assert {item["error"]["status"] for item in hers.json()["items"]} == {404}
    else:
        assert hers.status_code == 404
    assert CANARY not in hers.text
    assert rows_of_victim(scene.server) == before


@pytest.mark.parametrize("route", KEYED, ids=" ".join)
def test_foreign_ids_are_as_ids_that_do_not_exist(scene: Scene, route: tuple[str, str]) -> None:
    before = rows_of_victim(scene.server)
    hers = scene.ask(route, scene.ids)
    nobodys = scene.ask(route, scene.missing)
    assert CANARY not in hers.text
    assert hers.status_code == nobodys.status_code
    if hers.status_code >= 400:
        assert same_but_for_ids(scene, hers, nobodys), (hers.text, nobodys.text)
    if SCOPE_OF[route] == "operator":
        assert hers.status_code == 403
    assert rows_of_victim(scene.server) == before


@pytest.mark.parametrize("named", [False, True], ids=["id", "tenant"])
@pytest.mark.parametrize("route", KEYED, ids=" ".join)
def test_the_log_quotes_nothing_of_a_request(scene: Scene, route: tuple[str, str], named: bool) -> None:
    """Neither ids of the path, the query, the body or a header, nor keys, good or bad."""
    quoted = dict.fromkeys(scene.missing, f"quoted-{CANARY}") | {"tenant": "nobody"}
    secret = f"sk_{'0' * 12}_{CANARY}"
    before = len(scene.server.log.getvalue())
    answers = [scene.ask(route, quoted, named=named), scene.ask(route, quoted, named=named, key=secret)]
    refused = [answer.headers["x-request-id"] for answer in answers if answer.is_error]
    deadline = time.monotonic() + 30
    while not all(
        name in scene.server.log.getvalue()[before:] for name in refused
    ):  # written after the answer
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert CANARY not in scene.server.log.getvalue()[before:]


@contextmanager
def watched(server: Server, patch: pytest.MonkeyPatch) -> Iterator[list[tuple[object, ...]]]:
    """Gather what the databases of a server are asked: each hot statement with its length, and every other one."""
    service = server.app.service
    assert service is not None
    asked: list[tuple[object, ...]] = []

    def watch_hot(name: str, run: Callable[[Any, list[Any]], Any]) -> None:
        def noting(cursor: Any, rows: list[Any]) -> Any:
            found = run(cursor, rows)
            asked.append((name, len(rows), None if found is None else len(found)))
            return found

        patch.setattr(service.serving.hot, name, noting)

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        # Keys are looked up once in a while, whatever is asked, and every reader sees first whether it is heard.
        if "api_keys" not in statement and statement != "SELECT 1":
            asked.append((statement,))

    for name in vars(HotStatements):
        if not name.startswith("_") and callable(getattr(service.serving.hot, name)):
            watch_hot(name, getattr(service.serving.hot, name))
    engines = {service.serving.engine, service.operators.engine}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        patch.undo()
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


def costs(scene: Scene, patch: pytest.MonkeyPatch, route: tuple[str, str], **options: Any) -> list[object]:
    """What a call about the victim's ids asks of the databases, and what one about nobody's does."""
    found: list[object] = []
    with watched(scene.server, patch) as asked:
        # The first time of each something may be learned that is kept, or made that is found again.
        for ids in (scene.ids, scene.missing, scene.ids, scene.missing):
            asked.clear()
            scene.ask(route, ids, **options)
            found.append(list(asked))
    return found[2:]


@pytest.mark.parametrize("named", [False, True], ids=["id", "tenant"])
@pytest.mark.parametrize("route", TENANTS, ids=" ".join)
def test_what_is_foreign_costs_what_is_missing_does(
    scene: Scene, route: tuple[str, str], named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same statements are sent, so that no clock tells whether somebody else has the id."""
    hers, nobodys = costs(scene, monkeypatch, route, named=named)
    assert hers == nobodys


@pytest.mark.parametrize(
    "route",
    [("GET", "/v1/decisions/{decision_id}"), ("POST", "/v1/reward"), ("GET", "/v1/episodes/{episode}")],
)
def test_a_cost_that_differs_would_be_seen(
    scene: Scene, route: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = create_key(scene.server.library.database, tenant="victim", scopes=SCOPES, name="own").text
    hers, nobodys = costs(scene, monkeypatch, route, key=key)
    assert hers != nobodys


@pytest.mark.parametrize("route", TENANTS, ids=" ".join)
def test_an_operator_must_name_the_tenant(scene: Scene, route: tuple[str, str]) -> None:
    key = create_key(scene.server.library.database, tenant=None, name="operator").text
    refused = scene.ask(route, scene.ids, key=key)
    errors = (
        [item["error"] for item in refused.json()["items"]] if "items" in refused.json() else [refused.json()]
    )
    assert {error["status"] for error in errors} == {400}
    assert {error["detail"] for error in errors} == {"tenant: expected one, since the key is an operator's"}


def test_the_metrics_tell_no_texts(scene: Scene) -> None:
    assert CANARY not in scene.server.http.get("/metrics").text
