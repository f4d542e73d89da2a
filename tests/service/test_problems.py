"""Every error of the tree is a problem document with a code, a status and a heading in the docs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from steersman import errors
from steersman.errors import SteersmanError, StoreError
from steersman.service.problems import COMMANDS, STATUS, HttpRefusalError, problem, problem_headers, status_of
from steersman.service.rest import build_rest
from tests.house.rules import ROOT
from tests.support.served import Server

FACTS: dict[str, dict[str, Any]] = {
    "ForbiddenError": {"scope": "read"},
    "RateLimitedError": {"retry_after": 0.2},
    "OverloadedError": {"retry_after": 3.0},
    "KeyTextShownError": {"key_id": "0123456789ab"},
    "IdReusedError": {"stored_fingerprint": "aa", "given_fingerprint": "bb"},
}


def tree(kind: type[SteersmanError]) -> Iterator[type[SteersmanError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


KINDS = sorted(set(tree(SteersmanError)), key=lambda kind: kind.__name__)


def made(kind: type[SteersmanError]) -> SteersmanError:
    if kind is errors.MissingExtraError:
        return errors.MissingExtraError("serve", purpose="a test")
    return kind("what happened", where="here", hint="do that", **FACTS.get(kind.__name__, {}))


def test_the_table_has_every_class_of_the_tree_and_no_other() -> None:
    assert set(STATUS) == set(KINDS)
    assert {kind.__name__ for kind in KINDS} == set(errors.__all__)
    assert len({kind.code() for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_a_problem_document(kind: type[SteersmanError]) -> None:
    error = made(kind)
    document = problem(error, "r-1")
    assert {"type", "title", "status", "code", "detail", "request_id"} <= set(document)
    assert (document["status"], document["request_id"]) == (status_of(error), "r-1")
    assert document["type"].endswith(f":{document['code']}")
    assert document["title"] == (inspect.getdoc(kind) or "").splitlines()[0]
    assert 400 <= document["status"] < 600
    assert f"## {kind.__name__}\n" in (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    for name, value in FACTS.get(kind.__name__, {}).items():
        assert document[name] == value
    if issubclass(kind, StoreError):
        assert "what happened" not in str(document)
        assert "in the log" in document["detail"]
        assert document["title"] not in document["detail"]
    elif kind is not errors.MissingExtraError:
        assert (document["detail"], document["hint"]) == ("here: what happened", "do that")


def test_codes_are_stable() -> None:
    assert {
        kind.__name__: (kind.code(), STATUS[kind]) for kind in KINDS if STATUS[kind] not in {400, 500}
    } == {
        "AccessError": ("access", 403),
        "ArchivedError": ("archived", 410),
        "ClientBusyError": ("client-busy", 503),
        "ConflictError": ("conflict", 409),
        "DecisionLearnedError": ("decision-learned", 409),
        "DecisionVoidError": ("decision-void", 409),
        "EpisodeClosedError": ("episode-closed", 409),
        "ForbiddenError": ("forbidden", 403),
        "IdReusedError": ("id-reused", 422),
        "KeyTextShownError": ("key-text-shown", 409),
        "MissingExtraError": ("missing-extra", 501),
        "NameTakenError": ("name-taken", 409),
        "NotFoundError": ("not-found", 404),
        "OutputExistsError": ("output-exists", 409),
        "OverloadedError": ("overloaded", 503),
        "RateLimitedError": ("rate-limited", 429),
        "SchemaError": ("schema", 503),
        "StoreFullError": ("store-full", 507),
        "StoreUnavailableError": ("store-unavailable", 503),
        "TenantRetiredError": ("tenant-retired", 409),
        "UnauthorizedError": ("unauthorized", 401),
    }


def test_hints_name_routes_that_there_are() -> None:
    paths = build_rest().openapi()["paths"]
    described = {f"{method.upper()} {path}" for path, found in paths.items() for method in found}
    assert set(COMMANDS.values()) <= described


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("see: steersman tenant list", "see: GET /v1/tenants"),
        ("create it with: steersman base create everyone", "create it with: POST /v1/bases"),
        ("steersman keys revoke 01ab, and create another", "DELETE /v1/keys/01ab, and create another"),
        ("the row is elsewhere; see: steersman archive list TENANT", "the row is elsewhere"),
        ("run: steersman db upgrade", None),
        ("call again", "call again"),
    ],
)
def test_hints_to_callers_without_a_shell(hint: str, told: str | None) -> None:
    assert problem(errors.NotFoundError("no", hint=hint), "r").get("hint") == told


def test_what_was_archived_is_said_to_be_in_a_file() -> None:
    error = errors.ArchivedError("decision 'd' was archived")
    assert "steersman archive list TENANT" in str(error)
    assert problem(error, "r")["hint"] == "its row is in a file of the archive"


def test_no_hint_of_the_library_names_a_command_over_http() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/steersman").rglob("*.py")]
    hints = [hint for text in sources for hint in re.findall(r'hint=\(?\s*f?"([^"]*steersman [^"]*)"', text)]
    assert len(hints) > 8
    for hint in hints:
        assert "steersman " not in problem(errors.NotFoundError("no", hint=hint), "r").get("hint", "")


def test_a_title_is_true_of_what_happened(server: Server) -> None:
    operator, company = server.caller(None), server.company()
    company.post("/v1/decide", {"state": 0, "decision_id": "d", "feasible": ["hold"]})
    company.post("/v1/versions/1/freeze", {"name": "kept"})
    company.post("/v1/reward", {"decision_id": "d", "value": 0.5})
    named = {"tenant": company.tenant, "declaration": {"actions": ["hold"], "states": 1}}
    path = f"/v1/tenants/{company.tenant}/keys"
    again = {"headers": {"idempotency-key": "once"}}
    key = operator.post(path, {"name": "shop", "scopes": ["read"]}, **again).json()["key"]["key_id"]
    operator.http.delete(f"/v1/keys/{key}")
    shown = operator.post(path, {"name": "shop", "scopes": ["read"]}, **again).json()
    assert (shown["code"], shown["key_id"]) == ("key-text-shown", key)
    for answer, title in (
        (shown, "The text of the key was shown once and is not kept."),
        (operator.post("/v1/tenants", named).json(), "The id or name is taken."),
        (company.post("/v1/versions/1/freeze", {"name": "kept"}).json(), "The id or name is taken."),
        (operator.post(f"/v1/keys/{key}/rotate").json(), "What is asked does not fit what is there."),
        (company.post("/v1/refresh").json(), "What is asked does not fit what is there."),
    ):
        assert (answer["status"], answer["title"]) == (409, title)


def test_headers_that_a_status_calls_for() -> None:
    assert (b"retry-after", b"1") in problem_headers(made(errors.RateLimitedError))
    assert (b"retry-after", b"3") in problem_headers(made(errors.OverloadedError))
    assert (b"retry-after", b"1") in problem_headers(made(errors.StoreUnavailableError))
    assert b"www-authenticate" in dict(problem_headers(made(errors.UnauthorizedError)))
    refused = HttpRefusalError(405, "method-not-allowed", "expected GET", {"allow": "GET"})
    assert dict(problem_headers(refused))[b"allow"] == b"GET"
    assert problem(refused, "r")["code"] == "method-not-allowed"


def test_a_defect_tells_nothing_of_itself() -> None:
    document = problem(ZeroDivisionError("secret"), "r-1")
    assert (document["status"], document["code"]) == (500, "internal")
    assert "secret" not in str(document)
    assert "Zero" not in str(document)
