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


@dataclass(frozen=True)
class Scene:
    """The description, two tenants with something to read, and an operator."""

    description: schemathesis.BaseSchema
    server: Server
    callers: tuple[Caller, ...]


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

    statuses: Counter[int] = Counter()

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(operation.as_strategy(generation_mode=kind), st.sampled_from(scene.callers))
    def generated(case: Any, caller: Caller) -> None:
        headers = {"authorization": f"Bearer {caller.key}"}
        answer = case.call(base_url=scene.server.url, headers=headers, session=session)
        statuses[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS, headers=headers)

    with requests.Session() as session:
        generated()
    tell(SEED, f"{statuses.total()} requests, answered {dict(statuses)}")


def test_nothing_generated_has_harmed_what_was_learned(scene: Scene) -> None:
    database = scene.server.library.database
    assert all(scene.server.library.verify(owner.tenant).clean for owner in list_tenants(database))
