"""Bodies are read strictly, and the same way on both databases and both ways of reading."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steersman.domain.strict_json import JsonRules, parse_json
from steersman.errors import InvalidInputError
from steersman.service.routes.bodies import KeyBody, NoBody, RollBackBody
from steersman.service.strict import MAX_DEPTH, read_as, read_document
from steersman.service.wire import DecideBody, RewardBody
from tests.support.postgres import PostgresCluster
from tests.support.served import Caller, serving

REFUSED: dict[str, bytes] = {
    "nothing but blanks": b"  ",
    "no json": b"state=1",
    "two documents": b'{"state": 0} {}',
    "cut short": b'{"state": ',
    "a comma too many": b'{"state": 0,}',
    "single quotes": b"{'state': 0}",
    "a list": b"[0]",
    "null": b"null",
    "a byte order mark": b'\xef\xbb\xbf{"state": 0}',
    "no utf-8": b'{"state": 0, "episode": "\xff"}',
    "utf-16": '{"state": 0}'.encode("utf-16"),
    "an overlong slash": b'{"state": 0, "episode": "\xc0\xaf"}',
    "a key twice": b'{"state": 0, "state": 1}',
    "a key twice, once escaped": b'{"state": 0, "st\\u0061te": 1}',
    "a key twice, deep": b'{"state": 0, "metadata": {"a": {"b": 1, "b": 2}}}',
    "a key twice beside a colon in a text": b'{"state": 0, "episode": "a:b", "episode": "c"}',
    "an unknown field": b'{"state": 0, "colour": 1}',
    "no state": b"{}",
    "a boolean for a number": b'{"state": true}',
    "a boolean in a state": b'{"state": {"size": true}}',
    "a number for a boolean": b'{"state": 0, "explore": 1}',
    "a number for a text": b'{"state": 0, "episode": 1}',
    "a text for a list": b'{"state": 0, "feasible": "hold"}',
    "NaN": b'{"state": 0, "metadata": {"a": NaN}}',
    "Infinity": b'{"state": 0, "metadata": {"a": Infinity}}',
    "minus Infinity": b'{"state": 0, "metadata": {"a": -Infinity}}',
    "1e400": b'{"state": 0, "metadata": {"a": 1e400}}',
    "a state of 1e400": b'{"state": 1e400}',
    "an integer of 65 bits": b'{"state": 18446744073709551616}',
    "below minus 2 to the 63": b'{"state": 0, "metadata": {"a": -9223372036854775809}}',
    "2 to the 63": b'{"state": 0, "metadata": {"a": 9223372036854775808}}',
    "an integer of a thousand digits": b'{"state": 0, "metadata": {"a": ' + b"9" * 1000 + b"}}",
    "an integer of ten thousand digits": b'{"state": 0, "metadata": {"a": ' + b"9" * 10_000 + b"}}",
    "a leading zero": b'{"state": 00}',
    "hexadecimal": b'{"state": 0x1}',
    "a lone surrogate": b'{"state": 0, "episode": "\\ud800"}',
    "surrogates the wrong way round": b'{"state": 0, "metadata": {"a": "\\udc00\\ud800"}}',
    "an escaped NUL": b'{"state": 0, "episode": "a\\u0000"}',
    "a NUL in a key": b'{"state": 0, "metadata": {"a\\u0000": 1}}',
    "a raw NUL": b'{"state": 0, "episode": "a\x00"}',
    "a raw newline in a text": b'{"state": 0, "episode": "a\nb"}',
    "nested 33 deep": b'{"state": 0, "metadata": ' + b'{"a":' * 32 + b"1" + b"}" * 33,
    "nested 33 deep in lists": b'{"state": 0, "metadata": {"a": ' + b"[" * 31 + b"]" * 31 + b"}}",
    "nested a hundred thousand deep": b'{"state": 0, "metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}
"""Bodies of a decide that are no such thing."""


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_is_no_strict_json_is_a_problem(company: Caller, body: bytes) -> None:
    refused = company.http.post("/v1/decide", content=body)
    problem = refused.json()
    assert (refused.status_code, problem["status"], problem["code"]) == (400, 400, "invalid-input"), problem
    assert not any(word in refused.text for word in ("NaN", "Infinity", "Traceback", "1e400"))
    assert company.get("/v1/decisions").status_code == 200
    assert company.get("/v1/episodes").json()["items"] == []


@pytest.mark.parametrize("path", ["/v1/reward", "/v1/episodes/e/close", "/v1/roll-back", "/v1/tenant"])
def test_every_body_is_read_so(company: Caller, path: str) -> None:
    method = "PATCH" if path == "/v1/tenant" else "POST"
    for body in (b'{"tenant": 1, "tenant": 2}', b'{"a": NaN}', b'{"a": "\\u0000"}', b"[]"):
        refused = company.http.request(method, path, content=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-input"), refused.text


@pytest.mark.parametrize("value", ["true", '"1"', "null", "[]", "1e400", "NaN", "-1e999"])
def test_a_reward_is_a_finite_number(company: Caller, value: str) -> None:
    company.post("/v1/decide", {"state": 0, "decision_id": "d"})
    refused = company.http.post("/v1/reward", content=f'{{"decision_id": "d", "value": {value}}}')
    assert refused.status_code == 400
    assert company.get("/v1/decisions/d").json()["rewards"] == []


def test_what_is_strict_json_is_read(company: Caller) -> None:
    texts = {"é": "日本", "tab": "\t", "pair": "😀", "colon": "a:b", "slash": "a/b\\c"}
    metadata = {
        "texts": texts,
        "numbers": [0, -1, 2**63 - 1, -(2**63), 1.5, 1e300, 5e-324],
        "none": None,
        "yes": True,
    }
    for number, ascii_only in enumerate((True, False)):
        body = json.dumps(
            {"state": 0, "metadata": metadata, "decision_id": f"d{number}"}, ensure_ascii=ascii_only
        )
        made = company.http.post("/v1/decide", content=body.encode())
        assert made.status_code == 200, made.text
        assert made.json()["metadata"] == metadata
    nested: Any = 1
    for _ in range(30):
        nested = {"a": nested}
    assert company.post("/v1/decide", {"state": 0, "metadata": nested}).status_code == 200


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(company: Caller) -> None:
    refused = company.http.post("/v1/decide", content=b" " * (1 << 20) + b'{"state": 0}')
    assert (refused.status_code, refused.json()["code"]) == (413, "body-too-large")
    accepted = company.http.post("/v1/decide", content=b" " * ((1 << 20) - 12) + b'{"state": 0}')
    assert accepted.status_code == 200

    def endless() -> Any:
        for _ in range(100):
            yield b" " * (1 << 16)

    assert company.http.post("/v1/tenant", content=endless()).status_code in {405, 413}
    refused = company.http.post("/v1/roll-back", content=endless())
    assert (refused.status_code, refused.json()["code"]) == (413, "body-too-large")


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresCluster, postgres_template: str
) -> Iterator[tuple[Caller, ...]]:
    """A caller of a service on each database."""
    name = postgres_server.create_database(template=postgres_template)
    with ExitStack() as stack:
        file = tmp_path_factory.mktemp("both") / "steersman.db"
        servers = [stack.enter_context(serving(f"sqlite:///{file}"))]
        servers.append(stack.enter_context(serving(postgres_server.url(name), roles=True)))
        for server in servers:
            server.library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        callers = tuple(server.caller("acme") for server in servers)
        for caller in callers:
            caller.post("/v1/decide", {"state": 0, "decision_id": "d", "episode": "e"})
        yield callers
    postgres_server.drop_database(name)


ALIKE: list[tuple[str, bytes]] = [
    *(("/v1/decide", body) for body in REFUSED.values()),
    ("/v1/decide", b" " * (1 << 20) + b'{"state": 0}'),
    *(
        ("/v1/decide", b'{"state": ' + state + b"}")
        for state in (b"2", b"-1", b"2147483648", b"9223372036854775807", b'{"size": 1}', b"0.5", b'"0"')
    ),
    *(
        ("/v1/decide", b'{"state": 0, "decision_id": ' + name + b"}")
        for name in (b'""', b'"' + b"d" * 1000 + b'"', b'"\\u007f"', b'"d\\u0085"')
    ),
    *(("/v1/decide", b'{"state": 0, "feasible": ' + some + b"}") for some in (b"[]", b'["none"]', b"[1]")),
    *(
        ("/v1/reward", b'{"decision_id": "d", "value": ' + value + b"}")
        for value in (b"true", b'"1"', b"null", b"1e400", b"NaN", b"1.5", b"-1e308", b"9223372036854775808")
    ),
    ("/v1/reward", b'{"decision_id": "none", "value": 1}'),
    ("/v1/decide:batch", b'{"items": [{"state": 9}, {"state": 0, "decision_id": ""}, {"state": NaN}]}'),
    ("/v1/decide:batch", b'{"items": [{"state": 9}, {"state": 0, "decision_id": ""}, {"state": true}]}'),
    ("/v1/episodes/none/close", b"{}"),
    *(
        (path, body.replace(b"?", number))
        for path, body in (
            ("/v1/episodes/e/close", b'{"outcome": ?}'),
            ("/v1/episodes/close:batch", b'{"items": [{"episode": "e", "outcome": ?}]}'),
            ("/v1/reward:batch", b'{"items": [{"decision_id": "d", "value": ?}]}'),
            ("/v1/decide", b'{"state": {"gap": ?}}'),
        )
        for number in (b"1e400", b"-1e999", b"NaN", b"-Infinity")
    ),
    ("/v1/roll-back", b'{"to": 9223372036854775807}'),
    ("/v1/versions/1/freeze", b'{"name": "1"}'),
]
"""Requests that are refused, as a whole or item by item."""


@pytest.mark.parametrize(("path", "body"), ALIKE, ids=range(len(ALIKE)))
def test_both_databases_refuse_alike(both: tuple[Caller, ...], path: str, body: bytes) -> None:
    answers = [caller.http.post(path, content=body) for caller in both]
    told = [answer.text.replace(answer.headers["x-request-id"], "") for answer in answers]
    assert told[0] == told[1]
    assert answers[0].status_code == answers[1].status_code
    documents = answers[0].json().get("items", [{"error": answers[0].json()}])
    assert all(400 <= item["error"]["status"] < 500 for item in documents), told[0]
    # A number that is none is never repeated, in whatever form.
    assert not re.search(r"\b(nan|inf|infinity|1e400|1e999)\b", told[0], re.IGNORECASE)


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
fragments = st.sampled_from(
    [
        b'{"a":1,"a":2}',
        b'{"a":{}}',
        b'"\\u0000"',
        b'"\\ud83d\\ude00"',
        b"1e400",
        b"-0",
        b"[[]]",
        b'{"b": "x:y"}',
    ]
)


@given(
    documents.map(lambda value: json.dumps(value).encode())
    | documents.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    | st.lists(fragments, max_size=3).map(lambda parts: b"[" + b",".join(parts) + b"]")
    | st.binary(max_size=12)
)
@example(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
@example(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
@example(b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1))
def test_the_fast_way_reads_what_the_careful_one_does(raw: bytes) -> None:
    try:
        expected = parse_json(raw, JsonRules(InvalidInputError, MAX_DEPTH), where="body")
    except InvalidInputError:
        with pytest.raises(InvalidInputError):
            read_document(raw)
    else:
        # Compared as text, in which 1, 1.0 and true differ.
        assert json.dumps(read_document(raw)) == json.dumps(expected)


@pytest.mark.parametrize(
    ("kind", "document", "told"),
    [
        (DecideBody, {"state": True}, "body.state: expected an integer or an object, got a boolean"),
        (
            DecideBody,
            {"state": {"gap": []}},
            "body.state[...]: expected an integer, a number or a text, got a list",
        ),
        (
            DecideBody,
            {"state": 0, "feasible": [None]},
            "body.feasible[0]: expected an integer or a text, got null",
        ),
        (RewardBody, {"decision_id": "d", "value": "1"}, "body.value: expected a number, got a text"),
        (RollBackBody, {"to": 1.5}, "body.to: expected an integer, a text or null, got a number"),
        (KeyBody, {"scopes": []}, "body: the field `name` is missing"),
        (NoBody, {"int": 1}, "body: the field `int` is not known"),
        (NoBody, [], "body: expected an object, got a list"),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_json(kind: type[Any], document: Any, told: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_as(kind, document)
    assert str(refused.value) == told
