"""The hot routes, as a user meets them."""

from __future__ import annotations

from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.support.served import Caller, Server


def test_decide_reward_and_close(company: Caller, server: Server) -> None:
    asked = {"state": 1, "episode": "deal/1", "decision_id": "d-1", "metadata": {"round": 1}}
    decided = company.post("/v1/decide", asked)
    assert decided.status_code == 200, decided.text
    assert decided.headers["content-type"] == "application/json"
    decision = decided.json()
    assert (decision["tenant"], decision["decision_id"], decision["version"]) == (company.tenant, "d-1", 1)
    # Both actions are untried, so each is played with probability 1/2.
    assert decision["propensity"] == 0.5
    assert decision["feasible"] == ["hold", "trade"]
    assert "status" not in decision
    rewarded = company.post("/v1/reward", {"decision_id": "d-1", "value": 1})
    assert rewarded.status_code == 200
    assert (rewarded.json()["reward_id"], rewarded.json()["value"], rewarded.json()["effect"]) == (
        "d-1",
        1.0,
        "waits",
    )
    closed = company.post("/v1/episodes/deal%2F1/close", {"outcome": 0.0})
    assert closed.status_code == 200
    assert (closed.json()["episode"], closed.json()["learned"]) == ("deal/1", 1)
    explained = server.library.explain(company.tenant or "", "d-1")
    assert explained.decision.status == "learned"
    assert company.post("/v1/decide", asked).content == decided.content


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/reward:batch", "/v1/episodes/e/close"])
def test_who_believes_that_a_header_makes_it_safe_is_told_what_does(company: Caller, path: str) -> None:
    told = company.http.post(path, headers={"Idempotency-Key": "deal-1"}, json={"state": 0})
    assert (told.status_code, told.json()["code"]) == (400, "invalid-input")
    assert "decision_id" in told.json()["hint"]
    assert company.get("/v1/decisions").json()["items"] == []


def test_the_trail_says_that_the_service_started_a_tenant(company: Caller) -> None:
    company.post("/v1/decide", {"state": 0})
    trail = company.get("/v1/audit").json()["items"]
    assert [(line["verb"], line["actor"]) for line in trail if line["verb"] == "start"] == [
        ("start", "service")
    ]


def test_lists_answer_item_by_item(company: Caller) -> None:
    items = [{"state": 0, "decision_id": "a"}, {"state": 7}, {"state": True}, {"state": 1, "tenant": "other"}]
    answered = company.post("/v1/decide:batch", {"items": items})
    assert answered.status_code == 200
    first, *refused = answered.json()["items"]
    assert first["decision_id"] == "a"
    assert [item["error"]["code"] for item in refused] == ["invalid-state", "invalid-input", "not-found"]
    rewards = [{"decision_id": "a", "value": 0.5}, {"decision_id": "b", "value": 0.5}]
    recorded = company.post("/v1/reward:batch", {"items": rewards}).json()["items"]
    assert recorded[0]["effect"] == "learned"
    assert recorded[1]["error"]["code"] == "not-found"
    company.post("/v1/decide", {"state": 0, "episode": "e"})
    closes = [{"episode": "e", "outcome": 0.25}, {"episode": "none"}]
    closed = company.post("/v1/episodes/close:batch", {"items": closes}).json()["items"]
    assert (closed[0]["learned"], closed[1]["error"]["status"]) == (1, 404)


def test_an_id_with_other_content_is_refused_with_both_fingerprints(company: Caller) -> None:
    company.post("/v1/decide", {"state": 0, "decision_id": "d"})
    refused = company.post("/v1/decide", {"state": 1, "decision_id": "d"})
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["code"] == "id-reused"
    assert len({problem["stored_fingerprint"], problem["given_fingerprint"]}) == 2
    assert refused.headers["x-request-id"] == problem["request_id"]


def test_a_list_of_an_operator_spans_tenants(server: Server) -> None:
    base = f"base-{uuid4().hex}"
    server.library.create_base(base, {"actions": ["hold", "trade"], "states": 2})
    # One starts from a base, one does not, and neither has decided anything yet.
    one, two = server.company(base=base), server.company()
    operator = server.caller(None)
    items = [
        {"state": 0, "decision_id": "d", "tenant": tenant} for tenant in (one.tenant, two.tenant, "nobody")
    ]
    made, also, refused = operator.post("/v1/decide:batch", {"items": items}).json()["items"]
    assert (made["tenant"], also["tenant"]) == (one.tenant, two.tenant)
    assert refused["error"]["detail"] == "there is no tenant 'nobody'"
    rewards = [{"decision_id": "d", "value": 1.0, "tenant": tenant} for tenant in (one.tenant, two.tenant)]
    recorded = operator.post("/v1/reward:batch", {"items": rewards}).json()["items"]
    assert [reward["effect"] for reward in recorded] == ["learned", "learned"]
    assert [len(caller.get("/v1/decisions").json()["items"]) for caller in (one, two)] == [1, 1]


def test_a_list_holds_at_most_a_thousand(company: Caller) -> None:
    assert company.post("/v1/decide:batch", {"items": []}).json() == {"items": []}
    assert len(company.post("/v1/decide:batch", {"items": [{"state": 0}] * 1000}).json()["items"]) == 1000
    refused = company.post("/v1/decide:batch", {"items": [{"state": 0}] * 1001})
    assert (refused.status_code, refused.json()["detail"]) == (400, "items: expected at most 1000, got 1001")


@pytest.mark.parametrize("episode", ["close", "close:batch", "close/close", "/close", "a/close"])
def test_an_episode_may_be_called_like_a_verb(company: Caller, episode: str) -> None:
    path = f"/v1/episodes/{quote(episode, safe=':')}"
    company.post("/v1/decide", {"state": 0, "episode": episode})
    assert company.get(path).json()["episode"]["episode"] == episode
    assert company.post(f"{path}/close", {"outcome": 0.5}).json()["episode"] == episode
    assert company.get(path).json()["episode"]["status"] == "closed"


def test_what_is_only_read_is_not_posted_to(company: Caller) -> None:
    company.post("/v1/decide", {"state": 0, "episode": "close"})
    assert company.post("/v1/episodes/close").status_code == 405
