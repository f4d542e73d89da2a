"""Tenants: created, listed, retired, exported and erased."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from steersman.errors import (
    ConflictError,
    InvalidInputError,
    InvalidSpecError,
    NotFoundError,
    OutputExistsError,
    TenantRetiredError,
)
from steersman.library import Steersman
from steersman.policies.arithmetic import draw_from_mixture
from steersman.store.tables import metadata
from steersman.usecases.export import export
from steersman.usecases.keys import create_key
from steersman.usecases.tenants import audit_trail, create_tenant, erase, list_tenants, retire, show_tenant
from steersman.usecases.versions import freeze
from tests.support.company import Company

DECLARED: dict[str, Any] = {"actions": {"hold": "Hold firm", "trade": "Trade"}, "states": 2}


def all_rows(library: Steersman, tenant: str) -> dict[str, int]:
    """How many rows of each table are the tenant's."""
    with library.database.snapshot() as connection:
        return {
            name: connection.execute(
                select(func.count()).select_from(table).where(table.c.tenant == tenant)
            ).scalar_one()
            for name, table in metadata.tables.items()
            if "tenant" in table.columns
        }


@pytest.fixture
def busy(company: Company) -> Company:
    """A tenant with rows in every table: an episode, a reward that waits, a void and a frozen version."""
    company.teach("hold", 0.5)
    company.play("trade", episode="deal")
    company.reward(company.play("trade", 1, episode="deal"), 0.25)
    company.void(company.play("hold", metadata={"deal": 7}, reasons={"trade": "closed"}))
    freeze(company.library.database, company.name, "then")
    create_key(company.library.database, tenant=company.name, name="backend")
    return company


