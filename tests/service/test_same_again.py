"""A call that is made again under the same id is answered with the first answer, byte for byte, and has one effect."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from math import fsum, isclose
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reliability.judge import tell
from tests.support.served import Caller, Server

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
things = st.none() | st.booleans() | numbers | texts | st.lists(numbers, max_size=2)
SEED = 8
FACTORS = {
    "factors": [{"name": "stage", "values": ["early", "late"]}, {"name": "gap", "edges": [0.1, 0.25]}],
}


@st.composite
def asked_for(draw: st.DrawFn) -> dict[str, Any]:
    """The body of a decide for `FACTORS` and the actions a, b, c."""
    asked: dict[str, Any] = {
        "state": {"stage": "late", "gap": draw(st.floats(-1, 1) | st.integers(-3, 3))},
        "decision_id": draw(texts),
        "feasible": draw(st.none() | st.lists(st.sampled_from("abc"), min_size=1, unique=True)),
        "metadata": draw(st.none() | st.dictionaries(texts, things, max_size=3)),
        "episode": draw(st.none() | texts),
        "explore": draw(st.booleans()),
    }
    others = [action for action in "abc" if action not in (asked["feasible"] or "abc")]
    if others:
        asked["reasons"] = {action: draw(texts) for action in draw(st.permutations(others))}
    return asked


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked_for(), numbers.filter(lambda number: abs(number) <= 1), st.randoms(use_true_random=False))
def test_every_answer_is_repeated_byte_for_byte(
    server: Server, asked: dict[str, Any], value: float, shuffle: random.Random
) -> None:
    company = server.company(
        actions=["a", "b", "c"], states=FACTORS, reward_range=[-1, 1], priors={"b": {"q": 0.1, "weight": 0.3}}
    )
    first = company.post("/v1/decide", asked)
    assert first.status_code == 200, first.text
    again = company.post("/v1/decide", dict(shuffle.sample(list(asked.items()), len(asked)))).content
    reward = {"decision_id": asked["decision_id"], "value": value}
    rewarded = company.post("/v1/reward", reward)
    assert rewarded.status_code == 200, rewarded.text
    learned = company.post("/v1/decide", asked).content
    listed = company.http.post("/v1/decide:batch", json={"items": [asked, asked]}).content
    assert first.content == again == learned
    assert listed == b'{"items":[' + first.content + b"," + first.content + b"]}"
    assert company.post("/v1/reward", reward).content == rewarded.content
    if asked["episode"] is not None:
        path = f"/v1/episodes/{quote(asked['episode'], safe='')}/close"
        closed = company.post(path, {"outcome": value})
        assert closed.status_code == 200, closed.text
        assert company.post(path, {"outcome": value}).content == closed.content
        assert company.post("/v1/decide", asked).content == first.content
    assert server.library.verify(company.tenant).clean
    company.http.close()


def test_eight_at_once_are_one(server: Server) -> None:
    """A hundred ids, each asked for by eight callers at the same moment."""
    company = server.company()
    others = server.company()
    barrier = threading.Barrier(8)
    states = random.Random(SEED).choices(range(2), k=100)

    def ask(caller: int) -> list[tuple[bytes, bytes]]:
        with httpx.Client(base_url=server.url, headers=company.http.headers, timeout=60.0) as http:
            answers = []
            for number in range(100):
                barrier.wait()
                body = {"state": states[number], "decision_id": f"d{number}", "metadata": {"n": number}}
                made = http.post("/v1/decide", json=body)
                barrier.wait()
                rewarded = http.post("/v1/reward", json={"decision_id": f"d{number}", "value": 0.5})
                assert (made.status_code, rewarded.status_code) == (200, 200), (made.text, rewarded.text)
                answers.append((made.content, rewarded.content))
                if not caller:
                    others.post("/v1/decide", {"state": 0})
            return answers

    with ThreadPoolExecutor(8) as pool:
        first, *same = pool.map(ask, range(8))
    assert all(answers == first for answers in same)
    again = sum(len(answers) for answers in same)
    tell(SEED, f"{len(first)} ids, {2 * (len(first) + again)} calls by 8 callers, {2 * again} of them again")
    cells = company.get("/v1/cells").json()["states"]
    assert sum(cell["visits"] for state in cells for cell in state["cells"]) == 100
    assert sum(cell["updates"] for state in cells for cell in state["cells"]) == 100
    assert server.library.verify(company.tenant).clean


def test_eight_closes_and_voids_at_once_are_one(server: Server) -> None:
    """A hundred episodes and as many decisions, each closed or taken back by eight callers at the same moment."""
    company, generator = server.company(), random.Random(SEED)
    for number in range(100):
        items = [
            {"state": 0, "decision_id": f"kept{number}", "episode": f"e{number}"},
            {"state": 1, "decision_id": f"back{number}"},
        ]
        made = company.post("/v1/decide:batch", {"items": items})
        assert all("action" in item for item in made.json()["items"]), made.text
    outcomes = [generator.random() for _ in range(100)]
    barrier = threading.Barrier(8)

    def ask(_: int) -> list[tuple[bytes, bytes]]:
        with httpx.Client(base_url=server.url, headers=company.http.headers, timeout=60.0) as http:
            answers = []
            for number, outcome in enumerate(outcomes):
                barrier.wait()
                closed = http.post(f"/v1/episodes/e{number}/close", json={"outcome": outcome})
                barrier.wait()
                back = http.post(f"/v1/decisions/back{number}/void")
                assert (closed.status_code, back.status_code) == (200, 200), (closed.text, back.text)
                answers.append((closed.content, back.content))
            return answers

    with ThreadPoolExecutor(8) as pool:
        first, *same = pool.map(ask, range(8))
    assert all(answers == first for answers in same)
    tell(SEED, f"{len(outcomes)} closes and voids by 8 callers, {2 * 7 * len(outcomes)} of them again")
    cells = {state["state"]: state["cells"] for state in company.get("/v1/cells").json()["states"]}
    kept = cells.pop(0)
    assert (sum(cell["visits"] for cell in kept), sum(cell["updates"] for cell in kept)) == (100, 100)
    assert sum(cell["visits"] for state in cells.values() for cell in state) == 0
    learned = fsum(cell["q"] * cell["updates"] for cell in kept)  # with 1/n steps, q is a mean
    assert isclose(learned, fsum(outcomes), rel_tol=1e-9)
    assert server.library.verify(company.tenant).clean


def test_another_content_under_an_id_is_refused(company: Caller) -> None:
    def problem(path: str, body: dict[str, Any]) -> dict[str, Any]:
        refused = company.post(path, body)
        assert refused.status_code == 422, refused.text
        found: dict[str, Any] = refused.json()
        assert found["code"] == "id-reused"
        assert len(found["stored_fingerprint"]) == len(found["given_fingerprint"]) == 64
        assert found["stored_fingerprint"] != found["given_fingerprint"]
        return found

    company.post("/v1/decide", {"state": 0, "decision_id": "d", "episode": "e"})
    changed: list[dict[str, Any]] = [{"state": 1}, {"episode": "f"}, {"explore": False}, {"metadata": {}}]
    for other in changed:
        problem("/v1/decide", {"state": 0, "decision_id": "d", "episode": "e"} | other)
    company.post("/v1/reward", {"decision_id": "d", "value": 0.5})
    problem("/v1/reward", {"decision_id": "d", "value": 0.25})
    company.post("/v1/episodes/e/close", {"outcome": 0.5})
    problem("/v1/episodes/e/close", {})
    assert json.loads(company.get("/v1/episodes").text)["items"][0]["closed"]["outcome"] == 0.5


def test_what_was_archived_is_answered_as_before_byte_for_byte(
    server: Server, company: Caller, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    asked = {
        "state": 0,
        "decision_id": "d",
        "metadata": {"n": [1, 1.0]},
        "feasible": ["trade"],
        "reasons": {"hold": "no"},
    }
    inside = {"state": 1, "decision_id": "i", "episode": "e"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("/v1/decide", asked),
        ("/v1/decide", inside),
        ("/v1/decide:batch", {"items": [{"state": 0, "decision_id": "v"}, asked, inside]}),
        ("/v1/reward", {"decision_id": "d", "value": 0.5}),
        ("/v1/reward", {"decision_id": "d", "value": 0.1, "reward_id": "further"}),
        (
            "/v1/reward:batch",
            {"items": [{"decision_id": "d", "value": 0.5}, {"decision_id": "i", "value": 1}]},
        ),
        ("/v1/decisions/v/void", {}),
        ("/v1/episodes/e/close", {"outcome": 0.5}),
        ("/v1/episodes/close:batch", {"items": [{"episode": "e", "outcome": 0.5}]}),
    ]
    first = [company.post(path, body) for path, body in calls]
    assert [answer.status_code for answer in first] == [200] * len(calls), [answer.text for answer in first]
    archived = server.library.archive(company.tenant or "", older_than=0.0, output=tmp_path)
    assert (archived.decisions, archived.rewards) == (3, 3)
    again = [company.post(path, body) for path, body in calls]
    assert [answer.content for answer in again] == [answer.content for answer in first]
    late = company.post(
        "/v1/reward:batch", {"items": [*calls[5][1]["items"], {"decision_id": "v", "value": 1}]}
    )
    assert late.content.startswith(first[5].content[: -len("]}")] + b",")
    assert late.json()["items"][2]["error"]["code"] == "archived"
    assert server.library.verify(company.tenant).clean


def test_what_is_new_of_an_archived_decision_is_refused(
    server: Server, company: Caller, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    rewarded = {"decision_id": "d", "value": 0.5, "reward_id": "r"}
    company.post("/v1/decide", {"state": 0, "decision_id": "d"})
    company.post("/v1/reward", rewarded)
    other = {"decision_id": "d", "value": 0.25, "reward_id": "r"}
    before = company.post("/v1/reward", other).json()
    server.library.archive(company.tenant or "", older_than=0.0, output=tmp_path)
    company.post("/v1/decide", {"state": 0, "decision_id": "live"})
    late = [("/v1/reward", rewarded | {"reward_id": "late"}), ("/v1/decisions/d/void", {})]
    for path, body in late:
        answer = company.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (410, "archived"), answer.text
    for path, body in (
        ("/v1/decide", {"state": 1, "decision_id": "d"}),
        ("/v1/reward", other),
        ("/v1/reward", {"decision_id": "live", "value": 0.5, "reward_id": "r"}),
    ):
        answer = company.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (422, "id-reused"), answer.text
        assert answer.json()["stored_fingerprint"] != answer.json()["given_fingerprint"]
        if body == other:
            prints = ("stored_fingerprint", "given_fingerprint", "detail")
            assert [answer.json()[name] for name in prints] == [before[name] for name in prints]
    assert company.get("/v1/decisions", status="open").json()["items"][0]["decision_id"] == "live"
