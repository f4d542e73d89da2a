"""Changes under an id: made once, answered as the first time, whatever has come of it since."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import select, update

from steersman.domain.answers import IssuedKey
from steersman.domain.settings import TenantSpec
from steersman.errors import (
    ConflictError,
    IdReusedError,
    InvalidInputError,
    InvalidSpecError,
    KeyTextShownError,
    NotFoundError,
)
from steersman.library import Steersman
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import name_operation
from steersman.store.tables import operations
from steersman.usecases.bases import change_base
from steersman.usecases.keys import find_key
from steersman.usecases.migrate import migrate
from steersman.usecases.tenants import audit_trail
from tests.support.changes import CHANGES, KEYS, Scene
from tests.support.company import Company
from tests.usecases.test_lost_commits import LosingCommits

T = TypeVar("T")

READING = {
    "doctor",
    "explain",
    "export_audit",
    "export_tenant",
    "list_archive",
    "list_audit",
    "list_decisions",
    "list_episodes",
    "list_keys",
    "list_tenants",
    "list_versions",
    "show",
    "show_episode",
    "show_tenant",
    "verify",
}
WITH_IDS = {
    "close_episode",
    "close_many",
    "decide",
    "decide_many",
    "episode",
    "reward",
    "reward_many",
    "void",
}
SETTLING = {"archive", "expire"}
"""What does whatever is left to do, so that a second call does no more than is due."""


LINES = {"apply": 2, "rotate_key": 2}
"""How many lines of the audit trail a change writes, where it is not one."""


def lines_between(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> int:
    """How many lines the audit trail has that it did not have."""
    return len({*after["audit"]} - {*before["audit"]})


@pytest.fixture
def scene(shared_library: Steersman, tmp_path: Path) -> Scene:
    return Scene.found(shared_library, tmp_path)


def test_every_verb_of_the_library_is_one_or_the_other() -> None:
    verbs = {name for name in vars(Steersman) if not name.startswith("_")} - {"open", "close"}
    assert verbs == {*CHANGES} | READING | WITH_IDS | SETTLING
    taking = {
        name for name in verbs if "operation_id" in inspect.signature(getattr(Steersman, name)).parameters
    }
    assert taking == {*CHANGES}


@pytest.mark.parametrize("verb", sorted({*CHANGES} - {*KEYS}))
def test_a_change_is_made_once_and_answered_as_before(scene: Scene, verb: str) -> None:
    library, call, named = scene.library, scene.call(verb), scene.operation_id
    before = scene.rows()
    first = call.on(library, named)
    made = scene.rows()
    assert lines_between(before, made) == LINES.get(verb, 1)
    assert call.on(library, named) == first
    with pytest.raises(IdReusedError) as raised:
        scene.other(verb).on(library, named)
    shown = {raised.value.stored_fingerprint, raised.value.given_fingerprint}
    assert len(shown) == 2
    assert shown <= set(str(raised.value).split())
    assert scene.rows() == made
    # It is the first answer still when the tenant has become another.
    if verb not in {"erase_tenant", "retire_tenant"}:
        library.change_tenant(scene.name, {"states": 7, "actions": ["trade"]})
    if verb != "erase_tenant":
        library.retire_tenant(scene.name)
    later = scene.rows()
    assert call.on(library, named) == first
    assert scene.rows() == later


def test_an_owner_is_answered_as_it_was(scene: Scene) -> None:
    library, new = scene.library, f"{scene.name}-new"
    tenant, base = (
        scene.call(verb).on(library, scene.operation_id) for verb in ("create_tenant", "create_base")
    )
    library.decide(new, 0)
    library.change_tenant(new, {"states": 5})
    library.retire_tenant(new)
    change_base(library.database, new, {"actions": ["x"], "states": 5})
    library.build_base(new)
    now = library.show_tenant(new)
    assert (now.status, now.active_version, now.spec.states.size) == ("retired", 2, 5)
    for verb, first in (("create_tenant", tenant), ("create_base", base)):
        again = scene.call(verb).on(library, scene.operation_id)
        assert again == first
        assert (again.status, again.active_version, again.latest_version) == ("active", None, 0)
        assert again.spec.states.size == 2


@pytest.mark.parametrize("verb", KEYS)
def test_a_key_is_made_once_and_its_text_shown_once(scene: Scene, verb: str) -> None:
    call = scene.call(verb)
    issued: IssuedKey = call.on(scene.library, scene.operation_id)
    made = scene.rows()
    assert len(made["api_keys"]) == 2
    with pytest.raises(KeyTextShownError, match="its text is not kept") as raised:
        call.on(scene.library, scene.operation_id)
    assert raised.value.key_id == issued.key.key_id
    assert f"the key {issued.key.key_id!r}" in str(raised.value)
    assert f"steersman keys revoke {issued.key.key_id}" in (raised.value.hint or "")
    with pytest.raises(IdReusedError):
        scene.other(verb).on(scene.library, scene.operation_id)
    assert scene.rows() == made
    assert find_key(scene.library.database, issued.text) == issued.key
    assert issued.text.split("_", 2)[2] not in str(made)


def test_operators_have_ids_of_their_own(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        first = library.create_key(None, name="ops", operation_id="op")
        with pytest.raises(ConflictError, match=f"the key '{first.key.key_id}'"):
            library.create_key(None, name="ops", operation_id="op")
        with pytest.raises(IdReusedError):
            library.revoke_key(first.key.key_id, operation_id="op")
        library.revoke_key(first.key.key_id, operation_id="end")
        assert library.revoke_key(first.key.key_id, operation_id="end").revoked_at is not None
        with pytest.raises(ConflictError, match="has ended"):
            library.rotate_key(first.key.key_id, operation_id="next")
        assert len(library.list_keys(None)) == 1


@pytest.mark.parametrize("verb", CHANGES)
def test_eight_at_once_have_one_effect_and_one_answer(scene: Scene, verb: str) -> None:
    call, before, together = scene.call(verb), scene.rows(), Barrier(8)

    def ask(_: int) -> Any:
        together.wait()
        try:
            return call.on(scene.library, scene.operation_id)
        except ConflictError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    if verb in KEYS:
        (issued,) = (answer for answer in answers if isinstance(answer, IssuedKey))
        told = [str(answer) for answer in answers if answer is not issued]
        assert all(f"the key {issued.key.key_id!r}" in text for text in told)
    else:
        assert answers == [answers[0]] * 8
        assert not isinstance(answers[0], Exception)
    assert lines_between(before, scene.rows()) == LINES.get(verb, 1)


class SlowCommits(Database):
    """Commits each transaction when it is told to."""

    done: Event  # all but the COMMIT
    told: Event

    def run(self, work: Callable[[Connection], T]) -> T:
        with self.transaction() as connection:
            answer = work(connection)
            self.done.set()
            assert self.told.wait(30)
        return answer


@pytest.mark.parametrize("verb", ["create_tenant", "erase_tenant"])
def test_the_second_call_waits_for_the_first(scene: Scene, verb: str) -> None:
    database, call = scene.library.database, scene.call(verb)
    slow = SlowCommits(database.engine, database.settings)
    slow.done, slow.told = Event(), Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(call.on, Steersman(slow), scene.operation_id)
        assert slow.done.wait(30)
        second = pool.submit(call.on, scene.library, scene.operation_id)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.3)
        slow.told.set()
        assert second.result(timeout=30) == first.result(timeout=30)


@pytest.mark.parametrize("verb", CHANGES)
def test_a_lost_commit_is_found_again(scene: Scene, verb: str) -> None:
    database, before = scene.library.database, scene.rows()
    losing = Steersman(LosingCommits(database.engine, database.settings))
    answer = scene.call(verb).on(losing, None)
    if isinstance(answer, IssuedKey):
        assert find_key(database, answer.text) == answer.key
    assert lines_between(before, scene.rows()) == LINES.get(verb, 1)


def test_migrations_and_changes_of_bases_are_made_once(scene: Scene) -> None:
    database, name = scene.library.database, scene.name
    declared = {"actions": ["hold", "trade"], "states": 9}
    plan = migrate(database, name, declared, operation_id="op")
    changed = change_base(database, name, declared, operation_id="op")
    assert (plan.version, changed) == (3, ("states",))
    made = scene.rows()
    # However it is written, it is the same declaration; what `change_tenant` is given is another thing.
    assert migrate(database, name, TenantSpec.from_json(declared), operation_id="op") == plan
    assert change_base(database, name, TenantSpec.from_json(declared), operation_id="op") == changed
    with pytest.raises(IdReusedError):
        scene.library.change_tenant(name, declared, operation_id="op")
    assert scene.rows() == made


def test_what_is_the_same_content(company: Company) -> None:
    library, name = company.library, company.name
    changes = {"exploration": {"epsilon": 0.5, "c": 1}, "priors": {1: {"q": 0.5, "weight": 1.0}}}
    given: dict[str, Any] = {"actions": ("hold", "1"), **changes}
    first = library.change_tenant(name, given, operation_id="op")
    again: dict[str, Any] = {
        "priors": MappingProxyType({"1": {"weight": np.float64(1.0), "q": 0.5}}),
        "exploration": MappingProxyType({"c": 1.0, "epsilon": np.float32(0.5)}),
        "actions": ["hold", "1"],
    }
    assert library.change_tenant(name, again, operation_id="op") == first
    for other in (True, "1", 1.5):
        with pytest.raises(IdReusedError):
            library.change_tenant(
                name, again | {"exploration": {"c": other, "epsilon": 0.5}}, operation_id="op"
            )
    with pytest.raises(InvalidInputError, match="expected what JSON has a form for"):
        library.change_tenant(name, {"states": object()})


@pytest.mark.parametrize("number", [0, 7, -3, 2**53, -(2**60), 2**62])
def test_a_number_is_one_content_however_it_is_written(number: int) -> None:
    def content(value: float) -> bytes:
        return name_operation("change", "op", content={"x": ({"y": [value]},)}).fingerprint

    assert content(float(number)) == content(number)
    assert content(number + 1) != content(number)
    assert len({content(value) for value in (2**53 + 1, float(2**53), 2.0**63, -(2.0**63), 1e300, 0.5)}) == 6


SETTLED = ("apply", "freeze", "refresh", "retire_tenant", "revoke_key")
"""Verbs of which the second call finds everything as it wants it."""


@pytest.mark.parametrize("verb", [*SETTLED, "activate", "change_base", "change_tenant", "migrate"])
def test_what_changed_nothing_is_kept_under_a_callers_id_alone(scene: Scene, verb: str) -> None:
    library, name = scene.library, scene.name
    declared = {"actions": ["hold", "trade"], "states": 2}
    calls: dict[str, Callable[..., Any]] = {
        **{each: partial(getattr(library, each), *scene.call(each).args) for each in SETTLED},
        "activate": partial(library.activate, name, 2),
        "change_base": partial(change_base, library.database, name, declared),
        "change_tenant": partial(library.change_tenant, name, {}),
        "migrate": partial(migrate, library.database, name, library.show_tenant(name).spec),
    }
    if verb in SETTLED:
        before = kept(scene)
        calls[verb]()
        assert len(kept(scene) - before) == 1
    made, lines = kept(scene), scene.rows()["audit"]
    for _ in range(3):
        calls[verb]()
    assert kept(scene) == made
    calls[verb](operation_id=scene.operation_id)
    assert {named for _, named in kept(scene) - made} == {scene.operation_id}
    assert scene.rows()["audit"] == lines


def kept(scene: Scene) -> set[tuple[str, str]]:
    """(Tenant, id) of the operations of everybody, operators included."""
    with scene.library.database.snapshot() as connection:
        return {
            (row.tenant, row.operation_id)
            for row in connection.execute(select(operations.c.tenant, operations.c.operation_id))
        }


def test_what_nobody_can_ask_for_goes_after_a_day(scene: Scene) -> None:
    library, name = scene.library, scene.name
    other = f"{name}-other"
    caller = str(uuid7_at(0))  # however old it looks
    library.change_tenant(name, {"states": 4}, operation_id=caller)
    rows = {(owner, named) for owner, named in kept(scene) if owner in {name, other, f"@{name}"}}
    ours = sorted(named for owner, named in rows if (owner, named[:4]) == (name, "own "))
    assert len(ours) == 3  # it was created, changed, and got a key
    at = time.time_ns() // 1_000_000
    with library.database.transaction() as connection:
        for named, age in zip(ours, (86_460, 86_340, 10 * 86_400), strict=True):
            connection.execute(
                update(operations)
                .where(operations.c.tenant == name, operations.c.operation_id == named)
                .values(operation_id=f"own {uuid7_at(at - age * 1000)}")
            )
        connection.execute(
            update(operations)
            .where(operations.c.tenant == other)
            .values(operation_id=f"own {uuid7_at(at - 10 * 86_400_000)}")
        )
    aged = kept(scene)
    library.change_tenant(name, {"states": 4})  # no change
    assert kept(scene) == aged
    library.change_tenant(name, {"states": 5}, operation_id="new")
    gone = aged - kept(scene)
    assert {owner for owner, _ in gone} == {name}
    ages = sorted(at - (UUID(named.removeprefix("own ")).int >> 80) for _, named in gone)
    assert ages == [86_460_000, 864_000_000]
    assert kept(scene) - aged == {(name, "new")}
    assert (name, caller) in kept(scene)


def uuid7_at(milliseconds: int) -> UUID:
    """A UUID of version 7, of a time since 1970."""
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62)


def test_an_id_is_of_one_tenant_alone(company: Company) -> None:
    other = Company.found(company.library)
    for each in (company, other):
        each.decide()
    company.library.change_tenant(company.name, {"states": 5}, operation_id="op")
    plan = company.library.change_tenant(other.name, {"states": 6}, operation_id="op")
    assert (plan.tenant, plan.version) == (other.name, 2)
    again = company.library.change_tenant(company.name, {"states": 5}, operation_id="op")
    assert (again.tenant, again.version) == (company.name, 2)


def test_what_is_refused_leaves_its_id_free(company: Company) -> None:
    library, name = company.library, company.name
    company.decide()
    with pytest.raises(ConflictError, match="no ancestor"):
        library.roll_back(name, operation_id="op")
    with pytest.raises(InvalidSpecError):
        library.change_tenant(name, {"states": 0}, operation_id="op")
    assert library.activate(name, 1, operation_id="op").number == 1


def test_a_dry_run_is_no_operation(company: Company) -> None:
    library, name = company.library, company.name
    with pytest.raises(InvalidInputError, match="expected none for a dry run"):
        library.change_tenant(name, {"states": 5}, dry_run=True, operation_id="op")
    with pytest.raises(InvalidInputError, match="expected none for a dry run"):
        migrate(library.database, name, {"actions": ["x"], "states": 5}, dry_run=True, operation_id="op")
    rows = company.rows("operations")
    library.change_tenant(name, {"states": 5}, dry_run=True)
    assert company.rows("operations") == rows
    assert library.change_tenant(name, {"states": 5}, operation_id="op").changed == ("states",)


@pytest.mark.parametrize("wrong", ["", " ", "a b", "é", "a\n", "x" * 65, "\x7f", 7, b"op"])
def test_an_id_is_of_characters_that_are_seen(company: Company, wrong: Any) -> None:
    rows = company.rows("operations")
    with pytest.raises(InvalidInputError, match="operation_id: expected 1 to 64 visible characters of ASCII"):
        company.library.retire_tenant(company.name, operation_id=wrong)
    assert company.rows("operations") == rows
    assert company.library.retire_tenant(company.name, operation_id="~" * 64).status == "retired"


def test_an_erasure_that_is_repeated_leaves_a_namesake_alone(company: Company) -> None:
    library, name = company.library, company.name
    library.change_tenant(name, {"states": 3}, operation_id="before")
    first = library.erase_tenant(name, operation_id="e1")
    assert (first.rows["operations"], len(company.rows("operations"))) == (2, 1)
    assert library.erase_tenant(name, operation_id="e1") == first
    with pytest.raises(NotFoundError):
        library.erase_tenant(name, operation_id="e2")
    with pytest.raises(NotFoundError):
        library.erase_tenant(name)
    library.create_tenant(name, {"actions": ["x"], "states": 1})
    assert library.erase_tenant(name, operation_id="e1") == first
    assert library.show_tenant(name).spec.actions.ids == ("x",)
    # Ids of what went are free again; those of erasures are not.
    assert library.change_tenant(name, {"states": 4}, operation_id="before").changed == ("states",)
    with pytest.raises(IdReusedError):
        library.retire_tenant(name, operation_id="e1")
    second = library.erase_tenant(name, operation_id="e2")
    assert second.rows["operations"] == 2
    assert [library.erase_tenant(name, operation_id=each) for each in ("e1", "e2")] == [first, second]
    assert [line.verb for line in audit_trail(library.database, name)] == ["erase", "erase"]


def test_answers_hold_no_secret_and_are_exported(scene: Scene, tmp_path: Path) -> None:
    library, name = scene.library, scene.name
    secret = library.show_tenant(name).secret
    library.retire_tenant(name, operation_id="op")
    library.export_tenant(name, tmp_path / "export.jsonl")
    text = (tmp_path / "export.jsonl").read_text()
    assert secret.hex() not in text
    (row,) = (
        line["row"]
        for line in map(json.loads, text.splitlines())
        if line.get("table") == "operations" and line["row"]["operation_id"] == "op"
    )
    assert (row["verb"], row["answer"]["status"]) == ("retire_tenant", "retired")
    assert row["fingerprint"] == name_operation("retire_tenant", None).fingerprint.hex()
    # The library's own answer has it all the same.
    assert library.retire_tenant(name, operation_id="op").secret == secret
