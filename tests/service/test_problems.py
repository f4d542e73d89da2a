"""Every error of the tree is a problem document with a code, a status and a heading in the docs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from steersman import errors
from steersman.errors import SteersmanError, StoreError
from steersman.service.problems import STATUS, HttpRefusalError, problem, problem_headers, status_of
from tests.house.rules import ROOT

FACTS: dict[str, dict[str, Any]] = {
    "ForbiddenError": {"scope": "read"},
    "RateLimitedError": {"retry_after": 0.2},
    "OverloadedError": {"retry_after": 3.0},
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
    assert document["title"] == inspect.getdoc(kind)
    assert 400 <= document["status"] < 600
    assert f"## {kind.__name__}\n" in (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    for name, value in FACTS.get(kind.__name__, {}).items():
        assert document[name] == value
    if issubclass(kind, StoreError):
        assert "what happened" not in str(document)
    elif kind is not errors.MissingExtraError:
        assert (document["detail"], document["hint"]) == ("here: what happened", "do that")


def test_codes_are_stable() -> None:
    assert {
        kind.__name__: (kind.code(), STATUS[kind]) for kind in KINDS if STATUS[kind] not in {400, 500}
    } == {
        "AccessError": ("access", 403),
        "ArchivedError": ("archived", 410),
        "ConflictError": ("conflict", 409),
        "DecisionLearnedError": ("decision-learned", 409),
        "DecisionVoidError": ("decision-void", 409),
        "EpisodeClosedError": ("episode-closed", 409),
        "ForbiddenError": ("forbidden", 403),
        "IdReusedError": ("id-reused", 422),
        "MissingExtraError": ("missing-extra", 501),
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
