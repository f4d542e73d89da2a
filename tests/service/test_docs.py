"""What the pages say of the service is so."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from steersman import errors
from steersman.console import health
from steersman.domain.settings import TenantSpec
from steersman.library import Steersman
from steersman.service import access, bodies, slots
from steersman.service.fields import CHOICES, HOW_CHANGED
from steersman.service.metrics import Metrics
from steersman.service.problems import CODES, STATUS
from steersman.service.rest import build_rest
from steersman.service.wire import MOST_ITEMS
from steersman.settings import Settings
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
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == [*described, "Schemas"]
    assert re.findall(r"^### (.+)$", page, re.MULTILINE) == [*document["components"]["schemas"]]


def every_schema(found: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of a description that has properties, and what is there."""
    if isinstance(found, dict) and isinstance(found.get("properties"), dict):
        yield place, found
    for name, inner in (
        found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    ):
        yield from every_schema(inner, f"{place}.{name}")


def test_every_field_of_every_body_and_answer_is_described() -> None:
    document = build_rest().openapi()
    fields = {
        f"{place}.{name}": body
        for place, schema in every_schema(document)
        for name, body in schema["properties"].items()
    }
    assert len(fields) > 250
    assert [place for place, body in fields.items() if not body.get("description", "").endswith(".")] == []
    times = {place: body["description"] for place, body in fields.items() if place.endswith("_at")}
    assert len(times) > 10
    assert [place for place, told in times.items() if "microseconds since 1970, UTC" not in told] == []
    parameters = [
        (place, item)
        for place, found in document["paths"].items()
        for operation in found.values()
        for item in operation.get("parameters", ())
    ]
    assert {
        place for place, item in parameters if not item.get("description") and item["in"] != "path"
    } == set()
    limits = [item["schema"] for _, item in parameters if item["name"] == "limit"]
    assert {(limit["minimum"], limit["maximum"]) for limit in limits} == {(1, 1000)}
    assert {limit["default"] for limit in limits} == {20, 100}


def test_operations_have_verbs_for_names_and_sentences_for_summaries() -> None:
    operations = [each for found in build_rest().openapi()["paths"].values() for each in found.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", operation["operationId"])
        assert not re.match("get_|post_|patch_|delete_", operation["operationId"])
        assert re.fullmatch(r"[A-Z][a-z]+ .*[a-z0-9]\.", operation["summary"]), operation["summary"]
    verbs = {name for name, _ in inspect.getmembers(Steersman, inspect.isfunction)}
    assert {"create_tenant", "decide_many", "close_episode", "freeze", "rotate_key"} <= verbs & set(names)


def test_examples_have_every_field_of_their_bodies() -> None:
    document = build_rest().openapi()
    schemas = document["components"]["schemas"]
    shown: dict[str, set[str]] = {}
    for found in document["paths"].values():
        for operation in found.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is None or body["schema"].get("$ref", "").endswith("/Changes"):  # which are parts
                continue
            schema, examples = body["schema"], [body["example"]]
            if "$ref" not in schema:
                schema, examples = schema["properties"]["items"]["items"], body["example"]["items"]
            # A tenant's key need not name its tenant, and no example could name that of every reader.
            shown.setdefault(schema["$ref"].rpartition("/")[2], {"tenant"}).update(*examples)
    assert {"DecideBody", "RewardBody", "CloseItem", "KeyBody"} <= shown.keys()
    for name, fields in shown.items():
        assert fields - {"tenant"} == schemas[name].get("properties", {}).keys() - {"tenant"}, name


STORED = {
    ("Decision", "status"): ("decisions", "status"),
    ("Reward", "effect"): ("rewards", "effect"),
    ("Reward", "kind"): ("rewards", "kind"),
    ("ClosedEpisode", "kind"): ("episodes", "kind"),
    ("Episode", "status"): ("episodes", "status"),
    ("LearningStep", "kind"): ("learning_steps", "kind"),
    ("PolicyVersion", "status"): ("policy_versions", "status"),
    ("PolicyVersion", "origin"): ("policy_versions", "origin"),
    ("Owner", "status"): ("tenants", "status"),
}
"""Fields that a column of a table holds, of which the declaration of the table names the values."""


def values_of_columns() -> dict[tuple[str, str], set[str]]:
    source = (ROOT / "src/steersman/store/tables.py").read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"^\w+ = (?:_table|Table)\(", source, flags=re.MULTILINE)[1:]:
        (table,) = re.findall(r'^    "(\w+)",', part, re.MULTILINE)[:1]
        for column, told in re.findall(
            r'^    _text\("(\w+)".*?\),  # (?:of the close: )?(.+)$', part, re.MULTILINE
        ):
            found[table, column] = set(re.split(", | or ", told))
    return found


def calls_of(name: str) -> Iterator[ast.Call]:
    """Every call of the use cases of something that is called so."""
    for path in (ROOT / "src/steersman/usecases").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                yield node


