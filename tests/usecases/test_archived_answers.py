"""What was archived is answered as before, and what is new of it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from steersman.domain.records import ClosedEpisode, CloseRequest, Reward, RewardRequest
from steersman.errors import ArchivedError, EpisodeClosedError, IdReusedError, NotFoundError, SteersmanError
from steersman.store import tables
from steersman.usecases.archive import archive
from steersman.usecases.explain import explain, list_decisions
from tests.support.archived import TABLES, differences
from tests.support.company import Company


def test_an_archived_decision_is_answered_as_before_and_changes_no_more(
    busy: Company, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"metadata": {"b": 1, "a": [1.5, "ä"]}}
    first = busy.play("trade", decision_id="learned", **options)
    voided = busy.play("hold", 1, decision_id="void", reasons={"trade": "closed"})
    inside = busy.play("trade", 1, episode="closed", decision_id="c1")
    closed = busy.close("closed", 1.0)
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    again = busy.play("trade", decision_id="learned", **options)
    assert again == first
    assert list(again.metadata or {}) == list(first.metadata or {})
    assert busy.play("hold", 1, decision_id="void", reasons={"trade": "closed"}) == voided
    assert busy.play("trade", 1, episode="closed", decision_id="c1") == inside
    assert busy.close("closed", 1.0) == closed
    with pytest.raises(IdReusedError):
        busy.play("hold", decision_id="learned", **options)
    with pytest.raises(EpisodeClosedError):
        busy.decide(1, episode="closed")
    for late in ("learned", "void", "c1"):
        with pytest.raises(ArchivedError, match=f"decision '{late}' of tenant .* was archived"):
            busy.reward(late, 0.5, reward_id="another")
        with pytest.raises(ArchivedError):
            explain(busy.library.database, busy.name, late)
    with pytest.raises(NotFoundError):
        busy.reward("nothing", 0.5)
    # Pages go on behind a decision that was archived meanwhile: "open" was made before "c0", "g0" after all.
    rest = list_decisions(busy.library.database, busy.name, after="c0")
    assert [decision.decision_id for decision in rest] == ["open"]
    # A list goes on behind an item that is refused.
    requests = [RewardRequest(busy.name, name, 0.5) for name in ("c1", "open", "nothing")]
    assert [type(item).__name__ for item in busy.library.reward_many(requests)] == [
        "ArchivedError",
        "Reward",
        "NotFoundError",
    ]
    assert differences(busy) == []


def test_an_archived_reward_is_answered_as_before(busy: Company, tmp_path: Path) -> None:
    requests = [
        RewardRequest(busy.name, "learned", 0.5),
        RewardRequest(busy.name, "learned", 0.25, "further"),
        RewardRequest(busy.name, "c0", 0.5),
    ]
    first = busy.library.reward_many(requests)
    assert [item.effect for item in first if isinstance(item, Reward)] == ["learned", "further", "learned"]
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    cells = busy.rows("cells")
    assert busy.library.reward_many(requests) == first
    assert busy.reward("learned", 0.5) == first[0]
    # Among rewards that are new, and one that comes twice in the list.
    new = RewardRequest(busy.name, "open", 0.5)
    listed = busy.library.reward_many([requests[1], new, requests[1], new])
    assert listed[0] == listed[2] == first[1]
    assert listed[1] == listed[3] == busy.reward("open", 0.5)
    # The new one is of state 1.
    assert [row for row in busy.rows("cells") if row[2] == 0] == [row for row in cells if row[2] == 0]
    assert differences(busy) == []


@pytest.mark.parametrize(
    ("decision_id", "value", "reward_id"),
    [
        ("learned", 0.75, None),  # another value
        ("learned", 0.75, "further"),
        ("c0", 0.25, "further"),  # another decision that was archived
        ("open", 0.25, "further"),  # one that is live
        ("open", 0.5, "learned"),
        ("nothing", 0.25, "further"),  # and none at all
    ],
)
def test_the_id_of_an_archived_reward_is_taken(
    busy: Company, tmp_path: Path, decision_id: str, value: float, reward_id: str | None
) -> None:
    with pytest.raises(IdReusedError) as before:
        busy.reward(decision_id, value, reward_id=reward_id)
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    kept = {name: busy.rows(name) for name in (*TABLES, "cells")}
    with pytest.raises(IdReusedError) as after:
        busy.reward(decision_id, value, reward_id=reward_id)
    assert after.value.message == before.value.message
    assert after.value.stored_fingerprint == before.value.stored_fingerprint
    assert after.value.given_fingerprint == before.value.given_fingerprint
    assert {name: busy.rows(name) for name in kept} == kept


def test_an_archived_void_is_answered_as_before(busy: Company, tmp_path: Path) -> None:
    first = busy.library.void(busy.name, "void")
    assert first.status == "void"
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    cells = busy.rows("cells")
    assert busy.library.void(busy.name, "void") == first
    for late in ("learned", "c0"):
        with pytest.raises(ArchivedError, match=f"decision '{late}' of tenant .* was archived"):
            busy.library.void(busy.name, late)
    with pytest.raises(NotFoundError):
        busy.library.void(busy.name, "nothing")
    assert busy.rows("cells") == cells
    assert differences(busy) == []


def test_what_was_supplied_by_default_is_answered_as_before(company: Company, tmp_path: Path) -> None:
    library, name = company.library, company.name
    library.change_tenant(name, {"reward_wait": 0, "default_reward": 0.25})
    company.play("hold", decision_id="late")
    company.play("trade", 1, episode="left open", decision_id="l0")
    expired = library.expire(name)
    assert (expired.decisions, expired.episodes) == (1, 1)
    further = company.reward("late", 0.5)
    before = library.close_many([CloseRequest(name, "left open"), CloseRequest(name, "left open", 0.25)])
    archive(library.database, name, older_than=0, output=tmp_path)
    assert [row[5] for row in company.rows("archived_rewards") if row[1] == "default:late"] == ["learned"]
    assert company.reward("late", 0.5) == further
    assert further.effect == "further"
    after = library.close_many([CloseRequest(name, "left open"), CloseRequest(name, "left open", 0.25)])
    assert [told(item) for item in after] == [told(item) for item in before]
    assert {type(item) for item in after} == {ClosedEpisode, IdReusedError}
    assert library.expire(name) == replace(expired, decisions=0, episodes=0)
    assert differences(company) == []


def told(answer: Any) -> Any:
    """What a caller gets to see of an answer."""
    return (type(answer), answer.message) if isinstance(answer, SteersmanError) else answer


def test_what_was_archived_before_rewards_left_stubs_takes_none(busy: Company, tmp_path: Path) -> None:
    """As a release of before leaves it, also one that still runs beside this one."""
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    with busy.library.database.transaction() as connection:
        stubs, rewards = tables.archived_decisions, tables.archived_rewards
        connection.execute(delete(rewards).where(rewards.c.tenant == busy.name))
        connection.execute(update(stubs).where(stubs.c.tenant == busy.name).values(rewards=None))
    with pytest.raises(ArchivedError):
        busy.reward("learned", 0.5)
    assert differences(busy) == []
    # What leaves later has stubs beside those that have none.
    first = busy.reward("open", 0.5)
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert busy.reward("open", 0.5) == first
    assert differences(busy) == []
