"""The commands about keys and roles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steersman.store.engine import Database
from steersman.usecases.isolation import serving_problems
from steersman.usecases.keys import find_key
from tests.cli.conftest import Ask, Run
from tests.support.postgres import OPERATOR, SERVING, PostgresCluster, url_as


@pytest.fixture
def acme(ask: Ask) -> Ask:
    ask("tenant", "create", "acme", "--set", '{"actions": ["a"], "states": 1}')
    return ask


def test_a_key_from_creation_to_the_end_of_its_successor(acme: Ask, run: Run, tmp_path: Path) -> None:
    created = acme("keys", "create", "acme", "--name", "backend", "--scope", "decide", "--scope", "reward")
    assert created["key"]["scopes"] == ["decide", "reward"]
    successor = acme("keys", "rotate", created["key"]["key_id"], "--overlap", "60")
    assert successor["key"]["name"] == "backend"
    assert acme("keys", "revoke", successor["key"]["key_id"])["revoked_at"] is not None
    listed = acme("keys", "list", "acme")
    assert [item["key_id"] for item in listed] == [created["key"]["key_id"], successor["key"]["key_id"]]
    assert [item["expires_at"] is None for item in listed] == [False, True]
    assert [line["verb"] for line in acme("tenant", "audit", "acme")][:4] == [
        "revoke key",
        "create key",
        "rotate key",
        "create key",
    ]
    shown = run("keys", "list", "acme").stdout
    assert re.search(rf"{created['key']['key_id']} +backend +decide, reward +ends ", shown)
    assert re.search(rf"{successor['key']['key_id']} +backend +decide, reward +revoked ", shown)
    database = Database.open(str(tmp_path / "cli.db"))
    assert find_key(database, created["text"]) is not None
    assert find_key(database, successor["text"]) is None
    database.close()


def test_the_text_of_a_key_stands_on_a_line_of_its_own(acme: Ask, run: Run) -> None:
    assert acme("keys", "list", "--operator") == []
    shown = run("keys", "create", "--operator").stdout.splitlines()
    (text,) = (line for line in shown if line.startswith("sk_"))
    assert re.fullmatch(r"sk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    assert text.split("_")[1] in run("keys", "list", "--operator").stdout
    assert text not in run("keys", "list", "--operator").stdout


@pytest.mark.parametrize(
    "words", [("create",), ("create", "acme", "--operator"), ("list",), ("revoke", "sk_1")]
)
def test_an_owner_is_a_tenant_or_operators(acme: Ask, run: Run, words: tuple[str, ...]) -> None:
    assert acme("keys", "list", "acme") == []
    done = run("keys", *words)
    assert done.returncode == 2
    assert "expected" in done.stderr


def test_roles_are_granted(empty_postgres_url: str, ask: Ask, postgres_server: PostgresCluster) -> None:
    assert postgres_server.is_running()
    options = ("--serving", SERVING, "--operator", OPERATOR, "--database", empty_postgres_url)
    ask("db", "upgrade", "--database", empty_postgres_url)
    for _ in range(2):
        assert ask("db", "grant", *options) == {"serving": SERVING, "operator": OPERATOR}
    serving = Database.open(url_as(SERVING, empty_postgres_url))
    assert serving_problems(serving) == []
    serving.close()


def test_sqlite_has_no_roles(acme: Ask, run: Run) -> None:
    assert acme("keys", "list", "acme") == []
    done = run("db", "grant", "--serving", "a", "--operator", "b")
    assert done.returncode == 1
    assert "SQLite has no roles" in done.stderr