def texts_in(node: ast.AST | None) -> set[str]:
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def argument(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def test_a_change_merges_and_replaces_as_it_is_told(server: Server) -> None:
    base = server.library.create_base(f"base-{uuid4().hex}", {"actions": ["hold", "trade"], "states": 3})
    declared: dict[str, Any] = {
        "actions": ["hold", "trade"],
        "states": {"size": 3},
        "learning": {"alpha": 0.5, "gamma": 0.9, "lambda": 0.1},
        "exploration": {"c": 0.7, "epsilon": 0.2},
        "reward_range": [0.0, 2.0],
        "priors": {"hold": {"q": 1.0, "weight": 1.0}},
        "base": base.tenant.removeprefix("@"),
        "contributes": True,
        "borrow_cap": 5.0,
        "reward_wait": 60.0,
        "default_reward": 1.0,
    }
    changes: dict[str, Any] = {
        "actions": ["hold", "push"],
        "states": {"size": 2},
        "learning": {"gamma": 0.5},
        "exploration": {"epsilon": 0.05},
        "reward_range": [0.0, 3.0],
        "priors": {"trade": {"q": 0.5, "weight": 2.0}},
        "base": None,
        "contributes": False,
        "borrow_cap": 6.0,
        "reward_wait": 61.0,
        "default_reward": 0.5,
    }
    page = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*`) \| (merged|replaced)", page, re.MULTILINE)
    on_page = {name: how for names, how in rows for name in re.findall(r"`(\w+)`", names)}
    assert declared.keys() == changes.keys() == HOW_CHANGED.keys() == on_page.keys()
    described = build_rest().openapi()["components"]["schemas"]["Changes"]["properties"]
    for name, given in changes.items():
        company = server.company(**declared)
        before = company.get("/v1/tenant").json()["spec"]
        # Without its base a tenant can contribute to none.
        extra = {"contributes": False} if name == "base" else {}
        company.http.patch("/v1/tenant", json={name: given} | extra).raise_for_status()
        after = company.get("/v1/tenant").json()["spec"]
        written = [{"id": action, "label": action} for action in given] if name == "actions" else given
        merged = on_page[name] == "merged"
        assert HOW_CHANGED[name].startswith("Merged" if merged else "Replaced")
        assert HOW_CHANGED[name] in described[name]["description"]
        assert after == before | extra | {name: before[name] | written if merged else written}


def test_closed_sets_of_values_are_those_of_the_code() -> None:
    schemas = build_rest().openapi()["components"]["schemas"]
    told = {
        (name, field): set(found["enum"])
        for name, schema in schemas.items()
        for field, body in schema.get("properties", {}).items()
        if "enum" in (found := body.get("items", body))
    }
    assert {place for place in told if place[0] != "DecisionAnswer"} == set(CHOICES)
    columns = values_of_columns()
    assert {place: told[place] for place in STORED} == {place: columns[at] for place, at in STORED.items()}
    findings = [*calls_of("Finding")]
    assert told["Finding", "code"] == set().union(*(texts_in(call.args[1]) for call in findings))
    assert told["Finding", "severity"] == set(health._COLOURS)
    assert told["Finding", "severity"] >= set().union(*(texts_in(call.args[0]) for call in findings))
    subjects = set().union(*(texts_in(call.args[1]) for call in calls_of("found.add")))
    assert told["Difference", "subject"] == subjects
    lines = [*calls_of("audit.write_line"), *calls_of("_write_line")]
    verbs = set().union(*(texts_in(argument(call, "verb")) for call in lines))
    # These two are written by what makes a version the active one, under the name of the operation.
    named = set().union(*(texts_in(call.args[0]) for call in calls_of("name_operation")))
    assert {"activate", "roll_back"} <= named
    assert told["AuditLine", "verb"] == verbs | {"activate", "roll_back"}
    spec = TenantSpec.from_json({"actions": ["a"], "states": 1}).to_json()
    assert told["MigrationPlan", "changed"] == {*spec, "labels"}
    assert (
        schemas["Changes"]["properties"].keys() == schemas["TenantSpec"]["properties"].keys() == spec.keys()
    )


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
    for kind in vars(errors).values():
        words |= inspect.signature(kind).parameters.keys() if inspect.isclass(kind) else set()
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


def test_the_limits_are_those_of_the_code() -> None:
    table = PAGE.partition("## Limits")[2].partition("## Group commit")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    told = {row[0].removeprefix("| "): (row[1], row[2], row[3].removesuffix(" |")) for row in rows}
    assert told["requests under way that are not hot"] == (str(slots._MOST), "a process", "503")
    assert f"| {slots._MOST_OF_ONE} | a tenant, all its keys together | 429 |" in table
    assert told["keys that are being looked up"][0] == str(access._MOST_ASKED)
    assert told["items of a list"][0] == f"{MOST_ITEMS:,}"
    assert told["seconds for a body to arrive"][0] == f"{bodies._WITHIN:g}"
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert named == {"key_rate", "key_in_flight", "queue_limit", "body_limit"}
    assert named <= {item.name for item in dataclasses.fields(Settings)}


def test_every_code_that_is_no_error_of_the_tree_is_told() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/steersman/service").rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'HttpRefusalError\(\s*\d+,\s*"([^"]+)"', text)}
    assert {"no-such-route", "method-not-allowed", "body-too-large", "not-ready"} <= codes
    assert {*codes, "internal"} == set(CODES) - {kind.code() for kind in STATUS}
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
