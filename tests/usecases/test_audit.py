"""The audit trail: by actor, and as a file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from steersman.errors import OutputExistsError
from steersman.library import Steersman
from steersman.usecases.audit import export_audit
from steersman.usecases.keys import OPERATORS, create_key
from steersman.usecases.tenants import audit_trail, change_tenant, erase
from tests.support.changes import Scene
from tests.support.company import Company


def test_the_trail_of_one_actor(company: Company) -> None:
    database = company.library.database
    for actor, c in (("ann", 1.0), ("bob", 2.0), ("ann", 3.0)):
        change_tenant(database, company.name, {"exploration": {"c": c}}, actor=actor)
    assert [line.actor for line in audit_trail(database, company.name)] == ["ann", "bob", "ann", "library"]
    assert [line.actor for line in audit_trail(database, company.name, actor="ann")] == ["ann", "ann"]
    assert len(audit_trail(database, company.name, actor="ann", limit=1)) == 1
    assert audit_trail(database, company.name, actor="nobody") == []


def test_the_trail_as_a_file_also_of_who_was_erased(company: Company, tmp_path: Path) -> None:
    database = company.library.database
    change_tenant(database, company.name, {"exploration": {"c": 1}}, actor="ann")
    path = tmp_path / "audit.jsonl"
    assert export_audit(database, company.name, path).rows == {"audit": 2}
    first, *lines, last = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["format"], first["tenant"], last) == (1, company.name, {"rows": {"audit": 2}})
    assert [(line["table"], line["row"]["verb"], line["row"]["actor"]) for line in lines] == [
        ("audit", "create", "library"),
        ("audit", "change", "ann"),
    ]
    detail = lines[1]["row"]["detail"]
    assert (detail["before"]["exploration"]["c"], detail["after"]["exploration"]["c"]) == (2**0.5, 1.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OutputExistsError):
        export_audit(database, company.name, path)
    erase(database, company.name)
    assert export_audit(database, company.name, tmp_path / "after.jsonl").rows == {"audit": 1}
    assert export_audit(database, "nobody", tmp_path / "nobody.jsonl").rows == {"audit": 0}


def test_lines_name_the_version_that_was_active_before(shared_library: Steersman, tmp_path: Path) -> None:
    scene = Scene.found(shared_library, tmp_path)
    database = shared_library.database
    # The tenant is at version 2, its base at 1.
    for number, verb in enumerate(("refresh", "import_table", "activate", "roll_back"), start=3):
        scene.call(verb).on(shared_library, None)
        line = audit_trail(database, scene.name, limit=1)[0]
        assert (line.detail["version"], line.detail["instead_of"]) == (number, number - 1), verb
    shared_library.build_base(scene.name)
    builds = [line.detail for line in audit_trail(database, f"@{scene.name}") if line.verb == "build"]
    assert [(build["version"], build["instead_of"]) for build in builds] == [(2, 1), (1, None)]


def test_lines_of_what_ends_say_how_it_was_before(company: Company) -> None:
    library, name = company.library, company.name
    first = library.create_key(name, name="backend").key
    second = library.rotate_key(first.key_id, overlap=60.0).key
    revoked = library.revoke_key(second.key_id)
    library.retire_tenant(name)
    ending = {key.key_id: key for key in library.list_keys(name)}[first.key_id].expires_at
    assert ending is not None
    lines = {line.verb: line.detail for line in audit_trail(library.database, name)}
    assert lines["rotate key"] == {
        "key": first.key_id,
        "successor": second.key_id,
        "before": {"expires_at": None, "revoked_at": None},
        "after": {"expires_at": ending, "revoked_at": None},
    }
    assert lines["revoke key"] == {
        "key": second.key_id,
        "before": {"expires_at": None, "revoked_at": None},
        "after": {"expires_at": None, "revoked_at": revoked.revoked_at},
    }
    assert lines["retire"] == {"before": {"status": "active"}, "after": {"status": "retired"}}


def test_the_trail_of_operators(company: Company, tmp_path: Path) -> None:
    database = company.library.database
    issued = create_key(database, tenant=None, name="operations", actor="ann")
    export_audit(database, OPERATORS, tmp_path / "operators.jsonl")
    assert issued.key.key_id in (tmp_path / "operators.jsonl").read_text()
