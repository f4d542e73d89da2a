"""Episodes, for reading."""

from __future__ import annotations

import pytest

from steersman.errors import NotFoundError
from steersman.usecases.episodes import list_episodes, show_episode
from tests.support.company import Company


def test_episodes_are_listed_the_latest_touched_first(company: Company) -> None:
    for name in ("first", "second", "third"):
        company.decide(episode=name)
    company.close("second", 0.5)
    company.decide(episode="first")
    database = company.library.database
    assert [item.episode for item in list_episodes(database, company.name)] == ["first", "third", "second"]
    assert [item.episode for item in list_episodes(database, company.name, status="open")] == [
        "first",
        "third",
    ]
    (closed,) = list_episodes(database, company.name, status="closed")
    assert closed.closed is not None
    assert (closed.closed.outcome, closed.closed.decisions, closed.closed.learned) == (0.5, 1, 1)
    assert [item.episode for item in list_episodes(database, company.name, limit=1)] == ["first"]


def test_an_episode_is_shown_in_step_order_with_what_was_taken_back(company: Company) -> None:
    made = [company.decide(0, episode="deal", decision_id=name) for name in ("z", "a", "m")]
    company.void(made[1])
    detail = show_episode(company.library.database, company.name, "deal")
    assert [(item.decision_id, item.step, item.status) for item in detail.decisions] == [
        ("z", 0, "open"),
        ("a", 1, "void"),
        ("m", 2, "open"),
    ]
    assert (detail.episode.status, detail.episode.steps, detail.episode.closed) == ("open", 3, None)


def test_decisions_of_older_versions_keep_their_catalogue(company: Company) -> None:
    company.decide(episode="deal")
    company.library.change_tenant(company.name, {"actions": ["hold", "trade", "walk"], "states": 2})
    company.decide(episode="deal")
    detail = show_episode(company.library.database, company.name, "deal")
    assert [len(item.feasible) for item in detail.decisions] == [2, 3]


def test_what_does_not_exist_is_refused(company: Company) -> None:
    with pytest.raises(NotFoundError, match="no episode 'none'"):
        show_episode(company.library.database, company.name, "none")
    with pytest.raises(NotFoundError):
        list_episodes(company.library.database, "nobody")
