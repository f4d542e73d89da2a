"""Routes that need no key: whether the process lives, whether it may serve, its metrics, its own description."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from steersman.errors import SteersmanError
from steersman.service.core import Service
from steersman.service.metrics import METRICS_TYPE
from steersman.service.problems import HttpRefusalError
from steersman.service.routes.calls import answer
from steersman.service.routes.operations import PROBLEM_RESPONSE, json_content

__all__ = [
    "get_document",
    "get_health",
    "get_metrics",
    "get_ready",
    "router",
]

router = APIRouter(tags=["open"])

_ANSWERS_WITHIN = 5.0  # seconds for the database to answer, and the process to count as ready

_STATUS = {"$ref": "#/components/schemas/Status"}


def _described(verb: str, description: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "operation_id": verb,
        "response_class": Response,
        "response_model": None,
        "responses": {
            200: {"description": description, "content": content},
            "default": PROBLEM_RESPONSE,
        },
        "openapi_extra": {"x-scope": "open"},
    }


@router.get("/healthz", **_described("check_health", "The process lives.", json_content(_STATUS)))
async def get_health() -> Response:
    """Say that the process lives, whatever the database does."""
    return answer({"status": "alive"})


@router.get("/readyz", **_described("check_readiness", "It may serve.", json_content(_STATUS)))
async def get_ready(request: Request) -> Response:
    """Say whether the database answers, has this release's schema, and holds this role to its tenants."""
    service: Service = request.scope["steersman"].service
    try:
        problems = await asyncio.wait_for(service.problems(), _ANSWERS_WITHIN)
    except TimeoutError:
        problems = [f"the database did not answer within {_ANSWERS_WITHIN:g} seconds"]
    except SteersmanError as error:
        problems = [type(error).title()]
    if problems:
        raise HttpRefusalError(503, "not-ready", "; ".join(problems))
    return answer({"status": "ready"})


@router.get(
    "/metrics",
    **_described(
        "read_metrics", "Counts and times for Prometheus.", {"text/plain": {"schema": {"type": "string"}}}
    ),
)
async def get_metrics(request: Request) -> Response:
    """Report counts and times in the text format of Prometheus."""
    service: Service = request.scope["steersman"].service
    # Many series take milliseconds to write, which the hot routes shall not wait for.
    page = await asyncio.to_thread(service.metrics.page)
    return Response(page, headers={"content-type": METRICS_TYPE})


@router.get(
    "/openapi.json", **_described("describe_service", "This document.", json_content({"type": "object"}))
)
async def get_document(request: Request) -> Response:
    """Describe every route, in OpenAPI 3.1."""
    return Response(request.app.state.document, media_type="application/json")
