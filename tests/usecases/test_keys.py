"""API keys: what a text opens, for how long, and what is kept of it."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import select

from steersman.domain.answers import IssuedKey
from steersman.errors import ConflictError, InvalidInputError, NotFoundError
from steersman.library import Steersman
from steersman.store import keys as stored_keys
from steersman.store.clock import now
from steersman.store.engine import Database
from steersman.store.tables import api_keys
from steersman.usecases.keys import (
    OPERATORS,
    SCOPES,
    create_key,
    find_key,
    list_keys,
    note_use,
    revoke_key,
    rotate_key,
)
from steersman.usecases.tenants import audit_trail, erase
from tests.support.company import Company


def issue(company: Company, **options: Any) -> IssuedKey:
    return create_key(company.library.database, tenant=company.name, name="backend", **options)


def rows(database: Database) -> list[tuple[Any, ...]]:
    with database.snapshot() as connection:
        return [tuple(row) for row in connection.execute(select(api_keys).order_by(api_keys.c.key_id))]


def test_a_key_is_found_by_its_text(company: Company) -> None:
    database = company.library.database
    issued = issue(company, scopes=["reward", "decide"])
    assert issued.key.tenant == company.name
    assert issued.key.scopes == ("decide", "reward")
    assert re.fullmatch(r"sk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", issued.text)
    assert issued.text.split("_")[1] == issued.key.key_id
    assert find_key(database, issued.text) == issued.key
    assert list_keys(database, company.name) == [issued.key]


def test_texts_differ_and_nothing_of_them_is_kept_but_a_digest(company: Company) -> None:
    issued = [issue(company) for _ in range(20)]
    assert len({item.text for item in issued}) == 20
    kept = {row[0]: row for row in rows(company.library.database)}
    for item in issued:
        assert bytes(kept[item.key.key_id][4]) == hashlib.sha256(item.text.encode()).digest()
        secret = item.text.split("_", 2)[2]
        assert not any(secret in str(value) for value in kept[item.key.key_id])
        assert secret not in repr(item)
        assert all(secret not in str(line) for line in audit_trail(company.library.database, company.name))


def changed(text: str, place: int) -> str:
    return f"{text[:place]}{'A' if text[place] != 'A' else 'B'}{text[place + 1 :]}"


def test_a_text_that_differs_anywhere_opens_nothing(company: Company) -> None:
    database = company.library.database
    text = issue(company).text
    wrong = [changed(text, place) for place in range(len(text))]
    wrong += ["", "sk_", text + "A", text[:-1], f" {text}", f"{text}\n", text.upper(), "\ud800", f"{text}\0"]
    assert [other for other in wrong if find_key(database, other) is not None] == []


def test_digests_are_compared_in_constant_time_whether_or_not_there_is_the_key(company: Company) -> None:
    database = company.library.database
    text = issue(company).text
    unknown = f"sk_{'0' * 12}_{text.split('_', 2)[2]}"
    for shown in (text, changed(text, 20), unknown):
        with mock.patch.object(hmac, "compare_digest", wraps=hmac.compare_digest) as compared:
            find_key(database, shown)
        ((ours, theirs), _), *_ = compared.call_args_list
        assert ours == hashlib.sha256(shown.encode()).digest()
        assert isinstance(theirs, bytes)
        assert len(theirs) == 32
        assert compared.call_count == 1


def test_an_operator_has_every_scope_and_no_tenant(company: Company) -> None:
    database = company.library.database
    issued = create_key(database, tenant=None, name="operations", actor="clerk")
    assert (issued.key.tenant, issued.key.scopes) == (None, SCOPES)
    assert issued.key in list_keys(database, None)
    assert issued.key not in list_keys(database, company.name)
    line = audit_trail(database, OPERATORS, limit=1)[0]
    assert (line.actor, line.verb, line.detail["key"]) == ("clerk", "create key", issued.key.key_id)
    with pytest.raises(InvalidInputError, match="expected all of them for an operator's key"):
        create_key(database, tenant=None, name="operations", scopes=["decide"])


@pytest.mark.parametrize(
    "scopes", [[], ["decide", "decide"], ["decide", "erase"], "decide and reward", ["Decide"]]
)
def test_scopes_are_checked(company: Company, scopes: Any) -> None:
    with pytest.raises(InvalidInputError, match="expected some of"):
        issue(company, scopes=scopes)
    assert list_keys(company.library.database, company.name) == []


def test_what_is_not_there_is_not_found(company: Company) -> None:
    database = company.library.database
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        create_key(database, tenant="nobody", name="backend")
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        list_keys(database, "nobody")
    for change in (revoke_key, rotate_key):
        with pytest.raises(NotFoundError, match="there is no key 'ffffffffffff'"):
            change(database, "ffffffffffff")
        with pytest.raises(InvalidInputError, match="expected the 12 hexadecimal digits"):
            change(database, issue(company).text)


def test_a_revoked_key_opens_nothing_and_stays_listed(company: Company) -> None:
    database = company.library.database
    issued, other = issue(company), issue(company)
    revoked = revoke_key(database, issued.key.key_id, actor="clerk")
    assert revoked.revoked_at is not None
    assert revoke_key(database, issued.key.key_id) == revoked
    assert find_key(database, issued.text) is None
    assert find_key(database, other.text) == other.key
    assert list_keys(database, company.name) == [revoked, other.key]
    assert [(line.actor, line.verb) for line in audit_trail(database, company.name)][:1] == [
        ("clerk", "revoke key")
    ]
    with pytest.raises(ConflictError, match="has ended and has no successor"):
        rotate_key(database, issued.key.key_id)


def test_a_rotated_key_goes_on_for_its_overlap(company: Company) -> None:
    database = company.library.database
    first = issue(company, scopes=["read"])
    before = now()
    second = rotate_key(database, first.key.key_id, overlap=3600)
    after = now()
    assert (second.key.tenant, second.key.scopes, second.key.name) == (company.name, ("read",), "backend")
    found = find_key(database, first.text)
    assert found is not None
    assert found.expires_at is not None
    assert before + 3_600_000_000 <= found.expires_at <= after + 3_600_000_000
    assert found.is_valid(found.expires_at - 1)
    assert not found.is_valid(found.expires_at)
    assert find_key(database, second.text) == second.key
    # An overlap is never made longer by a second rotation, and with none a key ends at once.
    rotate_key(database, first.key.key_id, overlap=7200)
    assert find_key(database, first.text) == found
    rotate_key(database, first.key.key_id)
    assert find_key(database, first.text) is None
    with pytest.raises(ConflictError, match="has ended"):
        rotate_key(database, first.key.key_id)
    assert find_key(database, second.text) == second.key


@pytest.mark.parametrize("overlap", [-1.0, float("nan"), float("inf"), 366 * 86400.0, True, "1"])
def test_an_overlap_is_at_most_a_year(company: Company, overlap: Any) -> None:
    issued = issue(company)
    with pytest.raises(InvalidInputError, match="overlap"):
        rotate_key(company.library.database, issued.key.key_id, overlap=overlap)
    assert list_keys(company.library.database, company.name) == [issued.key]


def test_the_last_use_never_goes_back(company: Company) -> None:
    database = company.library.database
    first, second = issue(company).key, issue(company).key
    note_use(database, {first.key_id: 2_000, "ffffffffffff": 1})
    note_use(database, {second.key_id: 5_000, first.key_id: 1_000})
    note_use(database, {})
    assert list_keys(database, company.name) == [
        replace(first, last_used_at=2_000),
        replace(second, last_used_at=5_000),
    ]


def test_erasing_a_tenant_erases_its_keys_and_no_others(company: Company) -> None:
    database = company.library.database
    mine, other = issue(company), issue(Company.found(company.library))
    assert erase(database, company.name).rows["api_keys"] == 1
    assert find_key(database, mine.text) is None
    assert find_key(database, other.text) == other.key


def test_a_key_whose_commit_was_lost_is_made_once(company: Company) -> None:
    database = company.library.database
    texts = []
    insert = stored_keys.insert_key

    def losing(connection: Any, key_id: str, **columns: Any) -> None:
        texts.append(key_id)
        insert(connection, key_id, **columns)

    with (
        mock.patch.object(Database, "run", lambda self, work: (_once(self, work), _once(self, work))[1]),
        mock.patch.object(stored_keys, "insert_key", losing),
    ):
        issued = issue(company)
    assert len(texts) == 1
    assert list_keys(database, company.name) == [issued.key]
    assert [line.verb for line in audit_trail(database, company.name)].count("create key") == 1


def _once(database: Database, work: Any) -> Any:
    with database.transaction() as connection:
        return work(connection)


def test_the_library_has_the_verbs(tmp_path: Any) -> None:
    with Steersman.open(tmp_path / "keys.db") as library:
        library.create_tenant("acme", {"actions": ["a"], "states": 1})
        issued = library.create_key("acme", name="backend", scopes=["decide"])
        successor = library.rotate_key(issued.key.key_id, overlap=60)
        assert library.revoke_key(successor.key.key_id).revoked_at is not None
        assert [key.key_id for key in library.list_keys("acme")] == [issued.key.key_id, successor.key.key_id]
        assert library.list_keys(None) == []
