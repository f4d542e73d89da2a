"""The description of every route in OpenAPI 3.1, hot ones included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from steersman import __version__
from steersman.domain.records import ClosedEpisode, Decision, Reward
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

# What these are in JSON is not what they are in memory.
_WRITTEN_OUT: dict[str, dict[str, Any]] = {
    "ActionCatalogue": {"type": "array", "items": _TEXT, "description": "Action ids, in order."},
    "StateSpace": {
        "description": "A plain number of states, or a product of named factors.",
        "oneOf": [
            {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
            {
                "type": "object",
                "properties": {
                    "factors": {"type": "array", "items": {"$ref": "#/components/schemas/Factor"}}
                },
                "required": ["factors"],
            },
        ],
    },
    "Factor": {
        "description": "A named factor: its values, or the edges of its bins.",
        "type": "object",
        "properties": {
            "name": _TEXT,
            "values": {"type": "array", "items": _TEXT},
            "edges": {"type": "array", "items": _NUMBER},
            "before": _TEXT,
        },
        "required": ["name"],
    },
    "PolicySettings": {
        "description": "How a version learns and explores.",
        "type": "object",
        "properties": {
            "learning": {
                "type": "object",
                "properties": {
                    "alpha": {"anyOf": [_NUMBER, {"const": "1/n"}]},
                    "gamma": _NUMBER,
                    "lambda": _NUMBER,
                },
            },
            "exploration": {"type": "object", "properties": {"c": _NUMBER, "epsilon": _NUMBER}},
            "reward_range": {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
            "priors": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Prior"}},
        },
    },
}
_DECLARED: dict[str, Any] = {
    "actions": {
        "description": "A list of ids, a list of id and label, or a mapping of id to label.",
        "anyOf": [
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        _TEXT,
                        {"type": "integer"},
                        {
                            "type": "object",
                            "properties": {"id": {"type": ["string", "integer"]}, "label": _TEXT},
                            "required": ["id"],
                        },
                    ]
                },
            },
            {"type": "object", "additionalProperties": _TEXT},
        ],
    },
    "states": {"anyOf": [{"type": "integer"}, {"$ref": "#/components/schemas/StateSpace"}]},
    **_WRITTEN_OUT["PolicySettings"]["properties"],
    "base": {"type": ["string", "null"]},
    "contributes": {"type": "boolean"},
    "borrow_cap": _NUMBER,
    "reward_wait": {"type": ["number", "null"]},
    "default_reward": {"type": ["number", "null"]},
}
_PROBLEM: dict[str, Any] = {
    "description": "What was wrong (RFC 9457). Some codes come with facts of their own, such as both fingerprints.",
    "type": "object",
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Stable: what programs tell errors apart by."},
        "detail": _TEXT,
        "hint": _TEXT,
        "request_id": _TEXT,
    },
    "required": ["type", "title", "status", "code", "detail", "request_id"],
}


def describe(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the document for `routes` of FastAPI and the hot ones."""
    document = get_openapi(title="Steersman", version=__version__, description=_ABOUT, routes=routes)
    for path in document["paths"].values():
        for operation in path.values():
            # Every error is a problem document, those of parameters too.
            operation["responses"].pop("422", None)
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


def _hot_paths() -> dict[str, Any]:
    decide = {
        "state": {"stage": "early"},
        "feasible": ["hold", "trade"],
        "episode": "deal-7",
        "decision_id": "d-1",
    }
    reward = {"decision_id": "d-1", "value": 0.5}
    answers: dict[str, Any] = {
        "decide": {"$ref": "#/components/schemas/DecisionAnswer"},
        "reward": reference(Reward),
        "close": reference(ClosedEpisode),
    }
    episode = {
        "name": "episode",
        "in": "path",
        "required": True,
        "description": "The episode, percent-encoded.",
        "schema": _TEXT,
    }
    close = _hot(
        "close",
        "Close an episode and learn from what is still open in it.",
        CloseBody,
        {"outcome": 0.5},
        answers,
    )
    return {
        "/v1/decide": _hot(
            "decide", "Decide which action to play now, and log why.", DecideBody, decide, answers
        ),
        "/v1/decide:batch": _hot_list("decide", "Decide a list.", DecideBody, decide, answers),
        "/v1/reward": _hot("reward", "Record what came of a decision.", RewardBody, reward, answers),
        "/v1/reward:batch": _hot_list("reward", "Record a list of rewards.", RewardBody, reward, answers),
        "/v1/episodes/{episode}/close": {"post": close["post"] | {"parameters": [episode]}},
        "/v1/episodes/close:batch": _hot_list(
            "close", "Close a list of episodes.", CloseItem, {"episode": "deal-7", "outcome": 0.5}, answers
        ),
    }


def _hot(verb: str, summary: str, body: type, example: object, answers: dict[str, Any]) -> dict[str, Any]:
    return _posted(verb, verb, summary, request_body(reference(body), example), answers[verb])


def _hot_list(
    verb: str, summary: str, body: type, example: object, answers: dict[str, Any]
) -> dict[str, Any]:
    failed = {
        "type": "object",
        "properties": {"error": {"$ref": "#/components/schemas/Problem"}},
        "required": ["error"],
    }
    asked = _items(reference(body)) | {"additionalProperties": False}
    asked["properties"]["items"]["maxItems"] = MOST_ITEMS
    done = _items({"anyOf": [answers[verb], failed]})
    return _posted(verb, f"{verb}_list", summary, request_body(asked, {"items": [example]}), done)


def _items(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"items": {"type": "array", "items": schema}},
        "required": ["items"],
    }


def _posted(
    verb: str, operation_id: str, summary: str, body: dict[str, Any], answer: dict[str, Any]
) -> dict[str, Any]:
    return {
        "post": {
            "tags": ["hot"],
            "summary": summary,
            "operationId": operation_id,
            "x-scope": "decide" if verb == "decide" else "reward",
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
    schemas |= _WRITTEN_OUT
    schemas["Changes"] = {
        "description": "Parts of a declaration; the others stay as they are.",
        "type": "object",
        "properties": _DECLARED,
        "additionalProperties": False,
    }
    schemas["TenantSpec"] = {
        "description": "What a tenant or a base declares.",
        "type": "object",
        "properties": _DECLARED,
        "required": ["actions", "states"],
        "additionalProperties": False,
    }
    for body in ("TenantBody", "BaseBody"):
        schemas[body]["properties"]["declaration"] = {"$ref": "#/components/schemas/TenantSpec"}
    decision = schemas["Decision"]
    schemas["DecisionAnswer"] = decision | {
        "title": "DecisionAnswer",
        "description": "One choice. Its status is not part of it, since that changes with time.",
        "properties": {name: body for name, body in decision["properties"].items() if name != "status"},
        "required": [name for name in decision["required"] if name != "status"],
    }
    schemas["Problem"] = _PROBLEM
    return dict(sorted(schemas.items()))