def test_a_tenant_is_created_shown_and_listed(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        database = library.database
        assert list_tenants(database) == []
        for name in ("b", "a", "B"):
            create_tenant(database, name, DECLARED)
        assert [owner.tenant for owner in list_tenants(database)] == ["B", "a", "b"]
        owner = show_tenant(database, "a")
        assert (owner.status, owner.active_version, owner.latest_version) == ("active", None, 0)
        assert (owner.spec.labels, owner.spec.states.size) == (("Hold firm", "Trade"), 2)
        assert len({owner.secret for owner in list_tenants(database)}) == 3
        (line,) = audit_trail(database, "a")
        assert (line.verb, line.actor, line.detail["after"]["states"]) == ("create", "library", {"size": 2})
        with pytest.raises(ConflictError, match="there is a tenant 'a' already"):
            create_tenant(database, "a", DECLARED)
        with pytest.raises(NotFoundError, match="there is no tenant 'c'"):
            show_tenant(database, "c")


@pytest.mark.parametrize(
    ("name", "parts", "error"),
    [
        ("@base", {}, InvalidInputError),
        ("", {}, InvalidInputError),
        ("x", {"actions": ["a", "a"]}, InvalidSpecError),
        ("x", {"base": "nothing"}, InvalidSpecError),
        ("x", {"contributes": True}, InvalidSpecError),
        ("x", {"reward_range": [1, 0]}, InvalidSpecError),
    ],
)
def test_a_wrong_declaration_creates_nothing(
    store_url: str, name: str, parts: dict[str, Any], error: type[Exception]
) -> None:
    with Steersman.open(store_url) as library:
        with pytest.raises(error):
            create_tenant(library.database, name, DECLARED | parts)
        assert list_tenants(library.database) == []
        assert audit_trail(library.database, name) == []


def test_a_retired_tenant_decides_no_more_and_still_learns(company: Company) -> None:
    database = company.library.database
    decision = company.play("hold")
    assert retire(database, company.name).status == "retired"
    with pytest.raises(TenantRetiredError, match="is retired"):
        company.decide()
    assert company.reward(decision, 0.5).effect == "learned"
    assert company.q("hold") == 0.5
    assert retire(database, company.name).status == "retired"
    assert [line.verb for line in audit_trail(database, company.name)].count("retire") == 1
    with pytest.raises(NotFoundError):
        retire(database, "nobody")


def test_a_retired_tenant_can_be_asked_to_be_as_it_is(company: Company) -> None:
    library, name = company.library, company.name
    company.play("hold")
    library.retire_tenant(name)
    lines = len(audit_trail(library.database, name))
    for changes in ({}, {"states": 2}):
        for dry_run in (False, True):
            plan = library.change_tenant(name, changes, dry_run=dry_run)
            assert (plan.changed, plan.version, plan.before, plan.needs_version) == ((), None, 1, False)
    with pytest.raises(TenantRetiredError):
        library.change_tenant(name, {"states": 3})
    assert len(audit_trail(library.database, name)) == lines


@pytest.mark.parametrize(
    "parts",
    [
        {"actions": {"hold": None}},
        {"actions": [{"id": "hold", "label": ["x"]}]},
        {"priors": {1: {"q": 0, "weight": 1}, "1": {"q": 1, "weight": 1}}},
    ],
)
def test_a_change_is_read_as_strictly_as_a_declaration(company: Company, parts: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError, match=r"expected a text as the label|expected each action once"):
        company.library.change_tenant(company.name, parts)


def test_a_secret_is_in_no_text_of_its_owner(company: Company) -> None:
    owner = company.library.show_tenant(company.name)
    assert "secret" not in repr(owner)
    assert repr(owner.secret) not in repr(owner)


def test_every_erasure_keeps_its_line(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        for decisions in (1, 2):
            library.create_tenant("acme", DECLARED)
            for _ in range(decisions):
                library.decide("acme", 0)
            # The lines that an erasure deletes: the creation and the first version.
            assert library.erase_tenant("acme").rows["audit"] == 2
        lines = audit_trail(library.database, "acme")
        assert [line.verb for line in lines] == ["erase", "erase"]
        assert [line.detail["rows"]["decisions"] for line in lines] == [2, 1]


def test_paths_may_be_texts(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("tenants: {acme: {actions: [a], states: 1}}")
    (tmp_path / "learned.csv").write_text("state,action,q,updates\n0,a,0.5,2\n")
    for number, kind in enumerate((str, Path)):
        with Steersman.open(kind(tmp_path / f"{number}.db")) as library:
            assert library.apply(kind(tmp_path / "all.yaml"))[0].outcome == "created"
            assert library.import_table("acme", kind(tmp_path / "learned.csv")).cells == 1
            out = library.export_tenant("acme", kind(tmp_path / f"{number}.jsonl"))
            assert out.path == tmp_path / f"{number}.jsonl"


@pytest.mark.parametrize("path", [".", "/"])
def test_an_export_wants_the_name_of_a_file(company: Company, path: str) -> None:
    with pytest.raises(InvalidInputError, match="expected the name of a file"):
        export(company.library.database, company.name, Path(path))


def test_erasing_leaves_one_line_that_counts(busy: Company) -> None:
    library, other = busy.library, Company.found(busy.library)
    other.teach("hold", 1.0)
    before, others = all_rows(library, busy.name), all_rows(library, other.name)
    secret = show_tenant(library.database, busy.name).secret
    counted = {
        # Cells: hold and trade in state 0, trade in state 1; as many again in the frozen version.
        "tenants": 1,
        "api_keys": 1,
        "policy_versions": 2,
        "cells": 6,
        "opening_cells": 3,
        "decisions": 4,
        "rewards": 2,
        "learning_steps": 1,
        "episodes": 1,
        "audit": 4,
        "operations": 3,  # created, frozen, and a key created
        "bases": 0,
        "archive_files": 0,
        "archived_decisions": 0,
        "archived_rewards": 0,
        "cell_checkpoints": 0,
        "state_heads": before["state_heads"],  # a server alone has these
    }
    erased = erase(library.database, busy.name, actor="clerk")
    assert erased.rows == counted == before
    assert all_rows(library, busy.name) == dict.fromkeys(before, 0) | {"audit": 1, "operations": 1}
    (line,) = audit_trail(library.database, busy.name)
    assert (line.verb, line.actor, line.detail["rows"]) == ("erase", "clerk", counted)
    assert all_rows(library, other.name) == others
    with pytest.raises(NotFoundError):
        busy.decide()
    with pytest.raises(NotFoundError):
        erase(library.database, busy.name)
    # A namesake is another tenant.
    library.create_tenant(busy.name, DECLARED)
    assert busy.decide().version == 1
    assert show_tenant(library.database, busy.name).secret != secret


def test_a_namesake_with_another_catalogue_decides_by_its_own(busy: Company) -> None:
    erase(busy.library.database, busy.name)
    busy.library.create_tenant(busy.name, {"actions": ["x"], "states": 9})
    assert busy.decide(8).action == "x"


def test_an_export_holds_every_row_but_the_secret(busy: Company, tmp_path: Path) -> None:
    database = busy.library.database
    path = tmp_path / "busy.jsonl"
    done = export(database, busy.name, path)
    first, *lines, last = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["format"], first["tenant"]) == (1, busy.name)
    assert last == {"rows": done.rows}
    rows = all_rows(busy.library, busy.name)
    assert done.rows == {name: rows[name] for name in rows if rows[name] and name != "state_heads"}
    tables: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        tables.setdefault(line["table"], []).append(line["row"])
    assert {name: len(found) for name, found in tables.items()} == done.rows
    for name, found in tables.items():
        secret = {"tenants": {"secret"}, "api_keys": {"digest"}}.get(name, set())
        assert set(found[0]) - {"draw"} == set(metadata.tables[name].columns.keys()) - secret
    assert show_tenant(database, busy.name).secret.hex() not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tenant,) = tables["tenants"]
    assert [action["id"] for action in tenant["spec"]["actions"]] == ["hold", "trade"]
    assert [version["actions"] for version in tables["policy_versions"]] == [["hold", "trade"]] * 2
    cells = {(cell["version"], cell["state"], cell["action"]): cell for cell in tables["cells"]}
    assert (cells[1, 0, "hold"]["q"], cells[1, 0, "hold"]["visits"]) == (0.5, 1)
    (void,) = (row for row in tables["decisions"] if row["status"] == "void")
    assert (void["metadata"], void["reasons"]) == ({"deal": 7}, {"trade": "closed"})


def test_an_export_shows_how_actions_were_drawn(shared_library: Steersman, tmp_path: Path) -> None:
    company = Company.found(shared_library, actions=["a", "b", "c", "d"], exploration={"epsilon": 0.5})
    for _ in range(50):
        company.decide()
    export(shared_library.database, company.name, tmp_path / "draws.jsonl")
    bodies = [json.loads(line) for line in (tmp_path / "draws.jsonl").read_text().splitlines()]
    rows = [body["row"] for body in bodies if body.get("table") == "decisions"]
    assert len(rows) == 50
    for row in rows:
        q, visits, _, _ = row["seen"]
        untried = [position for position, count in enumerate(visits) if not count]
        if untried:
            position = draw_from_mixture(untried, len(q), row["epsilon"], row["draw"])
            assert row["action"] == "abcd"[position]


def test_an_export_overwrites_nothing_and_leaves_no_half(busy: Company, tmp_path: Path) -> None:
    database, path = busy.library.database, tmp_path / "out.jsonl"
    path.write_text("mine")
    with pytest.raises(OutputExistsError):
        export(database, busy.name, path)
    assert path.read_text() == "mine"
    with pytest.raises(NotFoundError):
        export(database, "nobody", tmp_path / "nobody.jsonl")
    with pytest.raises(InvalidInputError, match="expected a place that can be written"):
        export(database, busy.name, path / "below-a-file.jsonl")
    (tmp_path / "late.jsonl.part").write_text("")
    with pytest.raises(OutputExistsError, match="another process is writing it"):
        export(database, busy.name, tmp_path / "late.jsonl")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["late.jsonl.part", "out.jsonl"]
