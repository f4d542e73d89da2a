"""How a route describes itself: its scope, its body and its answer, for the document and for the tests."""

from __future__ import annotations

from typing import Any

from fastapi import Response

__all__ = [
    "DOCUMENTED",
    "PROBLEM_RESPONSE",
    "json_content",
    "list_of",
    "operation",
    "reference",
    "request_body",
]

DOCUMENTED: dict[str, type] = {}
"""Every type that the document refers to, by its name there."""

PROBLEM_RESPONSE = {
    "description": "A problem document: what was wrong, in words and by a stable code.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
"""The answer of every operation that fails."""


def reference(kind: type) -> dict[str, Any]:
    """Return a reference to the schema of a record or body, which is described once."""
    DOCUMENTED[kind.__name__] = kind
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def list_of(kind: type) -> dict[str, Any]:
    """Return the schema of a list of records with the cursor of the next page."""
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": reference(kind), "description": "The records of this page."},
            "next": {
                "type": ["string", "null"],
                "description": "What `after` takes for the next page; null for none.",
            },
        },
        "required": ["items", "next"],
    }


def json_content(schema: dict[str, Any], example: object = None) -> dict[str, Any]:
    """Return the content of a body."""
    content: dict[str, Any] = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"application/json": content}


def request_body(schema: dict[str, Any], example: object, *, required: bool = True) -> dict[str, Any]:
    """Return the description of the body of a request."""
    return {"required": required, "content": json_content(schema, example)}


def operation(
    verb: str,
    answer: dict[str, Any],
    *,
    scope: str,
    body: dict[str, Any] | None = None,
    status: int = 200,
) -> dict[str, Any]:
    """Return what a FastAPI route takes to be described.

    `verb` is its operation id, a verb of the library where there is one; `answer` is a schema, `body` what
    `request_body` returns.
    """
    extra: dict[str, Any] = {"x-scope": scope, "security": [{"key": []}]}
    if body is not None:
        extra["requestBody"] = body
    described = {"description": "Done.", "content": json_content(answer)}
    return {
        "operation_id": verb,
        "status_code": status,
        "response_class": Response,
        "response_model": None,
        "responses": {status: described, "default": PROBLEM_RESPONSE},
        "openapi_extra": extra,
    }
