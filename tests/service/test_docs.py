"""What the pages say of the service is so."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from steersman.library import Steersman
from steersman.service.metrics import Metrics
from steersman.service.problems import STATUS
from tests.house.rules import ROOT
from tests.support.served import Server

PROBLEM = {"type", "title", "status", "detail", "code", "hint", "request_id"}
LIST = {"items", "next", "after"}
"""What HTTP adds to the words of the library: problem documents (RFC 9457), and lists in pages."""

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def test_every_route_has_a_heading(server: Server) -> None:
    document = server.http.get("/openapi.json").json()
    described = [f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found]
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == described


def names_in(found: Any) -> Iterator[str]:
    """Every property and parameter that a description names."""
    if isinstance(found, dict):
        properties = found.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        if {"name", "in", "schema"} <= found.keys() and found["in"] != "header":
            yield found["name"]
    for inner in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from names_in(inner)


def keys_in(declared: Any) -> Iterator[str]:
    if isinstance(declared, dict):
        yield from declared
    for inner in declared.values() if isinstance(declared, dict) else declared:
        if isinstance(inner, dict | list):
            yield from keys_in(inner)


def test_the_description_has_the_words_of_the_library(server: Server) -> None:
    below = ("steersman.domain.", "steersman.store.", "steersman.usecases.")
    kinds = [
        kind
        for name, module in [*sys.modules.items()]
        if name.startswith(below)
        for kind in vars(module).values()
    ]
    words = {
        item.name for kind in kinds if dataclasses.is_dataclass(kind) for item in dataclasses.fields(kind)
    }
    for _, verb in inspect.getmembers(Steersman, inspect.isfunction):
        words |= inspect.signature(verb).parameters.keys()
    company = server.company(
        states={"factors": [{"name": "stage", "values": ["early"]}, {"name": "gap", "edges": [0.5]}]}
    )
    words |= set(keys_in(server.library.show_tenant(company.tenant or "").spec.to_json()))
    document = server.http.get("/openapi.json").json()
    assert set(names_in(document)) - words - PROBLEM - LIST == set()
    document["components"]["schemas"]["Decision"]["properties"]["tactic"] = {"type": "string"}
    assert set(names_in(document)) - words - PROBLEM - LIST == {"tactic"}


def test_the_problem_shown_is_the_one_that_is_answered(server: Server) -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    company = server.company(states=4)
    answered = company.post("/v1/decide", {"state": 7}).json()
    assert json.loads(shown) | {"request_id": ""} == answered | {"request_id": ""}


def test_every_status_of_an_error_is_told() -> None:
    told = {int(number) for number in re.findall(r"\b[45]\d\d\b", PAGE)}
    # Errors that no call of the service can meet need no line.
    assert set(STATUS.values()) - told <= {501}


def test_every_code_that_is_no_error_of_the_tree_is_told() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/steersman/service").rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'HttpRefusalError\(\s*\d+,\s*"([^"]+)"', text)}
    assert {"no-such-route", "method-not-allowed", "body-too-large", "not-ready"} <= codes
    assert {code for code in {*codes, "internal"} if f"`{code}`" not in PAGE} == set()


def test_every_metric_is_told() -> None:
    declared = re.findall(r"^# TYPE (\w+)", Metrics().page().decode(), re.MULTILINE)
    assert declared
    told = re.findall(r"`(steersman_\w+)`", PAGE)
    assert all(
        any(name.startswith(metric) for name in told)
        for metric in declared
        if not metric.endswith("_created")
    )
