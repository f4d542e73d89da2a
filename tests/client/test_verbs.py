"""The clients and the library have the same verbs, declared alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from steersman.client import AsyncClient, Client, verbs
from steersman.library import Steersman

FILES = {"apply", "archive", "export_audit", "export_tenant", "import_table", "list_archive"}
"""Verbs about files beside the program."""

OWN = {"open", "close", "episode", "database"}
"""What is no verb, or is about the object itself."""

VERBS = sorted(name for name in set(vars(Steersman)) - FILES - OWN if not name.startswith("_"))


def declared(method: Callable[..., Any]) -> list[tuple[str, Any, Any, Any]]:
    """Return name, kind, default and type of every parameter behind `self`."""
    parameters = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
    return [(p.name, p.kind, p.default, p.annotation) for p in parameters]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_and_returns_the_same_everywhere(verb: str) -> None:
    expected = getattr(Steersman, verb)
    for kind in (Client, AsyncClient):
        assert declared(getattr(kind, verb)) == declared(expected)
    returned = inspect.signature(getattr(verbs, verb)).return_annotation
    assert returned == f"Call[{inspect.signature(expected).return_annotation}]"
    assert inspect.iscoroutinefunction(getattr(AsyncClient, verb))
    assert not inspect.iscoroutinefunction(getattr(Client, verb))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_has_no_verb_of_its_own(kind: type[Client | AsyncClient]) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert public - {"close", "episode"} == set(VERBS)
    assert declared(kind.episode) == declared(Steersman.episode)


def test_a_parameter_that_differs_is_found() -> None:
    def decide(self: object, tenant: str, state: int, *, explore: bool = False) -> None: ...

    assert declared(decide) != declared(Steersman.decide)


@pytest.mark.parametrize("verb", VERBS)
def test_help_tells_what_a_verb_does(verb: str) -> None:
    assert inspect.getdoc(getattr(Client, verb))
    assert inspect.getdoc(getattr(Client, verb)) == inspect.getdoc(getattr(AsyncClient, verb))
