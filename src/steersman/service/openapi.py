"""The description of every route in OpenAPI 3.1, hot ones included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from steersman import __version__
from steersman.domain.records import ClosedEpisode, Decision, Reward
from steersman.service.fields import CHOICES, HOW_CHANGED, meaning_of
from steersman.service.routes.operations import (
    DOCUMENTED,
    PROBLEM_RESPONSE,
    json_content,
    reference,
    request_body,
)
from steersman.service.wire import MOST_ITEMS, CloseBody, CloseItem, DecideBody, RewardBody

__all__ = ["describe", "queries_of"]

_ABOUT = (
    "Asks which action to play, reports what came of it, and reads why. Every call is made with a key, in the "
    "header `Authorization: Bearer KEY`. A call that is made again with the same id, or the same `Idempotency-Key`, is "
    "answered as before."
)
_REF = "#/components/schemas/{name}"
_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}


def _refer(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _object(description: str, required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(required),
    }


_SETTINGS: dict[str, Any] = {
    "learning": _refer("Learning"),
    "exploration": _refer("Exploration"),
    "reward_range": {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
    "priors": {"type": "object", "additionalProperties": _refer("Prior")},
}
_DECLARED: dict[str, Any] = {
    "actions": {
        "anyOf": [
            {"type": "array", "items": {"anyOf": [_TEXT, _WHOLE, _refer("LabelledAction")]}},
            {"type": "object", "additionalProperties": _TEXT},
        ],
    },
    "states": {"anyOf": [_WHOLE, _refer("StateSpace")]},
    **_SETTINGS,
    "base": {"type": ["string", "null"]},
    "contributes": {"type": "boolean"},
    "borrow_cap": _NUMBER,
    "reward_wait": {"type": ["number", "null"]},
    "default_reward": {"type": ["number", "null"]},
}

# What these are in JSON is not what they are in memory.
_WRITTEN_OUT: dict[str, dict[str, Any]] = {
    "ActionCatalogue": {"type": "array", "items": _TEXT, "description": "Action ids, in order."},
    "LabelledAction": _object("An action.", ["id"], id={"type": ["string", "integer"]}, label=_TEXT),
    "StateSpace": {
        "description": "A plain number of states, or a product of named factors.",
        "oneOf": [_refer("NumberOfStates"), _refer("FactoredStates")],
    },
    "NumberOfStates": _object("States that are known by index alone.", ["size"], size=_WHOLE),
    "FactoredStates": _object(
        "States that are a product of named factors.",
        ["factors"],
        factors={"type": "array", "items": _refer("Factor")},
    ),
    "Factor": _object(
        "A named factor: its values, or the edges of its bins.",
        ["name"],
        name=_TEXT,
        values={"type": "array", "items": _TEXT},
        edges={"type": "array", "items": _NUMBER},
        before=_TEXT,
    ),
    "Learning": _object(
        "How values are learned.",
        [],
        alpha={"anyOf": [_NUMBER, {"const": "1/n"}]},
        gamma=_NUMBER,
        **{"lambda": _NUMBER},
    ),
    "Exploration": _object("How what is not known is tried.", [], c=_NUMBER, epsilon=_NUMBER),
    "PolicySettings": _object("How a version learns and explores.", [], **_SETTINGS),
    "Changes": _object("Parts of a declaration; those that are not named stay as they are.", [], **_DECLARED)
    | {"additionalProperties": False},
    "TenantSpec": _object("What a tenant or a base declares.", ["actions", "states"], **_DECLARED)
    | {"additionalProperties": False},
    "Status": _object("How the process is.", ["status"], status=_TEXT),
    "Problem": _object(
        "What was wrong (RFC 9457). Some codes come with facts of their own.",
        ["type", "title", "status", "code", "detail", "request_id"],
        type=_TEXT,
        title=_TEXT,
        status=_WHOLE,
        code=_TEXT,
        detail=_TEXT,
        hint=_TEXT,
        request_id=_TEXT,
        stored_fingerprint=_TEXT,
        given_fingerprint=_TEXT,
        scope=_TEXT,
        retry_after=_NUMBER,
        key_id=_TEXT,
    ),
}


def describe(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the document for `routes` of FastAPI and the hot ones."""
    document = get_openapi(title="Steersman", version=__version__, description=_ABOUT, routes=routes)
    for path in document["paths"].values():
        for operation in path.values():
            # Every error is a problem document, those of parameters too.
            operation["responses"].pop("422", None)
            told = " ".join(operation["description"].split())
            operation |= {"summary": _first_sentence(told), "description": told}
    document["paths"] = _hot_paths() | document["paths"]
    document["components"] = {
        "schemas": _schemas(),
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
    }
    return document


