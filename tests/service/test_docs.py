"""What the pages say of the service is so."""

from __future__ import annotations

import json
import re

from steersman.service.metrics import Metrics
from steersman.service.problems import STATUS
from tests.house.rules import ROOT
from tests.support.served import Server

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def test_every_route_has_a_heading(server: Server) -> None:
    document = server.http.get("/openapi.json").json()
    described = [f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found]
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == described


def test_the_problem_shown_is_the_one_that_is_answered(server: Server) -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    company = server.company(states=4)
    answered = company.post("/v1/decide", {"state": 7}).json()
    assert json.loads(shown) | {"request_id": ""} == answered | {"request_id": ""}


def test_every_status_of_an_error_is_told() -> None:
    told = {int(number) for number in re.findall(r"\b[45]\d\d\b", PAGE)}
    # Errors that no call of the service can meet need no line.
    assert set(STATUS.values()) - told <= {501}


def test_every_metric_is_told() -> None:
    declared = re.findall(r"^# TYPE (\w+)", Metrics().page().decode(), re.MULTILINE)
    assert declared
    told = re.findall(r"`(steersman_\w+)`", PAGE)
    assert all(
        any(name.startswith(metric) for name in told)
        for metric in declared
        if not metric.endswith("_created")
    )
