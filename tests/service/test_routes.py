"""Every route once, as a user calls it; each answer is as the description says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import jsonschema_rs
import pytest

from tests.support.served import Caller, Server


@dataclass
class Reader:
    """Calls routes by their path in the description, and holds the answers to it."""

    document: dict[str, Any]
    called: set[tuple[str, str]] = field(default_factory=set)

    def __call__(
        self,
        caller: Caller,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        status: int = 200,
        **ids: str,
    ) -> Any:
        self.called.add((method, path))
        operation = self.document["paths"][path][method.lower()]
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        answer = caller.http.request(method, path, json=body, params=query)
        assert answer.status_code == status, answer.text
        self.check(operation, answer)
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.text

    def check(self, operation: dict[str, Any], answer: httpx.Response) -> None:
        described = operation["responses"][str(answer.status_code)]["content"]
        kind = answer.headers["content-type"].partition(";")[0]
        if kind == "application/json":
            self.validate(described[kind]["schema"], answer.json())
        assert kind in described

    def validate(self, schema: dict[str, Any], value: Any) -> None:
        jsonschema_rs.validator_for(schema | {"components": self.document["components"]}).validate(value)


@pytest.fixture
def reader(server: Server) -> Reader:
    return Reader(server.http.get("/openapi.json").json())


def test_every_route_answers_as_it_is_described(reader: Reader, server: Server) -> None:
    deciding(reader, server.company())
    reading(reader, server.company())
    changing(reader, server)
    operating(reader, server)
    what_is_open(reader, server.company())
    described = {
        (method.upper(), path) for path, found in reader.document["paths"].items() for method in found
    }
    assert reader.called == described


def deciding(reader: Reader, company: Caller) -> None:
    decision = reader(
        company, "POST", "/v1/decide", body={"state": 0, "episode": "a/b", "decision_id": "d/1"}
    )
    assert (decision["episode"], decision["step"]) == ("a/b", 0)
    items = [{"state": 1, "decision_id": "d/2", "metadata": {"n": 1}}, {"state": 2}]
    made, refused = reader(company, "POST", "/v1/decide:batch", body={"items": items})["items"]
    assert (made["metadata"], refused["error"]["code"]) == ({"n": 1}, "invalid-state")
    reward = {"decision_id": "d/2", "value": 0.25}
    assert reader(company, "POST", "/v1/reward", body=reward)["effect"] == "learned"
    further = {"items": [reward | {"reward_id": "more", "value": 0.5}]}
    assert reader(company, "POST", "/v1/reward:batch", body=further)["items"][0]["effect"] == "further"
    closed = reader(company, "POST", "/v1/episodes/{episode}/close", body={"outcome": 1.0}, episode="a/b")
    assert (closed["outcome"], closed["decisions"], closed["learned"]) == (1.0, 1, 1)
    closed = reader(
        company, "POST", "/v1/episodes/close:batch", body={"items": [{"episode": "a/b", "outcome": 1.0}]}
    )
    assert closed["items"][0]["learned"] == 1
    taken = company.post("/v1/decide", {"state": 0, "decision_id": "d/3"}).content
    back = reader(company, "POST", "/v1/decisions/{decision_id}/void", decision_id="d/3")
    assert back["decision_id"] == "d/3"
    assert company.post("/v1/decisions/d%2F3/void").content == taken
    assert reader(company, "POST", "/v1/expire")["decisions"] == 0


def reading(reader: Reader, company: Caller) -> None:
    for number in range(3):
        company.post(
            "/v1/decide", {"state": 0, "decision_id": f"d{number}", "metadata": {"n": number}, "episode": "e"}
        )
    company.post("/v1/reward", {"decision_id": "d0", "value": 1.0})
    page = reader(company, "GET", "/v1/decisions", query={"limit": 2})
    assert [item["decision_id"] for item in page["items"]] == ["d2", "d1"]
    page = reader(company, "GET", "/v1/decisions", query={"limit": 2, "after": page["next"]})
    assert ([item["decision_id"] for item in page["items"]], page["next"]) == (["d0"], None)
    page = reader(
        company, "GET", "/v1/decisions", query={"metadata": '{"n": 1}', "status": "open", "episode": "e"}
    )
    assert [item["decision_id"] for item in page["items"]] == ["d1"]
    why = reader(company, "GET", "/v1/decisions/{decision_id}", decision_id="d0")
    # Nothing was tried before: both actions are greedy, and each has probability 1/2.
    assert [(item["action"], item["greedy"], item["probability"]) for item in why["actions"]] == [
        ("hold", True, 0.5),
        ("trade", True, 0.5),
    ]
    assert (why["rewards"][0]["value"], why["decision"]["status"]) == (1.0, "learned")
    assert [item["episode"] for item in reader(company, "GET", "/v1/episodes")["items"]] == ["e"]
    assert len(reader(company, "GET", "/v1/episodes/{episode}", episode="e")["decisions"]) == 3
    assert [item["number"] for item in reader(company, "GET", "/v1/versions")["items"]] == [1]
    assert reader(company, "GET", "/v1/versions/{version}", version="1")["visits"] == 3
    cells = reader(company, "GET", "/v1/cells", query={"version": "1", "limit": 1})
    assert (cells["states"][0]["meaning"], cells["states"][0]["evidence"]) == ("state 0", 3.0)
    catalogue = reader(company, "GET", "/v1/catalogue")
    assert [action["id"] for action in catalogue["actions"]] == ["hold", "trade"]
    tenant = reader(company, "GET", "/v1/tenant")
    assert (tenant["tenant"], tenant["active_version"], "secret" in tenant) == (company.tenant, 1, False)
    assert reader(company, "GET", "/v1/doctor")["tenants"] == 1
    assert reader(company, "POST", "/v1/verify")["count"] == 0
    lines = reader(company, "GET", "/v1/audit")["items"]
    assert [line["verb"] for line in lines] == ["start", "create key", "create"]


def changing(reader: Reader, server: Server) -> None:
    base = f"base-{uuid4().hex}"
    server.library.create_base(base, {"actions": ["hold", "trade"], "states": 2})
    company = server.company(base=base, contributes=True)
    company.post("/v1/decide", {"state": 0, "decision_id": "d"})
    company.post("/v1/reward", {"decision_id": "d", "value": 0.5})
    kept = reader(company, "POST", "/v1/versions/{version}/freeze", body={"name": "kept"}, version="1")
    assert (kept["name"], kept["status"], kept["parent"]) == ("kept", "frozen", 1)
    change = {"actions": ["hold", "trade", "push"]}
    plan = reader(company, "PATCH", "/v1/tenant", body=change, query={"dry_run": "true"})
    assert (plan["version"], plan["needs_version"], plan["actions"]["new"]["shown"]) == (None, True, ["push"])
    assert reader(company, "PATCH", "/v1/tenant", body=change)["version"] == 3
    assert reader(company, "POST", "/v1/roll-back", body={"to": 1})["number"] == 4
    assert reader(company, "POST", "/v1/versions/{version}/activate", version="kept")["number"] == 5
    operator = server.caller(None)
    built = reader(operator, "POST", "/v1/bases/{base}/build", base=base)
    assert (built["cells"], built["contributions"][0]["tenant"]) == (1, company.tenant)
    assert reader(company, "POST", "/v1/refresh")["kept"] == 1
    changed = company.get("/v1/audit").json()["items"]
    assert {line["actor"] for line in changed if line["verb"] in {"freeze", "change", "activate"}} == {
        f"key:{company.key[3:15]}"
    }


def operating(reader: Reader, server: Server) -> None:
    operator, name = server.caller(None), f"made-{uuid4().hex}"
    declared = {"actions": ["hold", "trade"], "states": 3}
    made = reader(operator, "POST", "/v1/tenants", body={"tenant": name, "declaration": declared}, status=201)
    assert made["spec"]["states"] == {"size": 3}
    assert name in [item["tenant"] for item in reader(operator, "GET", "/v1/tenants")["items"]]
    assert reader(operator, "GET", "/v1/tenants/{tenant}", tenant=name)["status"] == "active"
    change = {"exploration": {"epsilon": 0.25}}
    assert reader(operator, "PATCH", "/v1/tenants/{tenant}", body=change, tenant=name)["changed"] == [
        "exploration"
    ]
    wanted = {"name": "shop", "scopes": ["decide"]}
    issued = reader(operator, "POST", "/v1/tenants/{tenant}/keys", body=wanted, tenant=name, status=201)
    shop = server.caller(name, key=issued["text"])
    assert shop.post("/v1/decide", {"state": 2}).status_code == 200
    assert shop.get("/v1/tenant").status_code == 403
    (listed,) = reader(operator, "GET", "/v1/tenants/{tenant}/keys", tenant=name)["items"]
    assert (listed["key_id"], listed["scopes"], "text" in listed) == (
        issued["key"]["key_id"],
        ["decide"],
        False,
    )
    key_id = listed["key_id"]
    rotated = reader(
        operator, "POST", "/v1/keys/{key_id}/rotate", body={"overlap": 60}, key_id=key_id, status=201
    )
    assert rotated["key"]["key_id"] != key_id
    assert reader(operator, "DELETE", "/v1/keys/{key_id}", key_id=key_id)["revoked_at"] is not None
    reader(operator, "POST", "/v1/operator-keys", body={"name": "another"}, status=201)
    assert len(reader(operator, "GET", "/v1/operator-keys")["items"]) >= 2
    base = {"base": f"base-{uuid4().hex}", "declaration": declared}
    reader(operator, "POST", "/v1/bases", body=base, status=201)
    assert f"@{base['base']}" in [item["tenant"] for item in reader(operator, "GET", "/v1/bases")["items"]]
    (line,) = reader(operator, "GET", "/v1/bases/{base}/audit", base=str(base["base"]))["items"]
    assert (line["verb"], line["tenant"]) == ("create", f"@{base['base']}")
    page = reader(operator, "GET", "/v1/operator-audit", query={"limit": 1})
    assert [line["verb"] for line in page["items"]] == ["create key"]
    assert reader(operator, "POST", "/v1/tenants/{tenant}/retire", tenant=name)["status"] == "retired"
    assert operator.post("/v1/decide", {"state": 0, "tenant": name}).json()["code"] == "tenant-retired"
    assert reader(operator, "DELETE", "/v1/tenants/{tenant}", tenant=name)["rows"]["decisions"] == 1


def test_operators_read_the_versions_of_a_base(reader: Reader, server: Server) -> None:
    base = f"base-{uuid4().hex}"
    server.library.create_base(base, {"actions": ["hold", "trade"], "states": 2})
    company = server.company(base=base, contributes=True)
    company.post("/v1/decide", {"state": 0, "decision_id": "d", "feasible": ["trade"]})
    company.post("/v1/reward", {"decision_id": "d", "value": 0.5})
    operator, owner = server.caller(None), {"tenant": f"@{base}"}
    assert reader(operator, "GET", "/v1/versions", query=owner)["items"] == []
    reader(operator, "POST", "/v1/bases/{base}/build", base=base)
    (version,) = reader(operator, "GET", "/v1/versions", query=owner)["items"]
    assert (version["tenant"], version["number"]) == (f"@{base}", 1)
    shown = reader(operator, "GET", "/v1/versions/{version}", query=owner, version="1")
    assert (shown["cells"], shown["updates"]) == (1, 1)
    (state,) = reader(operator, "GET", "/v1/cells", query=owner)["states"]
    assert [cell["q"] for cell in state["cells"] if cell["action"] == "trade"] == [0.5]
    for caller, path, status in (
        (company, "/v1/versions", 400),  # a tenant's key knows of no base
        (operator, "/v1/decisions", 400),
        (operator, "/v1/tenant", 400),
    ):
        assert caller.get(path, **owner).status_code == status
    for nobody, status in (("@none", 404), ("@", 400), ("@@", 400)):
        assert operator.get("/v1/versions", tenant=nobody).status_code == status


def test_a_key_may_do_everything_unless_told_otherwise(reader: Reader, server: Server) -> None:
    company, operator = server.company(), server.caller(None)
    path = "/v1/tenants/{tenant}/keys"
    made = reader(operator, "POST", path, body={"name": "k"}, tenant=company.tenant or "", status=201)
    assert made["key"]["scopes"] == ["decide", "reward", "read", "manage"]


def what_is_open(reader: Reader, company: Caller) -> None:
    assert reader(company, "GET", "/healthz") == {"status": "alive"}
    assert reader(company, "GET", "/readyz") == {"status": "ready"}
    assert "steersman_requests_total" in reader(company, "GET", "/metrics")
    assert reader(company, "GET", "/openapi.json")["openapi"].startswith("3.1")


def test_examples_are_what_they_are_examples_of(reader: Reader) -> None:
    for operations in reader.document["paths"].values():
        for operation in operations.values():
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                reader.validate(content["schema"], content["example"])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "no-such-route"),
        ("GET", "/v1/decide/", 404, "no-such-route"),
        ("POST", "/v1/episodes/a/b/close", 404, "no-such-route"),
        ("GET", "/v1/decide", 405, "method-not-allowed"),
        ("DELETE", "/v1/tenant", 405, "method-not-allowed"),
        ("POST", "/healthz", 405, "method-not-allowed"),
        ("GET", "/v1/episodes/%ff", 400, "invalid-input"),
        ("GET", "/v1/decisions/a%00b", 400, "invalid-input"),
        ("GET", "/v1/versions/99999999999999999999", 404, "not-found"),
        ("GET", "/v1/decisions?limit=0", 400, "invalid-input"),
        ("GET", "/v1/decisions?limit=1.0", 400, "invalid-input"),
        ("GET", "/v1/cells?limit=%201", 400, "invalid-input"),
        ("GET", "/v1/episodes?limit=%D9%A1", 400, "invalid-input"),
        ("GET", "/v1/decisions?episode=%00", 400, "invalid-input"),
        ("GET", "/v1/decisions?after=%00", 400, "invalid-input"),
        ("GET", "/v1/decisions?metadata=%7B%22a%22%3A%22%5Cu0000%22%7D", 400, "invalid-input"),
        ("GET", "/v1/cells?version=%00", 400, "invalid-input"),
        ("GET", "/v1/decisions?limit=1&limit=2", 400, "invalid-input"),
        ("GET", "/v1/decisions?unknown=1", 400, "invalid-input"),
        ("GET", "/v1/decisions?metadata=%7B%22a%22%3A1%2C%22a%22%3A2%7D", 400, "invalid-input"),
        ("POST", "/v1/decide?tenant=x", 400, "invalid-input"),
    ],
)
def test_what_no_route_takes(company: Caller, method: str, path: str, status: int, code: str) -> None:
    answer = company.http.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    if status == 405:
        assert method not in answer.headers["allow"].split(", ")


def test_what_is_wrong_in_a_query_is_placed_there(company: Caller) -> None:
    refused = company.get("/v1/decisions", metadata='{"a": NaN}').json()
    assert refused["detail"].startswith("query.metadata: expected a finite number")


def test_a_version_is_written_in_one_way(company: Caller) -> None:
    company.post("/v1/decide", {"state": 0})
    assert company.get("/v1/versions/1").status_code == 200
    for written, status in (("01", 404), ("0", 404), ("%D9%A1", 400), ("%EF%BC%91", 400), ("+1", 400)):
        assert company.get(f"/v1/versions/{written}").status_code == status, written


@pytest.mark.parametrize("to", [0, -1, 2**31, 2**63 - 1, -(2**31) - 1, -(2**63), "nobody"])
def test_there_is_no_version_of_a_number_that_no_database_holds(company: Caller, to: int | str) -> None:
    company.post("/v1/decide", {"state": 0})
    company.http.patch("/v1/tenant", json={"actions": ["hold", "trade", "push"]})  # version 1 is an ancestor
    refused = company.post("/v1/roll-back", {"to": to})
    assert (refused.status_code, refused.json()["code"]) == (404, "not-found")
    assert company.get(f"/v1/versions/{to}").status_code in {400, 404}


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_lead_to_the_last_item(company: Caller, limit: int) -> None:
    for number in range(4):
        company.post("/v1/decide", {"state": 0, "episode": f"e:{number}"})
    for path, key, expected in (
        ("/v1/episodes", "episode", ["e:3", "e:2", "e:1", "e:0"]),
        ("/v1/audit", "verb", ["start", "create key", "create"]),
    ):
        found: list[str] = []
        query: dict[str, Any] = {"limit": limit}
        while True:
            page = company.get(path, **query).json()
            found += [item[key] for item in page["items"]]
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert found == expected


@pytest.mark.parametrize("after", ["", "e", ":e", "1:", "-1:e", "9223372036854775808:e", "1:\x00"])
def test_what_is_no_cursor_of_episodes_is_refused(company: Caller, after: str) -> None:
    refused = company.get("/v1/episodes", after=after)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-input")
