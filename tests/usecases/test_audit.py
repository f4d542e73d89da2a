"""The audit trail: by actor, and as a file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from steersman.errors import OutputExistsError
from steersman.usecases.audit import export_audit
from steersman.usecases.keys import OPERATORS, create_key
from steersman.usecases.tenants import audit_trail, change_tenant, erase
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


def test_the_trail_of_operators(company: Company, tmp_path: Path) -> None:
    database = company.library.database
    issued = create_key(database, tenant=None, name="operations", actor="ann")
    export_audit(database, OPERATORS, tmp_path / "operators.jsonl")
    assert issued.key.key_id in (tmp_path / "operators.jsonl").read_text()
