"""Every error that the service tells arrives as what it was."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from steersman import errors
from steersman.client import Client
from steersman.client.exchange import Reply
from steersman.client.problems import error_of
from steersman.domain.records import CloseRequest
from steersman.errors import SteersmanError, StoreError
from steersman.service.problems import problem, problem_headers, status_of
from tests.client.proxy import Proxy
from tests.support.served import Server

FACTS: dict[str, Any] = {
    "scope": "manage",
    "key_id": "0123456789ab",
    "retry_after": 1.5,
    "stored_fingerprint": "ab" * 32,
    "given_fingerprint": "cd" * 32,
    "extra": "plots",
    "purpose": "drawing",
}


def tree(kind: type[SteersmanError] = SteersmanError) -> Iterator[type[SteersmanError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


def made(kind: type[SteersmanError]) -> tuple[SteersmanError, dict[str, Any]]:
    """Return an error of a class, and the facts that it was made with."""
    parameters = set(inspect.signature(kind).parameters)
    facts = {name: value for name, value in FACTS.items() if name in parameters}
    if "message" not in parameters:
        return kind(facts["extra"], **{k: v for k, v in facts.items() if k != "extra"}), facts
    return kind("expected this, got that", hint="try that", **facts), facts


def over_the_wire(error: SteersmanError) -> SteersmanError:
    headers = {name.decode(): value.decode() for name, value in problem_headers(error)}
    body = msgspec.json.encode(problem(error, "request-7"))
    return error_of(Reply(status_of(error), headers, body), "http://s")


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_every_class_comes_back_with_message_hint_facts_and_request(kind: type[SteersmanError]) -> None:
    error, facts = made(kind)
    back = over_the_wire(error)
    assert type(back) is kind
    assert {name: getattr(back, name) for name in facts} == facts
    assert back.__notes__ == ["request id: request-7"]
    if issubclass(kind, StoreError):  # what a database says is told to nobody
        assert "in the log of the service" in str(back)
    else:
        assert (back.message, back.hint) == (error.message, error.hint)
        assert str(back) == str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidInputError),
        (401, errors.UnauthorizedError),
        (403, errors.AccessError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (410, errors.ArchivedError),
        (413, errors.InvalidInputError),
        (418, errors.InvalidInputError),
        (429, errors.AccessError),
        (500, SteersmanError),
        (503, errors.StoreUnavailableError),
        (507, errors.StoreFullError),
    ],
)
def test_a_code_of_a_later_release_leaves_the_status(status: int, kind: type[SteersmanError]) -> None:
    body = msgspec.json.encode({"status": status, "code": "of-tomorrow", "detail": "no", "hint": "wait"})
    error = error_of(Reply(status, {}, body), "http://s")
    assert (type(error), error.message, error.hint) == (kind, "no", "wait")


@pytest.mark.parametrize(
    "body", [b"<html>Bad gateway</html>", b"", b"[]", b'{"message": "no"}', b'{"detail": 7}']
)
def test_what_is_no_problem_document_is_said_to_be_none(body: bytes) -> None:
    error = error_of(Reply(502, {}, body), "http://s")
    assert type(error) is errors.StoreUnavailableError
    assert (
        str(error) == "http://s: expected an answer of the service, got status 502 without a problem document"
    )


def test_facts_that_are_missing_leave_the_status() -> None:
    document = {"status": 422, "code": errors.IdReusedError.code(), "detail": "no"}
    assert (
        type(error_of(Reply(422, {}, msgspec.json.encode(document)), "http://s")) is errors.InvalidInputError
    )


def test_nothing_in_a_document_replaces_what_an_error_is_made_of() -> None:
    document = {
        "status": 404,
        "code": "not-found",
        "detail": "no",
        "message": "other",
        "args": [],
        "where": "x",
    }
    error = error_of(Reply(404, {}, msgspec.json.encode(document)), "http://s")
    assert (str(error), error.where, error.args) == ("no", None, ("no",))


def test_errors_of_a_real_server(server: Server, client: Client, tenant: str) -> None:
    library = server.library
    decision = client.decide(tenant, 0, decision_id="d-1", episode="e-1")
    with pytest.raises(errors.IdReusedError) as reused:
        client.decide(tenant, 1, decision_id="d-1", episode="e-1")
    with pytest.raises(errors.IdReusedError) as same:
        library.decide(tenant, 1, decision_id="d-1", episode="e-1")
    assert reused.value.stored_fingerprint == same.value.stored_fingerprint
    assert reused.value.given_fingerprint == same.value.given_fingerprint
    with pytest.raises(errors.InvalidStateError):
        client.decide(tenant, 2)
    with pytest.raises(errors.InvalidActionError):
        client.decide(tenant, 0, feasible=["sell"])
    with pytest.raises(errors.InvalidRewardError):
        client.reward(tenant, decision.decision_id, 7.0)
    with pytest.raises(errors.NotFoundError):
        client.reward(tenant, "d-2", 0.5)
    client.close_episode(tenant, "e-1", 0.5)
    with pytest.raises(errors.EpisodeClosedError):
        client.decide(tenant, 0, episode="e-1")
    with pytest.raises(errors.IdReusedError):
        client.close_episode(tenant, "e-1", 0.25)
    with pytest.raises(errors.DecisionLearnedError):
        client.void(tenant, "d-1")
    taken_back = client.void(tenant, client.decide(tenant, 0).decision_id)
    with pytest.raises(errors.DecisionVoidError):
        client.reward(tenant, taken_back.decision_id, 0.5)
    with pytest.raises(errors.InvalidSpecError):
        client.change_tenant(tenant, {"exploration": {"epsilon": 2.0}})
    with pytest.raises(errors.ConflictError):
        client.roll_back(tenant)
    with pytest.raises(errors.ForbiddenError) as forbidden:
        client.list_tenants()
    assert forbidden.value.scope == "operator"
    for foreign in (lambda: client.explain("nobody", "d-1"), lambda: client.decide("nobody", 0)):
        with pytest.raises(errors.NotFoundError):
            foreign()
    library.retire_tenant(tenant)
    with pytest.raises(errors.TenantRetiredError):
        client.decide(tenant, 0)


def test_an_unknown_key_and_one_with_too_few_scopes(server: Server, tenant: str) -> None:
    with Client(server.url, f"sk_{'0' * 12}_{'A' * 43}") as stranger, pytest.raises(errors.UnauthorizedError):
        stranger.decide(tenant, 0)
    key = server.library.create_key(tenant, name="half", scopes=["reward"]).text
    with Client(server.url, key) as half, pytest.raises(errors.ForbiddenError) as refused:
        half.decide(tenant, 0)
    assert refused.value.scope == "decide"


def test_a_list_answers_errors_in_their_places(client: Client, tenant: str) -> None:
    known, unknown = client.close_many(
        [CloseRequest(tenant, "none"), CloseRequest(tenant, "none", float("inf"))]
    )
    assert (type(known), type(unknown)) == (errors.NotFoundError, errors.InvalidRewardError)


def test_a_service_that_is_away(proxy: Proxy, key: str, tenant: str) -> None:
    proxy.upstream = None
    with Client(proxy.url, key, retries=2) as client, pytest.raises(errors.StoreUnavailableError) as away:
        client.decide(tenant, 0)
    assert str(away.value).startswith(f"{proxy.url}: no answer after 3 tries: ")
    assert proxy.connections == 3


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://host?x=1", "http://[::1"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="url: expected"):
        Client(url, "key")


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_is_none_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(errors.InvalidInputError) as refused:
        Client("http://host", key)
    assert not key or key not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://user:hunter2@host", "https://hunter2@host", "ftp://u:hunter2@host", "http://hunter2@[::1"]
)
def test_a_url_that_holds_a_password_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="url: expected one without") as told:
        Client(url, "key")
    assert "hunter2" not in str(told.value)


def test_an_answer_nested_beyond_reading_is_an_error_of_ours() -> None:
    told = error_of(Reply(500, {}, b"[" * 100_000), "http://s")
    assert type(told) is errors.SteersmanError
    assert "without a problem document" in str(told)