def queries_of(document: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Return the names of the query parameters of each (method, path)."""
    return {
        (method.upper(), path): {
            parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
        }
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def _first_sentence(text: str) -> str:
    return f"{text.removesuffix('.').partition('. ')[0]}."


def _hot_paths() -> dict[str, Any]:
    decide = {
        "state": {"stage": "early"},
        "feasible": ["hold", "trade"],
        "reasons": {"walk": "the deal is signed"},
        "episode": "deal-7",
        "decision_id": "d-1",
        "explore": True,
        "metadata": {"region": "north"},
    }
    reward = {"decision_id": "d-1", "value": 0.5}
    further = {"decision_id": "d-1", "value": 0.25, "reward_id": "d-1:later"}
    decided, rewarded, closed = _refer("DecisionAnswer"), reference(Reward), reference(ClosedEpisode)
    episode = {
        "name": "episode",
        "in": "path",
        "required": True,
        "description": "The episode, percent-encoded.",
        "schema": _TEXT,
    }
    outcome = {"outcome": 0.5}
    ended = {"episode": "deal-7", **outcome}
    ending = "Close an episode and learn from what is still open in it."
    each = "Each item is answered as one alone would be."
    close = _hot("close_episode", ending, CloseBody, outcome, closed)
    return {
        "/v1/decide": _hot(
            "decide", "Decide which action to play now, and log why.", DecideBody, decide, decided
        ),
        "/v1/decide:batch": _hot_list("decide_many", f"Decide a list. {each}", DecideBody, [decide], decided),
        "/v1/reward": _hot("reward", "Record what came of a decision.", RewardBody, reward, rewarded),
        "/v1/reward:batch": _hot_list(
            "reward_many", f"Record a list of rewards. {each}", RewardBody, [reward, further], rewarded
        ),
        "/v1/episodes/{episode}/close": {"post": close["post"] | {"parameters": [episode]}},
        "/v1/episodes/close:batch": _hot_list(
            "close_many", f"Close a list of episodes. {each}", CloseItem, [ended], closed
        ),
    }


def _hot(name: str, description: str, body: type, example: object, answer: dict[str, Any]) -> dict[str, Any]:
    return _posted(name, description, request_body(reference(body), example), answer)


def _hot_list(
    name: str, description: str, body: type, examples: list[Any], answer: dict[str, Any]
) -> dict[str, Any]:
    failed = _object(
        "An item that was refused.",
        ["error"],
        error=_refer("Problem") | {"description": "Why it was refused."},
    )
    asked = _items(reference(body), "The calls, of which one that is refused leaves the others alone.")
    asked["additionalProperties"] = False
    asked["properties"]["items"]["maxItems"] = MOST_ITEMS
    done = _items({"anyOf": [answer, failed]}, "The answer of each call, in order.")
    return _posted(name, description, request_body(asked, {"items": examples}), done)


def _items(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"items": {"type": "array", "items": schema, "description": description}},
        "required": ["items"],
    }


def _posted(name: str, description: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "post": {
            "tags": ["hot"],
            "summary": _first_sentence(description),
            "description": description,
            "operationId": name,
            "x-scope": "decide" if name.startswith("decide") else "reward",
            "security": [{"key": []}],
            "requestBody": body,
            "responses": {
                "200": {"description": "Done.", "content": json_content(answer)},
                "default": PROBLEM_RESPONSE,
            },
        }
    }


def _schemas() -> dict[str, Any]:
    """Return the schema of every record and body; an answer holds all its fields, whatever their defaults."""
    _, made = msgspec.json.schema_components([Decision, *DOCUMENTED.values()], ref_template=_REF)
    schemas: dict[str, Any] = {name: dict(schema) for name, schema in made.items()}
    for name, schema in schemas.items():
        if name in DOCUMENTED and issubclass(DOCUMENTED[name], msgspec.Struct):
            continue
        schema["properties"] = {
            field: {key: value for key, value in body.items() if key != "default"}
            for field, body in schema.get("properties", {}).items()
            if field != "secret"  # which no answer shows
        }
        schema["required"] = list(schema["properties"])
    schemas |= {name: dict(schema) for name, schema in _WRITTEN_OUT.items()}
    for body in ("TenantBody", "BaseBody"):
        schemas[body]["properties"]["declaration"] = _refer("TenantSpec")
    schemas["Catalogue"]["properties"] |= {
        "actions": {"type": "array", "items": _refer("LabelledAction")},
        "states": _refer("StateSpace"),
    }
    for name, schema in schemas.items():
        if "properties" in schema:
            schema["properties"] = {
                field: _told(name, field, body) for field, body in schema["properties"].items()
            }
    decision = schemas["Decision"]
    schemas["DecisionAnswer"] = decision | {
        "title": "DecisionAnswer",
        "description": "One choice. Its status is not part of it, since that changes with time.",
        "properties": {name: body for name, body in decision["properties"].items() if name != "status"},
        "required": [name for name in decision["required"] if name != "status"],
    }
    return dict(sorted(schemas.items()))


def _told(schema: str, field: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field with what it means, and with its values where these are a closed set."""
    if schema == "Changes":
        return body | {"description": f"{meaning_of('TenantSpec', field)} {HOW_CHANGED[field]}"}
    choices = CHOICES.get((schema, field))
    if choices is not None:
        closed = {"type": "string", "enum": list(choices)}
        body = body | {"items": closed} if body["type"] == "array" else body | closed
    return body | {"description": meaning_of(schema, field)}
