"""Requests generated from the description: whatever comes, the answer is as described and no failure of ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import ServerError
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from steersman.usecases.tenants import list_tenants
from tests.reliability.judge import tell
from tests.service.test_isolation import SCOPE_OF
from tests.support.served import Caller, Server

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 6  # of each kind for each route
SEED = 64
DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2}
THERE: dict[str, Any] = {
    "decision_id": "d-1",
    "episode": "deal-7",
    "version": "1",
    "state": 0,
    "feasible": None,
    "reasons": None,
    "value": 0.5,
    "outcome": 0.5,
    "name": "kept",
    "to": 1,
}
TURNED_AWAY = {"unauthorized", "forbidden", "invalid-input"}
"""Codes of requests that came to nothing before anything was looked for."""


@dataclass(frozen=True)
class Scene:
    """The description, two tenants with something to read, and an operator."""

    description: schemathesis.BaseSchema
    server: Server
    callers: tuple[Caller, ...]

    def known(self, caller: Caller) -> dict[str, Any]:
        """Parts of requests of a caller that are about what is there; for an operator, of a tenant made for it."""
        owner = caller if caller.tenant is not None else self.server.company()
        base = f"base-{owner.tenant}"
        if caller.tenant is None:
            self.server.library.create_base(base, DECLARED)
        made = {"tenant": owner.tenant, "base": base, "key_id": owner.key[3:15], "declaration": DECLARED}
        return THERE | made


@pytest.fixture(scope="module")
def scene(server: Server) -> Scene:
    document = server.http.get("/openapi.json").json()
    tenants = [server.company(), server.company()]
    for caller in tenants:
        caller.post("/v1/decide", {"state": 0, "decision_id": "d-1", "episode": "deal-7"})
    return Scene(schemathesis.openapi.from_dict(document), server, (*tenants, server.caller(None)))


@pytest.mark.parametrize(
    ("route", "mode"),
    [
        *((route, "positive") for route in SCOPE_OF),
        # What takes nothing cannot be given anything wrong.
        *((route, "negative") for route, scope in SCOPE_OF.items() if scope != "open"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_no_generated_request_is_a_failure(scene: Scene, route: tuple[str, str], mode: str) -> None:
    method, path = route
    operation: Any = scene.description[path][method]
    kind = schemathesis.GenerationMode(mode)

    outcomes: Counter[str] = Counter()
    callers = scene.callers
    if mode == "positive" and SCOPE_OF[route] != "open":
        callers = tuple(c for c in callers if (c.tenant is None) == (SCOPE_OF[route] == "operator"))
    known = {caller.key: scene.known(caller) for caller in callers}

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(operation.as_strategy(generation_mode=kind), st.sampled_from(callers), st.booleans())
    def generated(case: Any, caller: Caller, there: bool) -> None:
        if there:
            fill_in(case, known[caller.key])
        headers = {"authorization": f"Bearer {caller.key}"}
        answer = case.call(base_url=scene.server.url, headers=headers, session=session)
        outcomes[answer.json()["code"] if answer.status_code >= 400 else str(answer.status_code)] += 1
        case.validate_response(answer, checks=CHECKS, headers=headers)

    with requests.Session() as session:
        generated()
    tell(SEED, f"{outcomes.total()} requests, answered {dict(outcomes)}")
    assert mode == "negative" or outcomes.keys() - TURNED_AWAY


def fill_in(case: Any, known: dict[str, Any]) -> None:
    """Let a request be about what is there, as far as it names such things."""
    body = case.body if isinstance(case.body, dict) else {}
    items = body.get("items")
    parts = [case.path_parameters, case.query, body, *(items if isinstance(items, list) else ())]
    for part in parts:
        if isinstance(part, dict):
            part.update({name: known[name] for name in part.keys() & known.keys()})


def test_a_failure_would_be_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("steersman.service.routes.reading.doctor", fail)
    with pytest.raises(BaseExceptionGroup) as found:
        test_no_generated_request_is_a_failure(scene, ("GET", "/v1/doctor"), "positive")
    assert found.group_contains(ServerError)


def test_nothing_generated_has_harmed_what_was_learned(scene: Scene) -> None:
    database = scene.server.library.database
    assert all(scene.server.library.verify(owner.tenant).clean for owner in list_tenants(database))
