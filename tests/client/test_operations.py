"""Every change that a client asks for has an id, its own or the caller's, and is answered as the library answers it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from steersman.client import AsyncClient, Client, verbs
from steersman.client.exchange import Request
from steersman.domain.answers import IssuedKey, MigrationPlan, Owner
from steersman.domain.records import PolicyVersion
from steersman.errors import ConflictError, IdReusedError, InvalidInputError, NotFoundError
from tests.support.changes import CHANGES, FILES, KEYS, Scene
from tests.support.served import Server

VERBS = sorted({*CHANGES} - {*FILES})


@pytest.fixture
def scene(server: Server, tmp_path: Path) -> Scene:
    return Scene.found(server.library, tmp_path)


@pytest.fixture(scope="module")
def operator(server: Server) -> Iterator[Client]:
    with Client(server.url, server.library.create_key(None, name="ops").text) as connected:
        yield connected


def request_of(scene: Scene, verb: str, operation_id: str | None) -> Request:
    call = scene.call(verb)
    made: Request = next(getattr(verbs, verb)(*call.args, **call.options, operation_id=operation_id))
    return made


def test_the_clients_have_all_that_the_library_has_but_for_files() -> None:
    taking = [
        name for name in verbs.__all__ if "operation_id" in inspect.signature(getattr(verbs, name)).parameters
    ]
    assert sorted(taking) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_a_change_is_sent_under_an_id(scene: Scene, verb: str) -> None:
    assert request_of(scene, verb, "mine").operation_id == "mine"
    first, second = (request_of(scene, verb, None).operation_id for _ in range(2))
    assert first != second
    assert [UUID(named).version for named in (first, second)] == [7, 7]
    for wrong in ("", "a b", "é", "x" * 65):
        with pytest.raises(InvalidInputError, match="operation_id: expected 1 to 64 visible characters"):
            request_of(scene, verb, wrong)


def test_what_changes_nothing_has_none(scene: Scene) -> None:
    calls: list[Any] = [
        verbs.change_tenant(scene.name, {"states": 4}, dry_run=True),
        verbs.decide(scene.name, 0),
        verbs.void(scene.name, "d"),
        verbs.show_tenant(scene.name),
    ]
    assert [next(call).operation_id for call in calls] == [None] * 4


@pytest.mark.parametrize("verb", sorted({*VERBS} - {*KEYS}))
def test_a_repeated_change_is_answered_as_before_on_both(scene: Scene, operator: Client, verb: str) -> None:
    call, named = scene.call(verb), scene.operation_id
    first = call.on(operator, named)
    assert call.on(operator, named) == first
    known = call.on(scene.library, named)
    assert (replace(known, secret=b"") if isinstance(known, Owner) else known) == first
    with pytest.raises(IdReusedError) as raised:
        scene.other(verb).on(operator, named)
    assert raised.value.stored_fingerprint != raised.value.given_fingerprint


def test_freezing_the_active_version_again_is_answered_as_before(scene: Scene, server: Server) -> None:
    key = server.library.create_key(scene.name, name="test").text

    async def ask(operation_id: str, name: str) -> PolicyVersion:
        async with AsyncClient(server.url, key) as client:
            return await client.freeze(scene.name, name, operation_id=operation_id)

    with Client(server.url, key) as client:
        first = client.freeze(scene.name, "one", operation_id="first")
        second = asyncio.run(ask("second", "two"))
        assert [version.parent for version in (first, second)] == [2, 2]
        client.change_tenant(scene.name, {"states": 5})
        assert client.show_tenant(scene.name).active_version == 5
        for operation_id, name, answer in (("first", "one", first), ("second", "two", second)):
            assert client.freeze(scene.name, name, operation_id=operation_id) == answer
            assert asyncio.run(ask(operation_id, name)) == answer
            assert scene.library.freeze(scene.name, name, operation_id=operation_id) == answer
        assert client.freeze(scene.name, "three", version="active").parent == 5


def test_no_version_can_be_called_as_the_active_one_is(scene: Scene, operator: Client) -> None:
    for target in (operator, scene.library):
        with pytest.raises(InvalidInputError, match="expected no version number and not 'active'"):
            target.freeze(scene.name, "active")


def test_a_tenant_without_a_version_has_none_to_freeze(operator: Client, tenant: str) -> None:
    with pytest.raises(NotFoundError, match="nothing was decided"):
        operator.freeze(tenant, "kept")


@pytest.mark.parametrize("verb", KEYS)
def test_a_repeated_key_is_named(scene: Scene, operator: Client, verb: str) -> None:
    call, named = scene.call(verb), scene.operation_id
    issued: IssuedKey = call.on(operator, named)
    for target in (operator, scene.library):
        with pytest.raises(ConflictError, match=f"made the key '{issued.key.key_id}' before"):
            call.on(target, named)


def test_the_client_for_asyncio_sends_ids_too(scene: Scene, server: Server) -> None:
    async def ask() -> list[MigrationPlan]:
        async with AsyncClient(server.url, server.library.create_key(scene.name, name="test").text) as client:
            calls = [client.change_tenant(scene.name, {"states": 9}, operation_id="op") for _ in range(8)]
            return await asyncio.gather(*calls)

    plans = asyncio.run(ask())
    assert plans == [plans[0]] * 8
    assert [version.number for version in scene.library.list_versions(scene.name)] == [1, 2, 3]
